"""Data directories as what `ortoo migrate` reads and writes.

A new one is written in a folder inside itself, beside a file that says so. What is in it moves up when it is whole, the file
FORMAT last: up to then nobody takes the directory for a queue's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ortoo.model.errors import ConfigError, ExistsError, NotFoundError, UnavailableError
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
from .syncing import sync_all
from .view import ViewDisk

_MIGRATING = b"ortoo migrate\n"  # what the file UNFINISHED begins with here; a mark may follow
_DRAFT, _LOCK = "draft", "LOCK"
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
        self._lock = DirectoryLock(self._path)

    async def look(self) -> str | None:
        try:
            refuse_interrupted_repair(self._path)
            return self._look()
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be a data directory: {error.strerror or error}; name another one"
            ) from None

    def _look(self) -> str | None:
        present = self._present()
        home = next(path for path in (self._path, *self._path.parents) if os.path.lexists(path))
        if not home.is_dir():
            what = "is a file" if home == self._path else f"cannot be made, for {home} is a file"
            raise ExistsError(f"{self._path} {what}; name a new directory")
        marker = self._path / UNFINISHED
        told = marker.read_bytes() if UNFINISHED in present else b""
        if told.startswith(_MIGRATING) and (mark := told[len(_MIGRATING) :].decode().strip()):
            return mark
        if present and (NAME in present or told != _MIGRATING):
            more = f" and {len(present) - _NAMED_MAX} more" if len(present) > _NAMED_MAX else ""
            raise ExistsError(
                f"{self._path} is not empty, there is {', '.join(present[:_NAMED_MAX])}{more}; name a new directory"
            )
        if not os.access(home, os.W_OK | os.X_OK):
            raise ConfigError(f"{home} may not be written to; change its permissions, or name another directory")
        return None

    def _present(self) -> list[str]:
        if not self._path.is_dir():
            return []
        return sorted(path.name for path in self._path.iterdir() if path.name != _LOCK)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(
                f"{self._path} cannot be written: {error.strerror or error}; see to that, and run this again"
            ) from error

    async def begin(self) -> None:
        with self._writing():
            self._begin()

    def _begin(self) -> None:
        make_durable_dir(self._path)
        self._lock.acquire()
        self._look()  # nobody else has begun meanwhile
        if NAME in self._present():  # it opens as a store
            raise ExistsError(f"{self._path} has a queue already; name a new directory")
        self._write_marker(_MIGRATING)
        for name in self._present():
            path = self._path / name
            if name != UNFINISHED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._inner.mkdir(PRIVATE)
        self._draft = Draft(RealDisk(self._inner), self._ring)
        bind_keys(self._draft.disk, self._ring)

    def _write_marker(self, told: bytes) -> None:
        """All or nothing."""
        draft = self._path / f"{UNFINISHED}.tmp"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as writer:
            writer.write(told)
            writer.flush()
            sync_all(fd)
        draft.replace(self._path / UNFINISHED)
        sync(self._path)

    def can_encrypt(self) -> bool:
        return self._ring.current is not None

    @property
    def _open_draft(self) -> Draft:
        assert self._draft is not None  # begun
        return self._draft

    async def create(self, topic: TopicCreated, starts: Sequence[int]) -> None:
        with self._writing():
            self._open_draft.take(topic)
            for partition, start in enumerate(starts):
                if start:
                    self._open_draft.take(Trimmed(topic.at, topic.topic, partition, start))

    async def publish(self, records: Sequence[Published]) -> None:
        with self._writing():
            for record in records:
                self._open_draft.take(record)

    async def tell(self, topic: TopicId, partition: int, number: int, records: Sequence[HistoryRecord]) -> None:
        if not records:
            self._open_draft.catalog.history(topic, partition)
            self._open_draft.reach(topic, partition, number)
            return
        with self._writing():
            for at, record in enumerate(records, number):
                self._open_draft.take(record, at)
            self._open_draft.flush()

    async def finish(
        self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes], commits: AsyncIterator[list[Record]]
    ) -> None:
        told = _in_thread(commits, asyncio.get_running_loop())
        with self._writing():
            await asyncio.to_thread(self._open_draft.finish, 1, snapshot, at, secrets, told)

    def reopen(self) -> DirectorySource:
        return DirectorySource(self._inner, self._ring)

    async def mark(self, told: str) -> None:
        with self._writing():
            self._write_marker(_MIGRATING + told.encode())

    async def release(self) -> None:
        """From the last rename on it is a data directory."""
        with self._writing():
            self._release()

    def _release(self) -> None:
        self._lock.acquire()
        if self._inner.is_dir():
            for path in sorted(self._inner.iterdir()):
                if path.name != NAME:
                    path.rename(self._path / path.name)
            sync(self._path)
            if (self._inner / NAME).exists():
                (self._inner / NAME).rename(self._path / NAME)
                sync(self._path)
            self._inner.rmdir()
        (self._path / UNFINISHED).unlink(missing_ok=True)
        sync(self._path)

    async def close(self) -> None:
        if self._draft is not None:
            self._draft.catalog.close_files()
            self._draft = None
        self._lock.release()


def _in_thread(commits: AsyncIterator[list[Record]], loop: asyncio.AbstractEventLoop) -> Iterator[list[Record]]:
    """For a thread beside the event loop that has them."""

    async def following() -> list[Record] | None:
        return await anext(commits, None)

    while (records := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield records
