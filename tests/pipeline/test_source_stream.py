"""A stream's reader, asked as Spark asks it, on a queue in this process: the traps of Spark's interface, one by one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo import SyncQueue
from ortoo.model.errors import InvalidError, NotFoundError

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ortoo.pipeline.source import served, stream
from ortoo.pipeline.source.origin import DataLostError
from ortoo.pipeline.source.splits import Split
from ortoo.pipeline.source.stream import StreamReader

from .directories import checkpoint, reader

Offset = dict[str, Any]
ALL = ReadAllAvailable()


def values(source: StreamReader, start: Offset, end: Offset) -> list[Any]:
    """Of a micro-batch, in tasks that get the reader as Spark sends it to them."""
    tasks = source.partitions(start, end)
    sent: StreamReader = pickle.loads(pickle.dumps(source))
    rows = [row for task in tasks for batch in sent.read(task) for row in batch.to_pylist()]
    return sorted(row["value"] for row in rows)


# -- where a stream begins


def test_a_stream_that_begins_at_the_end_loses_nothing_between_two_questions(queue: SyncQueue) -> None:
    """Spark asks twice where a stream begins: to know where its first batch ends, and again to plan it."""
    queue.publish("orders", b"before")
    source = reader(subscribe="orders")
    first = source.initialOffset()
    queue.publish("orders", b"between")
    end = source.latestOffset(first, ALL)
    assert source.initialOffset() == first
    assert values(source, source.initialOffset(), end) == [b"between"]


@pytest.mark.parametrize(
    "begin", [{}, {"startingTimestamp": "9999-01-01"}, {"startingOffsets": '{"orders": {"0": -1}}'}]
)
def test_a_beginning_that_moves_stays_where_it_was_when_the_first_batch_crashes(
    queue: SyncQueue, begin: dict[str, str]
) -> None:
    """The batch is planned again by another reader, which knows only the end that was durable."""
    queue.publish("orders", b"before")
    source = reader(subscribe="orders", **begin)
    first = source.initialOffset()
    queue.publish("orders", b"between")
    end = source.latestOffset(first, ALL)
    queue.publish("orders", b"meanwhile")
    again = reader(subscribe="orders", **begin)
    assert values(again, again.initialOffset(), end) == [b"between"]
    assert values(again, end, again.latestOffset(end, ALL)) == [b"meanwhile"]


@pytest.mark.parametrize("begin", ["earliest", "latest"])
def test_a_topic_that_comes_to_match_after_a_crash_in_the_first_batch_is_not_lost(queue: SyncQueue, begin: str) -> None:
    queue.publish("order-a", b"a")
    options = {"subscribePattern": "order-.*", "startingOffsets": begin}
    source = reader(**options)
    end = source.latestOffset(source.initialOffset(), ALL)
    queue.publish("order-b", b"b")
    again = reader(**options)
    assert values(again, again.initialOffset(), end) == ([b"a"] if begin == "earliest" else [])
    assert values(again, end, again.latestOffset(end, ALL)) == [b"b"]


def test_the_first_batch_begins_where_it_began_before_the_crash(queue: SyncQueue) -> None:
    """What was removed meanwhile is missed, though a stream that began only now would not miss it."""
    queue.publish_many("orders", [b"0", b"1"])
    options = {"subscribe": "orders", "startingOffsets": "earliest"}
    source = reader(**options)
    end = source.latestOffset(source.initialOffset(), ALL)
    queue.purge("orders")
    again = reader(**options)
    with pytest.raises(DataLostError, match="messages 0 to 1 of partition 0 of topic 'orders' were removed"):
        again.partitions(again.initialOffset(), end)


def test_the_offset_of_the_first_batch_stays_as_it_is_while_nothing_comes(queue: SyncQueue) -> None:
    """Spark compares texts: another one would be a batch for nothing."""
    queue.publish("orders", b"0")
    for begin in ("earliest", "latest"):
        source = reader(subscribe="orders", startingOffsets=begin)
        end = source.latestOffset(source.initialOffset(), ALL)
        assert json.dumps(source.latestOffset(end, ALL)) == json.dumps(end)
        assert json.dumps(reader(subscribe="orders").latestOffset(end, ALL)) == json.dumps(end)


def test_a_stream_may_begin_at_the_beginning_at_an_offset_or_at_a_time(queue: SyncQueue) -> None:
    queue.publish_many("orders", [b"0", b"1", b"2"])
    time = str(round(next(queue.read("orders")).timestamp * 1000))
    for begin, found in [
        ({"startingOffsets": "earliest"}, [b"0", b"1", b"2"]),
        ({"startingOffsets": '{"orders": {"0": 1}}'}, [b"1", b"2"]),
        ({"startingTimestamp": time}, [b"0", b"1", b"2"]),
    ]:
        source = reader(subscribe="orders", **begin)
        start = source.initialOffset()
        end = source.latestOffset(source.latestOffset(start, ALL), ALL)
        assert values(source, start, end) == found


def test_an_unknown_topic_is_told_with_the_one_that_was_meant(queue: SyncQueue) -> None:
    queue.publish("orders", b"x")
    source = reader(subscribe="ordres")
    source.prepareForTriggerAvailableNow()
    with pytest.raises(NotFoundError, match="did you mean 'orders'"):
        source.initialOffset()


# -- going on


def test_the_same_place_is_the_same_text_whatever_the_order(queue: SyncQueue) -> None:
    for topic in ("b", "a", "c"):
        queue.create_topic(topic, partitions=12)
    texts, ends = set(), set()
    for names in ("a,b,c", "c,b,a", "b,a,c"):
        source = reader(subscribe=names, startingOffsets="earliest")
        start = source.initialOffset()
        texts |= {json.dumps(start), json.dumps(source.reportLatestOffset())}
        ends |= {json.dumps(source.latestOffset(start, ALL))}
    assert (len(texts), len(ends)) == (1, 1)


def test_the_order_of_keys_in_a_checkpoint_does_not_matter(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=3)
    source = reader(subscribe="orders")
    end = source.latestOffset(source.initialOffset(), ALL)
    turned = {"orders": dict(reversed(end["orders"].items()))}
    assert json.dumps(source.latestOffset(turned, ALL)) == json.dumps(end)


def test_nothing_hangs_on_commit(queue: SyncQueue) -> None:
    """Spark says it a batch late, and of the last batch never; here nobody says it, and nothing is forgotten or repeated."""
    source, seen = reader(subscribe="orders", startingOffsets="earliest"), []
    queue.create_topic("orders")
    at = source.initialOffset()
    for number in range(3):
        queue.publish("orders", str(number).encode())
        end = source.latestOffset(at, ALL)
        seen += values(source, at, end)
        at = end
    source.commit(at)
    source.commit({})
    assert seen == [b"0", b"1", b"2"]


def test_limits_are_shared_out_among_partitions_until_all_is_read(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=4)
    for partition in range(4):
        for _ in range(5 * (partition + 1)):
            queue.publish("orders", b"x", key=f"key-{partition}")
    source = reader(subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="7")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    at, sizes = source.initialOffset(), []
    while (end := source.latestOffset(at, limit)) != at:
        sizes.append(len(values(source, at, end)))
        at = end
    assert sizes == [7] * 7 + [1]


def test_a_run_that_takes_what_is_there_takes_no_more(queue: SyncQueue) -> None:
    queue.publish("orders", b"0")
    source = reader(subscribe="orders", startingOffsets="earliest")
    source.prepareForTriggerAvailableNow()
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    queue.publish("orders", b"1")
    assert values(source, start, end) == [b"0"]
    assert source.latestOffset(end, ALL) == end


def test_topics_that_match_later_are_read_from_their_beginning(queue: SyncQueue) -> None:
    source = reader(subscribePattern="order.*")
    at = source.latestOffset(source.initialOffset(), ALL)
    queue.publish("other", b"no")
    queue.publish("orders", b"0")
    end = source.latestOffset(at, ALL)
    assert values(source, at, end) == [b"0"]
    assert list(end) == ["orders"]


def test_partitions_that_are_added_are_read_from_their_beginning(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1, ordering="none")
    source = reader(subscribe="orders")
    at = source.latestOffset(source.initialOffset(), ALL)
    queue.update_topic("orders", partitions=4)
    for number in range(20):
        queue.publish("orders", b"%02d" % number, key=str(number))
    end = source.latestOffset(at, ALL)
    assert values(source, at, end) == [b"%02d" % number for number in range(20)]
    assert len(end["orders"]) == 5


def test_how_far_behind_files_are_is_reported(queue: SyncQueue, data: Path) -> None:
    queue.create_topic("orders", partitions=1)
    queue.publish("orders", b"0")
    checkpoint(queue)
    queue.publish_many("orders", [b"1", b"2"])
    source = reader(path=str(data), subscribe="orders", startingOffsets="earliest")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    assert values(source, start, end) == [b"0"]
    assert (end["orders"]["0"], source.reportLatestOffset()["orders"]["0"]) == (1, 3)
    checkpoint(queue)
    assert values(source, end, source.latestOffset(end, ALL)) == [b"1", b"2"]


# -- what is lost


def test_retention_that_overtakes(queue: SyncQueue) -> None:
    queue.publish_many("orders", [b"0", b"1"])
    strict = reader(subscribe="orders", startingOffsets="earliest")
    start = strict.initialOffset()
    queue.purge("orders")
    queue.publish("orders", b"2")
    end = strict.latestOffset(start, ALL)
    with pytest.raises(
        DataLostError, match=r"messages 0 to 1 of partition 0 of topic 'orders' were removed.*failOnDataLoss"
    ):
        strict.partitions(start, end)
    assert values(reader(subscribe="orders", failOnDataLoss="false"), start, end) == [b"2"]


@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_one_lost_range_is_told_once(queue: SyncQueue, caplog: pytest.LogCaptureFixture, rows: int) -> None:
    """A limit is not spent on what is gone: all of it lies in one batch."""
    queue.publish_many("orders", [b"gone"] * 10)
    source = reader(subscribe="orders", startingOffsets="earliest", failOnDataLoss="false")
    at, seen = source.initialOffset(), []
    queue.purge("orders")
    queue.publish_many("orders", [b"0", b"1", b"2"])
    while (end := source.latestOffset(at, ReadMaxRows(rows))) != at:
        seen += values(source, at, end)
        at = end
    assert seen == [b"0", b"1", b"2"]
    assert [record.message for record in caplog.records if "messages 0 to 9" in record.message] == caplog.messages
    assert len(caplog.messages) == 1


def test_a_topic_that_comes_to_match_and_was_trimmed_already(queue: SyncQueue) -> None:
    strict, lax = (reader(subscribePattern="order.*", failOnDataLoss=strictly) for strictly in ("true", "false"))
    at = strict.latestOffset(strict.initialOffset(), ALL)
    queue.publish_many("orders", [b"0", b"1"])
    queue.purge("orders")
    queue.publish("orders", b"2")
    end = strict.latestOffset(at, ALL)
    with pytest.raises(DataLostError, match="messages 0 to 1 of partition 0 of topic 'orders' were removed"):
        strict.partitions(at, end)
    assert values(lax, at, end) == [b"2"]


def test_a_topic_that_comes_to_match_beside_one_that_is_read_and_was_trimmed_already(queue: SyncQueue) -> None:
    """A stream that knows some topics, and has read of them, knows nothing of this one."""
    queue.publish("order-1", b"first")
    options = {"subscribePattern": "order.*", "startingOffsets": "earliest"}
    strict, lax = (reader(**options, failOnDataLoss=strictly) for strictly in ("true", "false"))
    start = strict.initialOffset()
    at = strict.latestOffset(start, ALL)
    assert values(strict, start, at) == [b"first"]
    queue.publish_many("order-2", [b"0", b"1"])
    queue.purge("order-2")
    queue.publish("order-2", b"2")
    queue.publish("order-1", b"second")
    end = strict.latestOffset(at, ALL)
    with pytest.raises(DataLostError, match="messages 0 to 1 of partition 0 of topic 'order-2' were removed"):
        strict.partitions(at, end)
    assert sorted(values(lax, at, end)) == [b"2", b"second"]


def test_retention_that_overtakes_a_task(queue: SyncQueue) -> None:
    queue.publish_many("orders", [b"0", b"1"])
    options = {"subscribe": "orders", "startingOffsets": "earliest"}
    strict, lax = reader(**options), reader(**options, failOnDataLoss="false")
    start = strict.initialOffset()
    tasks = strict.partitions(start, strict.latestOffset(start, ALL))
    queue.purge("orders")
    with pytest.raises(DataLostError, match=r"messages 0 to 1 .* while they were read"):
        [list(strict.read(task)) for task in tasks]
    assert [list(lax.read(task)) for task in tasks] == [[]]


def test_a_single_message_that_was_deleted_is_no_loss(queue: SyncQueue) -> None:
    queue.publish_many("orders", [b"0", b"1", b"2"])
    for at in (0, 2):
        queue.delete_message(next(message.id for message in queue.read("orders") if message.offset == at))
    source = reader(subscribe="orders", startingOffsets="earliest")
    start = source.initialOffset()
    assert values(source, start, source.latestOffset(start, ALL)) == [b"1"]


def test_a_topic_that_was_deleted(queue: SyncQueue) -> None:
    queue.publish("orders", b"old")
    options = {"subscribe": "orders", "startingOffsets": "earliest"}
    strict, lax = reader(**options), reader(**options, failOnDataLoss="false")
    start = strict.initialOffset()
    strict.latestOffset(start, ALL)
    queue.delete_topic("orders")
    with pytest.raises(DataLostError, match="there is no topic 'orders'"):
        strict.latestOffset(start, ALL)
    gone = lax.latestOffset(start, ALL)
    assert values(lax, start, gone) == []
    queue.publish("orders", b"new")
    assert values(lax, gone, lax.latestOffset(gone, ALL)) == [b"new"]


def test_a_topic_that_was_deleted_since_its_name_was_looked_up(
    queue: SyncQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_TOPICS_SECONDS", 3600.0)
    queue.publish("orders", b"old")
    lax = reader(subscribe="orders", startingOffsets="earliest", failOnDataLoss="false")
    start = lax.initialOffset()
    lax.latestOffset(start, ALL)
    queue.delete_topic("orders")
    assert lax.latestOffset(start, ALL) == {}


def test_a_topic_that_was_made_again(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=3)
    for number in range(12):
        queue.publish("orders", b"old", key=str(number))
    strict = reader(subscribe="orders", startingOffsets="earliest")
    start = strict.initialOffset()
    (task,) = strict.partitions(start, strict.latestOffset(start, ALL))
    assert isinstance(task, Split)
    queue.delete_topic("orders")
    queue.create_topic("orders", partitions=1)
    queue.publish("orders", b"new")
    end = strict.latestOffset(start, ALL)
    with pytest.raises(DataLostError, match="'orders' was deleted and made again"):
        strict.partitions(start, end)
    for one in task.ranges:  # also of partitions that are not there any more
        with pytest.raises(DataLostError, match="'orders' was deleted and made again while it was read"):
            list(strict.read(Split((one,))))
    assert values(reader(subscribe="orders", failOnDataLoss="false"), start, end) == [b"new"]


def test_a_topic_that_is_gone_while_it_is_read(queue: SyncQueue) -> None:
    queue.publish("orders", b"old")
    strict = reader(subscribe="orders", startingOffsets="earliest")
    start = strict.initialOffset()
    (task,) = strict.partitions(start, strict.latestOffset(start, ALL))
    queue.delete_topic("orders")
    with pytest.raises(DataLostError, match="'orders' was deleted while it was read"):
        list(strict.read(task))


def test_a_topic_not_asked_for_any_more(queue: SyncQueue) -> None:
    queue.publish("a", b"1")
    queue.publish("b", b"2")
    start = reader(subscribe="a,b", startingOffsets="earliest").initialOffset()
    for fewer in (reader(subscribe="a"), reader(subscribePattern="a+")):
        assert values(fewer, start, fewer.latestOffset(start, ALL)) == [b"1"]
    queue.delete_topic("b")
    same = reader(subscribePattern=".")
    with pytest.raises(DataLostError, match="'b' was deleted"):
        same.partitions(start, same.latestOffset(start, ALL))


def test_a_log_that_went_backwards(queue: SyncQueue) -> None:
    """As after a backup was restored: offsets are given a second time, to other messages."""
    queue.publish("orders", b"0")
    strict, lax = reader(subscribe="orders"), reader(subscribe="orders", failOnDataLoss="false")
    end = strict.initialOffset()
    ahead = {"orders": {**end["orders"], "0": 5}}
    with pytest.raises(DataLostError, match="ends at 1, but was read up to 5"):
        strict.latestOffset(ahead, ALL)
    back = lax.latestOffset(ahead, ALL)
    assert (back, values(lax, ahead, back)) == (end, [])


def test_partitions_that_were_never_there(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=2)
    with pytest.raises(InvalidError, match="has partitions 0 to 1, not 2"):
        reader(assign='{"orders": [2]}').initialOffset()
    with pytest.raises(InvalidError, match="has no partition 5 here; it has 0, 1"):
        reader(subscribe="orders", startingOffsets='{"orders": {"5": 0}}').initialOffset()
    with pytest.raises(NotFoundError, match="no topic 'ordre'"):
        reader(subscribe="orders", startingOffsets='{"ordre": {"0": 0}}').initialOffset()


# -- how often the server is asked


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("table", "partitions"), [("messages", 1), ("messages", 16), ("history", 4)])
def test_an_idle_stream_asks_seldom(data: Path, monkeypatch: pytest.MonkeyPatch, table: str, partitions: int) -> None:
    """Spark asks a hundred times a second. After a moment the server hears at most a quarter of that, in all."""
    clock = Clock()
    asked: list[str] = []
    monkeypatch.setattr(stream, "monotonic", clock)
    with ortoo.open_sync(data) as queue:
        queue.create_topic("orders", partitions=partitions)
        monkeypatch.setattr(served, "queue_at", lambda address: Counting(queue, asked))
        source = reader(subscribe="orders", table=table)
        at = source.latestOffset(source.initialOffset(), ALL)
        for tick in range(1100):
            if tick == 100:
                asked.clear()
            clock.now += 0.01
            assert source.latestOffset(at, ALL) == at
            source.reportLatestOffset()
        assert len(asked) <= 25 * 10
        queue.publish_many("orders", [b"x"] * 16)
        queue.lease("orders", max_messages=16)
        waited = clock.now
        while source.latestOffset(at, ALL) == at:
            clock.now += 0.01
        assert clock.now - waited < 0.3, "and yet what is new is seen at once"


class Counting:
    def __init__(self, queue: SyncQueue, asked: list[str]) -> None:
        self._queue = queue
        self._asked = asked

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self._asked.append(name)
        found: Callable[..., Any] = getattr(self._queue, name)
        return found
