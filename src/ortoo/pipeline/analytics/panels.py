"""What the charts show, as numbers: for each topic six panels, each with a few lines over the hours."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ortoo.model.analytics import HourFigures, Report

HOUR = 3600
GROUPS_MAX = 6  # lines of more groups cannot be told apart

Value = Callable[[HourFigures], float | None]


class Line(msgspec.Struct, frozen=True):
    label: str
    values: list[float | None]  # one an hour
    color: int  # lines of one group have one color
    dashes: int = 0


class Panel(msgspec.Struct, frozen=True):
    title: str
    unit: str
    lines: list[Line]
    is_log: bool = False


class TopicPanels(msgspec.Struct, frozen=True):
    topic: str
    hours: list[int]
    panels: list[Panel]


def to_panels(report: Report) -> list[TopicPanels]:
    """The busiest topics first."""
    by_topic: dict[str, list[HourFigures]] = {}
    for row in report.hourly:
        by_topic.setdefault(row.topic, []).append(row)
    busy = sorted(by_topic, key=lambda topic: (-_work(by_topic[topic]), topic))
    return [_topic(topic, by_topic[topic]) for topic in busy]


def _work(rows: Iterable[HourFigures]) -> int:
    return sum((row.published or 0) + row.delivered for row in rows)


def _topic(topic: str, rows: list[HourFigures]) -> TopicPanels:
    first, last = min(row.hour for row in rows), max(row.hour for row in rows)
    hours = list(range(first, last + 1, HOUR))
    own = {row.hour: row for row in rows if row.group is None}
    groups: dict[str, dict[int, HourFigures]] = {}
    for row in rows:
        if row.group is not None:
            groups.setdefault(row.group, {})[row.hour] = row
    chosen = sorted(groups, key=lambda name: (-_work(groups[name].values()), name))[:GROUPS_MAX]

    def lines(*wanted: tuple[str, Value], missing: float | None = 0.0) -> list[Line]:
        return [
            Line(f"{name} {label}".strip(), _values(hours, groups[name], value, missing), color, dashes)
            for color, name in enumerate(chosen, start=1)
            for dashes, (label, value) in enumerate(wanted)
        ]

    def percentiles(title: str, p50: Value, p95: Value, p99: Value) -> Panel:
        return Panel(title, "milliseconds", lines(("p50", p50), ("p95", p95), ("p99", p99), missing=None), is_log=True)

    published = Line("published", _values(hours, own, lambda row: row.published, 0.0), 0)
    return TopicPanels(
        topic,
        hours,
        [
            Panel(
                "Throughput", "messages an hour", [published, *lines(("acknowledged", lambda row: row.acknowledged))]
            ),
            Panel("Depth at the end of the hour", "messages waiting", lines(("", lambda row: row.depth))),
            Panel("Lag at the end of the hour", "age of the oldest, seconds", lines(("", lambda row: row.lag_seconds))),
            percentiles(
                "From publication to first delivery",
                lambda row: row.delivery_p50_ms,
                lambda row: row.delivery_p95_ms,
                lambda row: row.delivery_p99_ms,
            ),
            percentiles(
                "From delivery to acknowledgement",
                lambda row: row.ack_p50_ms,
                lambda row: row.ack_p95_ms,
                lambda row: row.ack_p99_ms,
            ),
            Panel(
                "Failures",
                "percent",
                lines(
                    ("retried", lambda row: _percent(row.retry_rate)),
                    ("dead-lettered", lambda row: _percent(row.dlq_rate)),
                    missing=None,
                ),
            ),
        ],
    )


def _values(hours: list[int], rows: dict[int, HourFigures], value: Value, missing: float | None) -> list[float | None]:
    """An hour without a row is one in which nothing happened and nothing waited."""
    return [value(rows[hour]) if hour in rows else missing for hour in hours]


def _percent(rate: float | None) -> float | None:
    return None if rate is None else rate * 100
