"""Data directories as what `ortoo migrate` reads and writes.

A new one is written in a folder inside itself, beside a file that says so. What is in it moves up when it is whole, the file
FORMAT last: up to then nobody takes the directory for a queue's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from ortoo.model.errors import ExistsError, NotFoundError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord, Published, Record, Staged, TopicCreated, Trimmed
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory

from .check import Directory
from .crypto import KeyRing
from .directory import refuse_interrupted_repair
from .draft import Draft
from .files import PRIVATE, RealDisk, make_durable_dir, sync
from .format import NAME, UNFINISHED, refuse_strangers
from .keys import bind_keys
from .lock import DirectoryLock
from .logged import CommitReader
from .reader import Reader
from .view import ViewDisk

_MIGRATING = b"ortoo migrate\n"  # what the file UNFINISHED has here
_DRAFT = "draft"
_NAMED_MAX = 5


class DirectorySource:
    def __init__(self, path: Path, ring: KeyRing, lock: DirectoryLock | None = None) -> None:
        """`lock`: is taken, and freed when this is closed."""
        self.problems: list[str] = []
        self._disk = ViewDisk(path)
        self._ring = ring
        self._lock = lock
        self._directory = Directory(self._disk, ring)
        self._reader = Reader(ring, self.problems.append)

    async def records(self) -> AsyncIterator[list[Record]]:
        refuse_strangers(self._disk)
        if self._lock is not None:
            self._lock.acquire()
        directory = self._directory
        self._reader.open(directory.catalog, CommitReader(directory.wal, self._ring))
        for records in directory.records():
            yield records
        self.problems += directory.problems

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._reader.scan(topic, partition, start, count)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        history = self._directory.catalog.histories.get((topic, partition))
        if history is None:
            return StoredHistory([], start, 0, 0)
        return await self._reader.read_history(history, start, count, history.end)

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        directory = self._directory
        return directory.catalog.staged.read((namespace, transaction), start, bytes_max, directory.wal, self._ring)

    async def close(self) -> None:
        self._directory.catalog.close_files()
        self._directory.wal.close()
        if self._lock is not None:
            self._lock.release()


def directory_source(path: Path, ring: KeyRing) -> DirectorySource:
    path = path.resolve()
    refuse_interrupted_repair(path)
    if not path.is_dir():
        raise NotFoundError(f"there is no directory {path}")
    if not (path / NAME).is_file() and not (path / UNFINISHED).exists():  # that one is told apart later
        raise NotFoundError(f"{path} is not a data directory of Ortoo, so there is nothing to move")
    return DirectorySource(path, ring, DirectoryLock(path))


class DirectoryTarget:
    def __init__(self, path: Path, ring: KeyRing) -> None:
        self._path = path.resolve()
        self._inner = self._path / _DRAFT
        self._ring = ring
        self._draft: Draft | None = None

    async def begin(self) -> None:
        refuse_interrupted_repair(self._path)
        if self._path.exists():
            self._clear()
        make_durable_dir(self._path)
        fd = os.open(self._path / UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as writer:
            writer.write(_MIGRATING)
            os.fsync(fd)
        sync(self._path)
        self._inner.mkdir(PRIVATE)
        self._draft = Draft(RealDisk(self._inner), self._ring)
        bind_keys(self._draft.disk, self._ring)

    def _clear(self) -> None:
        """Only what an earlier one of these left may be there."""
        if not self._path.is_dir():
            raise ExistsError(f"{self._path} is a file; name a new directory")
        present = sorted(path.name for path in self._path.iterdir())
        marker = self._path / UNFINISHED
        if NAME not in present and marker.is_file() and marker.read_bytes() == _MIGRATING:
            for name in [name for name in present if name != UNFINISHED]:
                path = self._path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif present:
            more = f" and {len(present) - _NAMED_MAX} more" if len(present) > _NAMED_MAX else ""
            raise ExistsError(
                f"{self._path} is not empty, there is {', '.join(present[:_NAMED_MAX])}{more}; name a new directory"
            )

    def can_encrypt(self) -> bool:
        return self._ring.current is not None

    @property
    def _open_draft(self) -> Draft:
        assert self._draft is not None  # begun
        return self._draft

    async def create(self, topic: TopicCreated, starts: Sequence[int]) -> None:
        self._open_draft.take(topic)
        for partition, start in enumerate(starts):
            if start:
                self._open_draft.take(Trimmed(topic.at, topic.topic, partition, start))

    async def publish(self, records: Sequence[Published]) -> None:
        for record in records:
            self._open_draft.take(record)

    async def tell(self, topic: TopicId, partition: int, number: int, records: Sequence[HistoryRecord]) -> None:
        if not records:
            self._open_draft.catalog.history(topic, partition)
            self._open_draft.reach(topic, partition, number)
            return
        for at, record in enumerate(records, number):
            self._open_draft.take(record, at)
        self._open_draft.flush()

    async def finish(
        self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes], commits: AsyncIterator[list[Record]]
    ) -> None:
        told = _in_thread(commits, asyncio.get_running_loop())
        await asyncio.to_thread(self._open_draft.finish, 1, snapshot, at, secrets, told)

    def reopen(self) -> DirectorySource:
        return DirectorySource(self._inner, self._ring)

    async def release(self) -> None:
        """From the last rename on it is a data directory."""
        for path in sorted(self._inner.iterdir()):
            if path.name != NAME:
                path.rename(self._path / path.name)
        sync(self._path)
        (self._inner / NAME).rename(self._path / NAME)
        (self._path / UNFINISHED).unlink()
        self._inner.rmdir()
        sync(self._path)

    async def close(self) -> None:
        if self._draft is not None:
            self._draft.catalog.close_files()
            self._draft = None


def _in_thread(commits: AsyncIterator[list[Record]], loop: asyncio.AbstractEventLoop) -> Iterator[list[Record]]:
    """For a thread beside the event loop that has them."""

    async def following() -> list[Record] | None:
        return await anext(commits, None)

    while (records := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield records
