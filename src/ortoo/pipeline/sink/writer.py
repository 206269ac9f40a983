"""The writers that Spark asks for: one for a batch write, one for a stream. Pickled to every task, and to the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ortoo.client import SyncQueue
from ortoo.model.errors import InvalidError, OrtooError
from ortoo.pipeline.connection import queue_at

from .columns import Column, check_columns
from .job import Job
from .options import WriteOptions, write_options
from .rows import Piece, to_pieces
from .staging import Staging, Written, abort, commit, log, names_of
from .task import current_batch, new_part

_SMALLER_WRITE = "write less at a time, for example one day or one topic of it"
_SMALLER_BATCH = "make the batches of the stream smaller with maxOffsetsPerTrigger"


class Writing:
    """What both writers need."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._columns: list[Column] = check_columns(schema, options.topic)
        self._options = options

    @property
    def queue(self) -> SyncQueue:
        return queue_at(self._options.address)

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        for batch in batches:
            yield from to_pieces(batch, self._columns, self._options.topic)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        names = names_of(_own(messages))
        try:
            abort(self.queue, names)
        except OrtooError as error:
            log.info("what was staged goes by itself, because there is no server to tell: %s", error)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._writing = Writing(schema, options)
        self._job = options.job or Job(f"spark-write-{uuid4().hex}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        staging = Staging(self._writing.queue, self._job, new_part(), _SMALLER_WRITE)
        return staging.run(self._writing.pieces(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._writing.queue, _own(messages), _SMALLER_WRITE)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._writing = Writing(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        batch = current_batch()
        staging = Staging(self._writing.queue, batch.job, new_part(), _SMALLER_BATCH)
        return replace(staging.run(self._writing.pieces(iterator)), batch=batch.number)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = _own(messages)
        for task in written:
            if task.batch != batchId:
                raise InvalidError(f"a task wrote rows of batch {task.batch}, and Spark commits batch {batchId}")
        commit(self._writing.queue, written, _SMALLER_BATCH)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._writing.abort(messages)


def _own(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """A task that failed has left none."""
    return [message for message in messages if isinstance(message, Written)]


def batch_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceArrowWriter:
    if overwrite:
        raise InvalidError("a topic is only appended to, never overwritten; use .mode('append')")
    return BatchWriter(schema, write_options(options, streaming=False))


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceStreamArrowWriter:
    if overwrite:
        raise InvalidError(
            "a topic is only appended to, never overwritten; use .outputMode('append'), or write each batch of the result "
            "in foreachBatch, with the options 'txnAppId' and 'txnVersion' so that it is written once"
        )
    return StreamWriter(schema, write_options(options, streaming=True))
