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
from .view import View, count_listed, visible

_SECONDS_OF: dict[Resolution, int] = {"second": 1, "minute": 60}
_KEPT_OF: dict[Resolution, int] = {"second": limits.SERIES_SECONDS, "minute": limits.SERIES_MINUTES}
_PER_UNIT = 10  # rows of a topic that are summed up, in a unit of turns
_SUMS_MAX = 100  # that are kept
_SUMS_KEPT: dict[Resolution, int] = {
    "second": 1,
    "minute": 10,
}  # for so many samples: a day of busy topics takes long to sum up


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
    stretch: Stretch
    columns: list[list[int]]

    def last(self, count: int) -> Sum:
        stretch = self.stretch.last(count)
        return self._replace(
            stretch=stretch, columns=[column[len(column) - stretch.length :] for column in self.columns]
        )


class _Summing(NamedTuple):
    task: asyncio.Task[Sum]
    stretch: Stretch
    tick: int  # the newest when it began

    def is_good(self, newest: int) -> bool:
        """Still, and of all there is to know, or nearly."""
        failed = self.task.done() and (self.task.cancelled() or self.task.exception() is not None)
        return not failed and newest - self.tick < _SUMS_KEPT[self.stretch.resolution]


class SeriesReader:
    """Sums over many topics are made once for all who may see the same and ask at about the same time."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self._sums: dict[Hashable, _Summing] = {}

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
        if namespace is None and view is None:
            found, asked = len(self.sampler.topics), stretch.last(count)
            left_out = max(0, count_listed(state) - found)
            return self._answer(OF_TOPIC, Sum(found, left_out, asked, asked.read(self.sampler.total)))
        return self._answer(OF_TOPIC, (await self._shared_sum(state, namespace, view, stretch)).last(count))

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
            return self._answer(kind, Sum(0, 1, stretch.last(0), [[] for _ in kind.codes]))
        return self._answer(kind, Sum(1, 0, stretch, stretch.read(rings)))

    def _answer(self, kind: Kind, found: Sum) -> Series:
        stretch, sampler = found.stretch, self.sampler
        seconds = _SECONDS_OF[stretch.resolution]
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
        newest = self.sampler.newest
        key = (None if view is None else (view.name, view.grants), namespace, stretch.resolution)
        summing = self._sums.get(key)
        if summing is None or not summing.is_good(newest):
            task = asyncio.create_task(self._sum(state, namespace, view, stretch), name="ortoo-series")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            summing = _Summing(task, stretch, newest)
            self._sums = {key: one for key, one in self._sums.items() if one.is_good(newest)}
            if len(self._sums) < _SUMS_MAX:
                self._sums[key] = summing
        return await asyncio.shield(summing.task)

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
        return Sum(found, left_out, stretch, columns)
