"""Every figure of the analytics job, against a plain computation over the same rows that shares no code with it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from ortoo.model.analytics import Report

from .lakes import START, Row, Simulated, write_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ortoo.pipeline.analytics.panels import Series

COUNTS = ("delivered", "acknowledged", "retried", "released", "dead_lettered", "dropped", "skipped")
RETRIED = {"nacked": "retried", "lease expired": "retried", "dead-lettered": "dead_lettered"}
CLOSING = {"acknowledged", "dead-lettered", "dropped", "skipped", "deleted"}
FAILED = {"nacked", "lease expired", "dead-lettered", "dropped"}


def hour_of(row: Row) -> int:
    return int(row["at"] // 3600 * 3600)


def what_of(row: Row) -> str:
    event: str = row["event"]
    return RETRIED.get(event, event)


def nearest_rank(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[ceil(share * len(ordered)) - 1] if ordered else None


class Plain:
    """The same figures, one loop for each."""

    def __init__(self, messages: list[Row], history: list[Row], since: float | None, until: float | None) -> None:
        self.end = max(row["at"] for row in messages + history) + 0.001
        if until is not None:
            self.end = min(until, self.end)
        self.since = -1.0 if since is None else since
        self.messages = {row["id"]: row for row in messages if row["at"] < self.end}
        self.history = sorted(
            (row for row in history if row["at"] < self.end), key=lambda row: (row["at"], row["position"])
        )
        self.timelines: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for row in self.history:
            if row["group"] is not None:
                self.timelines[row["topic"], row["group"], row["id"]].append(row)
        self.groups = {(topic, group) for topic, group, _ in self.timelines}
        self.deleted = {row["id"]: row["at"] for row in self.history if row["event"] == "deleted"}

    def recent(self) -> list[Row]:
        return [row for row in self.history if row["at"] >= self.since]

    def counts(self, hours: bool) -> dict[Any, Counter[str]]:
        found: dict[Any, Counter[str]] = defaultdict(Counter)
        for row in self.recent():
            place = (row["topic"], row["group"], hour_of(row) if hours else None)
            found[place][what_of(row)] += 1
        for row in self.messages.values():
            if row["at"] >= self.since:
                place = (row["topic"], None, hour_of(row) if hours else None)
                found[place]["published"] += 1
                found[place]["bytes"] += len(row["value"])
        return found

    def latencies(self, hours: bool) -> tuple[dict[Any, list[float]], dict[Any, list[float]]]:
        """Publish to first delivery, and delivery to ack, in milliseconds."""
        first: dict[Any, list[float]] = defaultdict(list)
        held: dict[Any, list[float]] = defaultdict(list)
        for (topic, group, identity), rows in self.timelines.items():
            deliveries = [row for row in rows if row["event"] == "delivered"]
            if deliveries and identity in self.messages and deliveries[0]["at"] >= self.since:
                place = (topic, group, hour_of(deliveries[0]) if hours else None)
                first[place].append(round((deliveries[0]["at"] - self.messages[identity]["at"]) * 1000))
            for row in rows:
                if row["event"] == "acknowledged" and row["at"] >= self.since:
                    (begun,) = (delivery["at"] for delivery in deliveries if delivery["lease"] == row["lease"])
                    held[topic, group, hour_of(row) if hours else None].append(round((row["at"] - begun) * 1000))
        return first, held

    def attempts(self, hours: bool) -> dict[Any, list[int]]:
        found: dict[Any, list[int]] = defaultdict(list)
        for (topic, group, _), rows in self.timelines.items():
            attempts = 0
            for row in rows:
                attempts += (row["event"] == "delivered") - (row["event"] == "released")
                if row["event"] in {"acknowledged", "dead-lettered", "dropped"} and row["at"] >= self.since:
                    found[topic, group, hour_of(row) if hours else None].append(attempts)
        return found

    def waiting(self, topic: str, group: str, end: float) -> list[float]:
        """When those messages were published that wait at that instant."""
        of_group = [row for row in self.history if (row["topic"], row["group"]) == (topic, group)]
        newest = max(
            int(row["id"].split(".")[0]) for row in [*self.messages.values(), *of_group] if row["topic"] == topic
        )
        begun: dict[tuple[str, int], int] = {}
        for row in of_group:
            place = (row["id"].split(".")[0], row["partition"])
            begun[place] = min(begun.get(place, row["offset"]), row["offset"])
        found = []
        for row in self.messages.values():
            incarnation = row["id"].split(".")[0]
            start = begun.get((incarnation, row["partition"]))
            is_work = row["at"] >= of_group[0]["at"] if start is None else row["offset"] >= start
            if row["topic"] != topic or int(incarnation) != newest or not is_work or row["at"] >= end:
                continue
            if self._waits(topic, group, row["id"], end):
                found.append(row["at"])
        return found

    def _waits(self, topic: str, group: str, identity: str, end: float) -> bool:
        rows = [(row["at"], row["event"]) for row in self.timelines.get((topic, group, identity), [])]
        if identity in self.deleted:
            rows.append((self.deleted[identity], "deleted"))
        waits = True
        for at, event in sorted(rows):
            if at < end and (event in CLOSING or event in {"delivered", "redriven"}):
                waits = event not in CLOSING
        return waits

    def backlog(self) -> dict[Any, tuple[int, float]]:
        found = {}
        for topic, group in self.groups:
            alive = min(hour_of(row) for row in self.history if (row["topic"], row["group"]) == (topic, group))
            first = max(alive, floor(max(self.since, 0) / 3600) * 3600)
            for hour in range(first, ceil(self.end / 3600) * 3600, 3600):
                end = min(hour + 3600, self.end)
                if waiting := self.waiting(topic, group, end):
                    found[topic, group, hour] = (len(waiting), round(end - min(waiting), 3))
        return found

    def figures(self, hours: bool) -> dict[Any, Row]:
        """By topic, group and hour (None over the whole range)."""
        counts, attempts, backlog = self.counts(hours), self.attempts(hours), self.backlog()
        first, held = self.latencies(hours)
        last = ceil(self.end / 3600) * 3600 - 3600
        if not hours:
            backlog = {(topic, group, None): told for (topic, group, hour), told in backlog.items() if hour == last}
        return {
            place: _figures(place, counts[place], attempts[place], first[place], held[place], backlog.get(place))
            for place in {*counts, *backlog}
        }

    def errors(self) -> dict[Any, tuple[int, str]]:
        found: dict[Any, list[Row]] = defaultdict(list)
        for row in self.recent():
            if row["event"] in FAILED:
                reason = f": {row['reason']}" if row["event"] in {"dead-lettered", "dropped"} else ""
                error = re.sub(r"\d+(\.\d+)*", "<n>", row["error"]) if row["error"] else f"({row['event']}{reason})"
                found[row["topic"], row["group"], error].append(row)
        return {kind: (len(rows), rows[-1]["id"]) for kind, rows in found.items()}

    def keys(self) -> dict[Any, tuple[int, int, int]]:
        found: dict[Any, list[Row]] = defaultdict(list)
        for row in self.recent():
            key = self.messages[row["id"]]["key"] if row["id"] in self.messages else None
            if row["event"] in FAILED and key is not None:
                found[row["topic"], row["group"], "0xfffe" if key == b"\xff\xfe" else key.decode()].append(row)
        return {
            key: (len(rows), len({row["id"] for row in rows}), sum(row["event"] == "dead-lettered" for row in rows))
            for key, rows in found.items()
        }

    def consumers(self) -> dict[Any, Counter[str]]:
        leases = {row["lease"]: row["consumer"] for row in self.history if row["event"] == "delivered"}
        found: dict[Any, Counter[str]] = defaultdict(Counter)
        for row in self.recent():
            what = what_of(row)
            if what in {"delivered", "acknowledged", "retried"}:
                found[row["topic"], row["group"], leases[row["lease"]]][what] += 1
        return found

    def producers(self) -> Counter[tuple[str, str]]:
        names = {b"web": "web", b"batch": "batch"}
        return Counter(
            (
                row["topic"],
                next((names.get(h["value"], "unknown") for h in row["headers"] if h["key"] == "producer"), "unknown"),
            )
            for row in self.messages.values()
            if row["at"] >= self.since
        )


def _figures(
    place: Any,
    counts: Counter[str],
    attempts: list[int],
    first: list[float],
    held: list[float],
    waiting: tuple[int, float] | None,
) -> Row:
    _, group, _ = place
    finished = counts["acknowledged"] + counts["dead_lettered"] + counts["dropped"]
    depth, lag = waiting or (0, 0.0)
    return {
        **{name: counts[name] for name in COUNTS},
        **{name: counts[name] if group is None else None for name in ("published", "bytes", "deleted")},
        "depth": None if group is None else depth,
        "lag_seconds": None if group is None else lag,
        "attempts_mean": sum(attempts) / len(attempts) if attempts else None,
        "attempts_max": max(attempts, default=None),
        "retry_rate": counts["retried"] / counts["delivered"] if counts["delivered"] else None,
        "dlq_rate": counts["dead_lettered"] / finished if finished else None,
        **{
            f"{kind}_p{share}_ms": nearest_rank(values, share / 100)
            for kind, values in (("delivery", first), ("ack", held))
            for share in (50, 95, 99)
        },
    }


def close(found: Row, wanted: Row) -> bool:
    return all(found[name] == pytest.approx(value, abs=1e-6) for name, value in wanted.items())


def rows_of(figures: Iterable[msgspec.Struct], *key: str) -> dict[Any, Row]:
    rows = [msgspec.structs.asdict(row) for row in figures]
    found = {tuple(row.get(name) for name in key): row for row in rows}
    assert len(found) == len(rows), "a row is there twice"
    return found


RANGES = [(None, None), (START + 30_000.5, START + 150_000.25), (START + 9 * 3600, None), (None, START + 40 * 3600)]


@pytest.mark.parametrize(
    ("seed", "since", "until"),
    [
        (1, *RANGES[0]),
        (2, *RANGES[1]),
        *(pytest.param(seed, *bounds, marks=pytest.mark.soak) for seed in range(3, 9) for bounds in RANGES),
    ],
)
def test_every_figure_is_what_plain_counting_gives(
    spark: SparkSession, tmp_path: Path, seed: int, since: float | None, until: float | None
) -> None:
    from ortoo.pipeline.analytics.job import analyze

    queue = Simulated(seed, count=150)
    report = analyze(spark, write_lake(tmp_path, queue.messages, queue.history), since=since, until=until)
    plain = Plain(queue.messages, queue.history, since, until)
    assert report.until == pytest.approx(plain.end)
    for figures, hours in ((report.hourly, True), (report.topics, False)):
        found = rows_of(figures, "topic", "group", "hour")
        wanted = plain.figures(hours)
        assert found.keys() == wanted.keys()
        for place, row in wanted.items():
            assert close(found[place], row), f"{place}:\n{found[place]}\n{row}"
    errors = rows_of(report.errors, "topic", "group", "error")
    assert {kind: (row["count"], row["example"]) for kind, row in errors.items()} == plain.errors()
    keys = rows_of(report.keys, "topic", "group", "key")
    assert {key: (row["failures"], row["messages"], row["dead_lettered"]) for key, row in keys.items()} == plain.keys()
    check_shares(report, plain)


def check_shares(report: Report, plain: Plain) -> None:
    consumers, wanted = rows_of(report.consumers, "topic", "group", "consumer"), plain.consumers()
    assert consumers.keys() == wanted.keys()
    for (topic, group, name), row in consumers.items():
        counts = wanted[topic, group, name]
        everybody: Counter[str] = sum((c for (t, g, _), c in wanted.items() if (t, g) == (topic, group)), Counter())
        assert {what: row[what] for what in ("delivered", "acknowledged", "retried")} == {
            what: counts[what] for what in ("delivered", "acknowledged", "retried")
        }
        assert row["delivered_share"] == pytest.approx(counts["delivered"] / everybody["delivered"])
        assert row["acknowledged_share"] == pytest.approx(counts["acknowledged"] / everybody["acknowledged"])
    producers = rows_of(report.producers, "topic", "producer")
    assert {place: row["published"] for place, row in producers.items()} == plain.producers()
    for topic in {row.topic for row in report.producers}:
        assert sum(row.published_share for row in report.producers if row.topic == topic) == pytest.approx(1)


def test_the_tables_and_the_charts_hold_what_the_report_holds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortoo.pipeline.analytics import job
    from ortoo.pipeline.analytics.results import to_rows

    queue = Simulated(3, count=60, hours=3)
    drawn: list[Series] = []
    monkeypatch.setattr(job, "draw", lambda series, target: drawn.append(series))
    report = job.analyze(spark, write_lake(tmp_path, queue.messages, queue.history), plot="charts.png")
    (series,) = drawn
    check_series(series, report)
    for name in ("hourly", "errors", "keys", "consumers", "producers"):
        told = msgspec.to_builtins(getattr(report, name))
        assert told
        assert to_rows(pq.read_table(tmp_path / "analytics" / name)) == told
        assert spark.read.parquet(str(tmp_path / "analytics" / name)).count() == len(told)
    assert msgspec.json.decode((tmp_path / "analytics" / "history.json").read_bytes(), type=Report) == report


def check_series(series: Series, report: Report) -> None:
    """What is drawn is finer or coarser than hours, and all there is."""
    assert series.width != 3600
    assert report.until == series.until
    assert {
        (row.hour % series.width, series.since - series.width < row.hour < series.until) for row in series.rows
    } == {(0, True)}
    for whole in report.topics:
        rows = [row for row in series.rows if (row.topic, row.group) == (whole.topic, whole.group)]
        for name in COUNTS:
            assert sum(getattr(row, name) for row in rows) == getattr(whole, name), name
        if whole.group is None:
            assert sum(row.published or 0 for row in rows) == whole.published
        else:
            last = [row.depth for row in rows if row.hour + series.width >= series.until] or [0]
            assert last == [whole.depth]
