"""Who published a message is a column, of what is read and of what is archived."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq

import ortoo
from ortoo.app.clock import SystemClock
from ortoo.pipeline.lake.archive import Wanted, archive_wanted
from ortoo.pipeline.lake.layout import MESSAGES, Lake
from ortoo.stores.disk import open_directory
from tests.stamping import StampingBroker

from .reading import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish_as(path: Path, *publishers: str | None, rejects: int = 0) -> None:
    async def work() -> None:
        broker = StampingBroker(open_directory(path), SystemClock())
        async with ortoo.Queue(broker) as queue:
            await queue.ensure_topic("orders", partitions=1)
            for broker.publisher in publishers:
                await queue.publish("orders", b"x")
            if rejects:
                await queue.reject(await queue.lease("orders", max_messages=rejects), "bad")
            await broker.close(checkpoint=True)  # else its files would not have it yet

    asyncio.run(work())


def test_each_row_tells_who_published_it(spark: SparkSession, tmp_path: Path) -> None:
    names = ["billing", "billing", None, "shop"]
    publish_as(tmp_path / "data", *names, rejects=4)
    where = {"path": str(tmp_path / "data")}
    orders = table(spark, "", subscribe="orders", **where)
    assert orders.columns[-1] == "publisher"
    assert [row.publisher for row in orders.orderBy("offset").collect()] == names
    assert orders.where("publisher = 'billing'").count() == 2
    letters = table(spark, "", subscribe="orders", table="dead_letters", **where)
    assert [row.publisher for row in letters.orderBy("offset").collect()] == names
    assert letters.columns[-1] == "publisher"


def test_the_archive_has_it_and_reads_as_null_what_is_older(spark: SparkSession, tmp_path: Path) -> None:
    lake, wanted = Lake(tmp_path / "lake"), Wanted(path=str(tmp_path / "data"), pattern="orders", history=False)
    publish_as(tmp_path / "data", "billing", None)
    archive_wanted(spark, lake, wanted)
    for file in lake.files(MESSAGES):
        found = pq.ParquetFile(file).read()
        assert found["publisher"].to_pylist() == ["billing", None]
        pq.write_table(found.drop_columns("publisher"), file)  # as it was once
    publish_as(tmp_path / "data", "shop")
    archive_wanted(spark, lake, wanted)
    names = [None, None, "shop"]
    by_spark = spark.read.option("mergeSchema", True).parquet(str(lake.table(MESSAGES))).orderBy("offset")
    assert [row.publisher for row in by_spark.collect()] == names
    files = f"read_parquet('{lake.table(MESSAGES)}/**/*.parquet', hive_partitioning=true, union_by_name=true)"
    assert duckdb.execute(f'SELECT publisher FROM {files} ORDER BY "offset"').fetchall() == [(name,) for name in names]
