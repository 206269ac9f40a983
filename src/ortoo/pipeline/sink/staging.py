"""Exactly once: tasks stage their rows under the name of their job, and one commit publishes those of the good attempts.

The job's name is the same however often it is tried: a query's batch that is replayed has the name it had before. So the
queue knows whether it was committed, and then it is not written again. An attempt of the job that was aborted, or timed out,
has ended for good, and with it its transaction; the next one is numbered on:

    JOB.0 (aborted)   JOB.1 (aborted)   JOB.2 (open: all tasks stage here)

One is begun only when those before it were aborted, so at most one is ever committed. What a dead task staged is in a part
that no commit names; it goes when the transaction ends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from ortoo.client import SyncQueue
from ortoo.client.sync import SyncNamedTransaction
from ortoo.model.errors import ExistsError, NotFoundError, OrtooError, TooManyError, UnavailableError

from .rows import Piece

_UNDER_WAY_MAX = 8  # requests of one task; the disk syncs one while the next ones travel

log = logging.getLogger("ortoo.pipeline")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    transaction: str | None  # None: there was nothing to stage, or the job was committed before
    part: str
    rows: int
    batch: int | None = None  # of a stream


def join(queue: SyncQueue, job: str, part: str) -> SyncNamedTransaction | None:
    """The job's open transaction, or None when the job was committed before."""
    attempt = 0
    while True:
        name = f"{job}.{attempt}"
        try:
            return queue.begin(name, part=part)
        except ExistsError:
            if _was_committed(queue, name):
                return None
        attempt += 1


def _was_committed(queue: SyncQueue, name: str) -> bool:
    """Of a transaction that has ended. To abort an aborted one is fine, a committed one is not there any more."""
    try:
        queue.named(name).abort()
    except NotFoundError:
        return True
    return False


class Staging:
    """One attempt of a task. It begins with the first piece, so that a task without rows leaves no trace."""

    def __init__(self, queue: SyncQueue, job: str, part: str, advice: str) -> None:
        self._queue = queue
        self._job = job
        self._part = part
        self._advice = advice  # to who has written too much, or for too long
        self._transaction: SyncNamedTransaction | None = None
        self._under_way: deque[Future[None]] = deque()

    def run(self, pieces: Iterable[Piece]) -> Written:
        """Returns when all are durable. Those of a job that was committed before are only counted, to the last."""
        rows = 0
        try:
            for piece in pieces:
                if rows == 0:
                    self._transaction = join(self._queue, self._job, self._part)
                rows += len(piece.batch)
                if self._transaction is not None:
                    self._stage(self._transaction, piece)
            while self._under_way:
                self._under_way.popleft().result()
        except (TooManyError, NotFoundError) as error:
            self._explain(error)
            raise
        finally:
            for future in self._under_way:
                future.cancel()
        if rows and self._transaction is None:
            log.warning("%s was committed before; its rows are not written again", self._job)
        return Written(self._transaction.name if self._transaction is not None else None, self._part, rows)

    def _stage(self, transaction: SyncNamedTransaction, piece: Piece) -> None:
        if len(self._under_way) >= _UNDER_WAY_MAX:
            self._under_way.popleft().result()
        self._under_way.append(transaction.stage_soon(piece.topic, piece.batch))

    def _explain(self, error: OrtooError) -> None:
        """Raises it again with what to do about it, if it is the transaction that is too large or was open for too long."""
        if self._transaction is None:
            return
        if isinstance(error, TooManyError):
            abort(self._queue, [self._transaction.name])  # what dead attempts left in it must not hinder the next one
            raise TooManyError(f"{error}; {self._advice}") from None
        try:
            self._queue.begin(self._transaction.name)
        except ExistsError:
            raise UnavailableError(
                f"{error} while its rows were written, so nothing of it counts; try again, or {self._advice}"
            ) from None


def commit(queue: SyncQueue, written: Iterable[Written | None], advice: str) -> int:
    """Publishes the parts of the tasks that succeeded, all at once; returns how many rows that were."""
    parts: dict[str, list[str]] = {}
    for task in written:
        if task is not None and task.transaction is not None:
            parts.setdefault(task.transaction, []).append(task.part)
    if not parts:
        return 0  # there were no rows, or they were committed before
    if len(parts) > 1:
        raise UnavailableError(
            f"the transaction of this write ended while tasks were writing ({', '.join(sorted(parts))}), "
            f"so nothing of it counts; try again, or {advice}"
        )
    [(name, chosen)] = parts.items()
    try:
        return queue.named(name).commit(chosen)
    except NotFoundError as error:
        raise UnavailableError(f"{error} before it was committed; try again, or {advice}") from None


def abort(queue: SyncQueue, names: Iterable[str]) -> None:
    """Drops what was staged, as far as possible: what stays does so unseen, until its transaction times out."""
    for name in names:
        try:
            queue.named(name).abort()
        except OrtooError as error:  # it was committed, or is gone, or the server is away: an abort must not hide why
            log.info("transaction %s was not aborted: %s", name, error)


def names_of(written: Iterable[Written | None]) -> set[str]:
    return {task.transaction for task in written if task is not None and task.transaction is not None}
