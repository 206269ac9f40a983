"""Histories and dead letters against what really happened, and what bounds a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortoo import SyncQueue
from ortoo.model.replies import HistoryPage

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from ortoo.pipeline.source.options import read_options
from ortoo.pipeline.source.origin import DataLostError
from ortoo.pipeline.source.schema import TABLES
from ortoo.pipeline.source.splits import Split

from .directories import checkpoint, live, made, read, reader

ALL = ReadAllAvailable()


@pytest.mark.parametrize("by", ["server", "files"])
def test_the_history_is_what_traces_tell(queue: SyncQueue, data: Path, by: str) -> None:
    live(queue)
    checkpoint(queue)
    rows = read(subscribe="orders", table="history", **({"path": str(data)} if by == "files" else {}))
    events = {row["event"] for row in rows}
    assert events >= {
        "delivered",
        "acknowledged",
        "nacked",
        "lease expired",
        "released",
        "dead-lettered",
        "deleted",
        "redriven",
        "retried now",
    }
    for offset in range(8):
        mine = [row for row in rows if row["offset"] == offset]
        told = queue.trace(mine[0]["id"]).events
        assert [
            (
                row["timestamp"].timestamp(),
                row["event"],
                row["group"],
                row["error"],
                row["due"] and row["due"].timestamp(),
            )
            for row in sorted(mine, key=lambda row: row["timestamp"])
        ] == [
            (event.time, event.what.replace("redelivered", "delivered"), event.group, event.error, event.until)
            for event in told
            if event.what not in ("published", "due", "expires")
        ]
    assert [row["position"] for row in rows] == sorted(row["position"] for row in rows)
    delivered = next(row for row in rows if row["event"] == "delivered")
    assert (delivered["consumer"], delivered["partition"], delivered["topic"]) == ("me", 0, "orders")
    assert {row["reason"] for row in rows if row["event"] == "dead-lettered"} == {"rejected"}


@pytest.mark.parametrize("by", ["server", "files"])
def test_a_history_can_be_followed(queue: SyncQueue, data: Path, by: str) -> None:
    made(queue)
    checkpoint(queue)
    source = reader(
        subscribe="orders",
        table="history",
        startingOffsets="earliest",
        maxOffsetsPerTrigger="3",
        **({"path": str(data)} if by == "files" else {}),
    )
    at = source.initialOffset()
    live(queue)
    checkpoint(queue)
    rows: list[dict[str, Any]] = []
    while (end := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        found = [row for task in source.partitions(at, end) for batch in source.read(task) for row in batch.to_pylist()]
        assert {row["position"] for row in found} == set(range(at["orders"]["0"], end["orders"]["0"]))
        rows, at = rows + found, end
    assert rows == read(subscribe="orders", table="history")


def test_a_history_that_is_gone_is_missed(queue: SyncQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    live(queue)
    source = reader(subscribe="orders", table="history", startingOffsets="earliest")
    start = source.initialOffset()
    tasks = source.partitions(start, source.latestOffset(start, ALL))
    pages = SyncQueue.history_page

    def later(self: SyncQueue, topic: str, **where: Any) -> HistoryPage:
        page = pages(self, topic, **{**where, "start": max(where["start"], 4)})
        return HistoryPage(**{**{name: getattr(page, name) for name in page.__struct_fields__}, "first": 4})

    monkeypatch.setattr(SyncQueue, "history_page", later)
    with pytest.raises(DataLostError, match="records of the history 0 to 3 of partition 0"):
        [list(source.read(task)) for task in tasks]
    with pytest.raises(DataLostError, match="records of the history 0 to 3 of partition 0"):
        source.partitions(start, source.latestOffset(start, ALL))


@pytest.mark.parametrize("by", ["server", "files"])
def test_dead_letters_tell_where_they_come_from(queue: SyncQueue, data: Path, by: str) -> None:
    where = {"path": str(data)} if by == "files" else {}
    queue.create_topic("orders", partitions=2, max_attempts=1)
    queue.publish("orders", b"x", key="k", headers={"a": "1"})
    checkpoint(queue)
    assert read(subscribe="orders", table="dead_letters", **where) == [], "nobody failed yet"
    (message,) = queue.lease("orders", group="readers")
    queue.nack(message, error="broken")
    checkpoint(queue)
    (row,) = read(subscribe="orders", table="dead_letters", **where)
    assert (row["value"], row["key"], row["topic"], row["origin"]) == (b"x", b"k", "orders.dlq", message.id)
    assert (row["origin_group"], row["reason"], row["attempts"], row["error"]) == ("readers", "attempts", 1, "broken")
    assert {"key": "a", "value": b"1"} in row["headers"]


def test_dead_letters_can_be_followed_from_the_first(queue: SyncQueue) -> None:
    """The topic they go to is made by the first of them."""
    queue.create_topic("orders")
    source = reader(subscribe="orders", table="dead_letters")
    at = source.latestOffset(source.initialOffset(), ALL)
    queue.publish("orders", b"x")
    queue.reject(queue.lease("orders"))
    end = source.latestOffset(at, ALL)
    rows = [row for task in source.partitions(at, end) for batch in source.read(task) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [b"x"]


def test_reading_disturbs_nobody(queue: SyncQueue) -> None:
    live(queue)
    before = queue.topic("orders")
    for table in ("messages", "history", "dead_letters"):
        read(subscribe="orders", table=table)
    assert queue.topic("orders").groups == before.groups


def test_offsets_and_times_bound_a_batch(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=2)
    for number in range(40):
        queue.publish("orders", b"%02d" % number, key=str(number))
    ends = queue.offsets("orders")
    found = read(
        subscribe="orders",
        startingOffsets=f'{{"orders": {{"0": {ends[0] - 3}, "1": -2}}}}',
        endingOffsets='{"orders": {"0": -1, "1": 2}}',
    )
    assert [(row["partition"], row["offset"]) for row in found] == [
        *((0, ends[0] - step) for step in (3, 2, 1)),
        (1, 0),
        (1, 1),
    ]
    assert len(read(subscribe="orders", endingOffsets='{"orders": {"0": 1}}')) == 1 + ends[1], "the rest to its end"
    times = sorted({message.timestamp for message in queue.read("orders")})
    middle = times[len(times) // 2]
    early = read(subscribe="orders", endingTimestamp=str(round(middle * 1000)))
    late = read(subscribe="orders", startingTimestamp=str(round(middle * 1000)))
    assert len(early) + len(late) == 40
    assert all(row["timestamp"].timestamp() >= middle for row in late)
    assert all(row["timestamp"].timestamp() < middle for row in early)


def test_some_partitions_of_some_topics(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=3)
    for number in range(30):
        queue.publish("orders", b"x", key=str(number))
    queue.publish("others", b"y")
    assert {row["partition"] for row in read(assign='{"orders": [0, 2]}')} == {0, 2}
    assert len(read(subscribe="orders,others")) == 31
    assert {row["topic"] for row in read(subscribePattern="oth.*")} == {"others"}
    assert read(subscribePattern="nothing") == []


def test_a_batch_always_has_a_task(queue: SyncQueue) -> None:
    from ortoo.pipeline.source.batch import BatchReader

    queue.create_topic("orders")
    source = BatchReader(read_options({"subscribe": "orders"}, streaming=False), TABLES["messages"])
    (task,) = source.partitions()
    assert isinstance(task, Split)
    assert list(source.read(task)) == []
