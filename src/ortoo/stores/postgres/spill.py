"""The spill: a log in front of PostgreSQL that is a folder with a write-ahead log, the same as the disk store's.

SHARD        which shard it belongs to, and the salt of its frames
LOCK         one process has it
wal/         its commits; a frame's head is the term and the token of the owner that made it. There is none while the database
             has it all
aside-…/     what could not be moved, and why: for people, who remove it
"""

from __future__ import annotations

import asyncio
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec

from ortoo.model.errors import ConfigError, CorruptionError
from ortoo.model.histogram import Histogram
from ortoo.stores.disk.files import RealDisk, make_durable_dir, sync
from ortoo.stores.disk.frame import Salt
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.stores.disk.room import Room
from ortoo.stores.disk.wal import FOLDER, Wal, WalDamage, list_wal
from ortoo.stores.disk.wal_writer import Sync, WalWriter

from .address import Address
from .commit_log import GoneError, LogRoom
from .errors import DatabaseError

LIMIT_BYTES = 1 << 30
KEPT_BACK = 8  # that part of it is for what settles
DISK_RESERVE_BYTES = 64 << 20  # of the disk, which may be used by others
FILE_BYTES = 16 << 20
_SHARD, _WHY, _ASIDE = "SHARD", "WHY.txt", "aside-"
_UNNAMED = re.compile(r"[^A-Za-z0-9._-]+")
_TERM_BYTES = 8
T = TypeVar("T")


class Bound(msgspec.Struct, frozen=True):
    """What the file SHARD says."""

    shard: str
    salt: int
    version: int = 1


_bound = msgspec.json.Decoder(Bound)


def folder_of(address: Address) -> str:
    """The name of a shard's folder: people see which one it is."""
    return _UNNAMED.sub(
        "_", f"{address.shown.partition('://')[2].rpartition('@')[2].partition('?')[0]}_{address.schema}"
    )


def spilled(above: Path, shard: str) -> Path | None:
    """The folder that has commits of that shard, which its database does not have; as far as it can be read."""
    for path in sorted(above.glob(f"*/{_SHARD}")):
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            if _bound.decode(path.read_bytes()).shard == shard and list_wal(RealDisk(path.parent)):
                return path.parent
    return None


class Spill:
    def __init__(
        self,
        above: Path,
        address: Address,
        *,
        limit_bytes: int = LIMIT_BYTES,
        file_bytes: int = FILE_BYTES,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`above`: where the folders of shards are."""
        self._above = above
        self._folder = above / folder_of(address)
        self._disk = RealDisk(self._folder)
        self._limit_bytes, self._file_bytes = limit_bytes, file_bytes
        self._now = now
        self._lock = DirectoryLock(self._folder)
        self._changing = asyncio.Lock()
        self._reserve_bytes = min(DISK_RESERVE_BYTES, limit_bytes)  # of the disk
        self._room = Room(self._disk, self._reserve_bytes)
        self.sync_seconds = Histogram()
        self._thread: ThreadPoolExecutor | None = None  # while it is open
        self._is_broken = False  # a sync failed: nothing more is written until it was emptied
        self._has_rest = False  # it was emptied, but for its files
        self._forget()

    def _forget(self) -> None:
        self._wal: Wal | None = None
        self._writer: WalWriter | None = None  # of it
        self._positions: dict[int, array[int]] = {}  # by the first commit of a file, of each commit in it
        self.first, self.last, self.term, self.token, self.size = 1, 0, 0, "", 0

    @property
    def where(self) -> str:
        return str(self._folder)

    @property
    def is_waiting(self) -> bool:
        """Whether something lies there, as far as can be told before it is opened."""
        return bool(list_wal(self._disk))

    # -- opening

    async def open(self, shard: str) -> list[str]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "ortoo-spill")
            try:
                await self._run(self._bind, shard)
                await self._run(self._recover)
            except BaseException:
                await self.close()
                raise
        return self._asides()

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        """One thing after the other."""
        if self._thread is None:
            raise DatabaseError(f"the spill in {self._folder} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _bind(self, shard: str) -> None:
        make_durable_dir(self._folder)
        self._lock.acquire()
        try:
            path = self._folder / _SHARD
            if not path.exists():
                self._refuse_renamed(shard)
                self._write(path, msgspec.json.encode(Bound(shard, self._disk.new_salt())))
            found = self._read_bound(path)
            if found.version != 1:
                raise ConfigError(f"{self._folder} was written by a newer version; update this one")
            if found.shard != shard:
                raise ConfigError(
                    f"{self._folder} is the spill of another shard ({found.shard}, and this one is {shard}); name another folder "
                    "for spills, or move this one away"
                )
            self._disk.salt = Salt(found.salt, has_older=False)
        except BaseException:
            self._lock.release()
            raise

    def _refuse_renamed(self, shard: str) -> None:
        """The same shard may have had another address."""
        for path in self._above.glob(f"*/{_SHARD}"):
            other = RealDisk(path.parent)
            if self._read_bound(path).shard == shard and list_wal(other):
                raise ConfigError(
                    f"{path.parent} has commits of this shard, which had another address then; rename that folder to "
                    f"{self._folder.name}"
                )

    def _read_bound(self, path: Path) -> Bound:
        try:
            return _bound.decode(path.read_bytes())
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptionError(f"{path} is damaged: {error}; move the folder away, and look into it") from None

    def _write(self, path: Path, content: bytes) -> None:
        """All or nothing."""
        draft = path.with_name(path.name + ".tmp")
        draft.write_bytes(content)
        sync(draft)
        draft.replace(path)
        sync(path.parent)

    def _recover(self) -> None:
        self._forget()
        wal = Wal(self._disk, self._note_failure)
        wal.files = list_wal(self._disk)
        numbers = []
        for found in wal.recover(0):
            if isinstance(found, WalDamage):
                raise CorruptionError(
                    f"{self._folder / found.path} is damaged at byte {found.position} ({found.reason}), and PostgreSQL may "
                    "not have what was confirmed there; restore the file, or move the folder away to go on without it"
                )
            self._index(wal, found.number, found.position)
            self.term = int.from_bytes(found.head[:_TERM_BYTES], "big")
            self.token = bytes(found.head[_TERM_BYTES:]).decode()
            numbers.append(found.number)
        if not numbers:
            self._remove_files()
            self._is_broken = self._has_rest = False
            return
        self.first, self.last = numbers[0], numbers[-1]
        self.size = sum(wal.sizes.values())
        wal.rotate()
        self._use(wal)

    def _index(self, wal: Wal, number: int, position: int) -> None:
        first = wal.files[bisect_right(wal.files, number) - 1]
        self._positions.setdefault(first, array("Q")).append(position)

    def _use(self, wal: Wal) -> None:
        self._wal, self._writer = wal, WalWriter(in_threads=True, now=self._now)
        self._writer.sync_seconds = self.sync_seconds
        self._writer.open(wal)

    def _note_failure(self, error: OSError) -> None:
        self._is_broken = True

    # -- commits

    async def append(self, number: int, term: int, token: str, data: bytes, sync: Sync) -> None:
        async with self._changing:
            await self._remove_rest()
            if self._is_broken:
                raise DatabaseError(
                    f"the disk of the spill in {self._folder} has failed; nothing more is written there"
                )
            if self.size + len(data) > self._limit_bytes:
                raise DatabaseError(f"the spill in {self._folder} is full")
            if self._wal is None:
                self._use(await self._run(self._begin, number))
                self.first, self.last = number, number - 1
            assert self._wal is not None
            assert self._writer is not None
            assert self._wal.next_number == number, f"commit {number} is not {self._wal.next_number}"
            if self._wal.bytes_since_rotation >= self._file_bytes:
                await self._writer.rotate()
            head = term.to_bytes(_TERM_BYTES, "big") + token.encode()
            await self._writer.append(head, data, 0, sync, len(data))
            self._index(self._wal, number, self._wal.position)
            self.last, self.term, self.token = number, term, token
            self.size += self._wal.last_size
            self._room.note_written(self._wal.last_size)

    def _begin(self, number: int) -> Wal:
        self._disk.make_dir(FOLDER)
        wal = Wal(self._disk, self._note_failure)
        wal.next_number = number
        wal.rotate()
        return wal

    async def read(self, numbers: Sequence[int], bytes_max: int) -> list[bytes]:
        async with self._changing:
            if self._wal is None or numbers[0] < self.first:
                raise GoneError
            return await self._run(self._read, self._wal, numbers, bytes_max)

    def _read(self, wal: Wal, numbers: Sequence[int], bytes_max: int) -> list[bytes]:
        found: list[bytes] = []
        for number in numbers:
            first = wal.files[bisect_right(wal.files, number) - 1]
            body = wal.read(number, self._positions[first][number - first])[0].body
            bytes_max -= len(body)
            if found and bytes_max < 0:
                break
            found.append(body)
        return found

    async def sync(self) -> None:
        async with self._changing:
            if self._writer is not None:
                await self._writer.sync()

    async def trim(self, upto: int) -> None:
        async with self._changing:
            wal = self._wal
            if wal is None:
                return
            assert self._writer is not None
            if upto >= self.last:
                await self._release()
                self._forget()
                self.first, self.last, self._is_broken, self._has_rest = upto + 1, upto, False, True
                await self._remove_rest()
                return
            self.first = max(self.first, upto + 1)
            await self._writer.run(wal.trim, upto)
            self._positions = {first: found for first, found in self._positions.items() if first in wal.files}
            self.size = sum(wal.sizes.values())

    async def _remove_rest(self) -> None:
        """Files of commits that the database has, all of them. Nothing is written before they are gone: there might be a gap."""
        if self._has_rest:
            try:
                await self._run(self._remove_files)
            except OSError as error:
                raise DatabaseError(f"the spill in {self._folder} cannot be emptied: {error}") from error
            self._has_rest = False

    def _remove_files(self) -> None:
        """From the first on: what is left after a crash has no gap."""
        for name in self._disk.list(FOLDER):
            self._disk.remove(f"{FOLDER}/{name}")
        if (self._folder / FOLDER).is_dir():
            self._disk.sync_dir(FOLDER)

    async def _release(self) -> None:
        """Of the file that is written. What could not be synced is told when it fails, and once is enough."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):
                await writer.close()

    async def set_aside(self, why: str) -> str:
        async with self._changing:
            await self._release()
            return await self._run(self._set_aside, why)

    def _set_aside(self, why: str) -> str:
        names = (f"{_ASIDE}{self.first}-{self.last}{end}" for end in chain([""], (f".{more}" for more in count(2))))
        folder = next(self._folder / name for name in names if not (self._folder / name).exists())
        source = self._folder / FOLDER
        self._write(source / _WHY, f"{why}\n".encode())
        source.replace(folder)
        sync(self._folder)
        salt, self._disk = self._disk.salt, RealDisk(self._folder)  # which knows nothing of folders that were there
        self._disk.salt = salt
        self._room = Room(self._disk, self._reserve_bytes)
        self._forget()
        return str(folder)

    def _asides(self) -> list[str]:
        """As long as it lies there."""
        found = []
        for path in sorted(self._folder.glob(f"{_ASIDE}*/{_WHY}")):
            told = path.read_text(encoding="utf-8", errors="replace").splitlines()
            found.append(f"{told[0] if told else 'commits were set aside'}; kept in {path.parent}")
        return found

    # -- room

    def room(self) -> LogRoom:
        if self._is_broken:
            return LogRoom(f"the disk of the spill in {self._folder} has failed", 0)
        left = self._limit_bytes - self._limit_bytes // KEPT_BACK - self.size
        if left <= 0:
            return LogRoom(
                f"the database is away, and the spill has {self.size >> 20} MiB of {self._limit_bytes >> 20} MiB", 0
            )
        if self._room.is_stale:
            self._room.measure(0)
        if self._room.full is not None:
            return LogRoom(f"the database is away, and {self._room.full}", 0)
        return LogRoom(None, left if self._room.bytes is None else min(left, self._room.bytes))

    async def close(self) -> None:
        async with self._changing:
            thread, self._thread = self._thread, None
            if thread is not None:
                await self._release()
                thread.shutdown()
                self._forget()
                self._lock.release()
