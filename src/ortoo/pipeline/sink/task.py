"""Who writes: the attempt of a task, and the batch of a streaming query that it belongs to."""

from __future__ import annotations

from typing import NamedTuple
from uuid import uuid4

from pyspark import TaskContext

from ortoo.model.errors import InvalidError

from .job import Job

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # as Spark calls them


class Batch(NamedTuple):
    """One of a streaming query. A query keeps its id for as long as it keeps its checkpoint."""

    query: str
    number: int

    @property
    def job(self) -> Job:
        return Job(f"spark-query-{self.query}-{self.number}")


def current_batch() -> Batch:
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context is not None else None
    number = context.getLocalProperty(_BATCH) if context is not None else None
    if query is None or number is None:
        raise InvalidError("this task does not know its streaming query, so it cannot write exactly once")
    return Batch(query, int(number))


def new_part() -> str:
    """Of this attempt alone, also when Spark runs the same task twice at a time."""
    context = TaskContext.get()
    place = f"{context.partitionId()}.{context.attemptNumber()}" if context is not None else "0.0"
    return f"{place}.{uuid4().hex}"
