"""A data directory that a test opens again and again, as the same process or as one that comes after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ortoo import Messages, Queue, Received
from ortoo.broker import Broker
from ortoo.stores.disk import Disk, DiskStore, File, KeyRing, RealDisk
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.testing import ManualClock
from ortoo.testing.crash import kill

NEVER = 1 << 40
AFTER_EACH_COMMIT = 1


class WatchedFile:
    """Tells its path before it is synced."""

    descriptor = None

    def __init__(self, inner: File, path: str, before_sync: Callable[[str], None]) -> None:
        self.append, self.read, self.size = inner.append, inner.read, inner.size
        self.truncate, self.close = inner.truncate, inner.close
        self._inner, self._path, self._before_sync = inner, path, before_sync

    def sync(self) -> None:
        self._before_sync(self._path)
        self._inner.sync()


class Home:
    def __init__(self, root: Path, *, ending: str = "close", checkpoint_bytes: int = AFTER_EACH_COMMIT) -> None:
        self.root = root
        self.ending = ending
        self.checkpoint_bytes = checkpoint_bytes
        self.clock = ManualClock()
        self.keys: dict[str, bytes] = {}
        self._queue: Queue | None = None

    async def open(self, disk: Disk | None = None, **options: Any) -> Queue:
        """Ends what is open, and opens it anew."""
        await self.end()
        self.root.mkdir(exist_ok=True)
        self._lock = DirectoryLock(self.root)
        self.store = DiskStore(
            disk or RealDisk(self.root),
            KeyRing(self.keys),
            checkpoint_bytes=self.checkpoint_bytes,
            in_threads=False,
            lock=self._lock,
            **{"flush_bytes": 0} | options,
        )
        self.broker = Broker(self.store, self.clock)
        self._queue = await Queue(self.broker, consumer="tester").open()
        return self._queue

    async def end(self) -> None:
        if self._queue is None:
            return
        if self.ending == "close":
            await self._queue.close()
        else:
            await self.broker.flush()  # a lease is answered before it is written; one a moment old may be forgotten
            await kill(self.broker)
            self._lock.release()  # which the system does for a process that is gone
        self._queue = None

    def files(self) -> dict[str, bytes]:
        found = [path for path in self.root.rglob("*") if path.is_file()]
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in found}


def values(messages: Iterable[Received]) -> list[bytes]:
    return [message.value for message in messages]


async def take(queue: Queue, topic: str, **options: Any) -> Messages:
    return await queue.lease(topic, max_messages=100, **options)
