"""The disk store: everything confirmed survives the process, the machine, and `kill -9`.

    append      encode ─▶ write-ahead log ─▶ sync ─▶ the logs' tails in memory
    checkpoint  tails ─▶ segments and history files ─▶ sync ─▶ checkpoint file ─▶ old write-ahead log files go
    recover     checkpoint ─▶ heads of segments ─▶ the write-ahead log since

Only the write-ahead log is synced for a commit. Checkpoints run beside the event loop and no commit waits for them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple, NoReturn

from ortoo.model import records as r
from ortoo.model.errors import CorruptionError, OrtooError, UnavailableError
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicId
from ortoo.model.replies import Columns
from ortoo.ports import Happened, StoreStatus

from .catalog import Catalog
from .checkpoint import Checkpoint, Manifest, TopicEntry, read_checkpoint, write_checkpoint
from .commit import encode_commit
from .crypto import KeyRing
from .files import Disk
from .format import check_format, refuse_strangers
from .happenings import DiskHistory
from .lock import DirectoryLock
from .log import DiskLog
from .recovery import Recovery
from .segment import Segment
from .wal import Wal

CHECKPOINT_BYTES = 32 << 20  # of write-ahead log since the last one
BACKLOG_FACTOR = 4  # appends wait when this many checkpoints' worth has gathered behind a slow one
INTERVAL_S = 0.05  # how long durability "interval" may lag
RESERVE_BYTES = 64 << 20  # publishing stops when less is free, so that acks can go on
ROOM_CHECK_BYTES = 8 << 20
CHECKPOINT_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds

# What promises nothing that a crash could break: a lost one costs a redelivery at most.
_SOFT = (r.Leased, r.Extended, r.CameDue, r.WindowClosed, r.Released, r.Answered)  # an answer goes with what it answers


def _exit_on_sync_failure(error: OSError) -> NoReturn:
    """What the page cache holds can no longer be trusted; a new process reads what is really there."""
    sys.stderr.write(f"ortoo: the disk failed to sync ({error}); ending now, start again to recover\n")
    os._exit(74)


class _Cut(NamedTuple):
    """What a checkpoint writes: everything up to one commit. A topic's ring is settled here, for it may be deleted meanwhile,
    and what was encrypted must not be written in plain text because nobody remembers that it was."""

    number: int
    snapshot: bytes
    at: int
    logs: list[tuple[DiskLog, KeyRing | None]]
    histories: list[tuple[DiskHistory, KeyRing | None]]
    transactions: list[tuple[str, str, int]]
    topics: list[TopicEntry]
    doomed: list[str]


class DiskStore:
    def __init__(
        self,
        disk: Disk,
        ring: KeyRing | None = None,
        *,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        on_sync_failure: Callable[[OSError], Any] = _exit_on_sync_failure,
        in_threads: bool = True,
        lock: DirectoryLock | None = None,
    ) -> None:
        self.disk = disk
        self.ring = ring or KeyRing({})
        self.problems: list[str] = []  # what recovery found, in words
        self.sync_seconds = Histogram()  # of the write-ahead log
        self.checkpoint_seconds = Histogram(CHECKPOINT_BOUNDS)
        self._lock = lock
        self._checkpoint_bytes = checkpoint_bytes
        self._reserve_bytes = reserve_bytes
        self._on_sync_failure = on_sync_failure
        self._writer = ThreadPoolExecutor(1, "ortoo-wal") if in_threads else None
        self._flusher = ThreadPoolExecutor(1, "ortoo-checkpoint") if in_threads else None
        self._reset()

    def _reset(self) -> None:
        self._wal = Wal(self.disk)
        self._catalog = Catalog(self.disk)
        self._checkpointing: asyncio.Task[None] | None = None
        self._syncing: asyncio.TimerHandle | None = None
        self._unchecked_bytes = ROOM_CHECK_BYTES
        self._full: str | None = None
        self._is_closed = False

    async def _in(self, executor: ThreadPoolExecutor | None, work: Callable[..., Any], *args: Any) -> Any:
        if executor is None:
            return work(*args)
        return await asyncio.get_running_loop().run_in_executor(executor, work, *args)

    # -- recovery

    async def recover(self) -> AsyncIterator[list[r.Record]]:
        if self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        refuse_strangers(self.disk)  # before a lock is left in what is not ours
        if self._lock is not None:
            self._lock.acquire()
        self._close_files()
        self._reset()
        check_format(self.disk)
        self.problems = []
        checkpoint = await self._in(self._flusher, read_checkpoint, self.disk)
        recovery = Recovery(self.disk, self._wal, self._catalog, self.ring, self.problems)
        recovery.prepare(checkpoint)
        if checkpoint is not None:
            yield [await self._in(self._flusher, recovery.load, checkpoint)]
        for records in recovery.replay(checkpoint):
            yield records
        recovery.lock_up_without_key()
        for record in self._catalog.quarantine.records():
            yield [record]
        self._wal.rotate()

    # -- writing

    async def append(self, records: Sequence[r.Record]) -> None:
        for record in records:
            self._catalog.learn(record)
        head, body = encode_commit(records, self._catalog.secret_topic, self.ring)
        number: int = await self._in(self._writer, self._write, head, body, self._must_sync(records))
        for record in records:
            self._catalog.absorb(record, number)
        await self._keep_up(len(body))

    def _write(self, head: bytes, body: bytes, sync: bool) -> int:
        try:
            number = self._wal.append(head, body)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._full = f"the disk is full ({error})"
            raise
        if sync:
            self._sync()
        return number

    def _must_sync(self, records: Sequence[r.Record]) -> bool:
        """Whether a confirmation hangs on these. Asks for a later sync where the topic's durability is an interval."""
        later = False
        for record in records:
            if isinstance(record, _SOFT):
                continue
            config = self._catalog.configs.get(getattr(record, "topic", TopicId(0)))
            if config is None or config.durability == "commit":
                return True
            later = later or config.durability == "interval"
        if later and self._syncing is None:
            self._syncing = asyncio.get_running_loop().call_later(INTERVAL_S, self._sync_later)
        return False

    def _sync_later(self) -> None:
        self._syncing = None
        if not self._is_closed:
            task = asyncio.ensure_future(self._in(self._writer, self._sync))
            task.add_done_callback(lambda done: done.exception())

    def _sync(self) -> None:
        began = perf_counter()
        try:
            self._wal.sync()
        except OSError as error:
            self._on_sync_failure(error)
            raise
        self.sync_seconds.observe(perf_counter() - began)

    async def _keep_up(self, written: int) -> None:
        self._unchecked_bytes += written
        if self._checkpointing is not None and self._wal.bytes_since_rotation > BACKLOG_FACTOR * self._checkpoint_bytes:
            await asyncio.gather(self._checkpointing, return_exceptions=True)

    def adopt(self, record: r.Record) -> None:
        """Takes a record in as if it had been appended. Durable with the next checkpoint; only repairing does this."""
        self._catalog.absorb(record, 0)

    def adopt_history(self, topic: TopicId, partition: int, start: int, records: Sequence[r.Happening]) -> None:
        """As `adopt`; the first of them has that number."""
        history = self._catalog.history(topic, partition)
        history.dropped = history.written_end = start
        for record in records:
            history.note(record)

    # -- reading

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        return self._catalog.log(topic, partition).read(offsets, self.ring)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return self._catalog.log(topic, partition).scan(start, count, self.ring)

    async def history(self, topic: TopicId, partition: int, offset: int) -> list[r.Happening]:
        return self._catalog.history(topic, partition).history(offset, self.ring)

    async def happenings(self, topic: TopicId, partition: int, start: int, count: int) -> Happened:
        """A lease is not synced for its own sake. Who follows the history must not see what might never have been."""
        history = self._catalog.history(topic, partition)
        end = history.end
        if history.tail and not self._wal.is_synced:
            await self._in(self._writer, self._sync)
            if self._catalog.histories.get((topic, partition)) is not history:
                raise UnavailableError("the topic was deleted, or the store had to recover; ask again")
        return history.happenings(start, count, end, self.ring, self._report)

    # -- checkpoints

    def status(self) -> StoreStatus:
        if self._unchecked_bytes >= ROOM_CHECK_BYTES or self._full is not None:
            self._unchecked_bytes = 0
            free = self.disk.free_bytes()
            self._full = f"only {free >> 20} MiB of the disk are free" if free < self._reserve_bytes else None
        due = self._wal.bytes_since_rotation >= self._checkpoint_bytes
        idle = self._checkpointing is None and not self._catalog.quarantine
        return StoreStatus(
            checkpoint_due=due and idle,
            checkpoint_useful=self._wal.bytes_since_rotation > 0 and idle,
            full=self._full,
            can_encrypt=self.ring.current is not None,
            problems=tuple(dict.fromkeys(self.problems)),
        )

    @property
    def wal_bytes(self) -> int:
        """Written since the last checkpoint began."""
        return self._wal.bytes_since_rotation

    @property
    def segment_bytes(self) -> int:
        return sum(segment.size for log in list(self._catalog.logs.values()) for segment in list(log.segments))

    async def checkpoint(self, snapshot: bytes, at: int) -> None:
        number = self._wal.next_number - 1
        await self._in(self._writer, self._sync)  # a failure ends the process here, too
        await self._in(self._writer, self._wal.rotate)
        self._catalog.close_leaving()
        catalog = self._catalog
        cut = _Cut(
            number,
            snapshot,
            at,
            [(log, catalog.ring_of(log.topic, self.ring)) for log in catalog.logs.values() if log.begin_flush()],
            [(one, catalog.ring_of(one.topic, self.ring)) for one in catalog.histories.values() if one.begin_flush()],
            [(namespace, name, begun) for (namespace, name), begun in catalog.transactions.items()],
            [TopicEntry(topic, *catalog.names[topic], config) for topic, config in catalog.configs.items()],
            catalog.doomed,
        )
        catalog.doomed = []
        if self._flusher is None:
            await self._run_checkpoint(cut)
        else:
            self._checkpointing = asyncio.create_task(self._run_checkpoint(cut), name="ortoo-checkpoint")

    async def _run_checkpoint(self, cut: _Cut) -> None:
        catalog, began = self._catalog, perf_counter()
        try:
            await self._refresh_keys()
            for log, ring in cut.logs:
                log.finish_flush(await self._in(self._flusher, log.flush, ring))
            for history, ring in cut.histories:
                history.finish_flush(await self._in(self._flusher, history.flush, ring))
            gone = [segment for log in catalog.logs.values() for segment in log.drop_trimmed()]
            stale = [
                path
                for place, history in catalog.histories.items()
                if place in catalog.logs
                for path in history.drop_before(catalog.logs[place].start)
            ]
            manifest = Manifest(
                cut.at,
                cut.topics,
                [log.entry() for log in catalog.logs.values()],
                [history.entry() for history in catalog.histories.values()],
                cut.transactions,
            )
            checkpoint = Checkpoint(cut.number, manifest, cut.snapshot)
            await self._in(self._flusher, write_checkpoint, self.disk, checkpoint)
            await self._in(self._flusher, self._clean_up, cut, gone, stale)
            await self._seal_old()
        except (OSError, OrtooError) as error:  # the write-ahead log still has it all; the next checkpoint tries again
            self._report(f"a checkpoint failed: {error}")
            catalog.doomed = cut.doomed + catalog.doomed
        finally:
            self._checkpointing = None
            self.checkpoint_seconds.observe(perf_counter() - began)

    async def _refresh_keys(self) -> None:
        try:
            await self._in(self._flusher, self.ring.refresh)
        except (OrtooError, OSError) as error:  # the keys known so far go on
            self._report(f"the encryption keys could not be read again: {error}")

    def _clean_up(self, cut: _Cut, gone: list[Segment], stale: list[str]) -> None:
        self._wal.trim(min([cut.number, *(begun - 1 for _, _, begun in cut.transactions)]))
        for segment in gone:
            segment.close()
            self.disk.remove(segment.path)
        for path in stale:
            self.disk.remove(path)
        for folder in cut.doomed:
            self.disk.remove_dir(folder)

    async def _seal_old(self) -> None:
        for log in list(self._catalog.logs.values()):
            for segment in log.to_seal():
                try:
                    sealed = await self._in(self._flusher, segment.seal)
                except CorruptionError as error:
                    self._report(f"a segment stays as it is: {error}")
                    continue
                log.replace(segment, sealed)
                segment.close()
                await self._in(self._flusher, self.disk.remove, segment.path)

    def _report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # -- the end

    async def close(self) -> None:
        self._is_closed = True
        if self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        if self._syncing is not None:
            self._syncing.cancel()
        await self._in(self._writer, self._sync)
        self._close_files()
        for executor in (self._writer, self._flusher):
            if executor is not None:
                executor.shutdown()
        if self._lock is not None:
            self._lock.release()

    def _close_files(self) -> None:
        self._wal.close()
        self._catalog.close()
