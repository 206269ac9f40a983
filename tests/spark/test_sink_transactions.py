"""Is each row written exactly once, whatever order Spark calls the writer in? It is called here as Spark would, by hand."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

import ortoo
from ortoo.model import limits
from ortoo.model.errors import FullError, InvalidError, NotFoundError, OrtooError, TooManyError, UnavailableError
from ortoo.pipeline import connection
from ortoo.pipeline.sink import writer as writers
from ortoo.pipeline.sink.staging import Written

from .serving import Server

SCHEMA = StructType([StructField("value", StringType())])
QUERY = "0a1b2c3d-query"
Rows = Iterable[str]


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[ortoo.SyncQueue]:
    """In memory; the writers use it in the place of a server."""
    with ortoo.open_sync() as opened:
        monkeypatch.setattr(writers, "queue_at", lambda address: opened)
        yield opened


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What Spark tells a task of itself."""

    def enter(partition: int = 0, attempt: int = 0, batch: int | None = 0, query: str | None = QUERY) -> None:
        context = TaskContext()
        context._partitionId, context._attemptNumber = partition, attempt
        context._localProperties = {}
        if query is not None:
            context._localProperties["sql.streaming.queryId"] = query
        if batch is not None:
            context._localProperties["streaming.sql.batchId"] = str(batch)
        monkeypatch.setattr(TaskContext, "_taskContext", context)

    enter()
    return enter


@pytest.fixture(autouse=True)
def _connections_closed(start_server: Callable[[], Server]) -> Iterator[None]:
    """Before the servers are."""
    yield
    while connection._open:
        connection._open.popitem()[1].close()


def arrow(rows: Rows, size: int = 10) -> Iterator[pa.RecordBatch]:
    gathered: list[str] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) == size:
            yield pa.RecordBatch.from_arrays([pa.array(gathered)], names=["value"])
            gathered = []
    if gathered:
        yield pa.RecordBatch.from_arrays([pa.array(gathered)], names=["value"])


def stream(**options: str) -> writers.StreamWriter:
    """Another each time, as Spark has another each time it asks."""
    made = writers.stream_writer(SCHEMA, {"topic": "out", **options}, overwrite=False)
    assert isinstance(made, writers.StreamWriter)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


def batch(**options: str) -> writers.BatchWriter:
    made = writers.batch_writer(SCHEMA, {"topic": "out", **options}, overwrite=False)
    assert isinstance(made, writers.BatchWriter)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


def by_row() -> writers.BatchWriter:
    """A named batch write whose rows name their topics."""
    schema = StructType([*SCHEMA.fields, StructField("topic", StringType())])
    made = writers.batch_writer(schema, {"txnAppId": "report", "txnVersion": "1"}, overwrite=False)
    assert isinstance(made, writers.BatchWriter)
    return made


def rows_of(topics: dict[str, list[str]]) -> Iterator[pa.RecordBatch]:
    rows = [(value, topic) for topic, values in topics.items() for value in values]
    random.Random(1).shuffle(rows)
    for start in range(0, len(rows), 7):
        values, names = zip(*rows[start : start + 7], strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(values), pa.array(names)], names=["value", "topic"])


def numbers(start: int, stop: int) -> list[str]:
    return [str(number) for number in range(start, stop)]


def written(queue: ortoo.SyncQueue, topic: str = "out") -> list[int]:
    try:
        return sorted(int(message.value) for message in queue.read(topic))
    except NotFoundError:
        return []


def failing(rows: list[str], after: int) -> Iterator[str]:
    yield from rows[:after]
    raise RuntimeError("the task dies")


# -- one commit


def test_rows_are_seen_at_the_commit_and_not_before(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    one = stream().write(arrow(numbers(0, 35)))
    in_task(partition=1)
    two = stream().write(arrow(numbers(35, 50)))
    assert (one.rows, two.rows) == (35, 15)
    assert written(queue) == []
    stream().commit([one, two], 0)
    assert written(queue) == list(range(50))
    assert queue.stats().transactions == 0


def test_a_reader_never_sees_half_a_batch(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    seen: set[int] = set()
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            seen.add(len(written(queue)) % 500)

    watcher = threading.Thread(target=poll)
    watcher.start()
    try:
        for number in range(10):
            messages: list[WriterCommitMessage | None] = []
            for partition in range(2):
                in_task(partition, batch=number)
                messages.append(stream().write(arrow(numbers(0, 250), size=20)))
            stream().commit(messages, number)
    finally:
        done.set()
        watcher.join()
    assert seen == {0}
    assert len(written(queue)) == 5000


def test_empty_batches_leave_no_trace(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    empty = stream().write(arrow([]))
    assert empty == Written((), empty.part, 0, 0)
    stream().commit([empty], 0)
    stream().commit([], 1)
    assert queue.topics() == []
    assert queue.stats().transactions == 0


def test_the_order_within_a_task_is_kept(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    queue.create_topic("out", partitions=1)
    stream().commit([stream().write(arrow(numbers(0, 1000), size=7))], 0)
    assert [int(message.value) for message in queue.read("out")] == list(range(1000))


def test_a_batch_write_is_committed_once(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    in_task(batch=None, query=None)
    first, second = batch(), batch()
    first.commit([first.write(arrow(numbers(0, 10)))])
    second.commit([second.write(arrow(numbers(10, 20)))])
    assert written(queue) == list(range(20))


# -- attempts of tasks


def test_what_a_failed_attempt_staged_does_not_count(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError, match="dies"):
        stream().write(arrow(failing(numbers(0, 100), after=50)))
    in_task(attempt=1)
    good = stream().write(arrow(numbers(0, 100)))
    stream().commit([good], 0)
    assert written(queue) == list(range(100))


def test_a_retried_task_may_yield_its_rows_in_another_order(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    with pytest.raises(RuntimeError, match="dies"):
        stream().write(arrow(failing(numbers(0, 100), after=70)))
    in_task(attempt=1)
    good = stream().write(arrow(numbers(0, 100)[::-1]))
    stream().commit([good], 0)
    assert written(queue) == list(range(100))


def test_of_two_attempts_at_a_time_one_counts(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    """Even when Spark gives both the same number, as it does when a stage is run again."""
    slow, quick = stream().write(arrow(numbers(0, 100))), stream().write(arrow(numbers(0, 100)))
    assert slow.part != quick.part
    stream().commit([quick], 0)
    assert written(queue) == list(range(100))


def test_a_straggler_that_writes_after_the_commit_changes_nothing(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    good = stream().write(arrow(numbers(0, 20)))

    def slow() -> Iterator[str]:
        yield from numbers(0, 10)
        stream().commit([good], 0)
        yield from numbers(10, 20)

    with pytest.raises(UnavailableError, match="was committed while its rows were written"):
        stream().write(arrow(slow()))
    assert written(queue) == list(range(20))


# -- batches that are replayed


def test_a_batch_that_was_committed_is_not_written_again(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    """Spark died before its checkpoint knew."""
    stream().commit([stream().write(arrow(numbers(0, 20)))], 0)
    drained: list[str] = []

    def rows() -> Iterator[str]:
        for row in numbers(0, 20):
            drained.append(row)
            yield row

    again = stream().write(arrow(rows()))
    assert again == Written((), again.part, 20, 0)
    assert len(drained) == 20
    stream().commit([again], 0)
    assert written(queue) == list(range(20))


def test_the_next_batch_is_another(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    for number in range(3):
        in_task(batch=number)
        stream().commit([stream().write(arrow(numbers(10 * number, 10 * number + 10)))], number)
    in_task(batch=0, query="another-query")
    stream().commit([stream().write(arrow(numbers(30, 40)))], 0)
    assert written(queue) == list(range(40))


@pytest.mark.parametrize("times", [1, 3])
def test_a_batch_that_was_aborted_may_be_replayed(
    queue: ortoo.SyncQueue, in_task: Callable[..., None], times: int
) -> None:
    for _ in range(times):
        stream().abort([stream().write(arrow(numbers(0, 20))), None], 0)
        assert queue.stats().transactions == 0
    stream().commit([stream().write(arrow(numbers(0, 20)))], 0)
    stream().commit([stream().write(arrow(numbers(0, 20)))], 0)
    assert written(queue) == list(range(20))


def test_a_batch_of_which_every_task_failed_may_be_replayed(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    with pytest.raises(RuntimeError):
        stream().write(arrow(failing(numbers(0, 20), after=10)))
    stream().abort([None], 0)
    stream().commit([stream().write(arrow(numbers(0, 20)))], 0)
    assert written(queue) == list(range(20))
    assert queue.stats().transactions == 0  # what the failed one left behind went with it


def test_an_abort_after_a_commit_whose_answer_was_lost_takes_nothing_back(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    message = stream().write(arrow(numbers(0, 20)))
    stream().commit([message], 0)
    stream().abort([message], 0)
    stream().commit([stream().write(arrow(numbers(0, 20)))], 0)
    assert written(queue) == list(range(20))


def test_a_commit_that_is_repeated_is_one(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    message = stream().write(arrow(numbers(0, 20)))
    stream().commit([message], 0)
    stream().commit([message], 0)
    assert written(queue) == list(range(20))


def test_a_transaction_that_ended_meanwhile_fails_the_batch_as_a_whole(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    """It timed out between two tasks: what the first one staged is gone, so the second one's rows must not count either."""
    first = stream().write(arrow(numbers(0, 10)))
    [(_, name)] = first.transactions
    queue.named(name).abort()  # as when its time is up
    second = stream().write(arrow(numbers(10, 20)))
    with pytest.raises(UnavailableError, match=r"ended while tasks were writing.*maxOffsetsPerTrigger"):
        stream().commit([first, second], 0)
    with pytest.raises(UnavailableError, match="timed out before it was committed"):
        stream().commit([first], 0)
    assert written(queue) == []
    stream().abort([first, second], 0)
    stream().commit([stream().write(arrow(numbers(0, 20)))], 0)
    assert written(queue) == list(range(20))


def test_a_transaction_that_ends_under_a_task_fails_the_task(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    def rows() -> Iterator[str]:
        yield from numbers(0, 10)
        queue.named(f"spark-query-{QUERY}-0.0").abort()
        yield from numbers(10, 20)

    with pytest.raises(UnavailableError, match=r"timed out while its rows were written.*maxOffsetsPerTrigger"):
        stream().write(arrow(rows()))


def test_a_batch_with_no_room_is_written_once_there_is(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    queue.create_topic("out", max_depth=10)
    message = stream().write(arrow(numbers(0, 10)))
    queue.publish("out", b"99")
    with pytest.raises(FullError, match="max_depth"):
        stream().commit([message], 0)
    stream().abort([message], 0)
    queue.ack(queue.lease("out"))
    stream().commit([stream().write(arrow(numbers(0, 10)))], 0)
    assert written(queue) == [*range(10), 99]


# -- a named batch write


def test_a_named_batch_write_happens_once(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    for version in ("1", "1", "2", "1"):
        named = batch(txnAppId="report", txnVersion=version)
        named.commit([named.write(arrow([version]))])
    assert written(queue) == [1, 2]


def test_a_named_batch_write_may_be_tried_again(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    first = batch(txnAppId="report", txnVersion="1")
    first.abort([first.write(arrow(numbers(0, 10)))])
    second = batch(txnAppId="report", txnVersion="1")
    second.commit([second.write(arrow(numbers(0, 10)))])
    assert written(queue) == list(range(10))


def test_the_same_name_writes_each_of_several_topics(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    """A batch of a stream that is written to two topics, as `foreachBatch` is used with Delta; and all of it once more."""
    for _ in range(2):
        for topic in ("ta", "tb"):
            named = batch(topic=topic, txnAppId="report", txnVersion="1")
            named.commit([named.write(arrow(numbers(0, 100)))])
    assert written(queue, "ta") == written(queue, "tb") == list(range(100))


def test_the_same_name_writes_each_topic_that_rows_name(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    for _ in range(2):
        for topics in (("ta", "tb"), ("tc", "td")):
            named = by_row()
            named.commit([named.write(rows_of(dict.fromkeys(topics, numbers(0, 10))))])
    assert [written(queue, topic) for topic in ("ta", "tb", "tc", "td")] == [list(range(10))] * 4


def test_a_topic_is_the_same_one_whether_rows_name_it_or_the_option(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    first = batch(topic="ta", txnAppId="report", txnVersion="1")
    first.commit([first.write(arrow(numbers(0, 10)))])
    again = by_row()
    again.commit([again.write(rows_of({"ta": numbers(0, 10), "tb": numbers(0, 10)}))])
    assert written(queue, "ta") == written(queue, "tb") == list(range(10))


def test_a_crash_between_the_topics_of_a_named_write_is_made_up_for(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    queue.create_topic("tb", max_depth=15)
    queue.publish_many("tb", [b"99"] * 10)
    named = by_row()
    message = named.write(rows_of({topic: numbers(0, 10) for topic in ("ta", "tb", "tc")}))
    with pytest.raises(FullError):
        named.commit([message])
    named.abort([message])
    queue.purge("tb")
    for _ in range(2):
        named = by_row()
        named.commit([named.write(rows_of({topic: numbers(0, 10) for topic in ("ta", "tb", "tc")}))])
    assert [written(queue, topic) for topic in ("ta", "tb", "tc")] == [list(range(10))] * 3
    assert queue.stats().transactions == 0


def test_names_that_look_alike_are_different(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    for app, version, topic in (("a", "1", "1-t"), ("a-1", "1", "t"), ("a", "11", "t"), ("a", "1", "t")):
        named = batch(topic=topic, txnAppId=app, txnVersion=version)
        named.commit([named.write(arrow(["1"]))])
    assert (written(queue, "1-t"), written(queue, "t")) == ([1], [1, 1, 1])


def test_a_name_fits_whatever_the_topic_is_called(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    long = "t" * 255
    named = batch(topic=long, txnAppId="a" * 150, txnVersion="1")
    named.commit([named.write(arrow(["1"]))])
    assert written(queue, long) == [1]
    with pytest.raises(InvalidError, match="txnAppId"):
        batch(txnAppId="a" * 250, txnVersion="1")


# -- refusals


def test_too_large_a_write_says_what_to_do_and_leaves_nothing(
    queue: ortoo.SyncQueue, in_task: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSACTION_MESSAGES_MAX", 100)
    with pytest.raises(TooManyError, match=r"at most 100 messages.*maxOffsetsPerTrigger"):
        stream().write(arrow(numbers(0, 150)))
    with pytest.raises(TooManyError, match=r"at most 100 messages.*write less at a time"):
        batch().write(arrow(numbers(0, 150)))
    assert queue.stats().transactions == 0
    stream().commit([stream().write(arrow(numbers(0, 100)))], 0)
    assert written(queue) == list(range(100))


def test_what_dead_attempts_left_behind_does_not_block_for_long(
    queue: ortoo.SyncQueue, in_task: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSACTION_MESSAGES_MAX", 100)
    stream().write(arrow(numbers(0, 60)))  # and then the driver is killed
    with pytest.raises(TooManyError):
        stream().write(arrow(numbers(0, 60)))
    stream().commit([stream().write(arrow(numbers(0, 60)))], 0)
    assert written(queue) == list(range(60))


def test_a_bad_row_is_refused(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    rows: Any = ["1", None]
    with pytest.raises(InvalidError, match="value is null"):
        stream().write(arrow(rows))
    assert written(queue) == []


def test_overwriting_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"use \.mode\('append'\)"):
        writers.batch_writer(SCHEMA, {"topic": "out"}, overwrite=True)
    with pytest.raises(InvalidError, match=r"use \.outputMode\('append'\)"):
        writers.stream_writer(SCHEMA, {"topic": "out"}, overwrite=True)


def test_a_topic_that_is_not_made_by_first_use_is_missed_by_its_name(
    in_task: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ortoo.open_sync(auto_create=False) as opened:
        monkeypatch.setattr(writers, "queue_at", lambda address: opened)
        with pytest.raises(NotFoundError, match="no topic 'out'"):
            stream().write(arrow(["1"]))


def test_a_task_that_does_not_know_its_query_writes_nothing(
    queue: ortoo.SyncQueue, in_task: Callable[..., None]
) -> None:
    in_task(batch=None)
    with pytest.raises(InvalidError, match="does not know its streaming query"):
        stream().write(arrow(["1"]))


def test_a_commit_of_another_batch_is_refused(queue: ortoo.SyncQueue, in_task: Callable[..., None]) -> None:
    message = stream().write(arrow(["1"]))
    with pytest.raises(InvalidError, match="rows of batch 0, and Spark commits batch 1"):
        stream().commit([message], 1)


# -- a real server


def test_staged_rows_outlive_a_server_that_is_killed(
    start_server: Callable[[], Server], in_task: Callable[..., None]
) -> None:
    server = start_server()
    message = stream(url=server.url).write(arrow(numbers(0, 1000)))
    server.kill()
    server.start()
    stream(url=server.url).commit([message], 0)
    with ortoo.connect_sync(server.url) as queue:
        assert written(queue) == list(range(1000))


def test_a_commit_that_fails_is_made_up_for_by_the_replay(
    start_server: Callable[[], Server], in_task: Callable[..., None]
) -> None:
    server = start_server()
    options = {"url": server.url, "timeout": "0.2"}
    message = stream(**options).write(arrow(numbers(0, 100)))
    server.kill()
    with pytest.raises(OrtooError):
        stream(**options).commit([message], 0)
    stream(**options).abort([message], 0)  # in vain, and without an error that would hide the first
    server.start()
    for _ in range(2):
        stream(url=server.url).commit([stream(url=server.url).write(arrow(numbers(0, 100)))], 0)
    with ortoo.connect_sync(server.url) as queue:
        assert written(queue) == list(range(100))
        assert queue.stats().transactions == 0


def test_an_abort_without_a_server_hides_no_other_error() -> None:
    stream(url="ortoo://127.0.0.1:9").abort([Written((("job", "job.0"),), "part", 1, 0), None], 0)


def test_a_connection_is_kept_for_the_next_batch(
    start_server: Callable[[], Server], in_task: Callable[..., None]
) -> None:
    server = start_server()
    stream(url=server.url).commit([stream(url=server.url).write(arrow(["1"]))], 0)
    in_task(batch=1)
    stream(url=server.url).commit([stream(url=server.url).write(arrow(["2"]))], 1)
    with ortoo.connect_sync(server.url) as queue:
        assert written(queue) == [1, 2]
    assert [address.url for _, address in connection._open] == [server.url]
