"""What a client may publish and read, by the names of ordinary topics: asked of its link, and remembered.

A subscription is granted where a grant covers its filter: all topics, or those that begin as the filter does. What is
delivered is checked again by its own name, so that a wildcard never shows more than is granted.
"""

from __future__ import annotations

from typing import Final

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.errors import ForbiddenError, InvalidError
from ortoo.model.names import TopicName

from .queues.names import PREFIX, parse_topic
from .wire.topics import Filter

_REMEMBERED_MAX: Final = 1_000
SYSTEM: Final = "$SYS"
ADMIN: Final = "$admin"


class ClientRights:
    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._link: AuthorizedLink | None = None
        self._written: dict[str, bool] = {}
        self._read: dict[str, bool] = {}
        self.is_limited = False

    def use(self, link: AuthorizedLink) -> None:
        """Of the connection that there is now."""
        self._link = link
        self._written, self._read = {}, {}
        self.is_limited = not link.principal.is_unlimited

    def may_publish(self, topic: str) -> bool:
        allowed = self._written.get(topic)
        if allowed is None:
            allowed = self._may("write", topic)
            _remember(self._written, topic, allowed)
        return allowed

    def may_leave(self, topic: str) -> bool:
        """A will: for an ordinary topic, or a queue."""
        if topic.startswith(PREFIX):
            try:
                queue = parse_topic(topic)
            except InvalidError:
                return False
            if queue.control is not None:
                return False
            topic = queue.name
        elif topic.startswith("$"):
            return False
        return self.may_publish(topic)

    def may_read(self, topic: str) -> bool:
        if topic.startswith(SYSTEM):
            return True
        allowed = self._read.get(topic)
        if allowed is None:
            allowed = self._may("read", topic)
            _remember(self._read, topic, allowed)
        return allowed

    def may_subscribe(self, filter: Filter) -> bool:
        assert self._link is not None
        if not self.is_limited or filter.levels[0] == SYSTEM:
            return True
        principal, namespace = self._link.principal, self._namespace
        if filter.levels[0] == ADMIN:
            return principal.allows_all_in("admin", namespace)
        if principal.allows_all_in("read", namespace):
            return True
        if "+" not in filter.levels and filter.levels[-1] != "#":
            return self._may("read", filter.text)
        start = _literal_start(filter)
        for grant in principal.grants:
            if grant.allows_in("read", namespace) and any(_covers(pattern, start) for pattern in grant.topics):
                return True
        return False

    def may_capture(self, filter: Filter) -> bool:
        """What is captured is not looked at again, so that all of it has to be granted: with a/#, also a itself."""
        if not self.may_subscribe(filter):
            return False
        assert self._link is not None
        is_whole = not self.is_limited or self._link.principal.allows_all_in("read", self._namespace)
        return is_whole or filter.levels[-1] != "#" or self._may("read", "/".join(filter.levels[:-1]))

    def _may(self, scope: str, topic: str) -> bool:
        assert self._link is not None
        if not self.is_limited:
            return True
        try:
            self._link.require(scope, TopicName(self._namespace, topic))  # type: ignore[arg-type]
        except (ForbiddenError, InvalidError):
            return False
        return True


def _remember(known: dict[str, bool], topic: str, allowed: bool) -> None:
    if len(known) >= _REMEMBERED_MAX:
        known.clear()
    known[topic] = allowed


def _literal_start(filter: Filter) -> str:
    """What every topic that it matches begins with."""
    found = []
    for level in filter.levels:
        if level in ("+", "#"):
            break
        found.append(level + "/")
    return "".join(found)


def _covers(pattern: str, start: str) -> bool:
    """Whether it is granted by what it begins with; a pattern with anything but a * at its end never covers a wildcard."""
    prefix = pattern.removesuffix("*")
    return prefix != pattern and not set(prefix) & set("*?[") and start.startswith(prefix)
