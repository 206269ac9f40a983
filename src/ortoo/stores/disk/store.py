"""The disk store: everything confirmed survives the process, the machine, and `kill -9`.

    append      encode ─▶ write-ahead log ─▶ sync ─▶ where it lies there, in memory
    checkpoint  checkpoint file ─▶ write-ahead log files that it does not need go
    flush       oldest files of the write-ahead log ─▶ segments and history files ─▶ sync; with a checkpoint, now and then
    recover     checkpoint ─▶ heads of segments ─▶ the write-ahead log, as far as it is needed

Only the write-ahead log is synced for a commit. Checkpoints run beside the event loop and no commit waits for them.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, perf_counter
from typing import Any

from ortoo.model import records as r
from ortoo.model.errors import OrtooError, UnavailableError
from ortoo.model.histogram import Histogram
from ortoo.model.metrics import StoreFigures
from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory, StoreStatus

from .catalog import Catalog
from .checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from .cleaning import Cleaner
from .commit import encode_commit
from .crypto import KeyRing
from .cut import Cut, take_cut
from .disk_keys import DiskKeys
from .files import Disk
from .flushing import FLUSH_BLOCKS, FLUSH_BYTES, FLUSH_FILES, Flush, FlushPlan
from .format import check_format, refuse_strangers
from .keys import bind_keys
from .lock import DirectoryLock
from .logged import CommitReader
from .open_files import FilePool
from .reader import Reader
from .recovery import Recovery
from .reencryption import Reencryptor
from .room import Room
from .turns import in_turns
from .wal import Wal
from .wal_writer import Sync, WalWriter, exit_on_sync_failure, sync_needed

CHECKPOINT_BYTES = 32 << 20  # of write-ahead log since the last one
CHECKPOINT_PAUSE_S = 5.0  # after one that failed
BACKLOG_FACTOR = 16  # appends wait when this many checkpoints' worth has gathered behind a slow one
RESERVE_BYTES = 64 << 20  # publishing stops when less is free beside what a checkpoint needs, so that acks can go on
BACKLOG_MIN = 8 << 20
PROBLEMS_MAX = 100
CHECKPOINT_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds


class DiskStore:
    def __init__(
        self,
        disk: Disk,
        ring: KeyRing | None = None,
        *,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        flush_bytes: int = FLUSH_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        on_sync_failure: Callable[[OSError], Any] = exit_on_sync_failure,
        in_threads: bool = True,
        lock: DirectoryLock | None = None,
        files_max: int | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.disk = disk
        self.ring = ring or KeyRing({})
        self._found: list[str] = []  # problems that stay: what recovery found, and what is damaged
        self._checkpoint_seconds = Histogram(CHECKPOINT_BOUNDS)
        self._lock = lock
        self._checkpoint_bytes = checkpoint_bytes
        self._flush_bytes = flush_bytes
        self._reserve_bytes = reserve_bytes
        self._on_sync_failure = on_sync_failure
        self._writer = WalWriter(in_threads, now)
        self._reader = Reader(self.ring, self._report)
        self._flusher = _new_flusher() if in_threads else None
        self._files_max = files_max
        self._now = now
        self._keys = DiskKeys(disk, self.ring, self._beside, reserve_bytes)
        self._reset()

    def _reset(self) -> None:
        files = FilePool(self.disk, self._files_max)
        self._wal = Wal(self.disk, self._on_sync_failure, files)
        self._writer.open(self._wal)
        self._commits = CommitReader(self._wal, self.ring)
        self._catalog = Catalog(self.disk, files, self._commits)
        self._reader.open(self._catalog, self._commits)
        self._checkpointing: asyncio.Task[None] | None = None
        self._changing_files = asyncio.Lock()  # a checkpoint, or a re-encryption: one at a time
        self._is_settled = True  # whether the last checkpoint names all that was flushed
        self._room = Room(self.disk, self._reserve_bytes)
        self.page_out = self.disk.scratch().keep
        self._failing: dict[str, str] = {}  # problems that go when what failed succeeds
        self._cleaner = Cleaner(self.disk, self._catalog, self._wal, self._beside, self._failing, self._report)
        self._keys.attach(self._catalog, self._wal, self._changing_files, lambda: self._is_settled)
        self._paused_until = 0.0
        self._checkpointed = 0  # the last commit in the last checkpoint
        self._flushed = 0  # what commits up to that number had, files have, but for what cannot be flushed

    async def _in(self, executor: ThreadPoolExecutor | None, work: Callable[..., Any], *args: Any) -> Any:
        if executor is None:
            return work(*args)
        return await asyncio.get_running_loop().run_in_executor(executor, work, *args)

    async def _beside(self, work: Callable[..., Any], *args: Any) -> Any:
        """In the one thread that writes and removes files, beside the commits."""
        return await self._in(self._flusher, work, *args)

    # -- recovery

    async def recover(self) -> AsyncIterator[list[r.Record]]:
        stopped = await self._keys.stop()
        if self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        refuse_strangers(self.disk)  # before a lock is left in what is not ours
        if self._lock is not None:
            self._lock.acquire()
        self._wal.close()
        self._catalog.close_files()
        self._reset()
        check_format(self.disk)
        self._found = bind_keys(self.disk, self.ring)
        checkpoint = await self._beside(read_checkpoint, self.disk)
        recovery = Recovery(self.disk, self._wal, self._catalog, self.ring, self._found, checkpoint)
        recovery.prepare()
        if checkpoint is not None:
            self._room.checkpoint_bytes, self._checkpointed = checkpoint.size, checkpoint.number
            yield [await self._beside(recovery.load, checkpoint)]
        for records in recovery.replay():
            yield records
        if self._wal.torn is not None:
            self._report(self._wal.torn)
        for history in self._catalog.histories.values():
            history.prove_keys(self.ring)
        recovery.remove_strangers()
        recovery.lock_up_without_key()
        for record in self._catalog.quarantine.records():
            yield [record]
        self._wal.rotate()
        self._flushed = (self._catalog.lowest_logged() or self._wal.next_number) - 1
        self._keys.go_on(stopped)

    # -- writing

    def appends_at_once(self, records: Sequence[r.Record]) -> bool:
        """What `append` goes by, too, before anything has changed."""
        return not self._is_behind and self._writer.writes_at_once(*self._to_write(records))

    def _to_write(self, records: Sequence[r.Record]) -> tuple[Sync, int]:
        """When it has to be synced, and about how many bytes it is."""
        size = 0
        for record in records:
            if type(record) is r.Published:
                size += record.size
        return sync_needed(records, self._catalog.configs), size

    async def append(self, records: Sequence[r.Record]) -> None:
        self._check_owner()
        if self._is_behind and self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        sync, size = self._to_write(records)
        for record in records:
            self._catalog.learn(record)
        commit = encode_commit(self._wal.next_number, records, self._catalog.secret_topic, self.ring)
        try:
            number = await self._writer.append(*commit, sync, size)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._room.full = f"the disk is full ({error})"
            raise
        for record in records:
            self._catalog.absorb(record, number, self._wal.position)
            self._catalog.quarantine.follow(record, number)
        self._room.note_written(self._wal.last_size)

    @property
    def _is_behind(self) -> bool:
        """Whether commits have to wait for a checkpoint."""
        backlog = self._wal.bytes_since_rotation
        return self._checkpointing is not None and backlog > BACKLOG_FACTOR * self._checkpoint_bytes

    # -- reading

    def _check_owner(self) -> None:
        if self._lock is not None:
            self._lock.check_owner()

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[r.Staged]:
        self._check_owner()
        index, name = self._catalog.staged, (namespace, transaction)
        found: list[r.Staged] = await self._writer.run(index.read, name, start, bytes_max, self._wal, self.ring)
        return found

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        self._check_owner()
        return await self._reader.read(topic, partition, offsets)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        self._check_owner()
        return await self._reader.scan(topic, partition, start, count)

    def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[r.HistoryRecord]]:
        return self._reader.history(topic, partition, offset)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        """A lease is not synced for its own sake. Who follows the history must not see what might never have been."""
        history = self._catalog.histories.get((topic, partition))
        if history is None:
            return StoredHistory([], start, 0, 0)
        end = history.end
        if len(history.blocks) and not self._wal.is_synced:
            await self._writer.sync()
        return await self._reader.read_history(history, start, count, end)

    # -- checkpoints

    def discard(self, topic: TopicId, partition: int, offsets: OffsetSet) -> None:
        log = self._catalog.logs.get((topic, partition))
        if log is not None:
            log.discard(offsets)
            self._catalog.frees = True

    def status(self) -> StoreStatus:
        if self._room.is_stale:
            self._measure_room()
        idle = self._checkpointing is None
        return StoreStatus(
            checkpoint_due=idle and self._is_checkpoint_due(),
            checkpoint_useful=idle and self._wal.bytes_since_rotation > 0,
            full=self._room.full,
            room_bytes=self._room.bytes,
            can_encrypt=self.ring.current is not None,
            problems=tuple(self.problems),
        )

    def _measure_room(self) -> None:
        waiting, failing = self._wal.bytes_unwritten, self._failing.get("checkpoint")
        self._room.measure(self._bytes_unflushed)
        if failing is not None and waiting > max(BACKLOG_FACTOR * self._checkpoint_bytes, BACKLOG_MIN):
            self._room.full = self._room.full or f"{failing}, and {waiting >> 20} MiB wait for one"

    def _is_checkpoint_due(self) -> bool:
        if self._now() < self._paused_until:
            return False
        if self._room.is_short and (self._catalog.frees or self._bytes_unflushed >= self._checkpoint_bytes // 32 > 0):
            return True
        if self._keys.wants_checkpoint:
            return True
        too_many = self._wal.count_after(self._checkpointed) > FLUSH_FILES
        return too_many or self._wal.bytes_unwritten >= self._checkpoint_bytes

    @property
    def _bytes_unflushed(self) -> int:
        return self._wal.bytes_after(self._flushed)

    @property
    def problems(self) -> list[str]:
        if not self._found and not self._failing:
            return []
        return list(dict.fromkeys([*self._found, *self._failing.values()]))

    def figures(self) -> StoreFigures:
        segments = sum(segment.size for log in list(self._catalog.logs.values()) for segment in list(log.segments))
        times = self._writer.sync_seconds.copy(), self._checkpoint_seconds.copy()
        return StoreFigures(*times, self._wal.bytes_after(0), segments, self.disk.free_bytes())

    def keys(self) -> DiskKeys:
        return self._keys

    async def checkpoint(self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes] | None = None) -> None:
        self._check_owner()
        number, written = self._wal.next_number - 1, self._wal.bytes_total
        await self._writer.sync()
        try:
            await self._writer.rotate()
        except OSError as error:
            self._checkpoint_failed(error)
            return
        staged = self._catalog.staged.needed(self._wal.files)
        waiting = self._keys.begin_checkpoint()
        cut = take_cut(self._catalog, self.ring, number, written, snapshot, at, secrets or {}, staged)
        if self._flusher is None:
            await self._run_checkpoint(cut, waiting)
        else:
            self._checkpointing = asyncio.create_task(self._run_checkpoint(cut, waiting), name="ortoo-checkpoint")

    async def _run_checkpoint(self, cut: Cut, waiting: Reencryptor | None) -> None:
        """`waiting`: who needs everything flushed, and has more to write with it."""
        catalog, began = self._catalog, perf_counter()
        failure: Exception | None = UnavailableError("the checkpoint was interrupted")
        try:
            async with self._changing_files:
                await self._write_checkpoint(cut, waiting)
            failure = None
        except Exception as error:  # the write-ahead log still has it all; the next checkpoint tries again
            failure = error
            self._checkpoint_failed(error)
            cut.give_back(catalog)
        finally:
            self._checkpointing = None
            self._checkpoint_seconds.observe(perf_counter() - began)
            if waiting is not None:
                waiting.checkpointed(failure)

    async def _write_checkpoint(self, cut: Cut, waiting: Reencryptor | None) -> None:
        await self._refresh_keys()
        self._is_settled = False
        await self._flush(cut, everything=waiting is not None)
        if waiting is not None:
            await waiting.rewrite_histories()
        checkpoint = await self._compose(cut)
        self._flushed = (cut.lowest_logged() or cut.number + 1) - 1
        self._room.checkpoint_bytes = await self._beside(write_checkpoint, self.disk, checkpoint)
        self._wal.bytes_written, self._checkpointed, self._is_settled = cut.bytes, cut.number, True
        self._failing.pop("checkpoint", None)
        await self._cleaner.clean_up(cut, checkpoint)
        await self._cleaner.seal_old()
        await self._cleaner.merge(self.ring, cut.at)

    async def _flush(self, cut: Cut, everything: bool) -> None:
        everything = everything or self._room.is_short or self._catalog.count_blocks() > FLUSH_BLOCKS
        plan = FlushPlan(self._flush_bytes, everything)
        for files in plan.passes(self._wal, cut.lowest_logged(), cut.number):
            await self._flush_files(cut, files)

    async def _flush_files(self, cut: Cut, files: list[int]) -> None:
        flush = Flush(self.disk, self.ring, cut.logs, cut.histories, self._wal.last_of(files[-1]))
        await self._beside(flush.run, files)
        for reason in flush.stuck.values():
            self._report(reason)
        for history in flush.lost:
            self._report(f"{history.folder}: some history was damaged in the write-ahead log, and is lost")
        await in_turns(flush.steps())

    async def _compose(self, cut: Cut) -> Checkpoint:
        logs = await in_turns([partial(log.entry, start, cut.number) for log, start, _ in cut.logs])
        histories = await in_turns([partial(one.entry, start, cut.number) for one, start, _ in cut.histories])
        return cut.checkpoint(logs, histories, cut.logged(self._wal))

    def _checkpoint_failed(self, error: Exception) -> None:
        self._failing["checkpoint"] = f"a checkpoint failed: {error}"
        self._paused_until = self._now() + CHECKPOINT_PAUSE_S

    async def _refresh_keys(self) -> None:
        try:
            await self._beside(self.ring.refresh)
        except (OrtooError, OSError) as error:  # the keys known so far go on
            self._failing["keys"] = f"the encryption keys could not be read again: {error}"
        else:
            self._failing.pop("keys", None)

    def _report(self, problem: str) -> None:
        if problem not in self._found and len(self._found) < PROBLEMS_MAX:
            self._found.append(problem)

    # -- the end

    async def close(self) -> None:
        if self._lock is not None and self._lock.is_parents:
            return  # with everything in it
        await self._keys.stop()
        if self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        await self._writer.close()
        self._catalog.close_files()
        if self._flusher is not None:
            self._flusher.shutdown()
            self._flusher = _new_flusher()  # it may be opened again
        if self._lock is not None:
            self._lock.release()


def _new_flusher() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "ortoo-checkpoint")
