"""From a real queue to the figures: what was done is what is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ortoo import Message, SyncQueue
from ortoo.cli.main import run
from ortoo.model.analytics import HISTORY_FILE, Report

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fill(spark: SparkSession, server: Server, topic: str, lake: Path) -> None:
    """What the archive job does, in one go."""
    for table in ("messages", "history"):
        rows = spark.read.format("ortoo").options(url=server.url, subscribe=topic, table=table).load()
        dated = rows.withColumn("date", rows["timestamp"].cast("date"))
        dated.write.partitionBy("topic", "date").parquet(str(lake / table))


def test_the_figures_tell_what_was_done_to_a_queue(
    spark: SparkSession,
    server: Server,
    queue: SyncQueue,
    topic: str,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    # Not in key order, where a nack gives back what lies behind it; and a lease that cannot run out while this test is slow.
    queue.create_topic(topic, partitions=2, ordering="none", lease=3600, backoff_initial=0.0, max_attempts=2)
    headers = {"producer": "shop"}
    queue.publish_many(topic, [Message(b"12345", key="ann" if n else "bob", headers=headers) for n in range(10)])
    first = queue.lease(topic, group="billing", max_messages=10)
    assert len(first) == 10
    queue.ack(first[:6])
    queue.reject(first[6:7], error="order 4711 is odd")
    queue.nack(first[7:9], error="no room 5", delay=0)
    again = queue.lease(topic, group="billing", max_messages=10, wait=10)
    queue.ack(again)
    lake = tmp_path / "lake"
    fill(spark, server, topic, lake)
    assert run(["pipeline", "analyze", "--lake", str(lake)]) == 0
    assert topic in capfdbinary.readouterr().out.decode()
    report = msgspec.json.decode((lake / HISTORY_FILE).read_bytes(), type=Report)
    own, group = report.topics
    assert (own.topic, own.group, own.published, own.bytes) == (topic, None, 10, 50)
    assert (group.group, group.delivered, group.acknowledged) == ("billing", 10 + len(again), 6 + len(again))
    assert (group.retried, group.released, group.dead_lettered) == (2, 0, 1)
    assert group.depth == 10 - 7 - len(again)
    assert group.attempts_max == 2
    assert None not in (group.delivery_p50_ms, group.ack_p99_ms, group.lag_seconds)
    assert {row.error: row.count for row in report.errors} == {"order <n> is odd": 1, "no room <n>": 2}
    assert {row.key for row in report.keys} <= {"ann", "bob"}
    assert sum(row.failures for row in report.keys) == 3
    assert [(row.producer, row.published) for row in report.producers] == [("shop", 10)]
    assert [(row.delivered_share, row.acknowledged_share) for row in report.consumers] == [(1.0, 1.0)]
