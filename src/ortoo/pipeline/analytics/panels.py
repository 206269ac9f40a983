"""What the charts show, as numbers: for each topic the panels that have something to show, of a few lines over the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from ortoo.model.analytics import HourFigures

HOUR = 3600
GROUPS_MAX = 6  # lines of more groups cannot be told apart,
FEW_GROUPS_MAX = 3  # and these have several lines each
BUCKETS_MAX = 120  # in the time that is shown
WIDTHS = (1, 5, 10, 30, 60, 300, 900, HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 28 * 24 * HOUR)  # seconds

Value = Callable[[HourFigures], float | None]
Unit = Literal["messages", "seconds", "percent"]


def bucket_seconds(seconds: float) -> int:
    """The finest width that divides so long a time into buckets of which each is still wide enough to be seen."""
    return next((width for width in WIDTHS if seconds <= BUCKETS_MAX * width), WIDTHS[-1])


class Series(msgspec.Struct, frozen=True):
    """What is drawn: figures of buckets, which begin at `hour` and are so many seconds wide, from one time to another."""

    rows: list[HourFigures]
    width: int
    since: float
    until: float


class Line(msgspec.Struct, frozen=True):
    label: str
    values: list[float | None]  # one a bucket
    group: int  # 0 is the topic itself
    shade: int = 0  # of its group's color: several lines of one group


class Panel(msgspec.Struct, frozen=True):
    title: str
    unit: Unit
    lines: list[Line]
    is_at_end: bool = False  # of each bucket: how it is then, not what happened in it
    is_log: bool = False


class TopicPanels(msgspec.Struct, frozen=True):
    topic: str
    times: list[int]  # when each bucket begins
    panels: list[Panel]


def to_panels(series: Series) -> list[TopicPanels]:
    """The busiest topics first."""
    by_topic: dict[str, list[HourFigures]] = {}
    for row in series.rows:
        by_topic.setdefault(row.topic, []).append(row)
    busy = sorted(by_topic, key=lambda topic: (-_work(by_topic[topic]), topic))
    return [_topic(topic, by_topic[topic], series.width) for topic in busy]


def width_words(seconds: int) -> str:
    for unit, name in ((24 * HOUR, "day"), (HOUR, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            count = seconds // unit
            return name if count == 1 else f"{count} {name}s"
    raise AssertionError(seconds)


def _work(rows: Iterable[HourFigures]) -> int:
    return sum((row.published or 0) + row.delivered for row in rows)


def _topic(topic: str, rows: list[HourFigures], width: int) -> TopicPanels:
    times = list(range(min(row.hour for row in rows), max(row.hour for row in rows) + 1, width))
    own = {row.hour: row for row in rows if row.group is None}
    groups: dict[str, dict[int, HourFigures]] = {}
    for row in rows:
        if row.group is not None:
            groups.setdefault(row.group, {})[row.hour] = row
    busy = sorted(groups, key=lambda name: (-_work(groups[name].values()), name))

    def lines(
        *wanted: tuple[str, Value], missing: float | None = 0.0, names: Sequence[str] = tuple(busy[:GROUPS_MAX])
    ) -> list[Line]:
        return [
            Line(f"{name} {label}".strip(), _values(times, groups[name], value, missing), at, shade)
            for at, name in enumerate(names, start=1)
            for shade, (label, value) in enumerate(wanted)
        ]

    def percentiles(title: str, p50: Value, p95: Value, p99: Value) -> Panel:
        wanted = [(label, _seconds(value)) for label, value in (("p50", p50), ("p95", p95), ("p99", p99))]
        return Panel(title, "seconds", lines(*wanted, missing=None, names=busy[:FEW_GROUPS_MAX]), is_log=True)

    each = width_words(width)
    published = Line("published", _values(times, own, lambda row: row.published, 0.0), 0)
    panels = [
        Panel(f"Messages per {each}", "messages", [published, *lines(("acknowledged", lambda row: row.acknowledged))]),
        Panel("Messages waiting", "messages", lines(("", lambda row: row.depth)), is_at_end=True),
        Panel("Age of the oldest that waits", "seconds", lines(("", lambda row: row.lag_seconds)), is_at_end=True),
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
            "Failure rates",
            "percent",
            lines(
                ("retried", lambda row: _percent(row.retry_rate)),
                ("dead-lettered", lambda row: _percent(row.dlq_rate)),
                missing=None,
                names=busy[:FEW_GROUPS_MAX],
            ),
        ),
    ]
    return TopicPanels(topic, times, [kept for panel in panels if (kept := _with_values(panel)).lines])


def _with_values(panel: Panel) -> Panel:
    """Without lines that would not be seen."""
    known = [line for line in panel.lines if any(value is not None for value in line.values)]
    if not any(value for line in known for value in line.values):
        known = []  # nothing waits, nothing fails: that needs no picture
    return msgspec.structs.replace(panel, lines=known)


def _values(times: list[int], rows: dict[int, HourFigures], value: Value, missing: float | None) -> list[float | None]:
    """A bucket without a row is one in which nothing happened and nothing waited."""
    return [value(rows[at]) if at in rows else missing for at in times]


def _percent(rate: float | None) -> float | None:
    return None if rate is None else rate * 100


def _seconds(milliseconds: Value) -> Value:
    def seconds(row: HourFigures) -> float | None:
        found = milliseconds(row)
        return None if found is None else found / 1000

    return seconds
