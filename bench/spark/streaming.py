"""Streams: how many rows a second when there are many, how long a micro-batch takes when there are few, and how long it is
from a publish until the row has been processed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ortoo
from bench.figures import Figure

from .setting import Setting, fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "spark, stream"
_BATCHES = 30
_PROBES = 30


def measure(setting: Setting) -> list[Figure]:
    empty, ours = _latency(setting, _nothing(setting)), _latency(setting, _trickle(setting))
    return [
        Figure(NAME, "steady", _steady(setting)),
        Figure(NAME, "micro-batch, a source that makes rows up", empty, "ms"),
        Figure(NAME, "micro-batch, ten rows", ours, "ms"),
        Figure(NAME, "micro-batch ÷ made up", ours / empty, "ratio"),
        Figure(NAME, "publish to processed, p50", _end_to_end(setting), "ms"),
    ]


def _progress(setting: Setting, frame: DataFrame, **trigger: Any) -> list[dict[str, Any]]:
    checkpoint = str(setting.folder / uuid4().hex)
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = (writer.trigger(**trigger) if trigger else writer).start()
    if trigger:
        query.awaitTermination()
    else:
        while len([one for one in query.recentProgress if one["numInputRows"]]) < _BATCHES and query.isActive:
            time.sleep(0.2)
        query.stop()
    error = query.exception()
    if error is not None:
        raise error
    return [one for one in query.recentProgress if one["numInputRows"]]


def _steady(setting: Setting) -> float:
    """The median of the batches, without the first, which starts everything."""
    fill(setting.url, "steady", setting.amounts.rows)
    stream = setting.stream("steady", startingOffsets="earliest", maxOffsetsPerTrigger=setting.amounts.per_trigger)
    found = _progress(setting, stream, availableNow=True)
    rates = [one["numInputRows"] * 1000 / one["durationMs"]["triggerExecution"] for one in found[1:-1] or found]
    return float(statistics.median(rates))


def _latency(setting: Setting, frame: DataFrame) -> float:
    found = _progress(setting, frame)
    return float(statistics.median(one["durationMs"]["triggerExecution"] for one in found[len(found) // 3 :]))


def _trickle(setting: Setting) -> DataFrame:
    fill(setting.url, "trickle", 10 * _BATCHES * 3)
    return setting.stream("trickle", startingOffsets="earliest", maxOffsetsPerTrigger=10)


def _nothing(setting: Setting) -> DataFrame:
    setting.spark.dataSource.register(_made_up())
    return setting.spark.readStream.format("made-up").load()


def _made_up() -> type:
    """A source without a queue behind it: ten rows a batch. Made here, so that it travels to Spark's processes by value."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"at": 0}

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"at": start["at"] + 10}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return [InputPartition((start["at"], end["at"]))]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            yield pa.record_batch({"number": pa.array(range(*partition.value), pa.int64())})

    class MadeUp(DataSource):
        @classmethod
        def name(cls) -> str:
            return "made-up"

        def schema(self) -> str:
            return "number bigint"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return Reader()

    return MadeUp


def _end_to_end(setting: Setting) -> float:
    """From before the publish until the batch that has it is done, one message at a time."""
    fill(setting.url, "probe", 1)
    seen: list[float] = []

    def note(rows: DataFrame, batch: int) -> None:
        if rows.count():
            seen.append(time.perf_counter())

    stream = setting.stream("probe", startingOffsets="latest")
    query = stream.writeStream.foreachBatch(note).option("checkpointLocation", str(setting.folder / "probe")).start()
    took = []
    with ortoo.connect_sync(setting.url) as queue:
        query.processAllAvailable()
        time.sleep(1)
        for _ in range(_PROBES):
            before, count = time.perf_counter(), len(seen)
            queue.publish("probe", b"probe")
            while len(seen) == count and query.isActive:
                time.sleep(0.002)
            took.append((time.perf_counter() - before) * 1000)
            time.sleep(0.05)
    query.stop()
    return statistics.median(took[5:])
