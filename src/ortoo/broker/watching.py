"""Answers what is measured and looked at live: metrics, series, overviews, activity."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Protocol

from ortoo.engine.state import State
from ortoo.model.errors import ConfigError
from ortoo.model.live import Activity, Overview, Sort
from ortoo.model.metrics import MetricFigures
from ortoo.model.names import TopicName
from ortoo.model.pipelines import PipelinesFound
from ortoo.model.queries import GetActivity, GetOverview, ListPipelines
from ortoo.model.series import Resolution, Series
from ortoo.model.shown_settings import ShownSettings

from .browsing import Browsing
from .figures import Measured, measure
from .overview import Overviews
from .pipelines import Pipelines
from .pipelines import Shell as Recorded
from .series import SeriesReader
from .view import View


class Watched(Measured, Recorded, Protocol):
    """What it needs of the broker."""

    settings: ShownSettings | None

    @property
    def state(self) -> State:
        """OrtooError while nothing is taken."""
        ...


class Watching(Browsing):
    """A part of the reader."""

    def __init__(self, broker: Watched) -> None:
        super().__init__(broker)
        self._watched = broker
        self.pipelines = Pipelines(broker)
        self._overviews: Overviews | None = None  # once somebody looks
        self._measuring: dict[Hashable, asyncio.Task[MetricFigures]] = {}

    async def metrics(
        self, namespace: str | None = None, topic: str | None = None, view: View | None = None
    ) -> MetricFigures:
        """Also while nothing is taken: then above all somebody looks. Those who ask meanwhile, and may see the same, get the same
        answer: to measure for each would take all the time there is."""
        key = (None if view is None else (view.name, view.grants), namespace, topic)
        measuring = self._measuring.get(key)
        if measuring is None or measuring.done():
            measuring = asyncio.create_task(measure(self._watched, view, namespace, topic), name="ortoo-metrics")
            self._measuring[key] = measuring
            measuring.add_done_callback(lambda done: self._measured(key, done))
        return await asyncio.shield(measuring)

    def _measured(self, key: Hashable, task: asyncio.Task[MetricFigures]) -> None:
        if self._measuring.get(key) is task:
            del self._measuring[key]
        if not task.cancelled():
            task.exception()

    async def series(
        self,
        namespace: str | None = None,
        topic: TopicName | None = None,
        group: str | None = None,
        resolution: Resolution = "second",
        count: int = 60,
        view: View | None = None,
    ) -> Series:
        return await self._series().read(self._watched.state, namespace, topic, group, resolution, count, view)

    def _series(self) -> SeriesReader:
        series = self._watched.meters.series
        if series is None:
            raise ConfigError("this queue keeps no series of what it measures; a server does")
        return series

    async def overview(
        self,
        namespace: str | None = None,
        sort: Sort = "backlog",
        match: str | None = None,
        limit: int = 100,
        offset: int = 0,
        view: View | None = None,
    ) -> Overview:
        return await self._live().overview(GetOverview(namespace, sort, match, limit, offset), view)

    async def activity(self, namespace: str | None = None, limit: int = 50, view: View | None = None) -> Activity:
        return await self._live().activity(GetActivity(namespace, limit), view)

    async def list_pipelines(
        self, namespace: str | None = None, limit: int = 200, offset: int = 0, view: View | None = None
    ) -> PipelinesFound:
        return await self.pipelines.found(ListPipelines(namespace, limit, offset), view)

    def _live(self) -> Overviews:
        if self._overviews is None:
            self._overviews = Overviews(self._watched, self._series().sampler, self.pipelines)
        return self._overviews
