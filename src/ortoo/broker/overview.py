"""Answers `GetOverview`: made once after each sample, for all who may see the same and ask for the same.

    board   a row of every topic that is sampled, and every few seconds what needs somebody: once for all
    sight   what one view of them, and one namespace, has of it: once for all who have that view
    page    a sight sorted, searched and cut: once for all who ask so

All of it is forgotten when the next sample is there. To make a board takes no more than a tenth of the time: one that took long
is kept for longer. Nobody looks, nothing is made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from ortoo.engine import Engine
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.live import Activity, Need, Overview, SamplerCost, Sort, TopicRow, Totals
from ortoo.model.names import TopicName
from ortoo.model.queries import GetActivity, GetOverview

from .activity import read_activity
from .latencies import TopicLatencies
from .memory import memory_of
from .meters import Meters
from .needs import Found, NeedsFinder
from .needs import Shell as Searched
from .pipelines import Pipelines, may_see_run
from .rows import Board, Row, lively, make_board, sum_up
from .sampler import Sampler
from .turns import TimedTurns, Turns
from .view import View, count_listed

NEEDS_TICKS = 5  # between two searches for what needs somebody
_SHARE = 10  # of the time, one part at the most is spent on boards
_KEPT_MAX = 500  # sights and pages of one board; what is more is made for each who asks
_KEPT_OF_ONE_MAX = (
    25  # of them, of one viewer, so that nobody takes the places of others; who see everything share half
)
_BOARD = "board"
_SORT_UNITS = 0.05  # a row
_TIMED_UNITS = 1  # the same, with its latencies

T = TypeVar("T")
_ORDERS: dict[Sort, str] = {
    "in": "incoming",
    "out": "out",
    "backlog": "depth",
    "oldest": "oldest_seconds",
    "dead": "dead",
}


class Shell(Searched, Protocol):
    engine: Engine
    meters: Meters


class Sight(NamedTuple):
    """What somebody may see."""

    timestamp: float
    rows: list[Row]
    totals: Totals
    needs: list[Need]
    cost: SamplerCost
    latencies: TopicLatencies


class Overviews:
    def __init__(self, broker: Shell, sampler: Sampler, pipelines: Pipelines) -> None:
        self._broker = broker
        self._sampler = sampler
        self._finder = NeedsFinder(broker, sampler, pipelines)
        self._last: Board | None = None
        self._latencies = TopicLatencies(broker.state, broker.now())  # of its topics
        self._needs: list[Found] = []
        self._needs_at: int | None = None  # tick
        self._engine: Engine | None = None
        self._good_until = -1  # the tick up to which what is made is shown
        self._made: dict[Hashable, asyncio.Task[Any]] = {}
        self._kept: Counter[Hashable] = Counter()  # of them, by viewer

    async def overview(self, query: GetOverview, view: View | None) -> Overview:
        """The very same for those who may see the same and ask for the same within a second."""
        _check(query)
        self._forget()
        return await self._shared((_viewer(view), query), lambda: self._page(query, view))

    async def activity(self, query: GetActivity, view: View | None) -> Activity:
        self._forget()
        state, sampler = self._broker.state, self._sampler
        return await self._shared((_viewer(view), query), lambda: read_activity(state, sampler, query, view))

    def _forget(self) -> None:
        """What the next sample has made old, or a recovery."""
        self._broker.state  # noqa: B018  # OrtooError while nothing is taken
        if self._broker.engine is not self._engine:
            self._last = None
        if self._sampler.newest > self._good_until or self._broker.engine is not self._engine:
            self._made, self._kept, self._engine = {}, Counter(), self._broker.engine
            self._good_until = self._sampler.newest

    async def _shared(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Whoever asks first makes it; who goes away meanwhile takes nothing with it."""
        made = self._made
        task = made.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.ensure_future(make())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            viewer = key[0] if isinstance(key, tuple) else None
            most = _KEPT_MAX // 2 if viewer is None else _KEPT_OF_ONE_MAX
            if key in made or key == _BOARD or (len(made) < _KEPT_MAX and self._kept[viewer] < most):
                self._kept[viewer] += key not in made
                made[key] = task
        found: T = await asyncio.shield(task)
        return found

    # -- the board

    async def _board(self) -> tuple[Board, list[Found]]:
        turns = TimedTurns()
        board = self._last = await make_board(self._broker.state, self._sampler, turns, self._last)
        if self._needs_at is None or board.tick - self._needs_at >= NEEDS_TICKS:
            self._needs_at = board.tick
            self._needs = await self._finder.find(board, turns)
        self._latencies = TopicLatencies(self._broker.state, self._broker.now())
        turns.ended()
        self._broker.meters.overview_seconds = turns.spent
        if board.tick == self._good_until:  # else the next one is being made
            self._good_until += max(0, ceil(_SHARE * turns.spent) - 1)
        return board, self._needs

    # -- what somebody may see of it

    async def _sight(self, namespace: str | None, view: View | None) -> Sight:
        board, needs = await self._shared(_BOARD, self._board)
        turns, seen = Turns(), list[Row]()
        for row in board.rows:
            if not _is_within(row.topic, namespace, view):
                await turns.worked(_SORT_UNITS)
                continue
            if view is not None:
                await turns.worked(view.units)
                if not view.may_see(row.topic):
                    continue
                if row.shown.dead and not view.may_see(row.dlq):
                    row = row._replace(shown=msgspec.structs.replace(row.shown, dead=0))  # noqa: PLW2901
            seen.append(row)
        told = list[Need]()
        for found in needs:
            if _is_told(found, namespace, view):
                told.append(found.need)
                if len(told) == limits.OVERVIEW_NEEDS_MAX:
                    break
            await turns.worked(0.1 if view is None else view.units)
        ended = board.tick + 1 + self._sampler.shift if board.tick else self._broker.now() // 1000
        latencies = self._latencies
        total = await latencies.total(lively(board, seen), turns)
        totals = sum_up(seen, board.letters, self._connections(view), total)
        return Sight(float(ended), seen, totals, told, self._cost(len(seen), namespace, view), latencies)

    def _connections(self, view: View | None) -> int:
        """Of all doors; of those who may see only some namespaces, those of the same."""
        meters = self._broker.meters
        if view is None:
            return sum(door.connections for door in meters.doors.values())
        if meters.throttle is None or view.namespaces is None:
            return 0
        return max((meters.throttle.connections[name] for name in view.namespaces), default=0)

    def _cost(self, seen: int, namespace: str | None, view: View | None) -> SamplerCost:
        state, sampler = self._broker.state, self._sampler
        if view is not None:
            return SamplerCost(topics=seen)
        there = count_listed(state)
        if namespace is not None:
            there = len(state.topics_in(namespace))
        left_out, spent = max(0, there - seen), self._broker.meters.overview_seconds
        return SamplerCost(round(sampler.spent, 6), round(sampler.longest_turn, 6), seen, left_out, round(spent, 6))

    # -- what is asked for

    async def _page(self, query: GetOverview, view: View | None) -> Overview:
        asked = (_viewer(view), query.namespace)
        sight = await self._shared(asked, lambda: self._sight(query.namespace, view))
        turns, text = Turns(), (query.match or "").lower()
        rows = [row for row in sight.rows if text in row.lowered] if text else sight.rows
        await turns.worked(_SORT_UNITS * len(sight.rows))
        page = _sorted(rows, query.sort)[query.offset : query.offset + query.limit]
        shown = [_timed(row, sight.latencies) for row in page]
        await turns.worked(_TIMED_UNITS * len(page))
        memory = memory_of(self._broker.meters) if view is None else None
        return Overview(sight.timestamp, sight.totals, shown, len(rows), sight.needs, sight.cost, memory)


def _viewer(view: View | None) -> Hashable:
    return None if view is None else (view.name, view.grants)


def _check(query: GetOverview) -> None:
    if not 1 <= query.limit <= limits.OVERVIEW_TOPICS_MAX:
        raise InvalidError(f"limit must be 1 to {limits.OVERVIEW_TOPICS_MAX}, not {query.limit}")
    if query.offset < 0:
        raise InvalidError(f"offset must be 0 or more, not {query.offset}")
    if query.match is not None and len(query.match) > limits.MATCH_CHARS_MAX:
        raise InvalidError(f"match has at most {limits.MATCH_CHARS_MAX} characters, not {len(query.match)}")


def in_order(rows: list[TopicRow], sort: Sort) -> list[TopicRow]:
    """The largest first, and by name where they are the same."""
    rows = sorted(rows, key=attrgetter("namespace", "name"))
    return rows if sort == "name" else sorted(rows, key=attrgetter(_ORDERS[sort]), reverse=True)


def _sorted(rows: list[Row], sort: Sort) -> list[Row]:
    """The same of those that are by name already."""
    return rows if sort == "name" else sorted(rows, key=attrgetter(f"shown.{_ORDERS[sort]}"), reverse=True)


def _timed(row: Row, latencies: TopicLatencies) -> TopicRow:
    delivery, ack = latencies.of(row.id)
    if delivery is None and ack is None:
        return row.shown
    return msgspec.structs.replace(row.shown, delivery_latency=delivery, ack_latency=ack)


def _is_told(found: Found, namespace: str | None, view: View | None) -> bool:
    if found.run is not None:
        return namespace in (None, found.run[0]) and may_see_run(view, *found.run)
    if not found.topics:
        return view is None
    if not _is_within(found.topics[0], namespace, view):
        return False
    return view is None or all(map(view.may_see, found.topics))


def _is_within(topic: TopicName, namespace: str | None, view: View | None) -> bool:
    """In a namespace that was asked for, and of which something may be seen."""
    if namespace is not None and topic.namespace != namespace:
        return False
    return view is None or view.namespaces is None or topic.namespace in view.namespaces
