"""Rates by the minute, as the server's sampler has kept them: of a queue, of those of a namespace or task, or of all."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import NamedTuple

from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.model import limits
from ortoo.model.errors import NotFoundError
from ortoo.model.names import TopicName
from ortoo.model.queries import GetSeries, ListTopics
from ortoo.model.series import RATES, Series

from .observing import LookQuery, all_queues

MINUTES_MAX = limits.SERIES_MINUTES
RATING = (GetSeries, ListTopics)
_SUMMED_MAX = 100  # queues of a namespace or task whose rates are summed up


class Minute(NamedTuple):
    """What happened in it; `start` in seconds since 1970."""

    start: int
    published: int = 0
    delivered: int = 0
    acked: int = 0
    failed: int = 0
    dead_lettered: int = 0


_FIGURES = [name for name in RATES if name in Minute._fields]


async def minutes(call: Call, count: int) -> list[Minute]:
    """The last so many, the oldest first. Of those before the server was started nothing is known: they are empty."""
    query: LookQuery = call.query
    found: dict[int, list[int]] = {}
    for series in await _series(call, query, count):
        _add(found, series)
    now = int(time()) // 60 * 60
    newest = max([now, *found])
    starts = range(newest - 60 * (count - 1), newest + 1, 60)
    return [Minute(start, *found.get(start, ())) for start in starts]


async def _series(call: Call, query: LookQuery, count: int) -> list[Series]:
    namespace = namespace_of(call.link)
    if not query.queue and not query.namespace and not query.task:
        return [await call.link.ask(GetSeries(namespace, resolution="minute", count=count))]
    found = []
    for info in (await all_queues(call))[:_SUMMED_MAX]:
        try:
            topic = TopicName(namespace, info.name)
            found.append(await call.link.ask(GetSeries(topic=topic, resolution="minute", count=count)))
        except NotFoundError:
            pass  # deleted meanwhile
    return found


def _add(found: dict[int, list[int]], series: Series) -> None:
    columns: list[Sequence[int]] = [series.figures[name] for name in _FIGURES]
    for at, *numbers in zip(series.timestamps, *columns, strict=True):
        row = found.setdefault(at // 60 * 60, [0] * len(_FIGURES))
        row[:] = map(int.__add__, row, numbers)
