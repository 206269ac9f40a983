"""What a dashboard shows: the overview and what happened of late, written once for all who see the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from ortoo.broker.sampler import Sample
from ortoo.model import limits
from ortoo.model.errors import TooManyError
from ortoo.model.live import Activity, Overview, Sort
from ortoo.model.queries import GetActivity, GetOverview

from .call import Call, HttpServices, InNamespace

Limit = Annotated[int, Meta(ge=1, le=limits.OVERVIEW_TOPICS_MAX)]
First = Annotated[int, Meta(ge=0, le=2**31)]
Match = Annotated[str, Meta(max_length=limits.MATCH_CHARS_MAX)]
Realm = tuple[str, ...] | None  # None: of somebody who is no tenant

_KEPT_MAX = 500  # texts of one second
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
    return hub_of(call.services).whole(shown)


async def activity(call: Call) -> Activity:
    query: ActivityQuery = call.query
    return await call.link.ask(GetActivity(query.namespace, query.limit))


class Hub:
    """Those who look at one server through any of its doors: how many there are, when to look again, and what is written for
    several of them. The broker answers those who see the same with the very same object, so that is what texts are kept by."""

    def __init__(self) -> None:
        self._looking: list[tuple[str, Realm]] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._texts: dict[tuple[int, int], tuple[Overview | None, Overview, bytes]] = {}
        self._newest = 0.0
        self.sampled = asyncio.Event()  # another one after each sample
        self.written = 0  # texts, so far

    # -- who looks

    def join(self, kind: str, services: HttpServices, realm: Realm) -> Callable[[], None]:
        """TooManyError when there is no place; else what ends it."""
        most, most_of_realm = _MOST[kind]
        if sum(other == kind for other, _ in self._looking) >= most:
            raise TooManyError(f"{most} look with {kind!r} already; try again later")
        who = (kind, realm)
        if realm is not None and self._looking.count(who) >= most_of_realm:
            raise TooManyError(f"{most_of_realm} of these namespaces look with {kind!r} already; close one of them")
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

    def whole(self, shown: Overview) -> bytes:
        return self._text(None, shown, lambda: _encode(shown))

    def changes(self, before: Overview, after: Overview) -> bytes:
        return self._text(before, after, lambda: _encode(_changes(before, after)))

    def _text(self, before: Overview | None, after: Overview, write: Callable[[], bytes]) -> bytes:
        if after.timestamp != self._newest:
            self._newest, self._texts = after.timestamp, {}
        key = (id(before), id(after))
        kept = self._texts.get(key)
        if kept is None:
            kept = (before, after, write())  # with what it was made of, so that nothing else gets its place in memory
            self.written += 1
            if len(self._texts) < _KEPT_MAX:
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
    if after.matching != before.matching:
        told["matching"] = after.matching
    return told


_hubs: WeakKeyDictionary[object, Hub] = WeakKeyDictionary()


def hub_of(services: HttpServices) -> Hub:
    """The doors of a server share its sampler, and so those who look."""
    gate = services.gate
    return _hubs.setdefault(gate.sampler or gate, Hub())
