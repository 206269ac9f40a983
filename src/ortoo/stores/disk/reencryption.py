"""Re-encryption: what older keys encrypted is written anew with the current one, while everything goes on.

    write-ahead log   flushed with a checkpoint, as a whole; what is flushed is encrypted with the current key
    history           written anew to files behind those there are; the next checkpoint names these, and the old ones go
    segments          one after the other: a draft, which takes the segment's name in one step
    checkpoint        each one encrypts its secrets anew, so the next one is enough

Each step leaves a directory that is whole by itself, so it may end anywhere, by a crash too; to run it again is to go on. What is
done is told by what is there: no file needs an older key.

One file is written at a time, and never beside a checkpoint. Between two files it pauses, so that it takes a bounded share of the
disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ortoo.model.errors import OrtooError, UnavailableError
from ortoo.model.keys import Reencryption
from ortoo.model.names import TopicId

from .catalog import Catalog
from .codec import context, reseal
from .crypto import KeyRing
from .files import Disk
from .frame import FrameHead
from .history import DiskHistory, Place
from .history_rewriting import rewrite_history
from .key_use import logged_keys
from .log import DiskLog
from .segment import Segment
from .wal import Wal

HISTORY_BYTES = 64 << 20  # that are written anew with one checkpoint, or one partition's, if that has more
CHECKPOINTS_MAX = 5  # that may fail, one after the other
RETRY_SECONDS = 5.0  # after one that failed
PROBLEMS_MAX = 20

Run = Callable[..., Awaitable[Any]]  # does work in a thread


class Reencryptor:
    """`lock` is held by whoever changes files: this, or a checkpoint. `is_settled`: whether the last checkpoint names all that
    was flushed, so that a segment may be sealed as it is."""

    def __init__(
        self,
        disk: Disk,
        ring: KeyRing,
        run: Run,
        topics: Sequence[TopicId] | None,
        bytes_per_second: int | None,
        reserve_bytes: int,
        wake: Callable[[], None],
    ) -> None:
        self._disk, self._ring, self._run = disk, ring, run
        self._topics = None if topics is None else set(topics)
        self._bytes_per_second = bytes_per_second
        self._reserve_bytes = reserve_bytes
        self._wake = wake
        self._stopping = asyncio.Event()
        self._checkpointed = asyncio.Event()
        self._key: str | None = None  # what was current when the last checkpoint began
        self._failed = 0  # checkpoints, one after the other
        self._left_alone: set[int] = set()  # logs, segments and histories that cannot be written anew, by identity
        self._problems: list[str] = []
        self._done_bytes = 0
        self.wants_checkpoint = True  # one that flushes everything
        self.task: asyncio.Task[None] | None = None

    def attach(self, catalog: Catalog, wal: Wal, lock: asyncio.Lock, is_settled: Callable[[], bool]) -> None:
        """What there is since the store was opened, or recovered."""
        self._catalog, self._wal, self._lock, self._is_settled = catalog, wal, lock, is_settled

    def start(self) -> None:
        self.task = asyncio.create_task(self._go(), name="ortoo-reencryption")

    async def stop(self) -> None:
        """When the file that is being written is done."""
        self._stopping.set()
        self._checkpointed.set()
        if self.task is not None:
            await asyncio.gather(self.task, return_exceptions=True)

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def again(self) -> Reencryptor:
        """The rest of it, for a store that was opened anew."""
        return Reencryptor(
            self._disk,
            self._ring,
            self._run,
            None if self._topics is None else list(self._topics),
            self._bytes_per_second,
            self._reserve_bytes,
            self._wake,
        )

    def info(self) -> Reencryption:
        left = sum(segment.size for _, segment in self._segments()) + sum(map(_size_of, self._histories()))
        return Reencryption(self.is_running, self._done_bytes, left, list(self._problems))

    # -- the whole of it

    async def _go(self) -> None:
        try:
            while not self._stopping.is_set():
                if self.wants_checkpoint or self._key != self._ring.current or self._histories():
                    await self._wait_for_checkpoint()
                elif not await self._rewrite_segments():
                    break
            if not self._stopping.is_set():
                await self._look_back()
        except (OSError, OrtooError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._tell(f"it ended early: {error}; run it again when that is mended")
        self._stopping.set()

    async def _wait_for_checkpoint(self) -> None:
        self.wants_checkpoint, before = True, self._done_bytes
        while self.wants_checkpoint and not self._stopping.is_set():
            self._checkpointed.clear()
            self._wake()
            await self._checkpointed.wait()
            if self.wants_checkpoint:
                await self._pause(RETRY_SECONDS)
        await self._pause_after(self._done_bytes - before)

    def checkpoint_begins(self) -> None:
        """What was written up to now is what it flushes, and its secrets are encrypted by now."""
        self._key = self._ring.current

    def checkpointed(self, error: Exception | None) -> None:
        """The one that began last is done, or has failed."""
        self._failed = 0 if error is None else self._failed + 1
        self.wants_checkpoint = error is not None
        if self._failed >= CHECKPOINTS_MAX:
            self._give_up(error or UnavailableError("no checkpoint succeeds"))
        self._checkpointed.set()

    async def _pause_after(self, size: int) -> None:
        if self._bytes_per_second is not None:
            await self._pause(size / self._bytes_per_second)

    async def _pause(self, seconds: float) -> None:
        if self._bytes_per_second is not None and seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _look_back(self) -> None:
        """What is left in the write-ahead log is held there by something else."""
        current = self._ring.current
        found = await self._run(lambda: list(logged_keys(self._disk, self._wal.files)))
        for key in sorted({key for _, key, _ in found if key != current}):
            self._tell(
                f"the write-ahead log still needs key {key!r}: an open transaction or something quarantined holds it there; "
                "end the transactions, repair what is quarantined, and run it again"
            )
        for topic in sorted({entry.topic for entry in self._catalog.unreadable.values() if self._has(entry.topic)}):
            self._tell(
                f"topic {str(self._catalog.names[topic])!r} is quarantined, and stays as it is; see `ortoo stats`"
            )

    def _tell(self, problem: str) -> None:
        if problem not in self._problems and len(self._problems) < PROBLEMS_MAX:
            self._problems.append(problem)

    def _has(self, topic: TopicId) -> bool:
        return self._topics is None or topic in self._topics

    def _is_old(self, keys: Iterable[str]) -> bool:
        current = self._ring.current
        return current is not None and any(key != current for key in keys)

    # -- segments

    def _segments(self) -> list[tuple[DiskLog, Segment]]:
        return [
            (log, segment)
            for log in list(self._catalog.logs.values())
            if self._has(log.topic)
            for segment in log.segments
            if id(segment) not in self._left_alone and self._is_old(segment.keys)
        ]

    async def _rewrite_segments(self) -> bool:
        """Each that needs it. False when there was none."""
        found = self._segments()
        for log, segment in found:
            if self._stopping.is_set() or self.wants_checkpoint:
                break
            async with self._lock:
                is_there = self._catalog.logs.get((log.topic, log.partition)) is log and segment in log.segments
                if not segment.is_sealed and not self._is_settled():
                    self.wants_checkpoint = True  # what it has must be known before it is sealed as it is
                elif is_there:
                    self._check_room(segment.size)
                    await self._rewrite_segment(log, segment)
            await self._pause_after(segment.size)
        return bool(found)

    async def _rewrite_segment(self, log: DiskLog, segment: Segment) -> None:
        try:
            twin = await self._run(segment.write_twin, partial(_reseal, self._ring, log.topic, log.partition))
        except OrtooError as error:
            self._left_alone.add(id(segment))
            self._tell(f"a segment keeps its old key: {error}; repair it, and run it again")
            return
        if self._catalog.logs.get((log.topic, log.partition)) is not log:  # the topic was deleted meanwhile
            await self._run(self._disk.remove, twin.draft)
            return
        # In the event loop, in one turn: whoever reads the file by its name must know where its frames are.
        twin.take_name()
        log.replace(segment, twin)
        segment.close()
        await self._run(self._disk.sync_dir, log.folder)
        if segment.path != twin.path:
            await self._run(self._disk.remove, segment.path)
        self._done_bytes += segment.size

    def _check_room(self, size: int) -> None:
        free = self._disk.free_bytes() - self._reserve_bytes
        if free < size:
            raise OSError(f"there is no room on the disk for {size >> 10} KiB more")

    # -- history, with a checkpoint

    def _histories(self) -> list[DiskHistory]:
        return [
            history
            for history in list(self._catalog.histories.values())
            if self._has(history.topic) and id(history) not in self._left_alone and self._is_old(_keys_of(history))
        ]

    async def rewrite_histories(self) -> None:
        """As many as one checkpoint may. Called between its flush and its writing, by whoever holds the lock."""
        size = 0
        for history in self._histories():
            if size >= HISTORY_BYTES or self._stopping.is_set():
                return
            size += _size_of(history)
            try:
                self._check_room(_size_of(history))
                places: list[Place] = await self._run(rewrite_history, history, self._ring)
            except OSError as error:  # the checkpoint goes on without it, and may be what makes room
                self._give_up(error)
                return
            except OrtooError as error:
                self._left_alone.add(id(history))
                self._tell(f"some history keeps its old key: {error}")
                continue
            self._done_bytes += _size_of(history)
            history.finish_rewriting(places)


def _keys_of(history: DiskHistory) -> set[str]:
    return {place.head.sealed.key for place in history.places if place.head.sealed is not None}


def _size_of(history: DiskHistory) -> int:
    return sum(history.sizes.values())


def _reseal(
    ring: KeyRing, topic: int, partition: int, fixed: FrameHead, head: bytes, body: bytes
) -> tuple[bytes, bytes, int]:
    return reseal(head, body, fixed.flags, context(topic, partition, fixed.number), ring)
