"""Answers `GetSeries` from the rings of the sampler: of one topic or group, or of all that somebody may see."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from operator import add
from typing import NamedTuple

from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName
from ortoo.model.series import Resolution, Series

from .rings import OF_GROUP, OF_TOPIC, Kind, Rings
from .sampler import Sampler
from .turns import Turns
from .view import View, visible

_SECONDS_OF: dict[Resolution, int] = {"second": 1, "minute": 60}
_KEPT_OF: dict[Resolution, int] = {"second": limits.SERIES_SECONDS, "minute": limits.SERIES_MINUTES}
_PER_UNIT = 10  # rows of a topic that are summed up, in a unit of turns
_SUMS_MAX = 100  # that are kept, until the next sample


class Stretch(NamedTuple):
    """Ticks of one resolution."""

    resolution: Resolution
    first: int
    length: int

    def read(self, rings: Rings) -> list[list[int]]:
        return (rings.seconds if self.resolution == "second" else rings.minutes).read(self.first, self.length)

    def last(self, count: int) -> Stretch:
        count = min(count, self.length)
        return Stretch(self.resolution, self.first + self.length - count, count)


class Sum(NamedTuple):
    topics: int
    left_out: int
    columns: list[list[int]]


class SeriesReader:
    """Sums over many topics are made once for all who may see the same and ask within the same second."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self._sums: dict[Hashable, asyncio.Task[Sum]] = {}
        self._summed_at = 0

    async def read(
        self,
        state: State,
        namespace: str | None,
        topic: TopicName | None,
        group: str | None,
        resolution: Resolution,
        count: int,
        view: View | None,
    ) -> Series:
        if not 1 <= count <= limits.SERIES_MINUTES:
            raise InvalidError(f"count must be 1 to {limits.SERIES_MINUTES}, not {count}")
        stretch = self._stretch(resolution)
        if topic is not None:
            return self._one(state, topic, group, stretch.last(count))
        if group is not None:
            raise InvalidError("a group belongs to a topic: name it, too")
        asked = stretch.last(count)
        if namespace is None and view is None:
            found = len(self.sampler.topics)
            left_out = max(0, len(state.topics) - found)
            return self._answer(OF_TOPIC, asked, Sum(found, left_out, asked.read(self.sampler.total)))
        topics, left_out, columns = await self._shared_sum(state, namespace, view, stretch)
        return self._answer(
            OF_TOPIC,
            asked,
            Sum(topics, left_out, [column[-asked.length :] if asked.length else [] for column in columns]),
        )

    def _stretch(self, resolution: Resolution) -> Stretch:
        """All that there is."""
        sampler, seconds = self.sampler, _SECONDS_OF[resolution]
        newest = sampler.newest // seconds
        first = newest + 1 if sampler.first is None else sampler.first // seconds
        first = max(first, newest + 1 - _KEPT_OF[resolution])
        return Stretch(resolution, first, newest + 1 - first)

    def _one(self, state: State, name: TopicName, group: str | None, stretch: Stretch) -> Series:
        topic = state.topic(name)
        series = self.sampler.topics.get(topic.id)
        if group is None:
            kind, rings = OF_TOPIC, None if series is None else series.rings
        else:
            number = state.group(topic, group).id
            kind, rings = OF_GROUP, None if series is None else series.groups.get(number)
        if rings is None:
            return self._answer(kind, stretch.last(0), Sum(0, 1, [[] for _ in kind.codes]))
        return self._answer(kind, stretch, Sum(1, 0, stretch.read(rings)))

    def _answer(self, kind: Kind, stretch: Stretch, found: Sum) -> Series:
        seconds, sampler = _SECONDS_OF[stretch.resolution], self.sampler
        ticks = range(stretch.first, stretch.first + stretch.length)
        *columns, oldest = found.columns
        ends = [min((tick + 1) * seconds, sampler.newest + 1) for tick in ticks]
        ages = [max(0, end - since) if since else 0 for end, since in zip(ends, oldest, strict=True)]
        return Series(
            stretch.resolution,
            [tick * seconds + sampler.shift for tick in ticks],
            dict(zip(kind.names, [*columns, ages], strict=True)),
            found.topics,
            found.left_out,
        )

    # -- sums

    async def _shared_sum(self, state: State, namespace: str | None, view: View | None, stretch: Stretch) -> Sum:
        if self._summed_at != self.sampler.newest:
            self._summed_at = self.sampler.newest
            self._sums.clear()
        key = (None if view is None else view.grants, namespace, stretch)
        task = self._sums.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.create_task(self._sum(state, namespace, view, stretch), name="ortoo-series")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            if len(self._sums) < _SUMS_MAX:
                self._sums[key] = task
        return await asyncio.shield(task)

    async def _sum(self, state: State, namespace: str | None, view: View | None, stretch: Stretch) -> Sum:
        turns, found, left_out = Turns(), 0, 0
        columns = [[0] * stretch.length for _ in OF_TOPIC.codes]
        for topic in await visible(state, view, turns, namespace):
            series = self.sampler.topics.get(topic.id)
            if series is None:
                left_out += 1
                continue
            found += 1
            if not len(series.rings.minutes):
                await turns.worked(1)
                continue
            *numbers, oldest = stretch.read(series.rings)
            for place, column in enumerate(numbers):
                columns[place] = list(map(add, columns[place], column))
            columns[-1] = [min(a, b) if a and b else a or b for a, b in zip(columns[-1], oldest, strict=True)]
            await turns.worked(1 + stretch.length // _PER_UNIT)
        return Sum(found, left_out, columns)
