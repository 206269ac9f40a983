"""A queue on PostgreSQL, read through its server and from its tables: the same rows, in batches and in streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ortoo
from tests.stores.postgres_server import fresh_url

from .reading import Stream, reason, table
from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def store() -> str:
    return fresh_url()


@pytest.fixture(scope="module")
def running(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("postgres"), "--store", store)
    with ortoo.connect_sync(server.url) as queue:
        queue.create_topic("orders", partitions=3, max_attempts=1)
        queue.publish_many(
            "orders", [ortoo.Message(b"%03d" % at, key=str(at), headers={"n": str(at)}) for at in range(300)]
        )
        queue.reject(queue.lease("orders", max_messages=5), error="broken")
        queue.ack(queue.lease("orders", max_messages=5))
        queue.delete_message(next(iter(queue.read("orders"))).id)
    yield server
    server.stop()


def test_the_tables_give_what_the_server_gives(spark: SparkSession, running: Server, store: str) -> None:
    for name in ("messages", "history", "dead_letters"):
        options = {"subscribe": "orders", "table": name, "minPartitions": "4"}
        served = table(spark, running.url, **options)
        direct = table(spark, "", path=store, **options)
        assert direct.rdd.getNumPartitions() == served.rdd.getNumPartitions()
        rows = sorted(map(str, direct.collect()))
        assert rows == sorted(map(str, served.collect()))
        assert rows
    with ortoo.connect_sync(running.url) as queue:
        queue.publish("orders", b"300")  # its owner goes on
    assert table(spark, "", path=store, subscribe="orders").count() == 300
    words = reason(lambda: table(spark, "", path=fresh_url(), subscribe="orders").collect())
    assert "has no queue in the schema" in words


def test_a_stream_follows_the_tables(spark: SparkSession, running: Server, store: str, tmp_path: Path) -> None:
    options = {"path": store, "subscribe": "streamed", "startingOffsets": "earliest"}
    with ortoo.connect_sync(running.url) as queue:
        queue.publish_many("streamed", [b"%d" % at for at in range(5)])
        assert Stream(spark, "", tmp_path / "checkpoint", **options).run().values == [b"%d" % at for at in range(5)]
        queue.publish_many("streamed", [b"%d" % at for at in range(5, 8)])
        assert Stream(spark, "", tmp_path / "checkpoint", **options).run().values == [b"5", b"6", b"7"]
