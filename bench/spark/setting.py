"""What every measurement here stands on: a server, a topic with rows in it, a session on two cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import ortoo
from bench.live.ortoo_tcp import serving
from bench.loads import VALUE_BYTES
from ortoo.pipeline import session as spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "rows"
_BATCH = 10_000


class Amounts(NamedTuple):
    rows: int = 5_000_000
    written: int = 1_000_000
    per_trigger: int = 500_000
    archived: int = 1_000_000
    seconds: float = 20.0  # how long a producer and the archive run side by side
    repetitions: int = 3


QUICK = Amounts(500_000, 100_000, 50_000, 100_000, 5.0, 1)


class Setting(NamedTuple):
    spark: SparkSession
    url: str
    folder: Path
    amounts: Amounts

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def read(self, topic: str = TOPIC, **options: Any) -> DataFrame:
        where = {} if "path" in options else {"url": self.url}
        return self.spark.read.format("ortoo").options(subscribe=topic, **where, **options).load()

    def stream(self, topic: str = TOPIC, **options: Any) -> DataFrame:
        return self.spark.readStream.format("ortoo").options(url=self.url, subscribe=topic, **options).load()


@contextmanager
def set_up(folder: Path, amounts: Amounts) -> Iterator[Setting]:
    with serving(folder) as served:
        spark = spark_session("bench", master="local[2]")
        try:
            yield Setting(spark, f"ortoo://127.0.0.1:{served.tcp_port}", folder, amounts)
        finally:
            spark.stop()


def fill(url: str, topic: str, count: int) -> None:
    """Random values, which nothing can compress, and keys."""
    with ortoo.connect_sync(url) as queue:
        for start in range(0, count, _BATCH):
            size = min(_BATCH, count - start)
            noise = os.urandom(size * VALUE_BYTES)
            queue.publish_many(
                topic,
                [
                    ortoo.Message(noise[at * VALUE_BYTES : (at + 1) * VALUE_BYTES], key=f"key-{at % 1000}")
                    for at in range(size)
                ],
            )


def to_nothing(frame: DataFrame) -> float:
    """Seconds to read it all."""
    began = perf_counter()
    frame.write.format("noop").mode("append").save()
    return perf_counter() - began
