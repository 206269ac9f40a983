"""What a dashboard shows: the overview and what happened of late, written once for all who see the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from ortoo.broker.sampler import Sample
from ortoo.model import limits
from ortoo.model.access import ANYONE, Principal
from ortoo.model.errors import TooManyError
from ortoo.model.live import Activity, Overview, Sort
from ortoo.model.queries import GetActivity, GetOverview

from .call import Call, HttpServices, InNamespace

Limit = Annotated[int, Meta(ge=1, le=limits.OVERVIEW_TOPICS_MAX)]
First = Annotated[int, Meta(ge=0, le=2**31)]
Match = Annotated[str, Meta(max_length=limits.MATCH_CHARS_MAX)]

_KEPT_BYTES_MAX = 32 * 1024 * 1024  # of texts of one second
_KEPT_OF_ONE_BYTES_MAX = 2 * 1024 * 1024  # of them, of one viewer, so that nobody takes the room of others
_MOST = {
    "watch": (limits.WATCHES_MAX, limits.WATCHES_PER_REALM_MAX),
    "tail": (limits.TAILS_MAX, limits.TAILS_PER_REALM_MAX),
}

_encode = msgspec.json.Encoder().encode


class OverviewQuery(InNamespace, kw_only=True):
    """Of one namespace, or of all that may be seen. `match`: only topics with this text in their name."""

    namespace: str | None = None  # type: ignore[assignment]
    sort: Sort = "backlog"
    match: Match | None = None
    limit: Limit = 100
    offset: First = 0


class ActivityQuery(InNamespace, kw_only=True):
    namespace: str | None = None  # type: ignore[assignment]
    limit: Annotated[int, Meta(ge=1, le=limits.ACTIVITY_EVENTS_MAX)] = 50


async def overview(call: Call) -> bytes:
    query: OverviewQuery = call.query
    shown = await call.link.ask(GetOverview(query.namespace, query.sort, query.match, query.limit, query.offset))
    return hub_of(call.services).whole(shown, call.link.principal.name)


async def activity(call: Call) -> Activity:
    query: ActivityQuery = call.query
    return await call.link.ask(GetActivity(query.namespace, query.limit))


class Hub:
    """Those who look at one server through any of its doors: how many there are, when to look again, and what is written for
    several of them. The broker answers those who see the same with the very same object, so that is what texts are kept by."""

    def __init__(self) -> None:
        self._looking: list[tuple[str, Principal]] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._texts: dict[tuple[int, int], tuple[Overview | None, Overview, bytes]] = {}
        self._kept: Counter[str] = Counter()  # bytes of them, by the viewer who came first
        self._newest = 0.0
        self.sampled = asyncio.Event()  # another one after each sample
        self.written = 0  # texts, so far

    # -- who looks

    def join(self, kind: str, services: HttpServices, principal: Principal) -> Callable[[], None]:
        """TooManyError when there is no place, or not for this principal or its namespaces; else what ends it."""
        most, most_of_one = _MOST[kind]
        others = [other for looking, other in self._looking if looking == kind]
        if len(others) >= most:
            raise TooManyError(f"{most} look with {kind!r} already; try again later")
        if principal is not ANYONE and sum(other.name == principal.name for other in others) >= most_of_one:
            raise TooManyError(f"{principal.name!r} looks with {kind!r} {most_of_one} times already; close one of them")
        shared = Counter(namespace for other in others for namespace in other.realm or ())
        if any(shared[namespace] >= most_of_one for namespace in principal.realm or ()):
            raise TooManyError(f"{most_of_one} of these namespaces look with {kind!r} already; close one of them")
        who = (kind, principal)
        if self._unsubscribe is None and services.gate.sampler is not None:
            self._unsubscribe = services.gate.sampler.subscribe(self._take)
        self._looking.append(who)

        def leave() -> None:
            self._looking.remove(who)
            if not self._looking and self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None

        return leave

    def _take(self, sample: Sample) -> None:
        sampled, self.sampled = self.sampled, asyncio.Event()
        sampled.set()

    # -- what is written

    def whole(self, shown: Overview, viewer: str) -> bytes:
        return self._text(None, shown, viewer, lambda: _encode(shown))

    def changes(self, before: Overview, after: Overview, viewer: str) -> bytes:
        return self._text(before, after, viewer, lambda: _encode(_changes(before, after)))

    def _text(self, before: Overview | None, after: Overview, viewer: str, write: Callable[[], bytes]) -> bytes:
        if after.timestamp != self._newest:
            self._newest, self._texts, self._kept = after.timestamp, {}, Counter()
        key = (id(before), id(after))
        kept = self._texts.get(key)
        if kept is None:
            kept = (before, after, write())  # with what it was made of, so that nothing else gets its place in memory
            self.written += 1
            size = len(kept[2])
            most = _KEPT_BYTES_MAX // 2 if viewer == ANYONE.name else _KEPT_OF_ONE_BYTES_MAX
            if self._kept.total() + size <= _KEPT_BYTES_MAX and self._kept[viewer] + size <= most:
                self._kept[viewer] += size
                self._texts[key] = kept
        return kept[2]


def _changes(before: Overview, after: Overview) -> dict[str, Any]:
    known = {(row.namespace, row.name): row for row in before.topics}
    order = [(row.namespace, row.name) for row in after.topics]
    told: dict[str, Any] = {
        "timestamp": after.timestamp,
        "totals": after.totals,
        "topics": [row for name, row in zip(order, after.topics, strict=True) if known.get(name) != row],
    }
    if order != list(known):
        told["order"] = order
    if after.needs != before.needs:
        told["needs"] = after.needs
    if after.memory != before.memory:
        told["memory"] = after.memory
    if after.matching != before.matching:
        told["matching"] = after.matching
    return told


_hubs: WeakKeyDictionary[object, Hub] = WeakKeyDictionary()


def hub_of(services: HttpServices) -> Hub:
    """The doors of a server share its sampler, and so those who look."""
    gate = services.gate
    return _hubs.setdefault(gate.sampler or gate, Hub())
