"""A disk in memory that keeps only what was synced, as a real one may: the rest is lost, torn or reordered at a crash.

It has an end (`capacity`), and so has the number of its open files (`files_max`). Places of it may go bad (`spoil`).
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Literal

from ortoo.stores.disk.frame import Buffer, Salt, Span, UnreadableError

DiskFault = Literal["none", "no space", "no file", "sync fails", "crash before", "crash after"]


class SimulatedCrash(BaseException):
    """The process is gone. Not an Exception: nothing may catch it and carry on."""


class _Content:
    """One file's bytes: what is surely on the disk, and the writes since that may or may not be."""

    def __init__(self) -> None:
        self.durable = b""
        self.now = bytearray()
        self.pending: list[tuple[int, bytes]] = []
        self.spoilt: list[Span] = []

    def settle(self, random: Random) -> None:
        """Power was lost: each unsynced write survives whole, in part, or not at all, in any order."""
        image = bytearray(self.durable)
        for position, data in self.pending:
            fate = random.random()
            kept = data if fate < 0.4 else data[: random.randrange(len(data) + 1)] if fate < 0.7 else b""
            if kept:
                image.extend(bytes(max(0, position - len(image))))  # a later write survived an earlier one
                image[position : position + len(kept)] = kept
        self.durable = bytes(image)
        self.now = bytearray(image)
        self.pending = []


class SimulatedDisk:
    def __init__(
        self, random: Random, plan: Callable[[int, str], DiskFault] = lambda _operation, _kind: "none"
    ) -> None:
        self.random = random
        self.salt = Salt()
        self.plan = plan
        self.operations = 0
        self.is_off = False
        self.on_crash: Callable[[], None] = lambda: None
        self.names: dict[str, _Content] = {}
        self.durable_names: dict[str, _Content] = {}
        self.capacity = 1 << 40
        self.files_max = 1 << 20
        self.open_files = 0

    def power_off(self) -> None:
        """What a new process finds: synced bytes, and of the rest what luck left."""
        self.is_off = False
        self.open_files = 0
        for path in sorted(self.names.keys() | self.durable_names.keys()):
            if self.names.get(path) is not self.durable_names.get(path) and self.random.random() < 0.5:
                self._name(self.durable_names, path, self.names.get(path))
        self.names = dict(self.durable_names)
        for content in {id(content): content for content in self.names.values()}.values():
            content.settle(self.random)

    @staticmethod
    def _name(names: dict[str, _Content], path: str, content: _Content | None) -> None:
        if content is None:
            names.pop(path, None)
        else:
            names[path] = content

    def spoil(self, path: str, start: int, end: int) -> None:
        """From now on these bytes of the file cannot be read."""
        self.names[path].spoilt.append((start, end))

    def step(self, kind: str, work: Callable[[], None]) -> None:
        if self.is_off:
            raise SimulatedCrash
        fault = self.plan(self.operations, kind)
        self.operations += 1
        if fault == "no space":
            raise OSError(errno.ENOSPC, "simulated: no space left on the disk")
        if fault == "no file":
            raise OSError(errno.EMFILE, "simulated: too many open files")
        if fault == "sync fails":
            raise OSError(errno.EIO, "simulated: the sync failed")
        if fault == "crash before":
            self._crash()
        work()
        if fault == "crash after":
            self._crash()

    def _crash(self) -> None:
        self.is_off = True
        self.on_crash()
        raise SimulatedCrash

    # -- the Disk interface

    def new_salt(self) -> int:
        return self.random.getrandbits(64) or 1

    def open(self, path: str) -> SimulatedFile:
        if self.open_files >= self.files_max:
            raise OSError(errno.EMFILE, "simulated: too many open files")
        if path not in self.names:
            self.step("create", lambda: self.names.__setitem__(path, _Content()))
        self.open_files += 1
        return SimulatedFile(self, self.names[path])

    def list(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return sorted({path[len(prefix) :].split("/")[0] for path in self.names if path.startswith(prefix)})

    def entries(self, folder: str) -> dict[str, bool]:
        prefix = f"{folder}/" if folder else ""
        below = [path[len(prefix) :].partition("/") for path in sorted(self.names) if path.startswith(prefix)]
        return {name: bool(slash) for name, slash, _ in below}

    def make_dir(self, folder: str, durably: bool = True) -> None:
        pass  # folders are there when they are needed

    def rename(self, old: str, new: str) -> None:
        def work() -> None:
            self.names[new] = self.names.pop(old)

        self.step("rename", work)

    def remove(self, path: str) -> None:
        if path in self.names:
            self.step("remove", lambda: self._name(self.names, path, None))

    def remove_dir(self, folder: str) -> None:
        for path in [path for path in self.names if path.startswith(f"{folder}/")]:
            self.remove(path)

    def sync_dir(self, folder: str) -> None:
        def work() -> None:
            prefix = f"{folder}/" if folder else ""
            for path in self.names.keys() | self.durable_names.keys():
                if path.startswith(prefix) and "/" not in path[len(prefix) :]:
                    self._name(self.durable_names, path, self.names.get(path))

        self.step("sync", work)

    @contextmanager
    def syncing_all(self) -> Iterator[Callable[[], None]]:
        def work() -> None:
            self.durable_names = dict(self.names)
            for content in self.names.values():
                content.durable, content.pending = bytes(content.now), []

        yield lambda: self.step("sync", work)

    def scratch(self) -> SimulatedScratch:
        return SimulatedScratch(self)

    def free_bytes(self) -> int:
        return self.capacity - sum(len(content.now) for content in self.names.values())


class SimulatedScratch:
    """Of a disk that is full now and then; what it keeps counts nowhere."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk

    def keep(self, piece: array[int]) -> memoryview | None:
        if self._disk.random.random() < 0.1:
            return None
        return memoryview(piece.tobytes()).cast("Q")


class SimulatedFile:
    descriptor = None

    def __init__(self, disk: SimulatedDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content
        self._is_open = True

    def append(self, *parts: Buffer) -> None:
        data = b"".join(parts)

        def work() -> None:
            if self._disk.free_bytes() < len(data):
                raise OSError(errno.ENOSPC, "simulated: no space left on the disk")
            self._content.pending.append((len(self._content.now), data))
            self._content.now.extend(data)

        self._step("append", work)

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        if any(start < position + size and position < end for start, end in self._content.spoilt):
            raise UnreadableError(OSError(errno.EIO, "simulated: a bad sector"))
        return bytes(self._content.now[position : position + size])

    def size(self) -> int:
        return len(self._content.now)

    def truncate(self, size: int) -> None:
        def work() -> None:
            content = self._content
            del content.now[size:]
            content.durable = content.durable[:size]
            content.pending = [(at, data[: size - at]) for at, data in content.pending if at < size]

        self._step("truncate", work)

    def sync(self) -> None:
        def work() -> None:
            self._content.durable = bytes(self._content.now)
            self._content.pending = []

        self._step("sync", work)

    def _step(self, kind: str, work: Callable[[], None]) -> None:
        self._check_open()
        self._disk.step(kind, work)

    def _check_open(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, "simulated: the file is closed")

    def close(self) -> None:
        self._check_open()
        self._is_open = False
        self._disk.open_files -= 1
