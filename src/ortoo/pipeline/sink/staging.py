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

from .job import Job
from .rows import Piece

_UNDER_WAY_MAX = 8  # requests of one task; the disk syncs one while the next ones travel

log = logging.getLogger("ortoo.pipeline")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    transactions: tuple[tuple[str, str], ...]  # jobs that were not committed before, and where their rows are staged
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
    """One attempt of a task. A transaction begins with its first piece, so that a task without rows leaves no trace."""

    def __init__(self, queue: SyncQueue, job: Job, part: str, advice: str) -> None:
        self._queue = queue
        self._job = job
        self._part = part
        self._advice = advice  # to who has written too much, or for too long
        self._joined: dict[str, SyncNamedTransaction | None] = {}  # by the job's name
        self._under_way: deque[Future[None]] = deque()

    def run(self, pieces: Iterable[Piece]) -> Written:
        """Returns when all are durable. Those of a job that was committed before are only counted, to the last."""
        rows = 0
        try:
            for piece in pieces:
                rows += len(piece.batch)
                transaction = self._transaction(piece.topic)
                if transaction is not None:
                    self._stage(transaction, piece)
            while self._under_way:
                self._under_way.popleft().result()
        except (TooManyError, NotFoundError) as error:
            self._explain(error)
            raise
        finally:
            for future in self._under_way:
                future.cancel()
        return Written(tuple((job, one.name) for job, one in self._joined.items() if one is not None), self._part, rows)

    def _transaction(self, topic: str) -> SyncNamedTransaction | None:
        name = self._job.named(topic)
        if name not in self._joined:
            self._joined[name] = join(self._queue, name, self._part)
            if self._joined[name] is None:
                of = f" of topic {topic!r}" if self._job.by_topic else ""
                log.warning("%s was committed before; its rows%s are not written again", self._job.name, of)
        return self._joined[name]

    def _stage(self, transaction: SyncNamedTransaction, piece: Piece) -> None:
        if len(self._under_way) >= _UNDER_WAY_MAX:
            self._under_way.popleft().result()
        self._under_way.append(transaction.stage_soon(piece.topic, piece.batch))

    def _explain(self, error: OrtooError) -> None:
        """Raises it again with what to do about it, if it is a transaction that is too large or was open for too long."""
        names = [transaction.name for transaction in self._joined.values() if transaction is not None]
        if not names:
            return
        if isinstance(error, TooManyError):
            abort(self._queue, names)  # what dead attempts left in them must not hinder the next one
            raise TooManyError(f"{error}; {self._advice}") from None
        for name in names:
            try:
                self._queue.begin(name)
            except ExistsError:
                raise UnavailableError(
                    f"{error} while its rows were written, so nothing of it counts; try again, or {self._advice}"
                ) from None


def commit(queue: SyncQueue, written: Iterable[Written], advice: str) -> int:
    """Publishes the parts of the tasks that succeeded, each job's all at once; returns how many rows that were."""
    parts: dict[str, dict[str, list[str]]] = {}
    for task in written:
        for job, transaction in task.transactions:
            parts.setdefault(job, {}).setdefault(transaction, []).append(task.part)
    for attempts in parts.values():
        if len(attempts) > 1:
            raise UnavailableError(
                f"the transaction of this write ended while tasks were writing ({', '.join(sorted(attempts))}), "
                f"so nothing of it counts; try again, or {advice}"
            )
    chosen = {name: of for attempts in parts.values() for name, of in attempts.items()}
    try:
        return sum(queue.named(name).commit(chosen[name]) for name in sorted(chosen))
    except NotFoundError as error:
        raise UnavailableError(f"{error} before it was committed; try again, or {advice}") from None


def abort(queue: SyncQueue, names: Iterable[str]) -> None:
    """Drops what was staged, as far as possible: what stays does so unseen, until its transaction times out."""
    for name in names:
        try:
            queue.named(name).abort()
        except OrtooError as error:  # it was committed, or is gone, or the server is away: an abort must not hide why
            log.info("transaction %s was not aborted: %s", name, error)


def names_of(written: Iterable[Written]) -> set[str]:
    return {name for task in written for _, name in task.transactions}
