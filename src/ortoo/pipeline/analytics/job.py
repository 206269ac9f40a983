"""The analytics job: from the lake's messages and history to tables, a JSON file and a report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from ortoo.model.analytics import (
    ConsumerFigures,
    ErrorFigures,
    Figures,
    HourFigures,
    KeyFigures,
    ProducerFigures,
    Report,
)
from ortoo.model.errors import InvalidError
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.pipeline.connection import Address
from ortoo.pipeline.lake.layout import Lake as Folder
from ortoo.pipeline.lake.manifest import load
from ortoo.pipeline.reporting import DoneBatch, reporting

from .backlog import Span, backlog
from .charts import check_target
from .charts import plot as draw
from .failures import error_figures, key_figures
from .figures import all_figures
from .panels import Series, bucket_seconds
from .results import Results, in_order, open_results, to_rows
from .shares import consumer_figures, producer_figures, published_figures
from .tables import HOUR, MICROS, Lake, to_micros
from .timeline import timeline

TABLE_TOP = 1000  # rows of each ranking in Parquet; in JSON it is this many
REPORT_TOP = 20
REPORT_HOURS = 31 * 24
REPORT_ROWS = 50_000  # of hours, whatever the number of groups

T = TypeVar("T", bound=msgspec.Struct)
Rows = list[dict[str, Any]]
_GROUP = ["topic", "group"]


def analyze(
    spark: SparkSession,
    lake: Path | str,
    *,
    since: float | datetime | None = None,
    until: float | datetime | None = None,
    topics: Sequence[str] | None = None,
    report_to: Address | None = None,
    plot: Path | str | None = None,
) -> Report:
    """Counts what happened from `since` up to `until`, writes it to LAKE/analytics, and gives it back.

    Instants are seconds since 1970 or datetimes. Running it again replaces what the last run wrote. NotFoundError when there is
    no lake, or when a topic is not in it. The queue at `report_to` is told how the run does. `plot` is where charts go: FILE.png,
    FILE.html or a directory.
    """
    target = None if plot is None else Path(plot)
    if target is not None:
        check_target(target)
    path = Path(lake).absolute()
    if report_to is not None:
        report_to = report_to._replace(namespace=_namespace(path))
    with reporting(report_to, f"analyze:{path.name}", "analyze", reads=str(path), writes=str(path)) as run:
        began, report = monotonic(), _analyze(spark, path, since, until, topics, target)
        run.batch(DoneBatch("analytics", 0, None, len(report.topics) + len(report.hourly), monotonic() - began))
    return report


def _analyze(
    spark: SparkSession,
    path: Path,
    since: float | datetime | None,
    until: float | datetime | None,
    topics: Sequence[str] | None,
    plot: Path | None,
) -> Report:
    begin, end = to_micros(since, "since"), to_micros(until, "until")
    if begin is not None and end is not None and begin >= end:
        raise InvalidError("since must lie before until")
    tables = Lake(spark, path, topics, end)
    first, told = _told(tables)
    if told is None:
        span = Span(begin, 1 if end is None else end)
    else:
        span = Span(begin, told if end is None else min(told, end))
    with open_results(path) as results, _happened(tables) as happened:
        report = _report(tables, happened, span, told is not None, results)
        report = msgspec.structs.replace(report, namespace=_namespace(path))
        results.show(report)
        if plot is not None:
            start = max(value for value in (begin, first, 0) if value is not None)
            _draw(report, tables, happened, span, start, plot)
    return report


@contextmanager
def _happened(lake: Lake) -> Iterator[DataFrame]:
    found = timeline(lake).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield found
    finally:
        found.unpersist()


def _draw(report: Report, lake: Lake, happened: DataFrame, span: Span, start: int, target: Path) -> None:
    """With buckets that fit the time that is shown; the report's own are hours."""
    width = bucket_seconds((span.end - start) / MICROS)
    span = msgspec.structs.replace(span, width=width * MICROS)
    if report.until is None or (width * MICROS == HOUR and report.hours_since is None):
        rows = report.hourly
    else:
        figures = all_figures(happened, published_figures(lake, span), backlog(happened, span), span).toArrow()
        found = to_rows(figures.filter(pc.is_valid(figures["hour"])))
        rows = msgspec.convert(found, list[HourFigures])
    draw(Series(rows, width, start / MICROS, span.end / MICROS), target)


def _namespace(lake: Path) -> str:
    manifest = load(Folder(lake))
    return DEFAULT_NAMESPACE if manifest is None else manifest.namespace


def _told(lake: Lake) -> tuple[int | None, int | None]:
    """The first thing that the lake knows, and one millisecond, the queue's finest unit, after the last: nothing can be said of
    later."""
    first, newest = lake.instants.agg(f.min("us"), f.max("us")).collect()[0]
    return first, None if newest is None else newest + MICROS // 1000


def _report(lake: Lake, happened: DataFrame, span: Span, is_told: bool, results: Results) -> Report:
    published = published_figures(lake, span).persist(StorageLevel.MEMORY_AND_DISK)
    waits = backlog(happened, span).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        figures = in_order(all_figures(happened, published, waits, span).toArrow(), [*_GROUP, "hour"])
        whole, hourly = figures.filter(pc.is_null(figures["hour"])), figures.filter(pc.is_valid(figures["hour"]))
        results.save("hourly", hourly)
        errors = results.save("errors", in_order(error_figures(lake, span, TABLE_TOP).toArrow(), ["topic", "rank"]))
        keys = results.save("keys", in_order(key_figures(lake, span, TABLE_TOP).toArrow(), ["topic", "rank"]))
        consumers = results.save(
            "consumers", in_order(consumer_figures(happened, span, TABLE_TOP).toArrow(), [*_GROUP, "rank"])
        )
        producers = results.save(
            "producers", in_order(producer_figures(published, TABLE_TOP).toArrow(), ["topic", "rank"])
        )
    finally:
        for cached in (waits, published):
            cached.unpersist()
    hours, hours_since = _newest(hourly, span)
    return Report(
        generated_at=time.time(),
        since=None if span.since is None else span.since / MICROS,
        until=span.end / MICROS if is_told else None,
        hours_since=hours_since,
        topics=msgspec.convert(to_rows(whole.drop_columns(["hour"])), list[Figures]),
        hourly=msgspec.convert(hours, list[HourFigures]),
        errors=_top(errors, ErrorFigures),
        keys=_top(keys, KeyFigures),
        consumers=_top(consumers, ConsumerFigures),
        producers=_top(producers, ProducerFigures),
    )


def _newest(hourly: pa.Table, span: Span) -> tuple[Rows, float | None]:
    """The last 31 days, or fewer when that were too many rows; and where they begin, if some were left out."""
    first = (span.last_hour + 1 - REPORT_HOURS) * 3600
    rows = to_rows(hourly)
    kept = [row for row in rows if row["hour"] >= first]
    if len(kept) > REPORT_ROWS:
        first = sorted(row["hour"] for row in kept)[-REPORT_ROWS] + 3600  # whole hours only
        kept = [row for row in kept if row["hour"] >= first]
    return kept, None if len(kept) == len(rows) else first


def _top(table: pa.Table, kind: type[T]) -> list[T]:
    """The first of each topic, or of each group where there is a rank in every group."""
    seen: Counter[Any] = Counter()
    kept = []
    for row in to_rows(table):
        place = (row["topic"], row["group"] if kind is ConsumerFigures else None)
        seen[place] += 1
        if seen[place] <= REPORT_TOP:
            kept.append(row)
    return msgspec.convert(kept, list[kind])  # type: ignore[valid-type]
