"""The server as its operator sees it: is it there, is it ready, metrics, totals, and what the analytics job found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from ortoo.model import limits
from ortoo.model.analytics import (
    HISTORY_FILE,
    ConsumerFigures,
    ErrorFigures,
    Figures,
    HourFigures,
    KeyFigures,
    ProducerFigures,
    Report,
)
from ortoo.model.errors import CorruptionError, NotFoundError, StoreFailedError
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName
from ortoo.model.oneself import Me
from ortoo.model.queries import GetMe, GetMetrics, GetSeries, GetSettings, GetStats, ListShards
from ortoo.model.replies import Stats
from ortoo.model.series import Resolution, Series
from ortoo.model.shards import ShardInfo
from ortoo.model.shown_settings import ShownSettings

from .answers import Answer
from .call import Call, InNamespace
from .paging import page
from .shapes import AnalyticsQuery

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_RUN = "run `ortoo pipeline analyze --lake {lake}`"

Version = tuple[int, int, int]
T = TypeVar("T", Figures, HourFigures, ErrorFigures, KeyFigures, ConsumerFigures, ProducerFigures)

_encode = msgspec.json.Encoder().encode


class SeriesQuery(InNamespace, kw_only=True):
    """Of a topic, of one of its groups, or without a topic of all that may be seen: in a namespace, or in all of them."""

    namespace: str | None = None  # type: ignore[assignment]  # with a topic it has the usual default
    topic: str | None = None
    group: str | None = None
    resolution: Resolution = "second"
    count: Annotated[int, Meta(ge=1, le=limits.SERIES_MINUTES)] = 60


class MetricsQuery(InNamespace, kw_only=True):
    """With a topic or a namespace, the figures of these alone."""

    namespace: str | None = None  # type: ignore[assignment]  # with a topic it has the usual default
    topic: str | None = None


class Health(msgspec.Struct):
    status: Literal["ok"]


class Readiness(msgspec.Struct):
    status: Literal["ready", "not ready"]
    reason: str | None = None


async def health(call: Call) -> Health:
    return Health("ok")


async def ready(call: Call) -> Answer:
    reason = "the server is stopping" if call.services.is_closing else call.services.ready()
    if reason is None:
        return Answer(_encode(Readiness("ready")))
    return Answer(_encode(Readiness("not ready", reason)), 503)


async def metrics(call: Call) -> Answer:
    query: MetricsQuery = call.query
    namespace = query.namespace if query.topic is None else query.namespace or DEFAULT_NAMESPACE
    wanted = GetMetrics(namespace, query.topic)
    call.link.check(wanted)
    limited = None if call.link.principal.is_unlimited else call.link
    return Answer(await call.services.metrics(limited, wanted), content_type=METRICS_TYPE.encode())


async def stats(call: Call) -> Stats:
    return await call.link.ask(GetStats())


async def me(call: Call) -> Me:
    return await call.link.ask(GetMe())


async def settings(call: Call) -> ShownSettings:
    return await call.link.ask(GetSettings())


class ShardList(msgspec.Struct):
    """By number."""

    shards: list[ShardInfo]
    next: str | None = None


async def shards(call: Call) -> ShardList:
    found = await call.link.ask(ListShards())
    return ShardList(*page(found, lambda info: (f"{info.shard:06}",), call.query))


async def series(call: Call) -> Series:
    query: SeriesQuery = call.query
    topic = None if query.topic is None else TopicName(query.namespace or DEFAULT_NAMESPACE, query.topic)
    within = None if topic is not None else query.namespace
    return await call.link.ask(GetSeries(within, topic, query.group, query.resolution, query.count))


# -- analytics


class Analytics:
    """The newest report of a lake.

    The file is read in a thread and kept until it changes; the job replaces it as a whole, so that it is never seen half
    written.
    """

    def __init__(self, lake: str | None) -> None:
        self._lake = lake
        self._version: Version | None = None
        self._report: Report | None = None

    async def report(self) -> Report:
        """NotFoundError when there is no lake or no report in it yet."""
        if self._lake is None:
            raise NotFoundError(
                "no lake is configured: set lake = DIR in the server's settings, and run `ortoo pipeline analyze --lake DIR`"
            )
        version, report = await asyncio.to_thread(self._look, self._lake, self._version)
        if report is not None:
            self._version, self._report = version, report
        assert self._report is not None, "a version is only known of a report that was read"
        return self._report

    @staticmethod
    def _look(lake: str, known: Version | None) -> tuple[Version, Report | None]:
        """None instead of the report when it is the one that is known."""
        path = Path(lake) / HISTORY_FILE
        try:
            found = path.stat()
            version = (found.st_mtime_ns, found.st_size, found.st_ino)
            return version, None if version == known else msgspec.json.decode(path.read_bytes(), type=Report)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"there are no analytics at {path} yet: {_RUN.format(lake=lake)}") from None
        except OSError as error:
            raise StoreFailedError(f"the analytics at {path} cannot be read: {error.strerror or error}") from None
        except msgspec.DecodeError as error:
            raise CorruptionError(
                f"the analytics at {path} are not readable ({error}): {_RUN.format(lake=lake)}"
            ) from None


async def analytics_history(call: Call) -> bytes:
    call.link.check(GetStats())
    report = await call.services.analytics.report()
    names = {row.topic for table in (report.topics, report.hourly, report.errors, report.keys) for row in table}
    names |= {row.topic for table in (report.consumers, report.producers) for row in table}
    hidden = {name for name in names if not call.link.may_see(TopicName(report.namespace, name))}
    return await asyncio.to_thread(_encoded, report, call.query, hidden)


def _encoded(report: Report, query: AnalyticsQuery, hidden: set[str]) -> bytes:
    """In a thread: a report may have many thousands of rows."""
    hourly = [
        row
        for row in _chosen(report.hourly, query, hidden)
        if (query.since is None or row.hour + 3600 > query.since) and (query.until is None or row.hour < query.until)
    ]
    return msgspec.json.encode(
        msgspec.structs.replace(
            report,
            topics=_chosen(report.topics, query, hidden),
            hourly=hourly,
            errors=_chosen(report.errors, query, hidden),
            keys=_chosen(report.keys, query, hidden),
            consumers=_chosen(report.consumers, query, hidden),
            producers=_chosen(report.producers, query, hidden),
        )
    )


def _chosen(rows: list[T], query: AnalyticsQuery, hidden: set[str]) -> list[T]:
    """Rows of the topic and the group that were asked for. What belongs to no group, such as publishes, stays."""
    return [
        row
        for row in rows
        if row.topic not in hidden
        and (query.topic is None or row.topic == query.topic)
        and (query.group is None or getattr(row, "group", None) in (None, query.group))
    ]
