"""`ortoo pipeline analyze`: what the lake tells about topics and groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ortoo.cli import parse, show
from ortoo.cli.connection import Target, on_target
from ortoo.cli.help import Json, examples
from ortoo.model.analytics import ErrorFigures, Figures, Report

from .options import Conf, Master, spark_session

if TYPE_CHECKING:
    from ortoo.pipeline.connection import Address

EXAMPLES = examples(
    "ortoo pipeline analyze --lake ./lake",
    "ortoo pipeline analyze --lake ./lake --since -7d --topic orders --plot orders.html",
    "ortoo pipeline analyze --lake ./lake --json | jq .hourly",
)
_ERRORS = 10  # the worst, in the terminal


@on_target
def analyze(
    target: Target,
    lake: Annotated[Path, typer.Option("--lake", metavar="LAKE", help="the lake", show_default=False)],
    since: Annotated[
        float | None,
        typer.Option(
            parser=parse.past, metavar="TIME", help="start of the period, e.g. -7d or 2026-01-31", show_default="all"
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(parser=parse.past, metavar="TIME", help="end of the period", show_default="the lake's end"),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="only this topic; repeatable", show_default=False)
    ] = None,
    json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="draw charts: FILE.png, FILE.html, or a directory", show_default=False),
    ] = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Count what happened to messages: throughput, lag, latencies, failures, by topic, group and hour.

    Also depth, attempts, the errors and keys that fail most, and the shares of consumers and producers. Results are written to
    LAKE/analytics as Parquet, and as JSON, which a server with the setting `lake` serves at /v1/analytics/history. Running the
    command again replaces them. A server that --url or ORTOO_URL names is told how the run does.
    """
    from ortoo.pipeline.spark.needed import check_packages

    check_packages()
    from pyspark.errors import PySparkException

    from ortoo.pipeline.analytics.charts import check_target
    from ortoo.pipeline.analytics.job import analyze as run
    from ortoo.pipeline.analytics.tables import check_lake
    from ortoo.pipeline.spark.reason import to_reason

    report_to = _address(target)
    check_lake(lake, topic)  # better to learn now than when Spark has started
    if plot is not None:
        check_target(plot)
    try:
        with spark_session("analyze", master, conf) as spark, show.working("counting"):
            report = run(spark, lake, since=since, until=until, topics=topic, report_to=report_to, plot=plot)
    except PySparkException as error:
        show.err.print(f"[red]error[/red]: {escape(to_reason(error))}")
        raise typer.Exit(1) from None
    if json:
        show.json_document(report)
        return
    print_report(report)
    if plot is not None:
        show.done(f"charts in {escape(str(plot))}")


def _address(target: Target) -> Address | None:
    """Only of a server that somebody named: a lake needs none."""
    from ortoo.pipeline.connection import Address

    if target.data is not None:
        raise typer.BadParameter(
            "a lake is analysed, not a data directory; `ortoo pipeline archive --data` makes a lake"
        )
    return Address(target.url, target.token, tls=target.tls) if target.is_named else None


def print_report(report: Report) -> None:
    if report.until is not None:
        begin = "the beginning" if report.since is None else show.time_text(report.since)
        show.line(f"[dim]from {begin} to {show.time_text(report.until)}[/dim]\n")
    headings = (
        *("topic", "group", "published", "size", "delivered", "acked", "retried", "dead", "depth", "lag"),
        *("first delivery p50 / p95 / p99", "ack p50 / p95 / p99"),
    )
    show.table(headings, [_row(figures) for figures in report.topics], "nothing happened in this period")
    if report.errors:
        show.line("")
        worst = sorted(report.errors, key=lambda error: -error.count)[:_ERRORS]
        show.table(("failures", "topic", "group", "error", "last at", "example"), [_error_row(row) for row in worst])


def _row(figures: Figures) -> tuple[show.Cell, ...]:
    is_topic = figures.group is None
    retried = "" if figures.retry_rate is None else f" ({figures.retry_rate:.1%})"
    dead = "" if figures.dlq_rate is None else f" ({figures.dlq_rate:.1%})"
    return (
        figures.topic,
        figures.group,
        figures.published,
        None if figures.bytes is None else show.figure(show.bytes_text(figures.bytes)),
        None if is_topic and not figures.delivered else figures.delivered,
        None if is_topic and not figures.acknowledged else figures.acknowledged,
        None if is_topic and not figures.retried else show.figure(f"{figures.retried:,}{retried}"),
        None if is_topic and not figures.dead_lettered else show.figure(f"{figures.dead_lettered:,}{dead}"),
        figures.depth,
        None if figures.lag_seconds is None else show.figure(show.latency_text(figures.lag_seconds * 1000)),
        _latencies(figures.delivery_p50_ms, figures.delivery_p95_ms, figures.delivery_p99_ms),
        _latencies(figures.ack_p50_ms, figures.ack_p95_ms, figures.ack_p99_ms),
    )


def _error_row(row: ErrorFigures) -> tuple[show.Cell, ...]:
    return row.count, row.topic, row.group, row.error, show.time_text(row.last), row.example


def _latencies(*percentiles: float | None) -> show.Cell:
    known = [show.latency_text(value) for value in percentiles if value is not None]
    return show.figure(" / ".join(known)) if known else None
