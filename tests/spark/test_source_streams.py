"""Streams on a real session: where they begin, how they go on, and what ends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

import ortoo
from ortoo.pipeline.spark.starting import start_query

from .reading import Stream
from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish(queue: ortoo.SyncQueue, topic: str, *numbers: int) -> list[bytes]:
    values = [b"%04d" % number for number in numbers]
    for value in values:
        queue.publish(topic, value, key=value.decode())
    return values


def test_what_is_there_in_limited_batches_then_what_came_since(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    """Ended, and begun again from its checkpoint; meanwhile there are more partitions. Spark never commits a last batch."""
    queue.create_topic(topic, partitions=3, ordering="none")
    first = publish(queue, topic, *range(60))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "25"}
    stream = Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    assert [len(rows) for rows in stream.batches.values()] == [25, 25, 10]
    assert stream.values == first
    assert all(len({row.partition for row in rows}) == 3 for rows in stream.batches.values()), "shared out"
    queue.update_topic(topic, partitions=5)
    second = publish(queue, topic, *range(60, 100))
    again = Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    assert again.values == second
    assert {row.partition for row in again.rows} == set(range(5))
    assert Stream(spark, server.url, tmp_path / "checkpoint", **options).run().rows == []


def test_a_stream_is_started_once_its_source_is_there(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    """Spark must not prepare two of them at the same time."""
    publish(queue, topic, 0)
    frame = spark.readStream.format("ortoo").option("url", server.url).option("subscribe", topic).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = start_query(writer)
    try:
        assert query.isActive
        assert "Initializing" not in query.status["message"]
    finally:
        query.stop()


def test_a_stream_from_now_on_loses_nothing_makes_no_empty_batches_and_sees_new_topics(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    publish(queue, f"{topic}-a", 0)
    stop, sent = threading.Event(), []

    def produce() -> None:
        number = 1
        while not stop.is_set():
            sent.extend(publish(queue, f"{topic}-a", number))
            number += 1
            sleep(0.01)

    producer = threading.Thread(target=produce)
    stream = Stream(spark, server.url, tmp_path / "checkpoint", subscribePattern=f"{topic}-.*")
    with stream.running():
        producer.start()
        stream.wait(lambda: len(stream.rows) > 20)
        stop.set()
        producer.join()
        stream.wait(lambda: stream.values[-1:] == sent[-1:])
        assert stream.values == sent[sent.index(stream.values[0]) :], "all since the first one that it has"
        late = publish(queue, f"{topic}-b", 9999)
        stream.wait(lambda: stream.values[-1:] == late)
        stream.query.processAllAvailable()
        batches = len(stream.batches)
        ended = monotonic() + 1.5  # an idle while
        while monotonic() < ended:
            sleep(0.05)
        assert len(stream.batches) == batches
        assert stream.query.lastProgress is not None
        (source,) = stream.query.lastProgress.sources
        end = json.loads(source.endOffset)
        assert sorted(end) == [f"{topic}-a", f"{topic}-b"]
        assert json.loads(source.latestOffset) == end


def test_a_crash_in_the_first_batch_of_a_stream_from_now_on(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    publish(queue, topic, 0)
    frame = spark.readStream.format("ortoo").options(url=server.url, subscribe=topic).load()

    def fail(batch: object, number: int) -> None:
        publish(queue, topic, 1)
        raise RuntimeError("as a crash would")

    query = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    while query.isActive:
        sleep(0.05)
    stream = Stream(spark, server.url, tmp_path / "checkpoint", subscribe=topic)
    with stream.running():
        late = publish(queue, topic, 2)
        stream.wait(lambda: stream.values[-1:] == late)
        assert stream.values == [b"0001", b"0002"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOfsets": "earliest"}, "is not an option of the format 'ortoo'; did you mean 'startingOffsets'?"),
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is for batch reads only"),
    ],
)
def test_a_wrong_option_is_the_last_line(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path, options: dict[str, str], words: str
) -> None:
    stream = Stream(spark, server.url, tmp_path / "checkpoint", subscribe=topic, **options)
    stream.start(availableNow=True)
    assert words in stream.failure()


def test_a_topic_that_comes_to_match_after_a_crash_in_the_first_batch(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    queue.publish(f"{topic}-a", b"a")
    options = {"subscribePattern": f"{topic}.*", "startingOffsets": "earliest"}
    Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    for name in ("commits/0", "commits/.0.crc"):
        (tmp_path / "checkpoint" / name).unlink(missing_ok=True)
    queue.publish(f"{topic}-b", b"b")
    assert Stream(spark, server.url, tmp_path / "checkpoint", **options).run().values == [b"a", b"b"]


def test_retention_that_overtakes_fails_the_query_or_not(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    queue.create_topic(topic, partitions=1)
    publish(queue, topic, 0)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    publish(queue, topic, 1, 2)
    queue.purge(topic)
    kept = publish(queue, topic, 3)
    strict = Stream(spark, server.url, tmp_path / "checkpoint", **options)
    strict.start(availableNow=True)
    assert "messages 1 to 2 of partition 0" in strict.failure()
    lax = Stream(spark, server.url, tmp_path / "checkpoint", **options, failOnDataLoss="false").run()
    assert lax.values == kept


def test_a_topic_deleted_and_made_again_fails_the_query_or_not(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    publish(queue, topic, 0)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    queue.delete_topic(topic)
    gone = Stream(spark, server.url, tmp_path / "checkpoint", **options)
    gone.start(availableNow=True)
    assert f"there is no topic '{topic}'" in gone.failure()
    lax = Stream(spark, server.url, tmp_path / "checkpoint", **options, failOnDataLoss="false")
    with lax.running():
        made = publish(queue, topic, 1)
        lax.wait(lambda: lax.values == made)


def test_a_history_is_followed(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    queue.create_topic(topic, partitions=1)
    options = {"subscribe": topic, "table": "history", "startingOffsets": "earliest"}
    publish(queue, topic, 0, 1)
    queue.ack(queue.lease(topic))
    first = Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    assert [row.event for row in first.rows] == ["delivered", "acknowledged"]
    queue.reject(queue.lease(topic), error="no")
    second = Stream(spark, server.url, tmp_path / "checkpoint", **options).run()
    assert [(row.event, row.error) for row in second.rows] == [("delivered", None), ("dead-lettered", "no")]
    letters = Stream(spark, server.url, tmp_path / "letters", **{**options, "table": "dead_letters"}).run()
    assert [(row.origin_group, row.error) for row in letters.rows] == [("default", "no")]


def test_a_server_that_is_away_for_a_while_and_for_too_long(
    spark: SparkSession, start_server: Callable[[], Server], tmp_path: Path
) -> None:
    server = start_server()
    with ortoo.connect_sync(server.url) as queue:
        publish(queue, "orders", 0)
    options = {"subscribe": "orders", "startingOffsets": "earliest"}
    stream = Stream(spark, server.url, tmp_path / "checkpoint", **options, timeout="300")
    impatient = Stream(spark, server.url, tmp_path / "impatient", **options, timeout="0.5")
    with stream.running(), impatient.running():
        stream.wait(lambda: bool(stream.rows) and bool(impatient.rows))
        server.kill()
        words = impatient.failure()
        assert "Unavailable" in words
        assert str(server.port) in words
        server.start()
        with ortoo.connect_sync(server.url) as queue:
            late = publish(queue, "orders", 1)
        stream.wait(lambda: stream.values[-1:] == late)
        assert stream.values == [b"0000", b"0001"]
    after = Stream(spark, server.url, tmp_path / "impatient", **options, timeout="0.5").run()
    assert after.values == late


def test_files_are_followed_and_how_far_behind_they_are_is_told(
    spark: SparkSession, start_server: Callable[[], Server], tmp_path: Path
) -> None:
    server = start_server()
    mebibyte = bytes(1 << 20)
    with ortoo.connect_sync(server.url) as queue:
        queue.create_topic("large", partitions=1)
        queue.publish_many("large", [mebibyte] * 20)
        queue.publish_many("large", [mebibyte] * 20)
        options = {"path": str(server.data), "subscribe": "large", "startingOffsets": "earliest"}
        queue.publish_many("large", [b"small"] * 3)  # the commit that finds the checkpoint due
        while not list(server.data.glob("checkpoint/*.ckpt")):
            sleep(0.02)
        queue.publish_many("large", [b"smaller"] * 2)
        stream = Stream(spark, "", tmp_path / "checkpoint", **options).run()
        progress = next(one for one in stream.query.recentProgress if one.numInputRows)
        (source,) = progress.sources
        there = json.loads(source.endOffset)["large"]["0"]
        assert len(stream.rows) == there >= 40
        assert json.loads(source.latestOffset)["large"]["0"] == 45
        assert there < 45
