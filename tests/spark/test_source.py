"""Batch reads on a real session: every option, every column, every table, through the server and from its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ortoo

from .reading import reason, table
from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

MEBIBYTE = 1024 * 1024
TOPIC, LARGE = "source-orders", "source-large"


@pytest.fixture(scope="module")
def sent(queue: ortoo.SyncQueue) -> list[ortoo.Received]:
    """A topic of 3 partitions with 300 messages of all kinds, as the queue itself reads them."""
    queue.create_topic(TOPIC, partitions=3, max_attempts=1)
    for at in range(0, 300, 10):
        for number in range(at, at + 9):
            headers = {f"h{index}": f"ü{index}" for index in range(number % 3)} or None
            key = None if number % 2 else f"key-{number % 7}"
            queue.publish(TOPIC, b"\xff\xfe%d" % number, key=key, headers=headers, priority=number % 10)
        queue.publish(TOPIC, {"number": at} if at % 20 else b"")
    return list(queue.read(TOPIC))


@pytest.fixture(scope="module")
def lived(queue: ortoo.SyncQueue, sent: list[ortoo.Received]) -> list[Any]:
    """Some of them are delivered, done, failed and given up."""
    batch = queue.lease(TOPIC, group="workers", max_messages=30, consumer="w1")
    queue.ack(batch[:10])
    queue.nack(batch[10:12], error="broken")  # its only attempt
    queue.reject(batch[12:14], error="hopeless")
    queue.release(batch[14:])
    return [event for index in range(3) for some in queue.read_history(TOPIC, partition=index) for event in some]


@pytest.fixture(scope="module")
def large(queue: ortoo.SyncQueue) -> str:
    """Enough to make the server write a checkpoint; what comes after it is in its write-ahead log only."""
    queue.create_topic(LARGE, partitions=1)
    for number in range(45):
        queue.publish(LARGE, bytes([number]) * MEBIBYTE)
    return LARGE


@pytest.fixture
def orders(spark: SparkSession, server: Server, sent: list[ortoo.Received]) -> DataFrame:
    return table(spark, server.url, subscribe=TOPIC)


def ids(rows: list[Row]) -> list[str]:
    return sorted(row.id for row in rows)


def as_dict(message: ortoo.Received) -> dict[str, Any]:
    value = message.value
    return {
        "key": None if message.key is None else message.key.encode(),
        "value": value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode(),
        "topic": TOPIC,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": datetime.fromtimestamp(message.timestamp, UTC).replace(tzinfo=None),
        "headers": [{"key": name, "value": text.encode()} for name, text in message.headers.items()] or None,
        "priority": message.priority,
        "id": message.id,
        "publisher": message.publisher,
    }


# -- columns


def test_every_column_of_every_message(orders: DataFrame, sent: list[ortoo.Received]) -> None:
    found = {row["id"]: row for row in (row.asDict(recursive=True) for row in orders.collect())}
    assert len(found) == len(sent) == 300
    for message in sent:
        row = found[message.id]
        row["timestamp"] = datetime.fromtimestamp(row["timestamp"].timestamp(), UTC).replace(tzinfo=None)
        assert row == as_dict(message)


def test_the_types_are_those_of_the_kafka_source_where_it_has_the_column(orders: DataFrame) -> None:
    assert orders.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "headers:array<struct<key:string,value:binary>>,priority:int,id:string,publisher:string>"
    )


def test_headers_can_be_left_out(spark: SparkSession, server: Server, sent: list[ortoo.Received]) -> None:
    frame = table(spark, server.url, subscribe=TOPIC, includeHeaders="false")
    assert "headers" not in frame.columns
    assert frame.count() == 300


def test_a_schema_chooses_columns(spark: SparkSession, server: Server, sent: list[ortoo.Received]) -> None:
    reader = spark.read.format("ortoo").options(url=server.url, subscribe=TOPIC)
    rows = reader.schema("offset bigint, json boolean, partition int").load().collect()
    assert rows[0].__fields__ == ["offset", "json", "partition"]
    assert sum(row.json for row in rows) == 15
    assert "table 'messages' has no column 'ofset'; did you mean 'offset'?" in reason(
        reader.schema("ofset bigint").load().collect
    )
    assert "column 'offset' is bigint, not string; cast it" in reason(reader.schema("offset string").load().collect)


def test_sql_alone(spark: SparkSession, server: Server, sent: list[ortoo.Received]) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW source_view USING ortoo OPTIONS (url '{server.url}', subscribe '{TOPIC}')")
    ((count, last),) = spark.sql("SELECT count(*), max(priority) FROM source_view WHERE partition = 1").collect()
    there = [message.priority for message in sent if message.partition == 1]
    assert (count, last) == (len(there), max(there))


# -- what is read


def test_a_frame_may_be_filtered_in_several_ways(orders: DataFrame, sent: list[ortoo.Received]) -> None:
    """Spark would read with the filters of one what was asked of the other, were they handed down; in one query, too."""
    assert orders.where("offset < 1").count() < orders.where("offset < 9").count() < orders.count() == len(sent)
    both = orders.where("partition = 0").union(orders.where("partition > 0"))
    assert both.count() == len(sent)


def test_offsets_times_and_partitions_bound_what_is_read(
    spark: SparkSession, server: Server, sent: list[ortoo.Received]
) -> None:
    middle = sent[150].timestamp
    for options, wanted in [
        ({"assign": f'{{"{TOPIC}": [1]}}'}, [one for one in sent if one.partition == 1]),
        (
            {"subscribe": TOPIC, "startingOffsets": f'{{"{TOPIC}": {{"0": 5, "1": -1}}}}'},
            [one for one in sent if one.partition == 2 or (one.partition == 0 and one.offset >= 5)],
        ),
        (
            {"subscribePattern": "source-ord.*", "endingOffsets": f'{{"{TOPIC}": {{"0": 5, "1": -1, "2": 0}}}}'},
            [one for one in sent if one.partition == 1 or (one.partition == 0 and one.offset < 5)],
        ),
        (
            {"subscribe": TOPIC, "startingTimestamp": str(round(middle * 1000))},
            [one for one in sent if one.timestamp >= middle],
        ),
        (
            {"subscribe": TOPIC, "endingTimestamp": datetime.fromtimestamp(middle, UTC).isoformat()},
            [one for one in sent if one.timestamp < middle],
        ),
    ]:
        found = ids(table(spark, server.url, **options).collect())
        assert found == sorted(one.id for one in wanted), options


def test_the_number_of_tasks(spark: SparkSession, server: Server, sent: list[ortoo.Received]) -> None:
    assert table(spark, server.url, subscribe=TOPIC).rdd.getNumPartitions() == 1
    assert table(spark, server.url, subscribe=TOPIC, minPartitions="7").rdd.getNumPartitions() == 7


def test_namespaces(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str) -> None:
    queue.publish(topic, b"theirs", namespace="team")
    assert [row.value for row in table(spark, server.url, subscribe=topic, namespace="team").collect()] == [b"theirs"]
    assert f"there is no topic '{topic}'" in reason(table(spark, server.url, subscribe=topic).collect)


# -- the other tables


def test_the_history_is_the_queue_s(spark: SparkSession, server: Server, lived: list[Any]) -> None:
    rows = table(spark, server.url, subscribe=TOPIC, table="history").collect()
    found = [
        (row.partition, row.position, row.offset, row.event, row.group, row.consumer, row.lease, row.reason, row.error)
        for row in sorted(rows, key=lambda row: (row.partition, row.position, row.offset))
    ]
    assert {row.event for row in rows} == {"delivered", "acknowledged", "dead-lettered", "released"}
    assert sorted((event.position, event.offset, event.what, event.error or "") for event in lived) == sorted(
        (one[1], one[2], one[3], one[8] or "") for one in found
    )
    leased = [one for one in found if one[3] == "delivered"]
    assert {one[4:6] for one in leased} == {("workers", "w1")}
    assert all(row.due > row.timestamp for row in rows if row.event == "delivered")


def test_dead_letters(spark: SparkSession, server: Server, lived: list[Any], sent: list[ortoo.Received]) -> None:
    rows = table(spark, server.url, subscribe=TOPIC, table="dead_letters").collect()
    assert sorted((row.reason, row.error, row.attempts, row.origin_group) for row in rows) == [
        *[("attempts", "broken", 1, "workers")] * 2,
        *[("rejected", "hopeless", 1, "workers")] * 2,
    ]
    values = {message.id: as_dict(message)["value"] for message in sent}
    assert all(bytes(row.value) == values[row.origin] for row in rows)


def test_reading_disturbs_nobody(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, lived: list[Any]) -> None:
    before = queue.topic(TOPIC).groups
    for name in ("messages", "history", "dead_letters"):
        table(spark, server.url, subscribe=TOPIC, table=name).count()
    assert queue.topic(TOPIC).groups == before


# -- files


def test_large_values_through_the_server(spark: SparkSession, server: Server, large: str) -> None:
    rows = table(spark, server.url, subscribe=large).selectExpr("offset", "length(value)", "sha2(value, 256)").collect()
    from hashlib import sha256

    assert sorted(map(tuple, rows)) == [
        (number, MEBIBYTE, sha256(bytes([number]) * MEBIBYTE).hexdigest()) for number in range(45)
    ]


def test_the_files_of_a_running_server(spark: SparkSession, server: Server, large: str) -> None:
    rows = table(spark, server.url, path=str(server.data), subscribe=large).select("offset", "value").collect()
    assert 0 < len(rows) < 45, "the last of them are in the write-ahead log only"
    assert [(row.offset, row.value) for row in sorted(rows)] == [
        (number, bytes([number]) * MEBIBYTE) for number in range(len(rows))
    ]


def test_files_give_what_the_server_gives(spark: SparkSession, server: Server, lived: list[Any], large: str) -> None:
    """The checkpoint came after all that."""
    for name in ("messages", "history", "dead_letters"):
        frames = [
            table(spark, server.url, subscribe=TOPIC, table=name, **where) for where in ({}, {"path": str(server.data)})
        ]
        served, files = [sorted(map(str, frame.collect())) for frame in frames]
        assert served == files


# -- errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "source-order"}, "there is no topic 'source-order'; did you mean 'source-orders'?"),
        ({"subscirbe": TOPIC}, "is not an option of the format 'ortoo'; did you mean 'subscribe'?"),
        ({"subscribe": TOPIC, "table": "letters"}, "option 'table' is one of messages, history, dead_letters"),
        ({"subscribe": TOPIC, "startingOffsets": "latest"}, "nothing would be read"),
        ({"subscribe": TOPIC, "startingOffsets": f'{{"{TOPIC}": {{"0": 9999}}}}'}, "before 9999"),
        ({"subscribe": TOPIC, "path": "/nowhere"}, "/nowhere is not a data directory of Ortoo"),
        ({"subscribe": TOPIC, "namespace": "none"}, "there are: none at all"),
    ],
)
def test_what_went_wrong_is_the_last_line(
    spark: SparkSession, server: Server, sent: list[ortoo.Received], options: dict[str, str], words: str
) -> None:
    assert words in reason(lambda: table(spark, server.url, **options).collect())


def test_what_retention_removed(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str) -> None:
    queue.create_topic(topic, partitions=1)
    queue.publish_many(topic, [b"0", b"1"])
    queue.purge(topic)
    queue.publish(topic, b"2")
    begin = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 0}}}}'}
    assert "messages 0 to 1 of partition 0" in reason(table(spark, server.url, **begin).collect)
    assert [row.value for row in table(spark, server.url, **begin, failOnDataLoss="false").collect()] == [b"2"]
    assert [row.value for row in table(spark, server.url, subscribe=topic).collect()] == [b"2"]


def test_a_server_that_is_not_there(spark: SparkSession) -> None:
    words = reason(lambda: table(spark, "ortoo://127.0.0.1:1", subscribe="x", timeout="0.2").collect())
    assert "127.0.0.1:1" in words
    assert "Unavailable" in words


def test_a_directory_without_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with ortoo.open_sync(tmp_path / "data") as other:
        other.publish("orders", b"x")
        words = reason(lambda: table(spark, "", path=str(tmp_path / "data"), subscribe="orders").collect())
        assert "has no checkpoint yet" in words
    rows = table(spark, "", path=str(tmp_path / "data"), subscribe="orders").collect()
    assert [row.value for row in rows] == [b"x"]


@pytest.fixture(scope="module", autouse=True)
def _tidy(queue: ortoo.SyncQueue) -> Iterator[None]:
    yield
    for name in (TOPIC, LARGE):
        if any(info.name == name for info in queue.topics()):
            queue.delete_topic(name)
