"""What a running query has done, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ortoo.model.errors import InvalidError
from ortoo.pipeline.source.offsets import Places, from_offset

from .writing import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Batch(NamedTuple):
    sink: str
    number: int
    rows_in: int
    rows_out: int | None  # None: Spark does not say
    seconds: float
    places: Places | None = None  # how far it has read the queue; None where it does not

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
    name, number, rows_in = progress["name"] or "", progress["batchId"], progress["numInputRows"]
    return Batch(name, number, rows_in, rows_out, seconds, _places(progress))


def _places(progress: Any) -> Places | None:
    """Of all sources that are topics: only these have an offset for each partition."""
    found: Places = {}
    for source in progress["sources"]:
        try:
            found |= from_offset(msgspec.json.decode(source["endOffset"], type=dict[str, dict[str, int]]))
        except (KeyError, TypeError, msgspec.MsgspecError, InvalidError):
            continue
    return found or None
