"""The rows of an overview, made of what the sampler has: of every topic that is sampled, once for all who look."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.live import TopicRow, Totals
from ortoo.model.names import TopicId, TopicName
from ortoo.model.topic import TopicConfig

from .latencies import QUIET_TICKS, Pair
from .rings import OF_TOPIC, Ring
from .sampler import Sampler, TopicSeries
from .turns import TimedTurns

TREND_SECONDS = 30
MEAN_SECONDS = 5
_ROW_UNITS, _TREND_UNITS, _STILL_UNITS = (
    5,
    2,
    1,
)  # what a row costs, in units of turns: where something happened just now, of
# late, and where nothing did
_PLACES = {name: OF_TOPIC.names.index(name) for name in OF_TOPIC.names}
_SHOWN = [_PLACES[name] for name in ("published", "delivered", "acked", "failed", "dead_lettered")]
_TREND = [_PLACES["depth"]]
_NO_RATES = (0.0,) * len(_SHOWN)
_TOGETHER_UNITS = 50  # of rows, before it is asked whether the turn is over
_BY_NAME = attrgetter("topic")


class Row(NamedTuple):
    """A topic, and what has to be known to show it to somebody."""

    id: TopicId
    shown: TopicRow
    topic: TopicName
    dlq: TopicName
    dead_lettered: float  # a second
    newest: int  # the tick at which something happened last
    lowered: str  # its name, for those who look for a part of it
    config: TopicConfig  # that `dlq` follows from


class Board(NamedTuple):
    """All rows of one tick, by name."""

    tick: int
    rows: list[Row]
    letters: set[TopicName]  # topics that have dead letters of others


async def make_board(state: State, sampler: Sampler, turns: TimedTurns, last: Board | None = None) -> Board:
    """Where nothing happened since the last one, its trend goes on; so does what never changes, and the order."""
    tick, rows, letters = sampler.newest, list[Row](), set[TopicName]()
    passed = TREND_SECONDS if last is None else tick - last.tick
    known = {row.id: row for row in last.rows} if last is not None and 0 <= passed < TREND_SECONDS else {}
    rates = _Rates(sampler, tick)
    worked = 0
    for number in [*known, *(number for number in sampler.topics if number not in known)]:
        topic, series = state.topics.get(number), sampler.topics.get(number)
        if topic is None or series is None:
            continue
        before, config = known.get(number), topic.config
        dlq = before.dlq if before is not None and before.config is config else topic.dlq_name()
        newest, trend, grave = series.rings.seconds.newest, None, state.names.get(dlq)
        if before is not None and before.newest == newest and before.shown.depth == series.rings.stands[0]:
            trend = before.shown.trend[passed:] + [before.shown.depth] * passed
        shown, dead_lettered, units = _row(topic, series, rates, _dead(sampler, grave), trend)
        lowered = topic.name.name.lower() if before is None else before.lowered
        rows.append(Row(number, shown, topic.name, dlq, dead_lettered, newest, lowered, config))
        if grave is not None and config.dlq:
            letters.add(dlq)
        worked += units
        if worked >= _TOGETHER_UNITS:
            await turns.worked(worked)
            worked = 0
    rows = [_of_letters(row) if row.topic in letters else row for row in rows] if letters else rows
    rows.sort(key=_BY_NAME)
    return Board(tick, rows, letters)


def _of_letters(row: Row) -> Row:
    return row._replace(shown=msgspec.structs.replace(row.shown, is_dlq=True))


def _dead(sampler: Sampler, grave: Topic | None) -> int:
    """What there is to redrive or to delete: all that lies there, or what those who consume it have not settled."""
    series = None if grave is None else sampler.topics.get(grave.id)
    return 0 if series is None else series.rings.stands[0]


class _Rates:
    """The means of the last seconds, as of one tick."""

    def __init__(self, sampler: Sampler, tick: int) -> None:
        self.tick = tick
        self._seconds = max(1, min(MEAN_SECONDS, tick + 1 - (sampler.first or 0)))

    def of(self, ring: Ring) -> list[float] | None:
        """None where nothing happened."""
        if ring.newest <= self.tick - self._seconds:
            return None
        sums = ring.sums(self.tick + 1 - self._seconds, self._seconds, _SHOWN)
        return [round(total / self._seconds, 1) for total in sums]


def _row(
    topic: Topic, series: TopicSeries, rates: _Rates, dead: int, trend: list[int] | None
) -> tuple[TopicRow, float, int]:
    """With the trend, if it is known."""
    tick, ring = rates.tick, series.rings.seconds
    first, means, units = tick + 1 - TREND_SECONDS, None, _STILL_UNITS
    depth, leased, delayed, oldest = series.rings.stands
    if ring.newest < first:  # as mostly
        trend = trend or [depth] * TREND_SECONDS
    else:
        if trend is None:
            [trend], units = ring.read(first, TREND_SECONDS, _TREND), _TREND_UNITS
        depth = trend[-1]
        if (means := rates.of(ring)) is not None:
            units = _ROW_UNITS
    incoming, out, acked, failed, dead_lettered = means or _NO_RATES
    shown = TopicRow(
        topic.name.namespace,
        topic.name.name,
        topic.config.priority,
        incoming,
        out,
        acked,
        failed,
        depth,
        leased,
        delayed,
        dead,
        max(0, tick + 1 - oldest) if oldest else 0,
        len(topic.groups),
        trend,
    )
    return shown, dead_lettered, units


def lively(board: Board, rows: list[Row]) -> list[TopicId]:
    """Those in which something happened of late, without those for dead letters."""
    first = board.tick - QUIET_TICKS
    return [row.id for row in rows if row.newest >= first and row.topic not in board.letters]


def sum_up(rows: list[Row], letters: set[TopicName], connections: int, latencies: Pair) -> Totals:
    """Topics for dead letters count by what is in them, once each."""
    dead = {row.dlq: row.shown.dead for row in rows}
    counted = [row for row in rows if row.topic not in letters]
    shown = [row.shown for row in counted]
    return Totals(
        _rate(row.incoming for row in shown),
        _rate(row.out for row in shown),
        _rate(row.acked for row in shown),
        _rate(row.failed for row in shown),
        _rate(row.dead_lettered for row in counted),
        sum(row.depth for row in shown),
        sum(row.leased for row in shown),
        sum(row.delayed for row in shown),
        sum(dead.values()),
        max((row.oldest_seconds for row in shown), default=0),
        len(rows),
        connections,
        *latencies,
    )


def _rate(rates: Iterable[float]) -> float:
    return round(sum(rates), 1)
