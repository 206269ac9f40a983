"""Is a DataFrame written to topics as it is, and exactly once, through a real session and a real server?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import ortoo
from ortoo.model.errors import NotFoundError

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROGRAM = Path(__file__).with_name("sink_program.py")
HEADERS = "array<struct<key:string,value:binary>>"


def write(frame: DataFrame, server: Server, **options: str) -> None:
    frame.write.format("ortoo").mode("append").options(url=server.url, **options).save()


def values(queue: ortoo.SyncQueue, topic: str) -> list[bytes]:
    return sorted(bytes(message.value) for message in queue.read(topic))


def count(queue: ortoo.SyncQueue, topic: str) -> int:
    try:
        return sum(partition.end for partition in queue.topic(topic).partitions)
    except NotFoundError:
        return 0


def test_every_column_arrives(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str) -> None:
    queue.create_topic(topic, partitions=3)
    large = os.urandom(1024 * 1024)
    rows = [
        (b"plain", "k1", [("a", b"1"), ("b", "grün".encode())], 3, 0.0, None, 2),
        (b"", None, [], None, None, 600, None),
        (b"\xff\x00\xfe", "", None, 9, None, None, 0),
        (large, "k2", None, None, None, None, None),
    ]
    schema = f"value binary, key string, headers {HEADERS}, priority int, delay double, ttl int, partition int"
    write(spark.createDataFrame(rows, schema), server, topic=topic)
    found = {bytes(message.value): message for message in queue.read(topic)}
    assert found.keys() == {row[0] for row in rows}
    assert [found[row[0]].key for row in rows] == ["k1", None, "", "k2"]
    assert [found[row[0]].headers or {} for row in rows] == [{"a": "1", "b": "grün"}, {}, {}, {}]
    assert [found[row[0]].priority for row in rows] == [3, 5, 9, 5]
    assert (found[b"plain"].partition, found[b"\xff\x00\xfe"].partition) == (2, 0)


def test_what_is_read_can_be_written(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str) -> None:
    for number in range(20):
        queue.publish(topic, b"\xff%d" % number, key=f"k{number % 3}", headers={"n": str(number)}, priority=number % 4)
    queue.publish(topic, b"", key=None)
    copy = f"{topic}-copy"
    read = spark.read.format("ortoo").options(url=server.url, subscribe=topic).load()
    write(read.drop("offset", "timestamp", "id"), server, topic=copy)

    def told(name: str) -> list[tuple[Any, ...]]:
        found = (
            (message.key or "", bytes(message.value), message.headers, message.priority) for message in queue.read(name)
        )
        return sorted(found, key=str)

    assert told(copy) == told(topic)


@pytest.mark.parametrize(
    "headers",
    ["map('a', '1')", "array(named_struct('key', 'a', 'value', '1'))", f"CAST(array(struct('a', '1')) AS {HEADERS})"],
)
def test_headers_may_be_said_in_several_ways(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, headers: str
) -> None:
    write(spark.sql(f"SELECT 'x' AS value, {headers} AS headers"), server, topic=topic)
    [message] = queue.read(topic)
    assert message.headers == {"a": "1"}


def test_priority_and_delay_take_effect(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str
) -> None:
    frame = spark.sql("""
        SELECT * FROM VALUES
            ('late', 'high', 3600, NULL), ('later', 'high', NULL, timestamp '2035-01-01 00:00:00'),
            ('last', 'low', NULL, NULL), ('first', 'high', NULL, NULL), ('second', NULL, NULL, timestamp '2020-01-01 00:00:00')
        AS (value, priority, delay, deliver_at)
    """)
    write(frame, server, topic=topic)
    leased = [bytes(message.value) for _ in range(3) for message in queue.lease(topic, auto_ack=True)]
    assert leased == [b"first", b"second", b"last"]
    assert queue.lease(topic) == []
    assert count(queue, topic) == 5


def test_each_row_may_name_its_topic(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str) -> None:
    frame = spark.range(30).selectExpr("CAST(id AS STRING) AS value", f"concat('{topic}-', id % 3) AS topic")
    write(frame, server)
    for number in range(3):
        assert len(values(queue, f"{topic}-{number}")) == 10
    write(frame, server, topic=topic)
    assert len(values(queue, topic)) == 30


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (["CAST(id AS STRING) AS value", "id AS prioritty"], "did you mean 'priority'?"),
        (["struct(id) AS value"], "to_json(struct(*))"),
        (["id AS value"], "CAST(value AS STRING)"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused_before_the_first_row(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, columns: list[str], why: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        write(spark.range(10).selectExpr(*columns), server, topic=topic)
    assert why in str(caught.value)
    assert count(queue, topic) == 0


def test_a_bad_row_fails_the_write_as_a_whole(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str
) -> None:
    frame = spark.range(0, 1000, 1, 2).selectExpr("IF(id = 999, NULL, CAST(id AS STRING)) AS value", "'k' AS key")
    with pytest.raises(PySparkException, match="value is null in a row"):
        write(frame, server, topic=topic)
    assert count(queue, topic) == 0


def test_overwriting_is_refused(spark: SparkSession, server: Server, topic: str) -> None:
    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(PySparkException, match="never overwritten"):
        frame.write.format("ortoo").mode("overwrite").options(url=server.url, topic=topic).save()


def test_a_server_that_is_away_fails_the_write_with_the_reason(spark: SparkSession, topic: str) -> None:
    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(PySparkException, match=r"no Ortoo server at 127\.0\.0\.1:9"):
        frame.write.format("ortoo").mode("append").options(url="ortoo://127.0.0.1:9", topic=topic, timeout="1").save()


# -- streams


def files(directory: Path, count: int, rows: int) -> None:
    """Parquet files of numbers, which a stream takes one by one."""
    for number in range(count):
        values = [str(number * rows + row) for row in range(rows)]
        (directory / "in").mkdir(exist_ok=True)
        pq.write_table(pa.table({"value": values}), directory / "in" / f"{number:04}.parquet")


def numbered(stop: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(stop))


@pytest.fixture
def run_stream(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> Callable[[], None]:
    """From the test's files to its topic, until all that is there has been taken."""

    def run() -> None:
        frame = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/in")
        writer = frame.writeStream.format("ortoo").options(url=server.url, topic=topic).queryName(topic)
        query = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()

    return run


def test_a_stream_goes_on_where_it_ended(
    run_stream: Callable[[], None], queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    files(tmp_path, 2, rows=50)
    run_stream()
    assert values(queue, topic) == numbered(100)
    files(tmp_path, 3, rows=50)
    run_stream()
    assert values(queue, topic) == numbered(150)


def test_a_batch_that_spark_forgot_is_not_written_again(
    run_stream: Callable[[], None], queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    """As when the driver dies between the commit in the queue and the one in the checkpoint."""
    files(tmp_path, 3, rows=50)
    run_stream()
    for name in ("commits/2", "commits/.2.crc"):
        (tmp_path / "checkpoint" / name).unlink(missing_ok=True)
    run_stream()
    assert values(queue, topic) == numbered(150)


def test_a_batch_that_fails_after_its_write_is_written_once(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    """Three sinks, of which the last one fails at first: the batch is tried again as a whole."""
    files(tmp_path, 2, rows=50)
    failures: list[int] = []

    def both(frame: DataFrame, batch: int) -> None:
        for name in (topic, f"{topic}-too"):
            write(frame, server, topic=name, txnAppId=topic, txnVersion=str(batch))
        if batch == 1 and not failures:
            failures.append(batch)
            raise RuntimeError("the last sink fails")
        frame.write.mode("append").parquet(f"{tmp_path}/out")

    frame = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/in")
    writer = frame.writeStream.foreachBatch(both).option("checkpointLocation", f"{tmp_path}/checkpoint")
    with pytest.raises(PySparkException, match="the last sink fails"):
        writer.trigger(availableNow=True).start().awaitTermination()
    writer.trigger(availableNow=True).start().awaitTermination()
    assert failures == [1]
    assert values(queue, topic) == values(queue, f"{topic}-too") == numbered(100)


def test_a_stream_that_would_overwrite_is_refused(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    files(tmp_path, 1, rows=5)
    frame = spark.readStream.schema("value string").parquet(f"{tmp_path}/in").groupBy("value").count().select("value")
    writer = frame.writeStream.format("ortoo").outputMode("complete").options(url=server.url, topic=topic)
    with pytest.raises(PySparkException, match=r"use \.outputMode\('append'\)"):
        writer.option("checkpointLocation", f"{tmp_path}/checkpoint").start().awaitTermination()


# -- failures that need a process of their own


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Ends with all that it started, Java and its workers."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


@pytest.mark.timeout(1800)
def test_tasks_that_fail_once_neither_lose_nor_double_a_row(server: Server, queue: ortoo.SyncQueue, topic: str) -> None:
    """One raises, one is killed with its process, one yields its rows in another order when it is tried again."""
    with program("tasks", server.url, topic) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()[-3000:]
    for how in ("raise", "kill", "reorder"):
        assert values(queue, f"{topic}-{how}") == numbered(1000)
    assert "first attempt to raise fails on purpose" in errors.decode()
    assert "first attempt to reorder fails on purpose" in errors.decode()


@pytest.mark.timeout(1800)
def test_a_stream_killed_in_the_middle_writes_each_row_once(
    run_stream: Callable[[], None], server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    batches, rows = 6, 500
    files(tmp_path, batches, rows)
    seen: set[int] = set()
    with program("stream", server.url, topic, str(tmp_path)) as process:
        while max(seen, default=0) < 3 * rows:
            seen.add(count(queue, topic))
            assert process.poll() is None
            time.sleep(0.005)
    run_stream()
    assert values(queue, topic) == numbered(batches * rows)
    assert {now % rows for now in seen} == {0}  # never half a batch
    assert len(seen) > 2
