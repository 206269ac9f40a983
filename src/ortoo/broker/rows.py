"""The rows of an overview, made of what the sampler has: of every topic that is sampled, once for all who look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.live import TopicRow, Totals
from ortoo.model.names import TopicId, TopicName

from .rings import OF_TOPIC
from .sampler import Sampler, TopicSeries
from .turns import TimedTurns

TREND_SECONDS = 30
MEAN_SECONDS = 5
_ROW_UNITS, _STILL_UNITS = 8, 1  # what a row costs, in units of turns, where something happened of late and where not
_PLACES = {name: OF_TOPIC.names.index(name) for name in OF_TOPIC.names}
_SHOWN = [_PLACES[name] for name in ("published", "delivered", "acked", "failed", "dead_lettered")]
_DEPTH, _LEASED, _DELAYED, _OLDEST = (
    _PLACES[name] for name in ("depth", "leased", "delayed", "oldest_pending_seconds")
)


class Row(NamedTuple):
    """A topic, and what has to be known to show it to somebody."""

    id: TopicId
    shown: TopicRow
    topic: TopicName
    dlq: TopicName
    dead_lettered: float  # a second


class Board(NamedTuple):
    """All rows of one tick."""

    tick: int
    rows: list[Row]
    letters: set[TopicName]  # topics that have dead letters of others


async def make_board(state: State, sampler: Sampler, turns: TimedTurns) -> Board:
    tick, rows, letters = sampler.newest, list[Row](), set[TopicName]()
    for number, series in list(sampler.topics.items()):
        topic = state.topics.get(number)
        if topic is None:
            continue
        dlq = topic.dlq_name()
        shown, dead_lettered, units = _row(topic, series, sampler, tick, _dead(state, sampler, dlq))
        rows.append(Row(number, shown, topic.name, dlq, dead_lettered))
        if topic.config.dlq and dlq in state.names:
            letters.add(dlq)
        await turns.worked(units)
    return Board(tick, rows, letters)


def _dead(state: State, sampler: Sampler, dlq: TopicName) -> int:
    """What there is to redrive or to delete: all that lies there, or what those who consume it have not settled."""
    found = state.names.get(dlq)
    series = None if found is None else sampler.topics.get(found.id)
    return 0 if series is None else series.rings.stands[0]


def _row(topic: Topic, series: TopicSeries, sampler: Sampler, tick: int, dead: int) -> tuple[TopicRow, float, int]:
    first = tick + 1 - TREND_SECONDS
    ring = series.rings.seconds
    rates, units = [0.0] * len(_SHOWN), _STILL_UNITS
    if ring.newest < first:  # as mostly
        depth, leased, delayed, oldest = series.rings.stands
        trend = [depth] * TREND_SECONDS
    else:
        columns, units = ring.read(first, TREND_SECONDS), _ROW_UNITS
        seconds = max(1, min(MEAN_SECONDS, tick + 1 - (sampler.first or 0)))
        rates = [round(sum(columns[place][-seconds:]) / seconds, 1) for place in _SHOWN]
        trend = columns[_DEPTH]
        depth, leased, delayed, oldest = trend[-1], columns[_LEASED][-1], columns[_DELAYED][-1], columns[_OLDEST][-1]
    shown = TopicRow(
        topic.name.namespace,
        topic.name.name,
        topic.config.priority,
        rates[0],
        rates[1],
        rates[2],
        rates[3],
        depth,
        leased,
        delayed,
        dead,
        max(0, tick + 1 - oldest) if oldest else 0,
        len(topic.groups),
        trend,
    )
    return shown, rates[4], units


def sum_up(rows: list[Row], letters: set[TopicName], connections: int) -> Totals:
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
    )


def _rate(rates: Iterable[float]) -> float:
    return round(sum(rates), 1)
