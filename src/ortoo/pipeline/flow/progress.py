"""What a running query has done, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .writing import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Batch(NamedTuple):
    sink: str
    number: int
    rows_in: int
    rows_out: int | None  # None: Spark does not say
    seconds: float

    def __str__(self) -> str:
        out = f", {self.rows_out:,} out" if self.rows_out is not None else ""
        rate = f", {self.rows_in / self.seconds:,.0f} rows/s" if self.rows_in and self.seconds else ""
        return f"{self.sink}: batch {self.number}, {self.rows_in:,} rows in{out}, {self.seconds:.1f} s{rate}"


class Watch:
    """Tells each batch of a query once."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._last = -1

    def new(self) -> Iterator[Batch]:
        for progress in self.query.recentProgress:
            if progress["batchId"] > self._last and "addBatch" in progress["durationMs"]:  # else it was only idle
                self._last = progress["batchId"]
                yield _batch(progress)


def _batch(progress: Any) -> Batch:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    rows_out = observed["rows"] if observed is not None else None
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return Batch(progress["name"] or "", progress["batchId"], progress["numInputRows"], rows_out, seconds)
