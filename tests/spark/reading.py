"""Reading in tests: of a server's topics into rows, in batches and in streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def table(spark: SparkSession, url: str, **options: str) -> DataFrame:
    where = {} if "path" in options else {"url": url}
    return spark.read.format("ortoo").options(**where, **options).load()


def reason(work: Callable[[], Any]) -> str:
    """The last line of what Spark says when it fails: what a user looks for."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        work()
    return last_line(str(caught.value))


def last_line(text: str) -> str:
    """Of the Python error within; what follows it are lines of Java's."""
    lines = [
        line
        for line in text.split("JVM stacktrace", maxsplit=1)[0].splitlines()
        if "Error: " in line or "Error]" in line
    ]
    return lines[-1] if lines else text


class Stream:
    """A streaming query whose rows are kept, batch by batch."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path, **options: str) -> None:
        where = {} if "path" in options else {"url": url}
        self._frame = spark.readStream.format("ortoo").options(**where, **options).load()
        self._checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}
        self.query: StreamingQuery

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = frame.collect()

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self._frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self._checkpoint))
        self.query = (writer.trigger(**trigger) if trigger else writer).start()
        return self.query

    def run(self) -> Stream:
        """Takes what is there, and ends."""
        assert self.start(availableNow=True).awaitTermination(300)
        return self

    @contextmanager
    def running(self) -> Iterator[Stream]:
        self.start()
        try:
            yield self
        finally:
            self.query.stop()

    @property
    def rows(self) -> list[Row]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def values(self) -> list[bytes]:
        return sorted(bytes(row.value) for row in self.rows)

    def wait(self, until: Callable[[], bool], seconds: float = 300) -> None:
        end = monotonic() + seconds
        while not until():
            assert self.query.exception() is None, self.query.exception()
            assert monotonic() < end, (self.query.status, self.batches)
            sleep(0.02)

    def failure(self, seconds: int = 300) -> str:
        """Why it failed, as the last line of it says."""
        from pyspark.errors import PySparkException

        with pytest.raises(PySparkException) as caught:
            assert self.query.awaitTermination(seconds), "it goes on"
        return last_line(str(caught.value))
