"""Writes commits to the write-ahead log, in the caller's own turn of the event loop where that is quick.

To hand a commit to another thread and back takes longer than to write a few kilobytes, which only go to the system's cache. A
write takes long when it is large, or when the cache is full of what the disk has not taken yet: then, and for a while after some
that were slow, a thread writes. A sync may always take as long as the disk likes: the kernel does it beside the program where it
can (`kernel_sync.py`), and else the thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Literal, NoReturn, TypeVar

from ortoo.model import records as r
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicId
from ortoo.model.topic import TopicConfig

from .kernel_sync import KernelSync
from .wal import Wal

INTERVAL_S = 0.05  # how long durability "interval" may lag
AT_ONCE_BYTES = 1 << 20  # more than that is written in the thread
SLOW_WRITE_S, BLOCKED_WRITE_S = 0.005, 0.05
SLOW_PAUSE_S = 1.0  # for which the thread writes after a slow write

# What promises nothing that a crash could break: a lost one costs a redelivery at most.
_SOFT = (r.Leased, r.Extended, r.CameDue, r.WindowClosed, r.Released, r.Answered)  # an answer goes with what it answers

_TOPICS = (r.TopicCreated, r.TopicChanged, r.TopicDeleted)  # from here on another durability may count

Sync = Literal["now", "soon", "never"]
T = TypeVar("T")


def sync_needed(records: Sequence[r.Record], configs: Mapping[TopicId, TopicConfig]) -> Sync:
    """When these have to be on the disk: before they are confirmed, a little later, or whenever the system likes."""
    needed: Sync = "never"
    for record in records:
        if isinstance(record, _SOFT):
            continue
        config = configs.get(getattr(record, "topic", TopicId(0)))
        if config is None or config.durability == "commit" or isinstance(record, _TOPICS):
            return "now"
        if config.durability == "interval":
            needed = "soon"
    return needed


def exit_on_sync_failure(error: OSError) -> NoReturn:
    """What the page cache holds can no longer be trusted; a new process reads what is there."""
    sys.stderr.write(f"ortoo: the disk failed to sync ({error}); ending now, start again to recover\n")
    os._exit(74)


class WalWriter:
    """Its thread does one thing after the other. Commits come one by one, and none while the log is rotated."""

    def __init__(self, in_threads: bool, now: Callable[[], float]) -> None:
        self.sync_seconds = Histogram()
        self._thread = ThreadPoolExecutor(1, "ortoo-wal") if in_threads else None
        self._kernel: KernelSync | None = None
        self._may_ask_kernel = in_threads
        self._now = now
        self._wal: Wal | None = None
        self._will_sync: asyncio.TimerHandle | None = None
        self._slow_until = 0.0  # the thread writes until then
        self._slow_again_until = 0.0  # and from a second slow write before then

    def open(self, wal: Wal) -> None:
        """From now on it writes to this one."""
        self._cancel_sync()
        self._wal = wal

    @property
    def wal(self) -> Wal:
        assert self._wal is not None
        return self._wal

    def writes_at_once(self, sync: Sync, size: int) -> bool:
        """Whether so many bytes are written without waiting for anything."""
        return sync != "now" and self._writes_quickly(size)

    def _writes_quickly(self, size: int) -> bool:
        return size <= AT_ONCE_BYTES and self._now() >= self._slow_until

    async def append(self, head: bytes, body: bytes, flags: int, sync: Sync, size: int) -> int:
        """Writes a commit, syncs it if that is needed, and returns its number. `size` is what `writes_at_once` was asked with."""
        if sync == "soon" and self._will_sync is None:
            self._will_sync = asyncio.get_running_loop().call_later(INTERVAL_S, self._sync_beside)
        if not self._writes_quickly(size) or (sync == "now" and not self._can_ask_kernel()):
            return await self.run(self._append, head, body, flags, sync)
        began = perf_counter()
        number = self.wal.append(head, body, flags)
        took = perf_counter() - began
        if took > SLOW_WRITE_S:
            self._note_slow(took)
        if sync == "now":
            await self._sync_in_kernel(number)
        return number

    def _note_slow(self, took: float) -> None:
        """One that was a little slow may have had to wait for the processor; two in a row are the disk's."""
        now = self._now()
        if took > BLOCKED_WRITE_S or now < self._slow_again_until:
            self._slow_until = now + SLOW_PAUSE_S
        self._slow_again_until = now + SLOW_PAUSE_S

    def _can_ask_kernel(self) -> bool:
        if self._may_ask_kernel and self._kernel is None:
            self._kernel = KernelSync.open(self._sync_failed)
        self._may_ask_kernel = self._kernel is not None and self.wal.descriptor is not None
        return self._may_ask_kernel

    def _sync_failed(self, error: OSError) -> None:
        self.wal.sync_failed(error)

    async def _sync_in_kernel(self, number: int) -> None:
        assert self._kernel is not None
        assert self.wal.descriptor is not None
        began = perf_counter()
        if await self._kernel.sync(self.wal.descriptor):
            self.wal.synced(number)
            self.sync_seconds.observe(perf_counter() - began)
        else:
            self._may_ask_kernel = False
            await self.sync()

    def _append(self, head: bytes, body: bytes, flags: int, sync: Sync) -> int:
        number = self.wal.append(head, body, flags)
        if sync == "now":
            self._sync()
        return number

    async def sync(self) -> None:
        await self.run(self._sync)

    async def rotate(self) -> None:
        await self.run(self.wal.rotate)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """In its thread, after all that it was given before."""
        if self._thread is None:
            return work(*args)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _sync_beside(self) -> None:
        self._will_sync = None
        task = asyncio.ensure_future(self.sync())
        task.add_done_callback(lambda done: done.exception())

    def _sync(self) -> None:
        began = perf_counter()
        self.wal.sync()
        self.sync_seconds.observe(perf_counter() - began)

    def _cancel_sync(self) -> None:
        if self._will_sync is not None:
            self._will_sync.cancel()
            self._will_sync = None

    async def close(self) -> None:
        self._cancel_sync()
        if self._kernel is not None:
            self._kernel.close()
            self._kernel, self._may_ask_kernel = None, False
        await self.sync()
        self.wal.close()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = ThreadPoolExecutor(1, "ortoo-wal")  # it may be opened again
