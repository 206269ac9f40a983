"""What the disk store needs of a file system, so that tests can put a simulated one in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from .frame import SIZE, BadFrameError, FrameHead, check_head, parse_fixed


class File(Protocol):
    """An open file. `append` writes all or raises; nothing is durable before `sync` has returned."""

    def append(self, data: bytes) -> None: ...

    def read(self, position: int, size: int) -> bytes: ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree; paths are relative, with slashes. Names are durable once `sync_dir` of their folder has returned."""

    def open(self, path: str) -> File:
        """For appending and reading; made when it is not there."""
        ...

    def read(self, path: str) -> bytes: ...

    def list(self, folder: str) -> list[str]:
        """Names in the folder, sorted; [] when there is no such folder."""
        ...

    def entries(self, folder: str) -> dict[str, bool]:
        """The same names, and whether each is of a folder; of one look, for others may come and go meanwhile."""
        ...

    def make_dir(self, folder: str) -> None:
        """With the folders above it, all durable; no error when it is there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_dir(self, folder: str) -> None:
        """With everything in it; no error when it is not there."""
        ...

    def sync_dir(self, folder: str) -> None: ...

    def free_bytes(self) -> int: ...


def read_head(file: File, position: int) -> tuple[FrameHead, bytes]:
    """The head of the frame at that place, checked, without reading its body. BadFrameError when there is none."""
    try:
        first = file.read(position, SIZE)
        fixed = parse_fixed(first)
        head = file.read(position + SIZE, fixed.head_size)
        check_head(fixed, first[:24], head)
        if position + fixed.size > file.size():
            raise BadFrameError("the file ends within a frame")
    except BadFrameError as error:
        raise BadFrameError(error.reason, position) from None
    return fixed, head


def read_heads(file: File) -> Iterator[tuple[int, FrameHead, bytes]]:
    """(position, fixed part, head) of every frame in the file."""
    position = 0
    while position < file.size():
        fixed, head = read_head(file, position)
        yield position, fixed, head
        position += fixed.size


def make_durable_dir(path: Path) -> None:
    """Makes the folder and those above it. A folder's name is in the one above, which is synced for it: also when it is there
    already, for whoever made it may have come no further."""
    if not path.is_dir():
        make_durable_dir(path.parent)
        path.mkdir(exist_ok=True)
    elif not os.access(path.parent, os.R_OK):
        return  # not ours, and we may not
    _sync_dir(path.parent)


def _sync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RealFile:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size
        _open_files.add(self)

    def append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self._size)  # half a frame must not stay before the next one
            raise
        self._size += len(data)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def leave_to_parent(self) -> None:
        """In a forked child: neither writes to the file nor keeps its place on the disk when the parent has removed it."""
        if self._fd >= 0:
            self.close()


_open_files: WeakSet[RealFile] = WeakSet()


def _leave_files_to_parent() -> None:
    for file in _open_files:
        file.leave_to_parent()


os.register_at_fork(after_in_child=_leave_files_to_parent)


class RealDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._durable: set[str] = set()  # folders whose names are surely on the disk

    def __str__(self) -> str:
        return str(self.root)

    def open(self, path: str) -> File:
        return RealFile(self.root / path)

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self.root / folder).iterdir())
        except FileNotFoundError:
            return []

    def entries(self, folder: str) -> dict[str, bool]:
        try:
            with os.scandir(self.root / folder) as entries:
                return {entry.name: entry.is_dir() for entry in sorted(entries, key=lambda entry: entry.name)}
        except FileNotFoundError:
            return {}

    def make_dir(self, folder: str) -> None:
        if folder in self._durable:
            return
        above, _, _ = folder.rpartition("/")
        if above:
            self.make_dir(above)
        path = self.root / folder
        known = [folder]
        if path.is_dir():  # then so are its neighbours, and one sync is enough for all
            known = [f"{above}/{name}".lstrip("/") for name in self.list(above)]
        path.mkdir(exist_ok=True)
        _sync_dir(path.parent)
        self._durable.update(known)

    def rename(self, old: str, new: str) -> None:
        (self.root / old).replace(self.root / new)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def remove_dir(self, folder: str) -> None:
        for name in self.list(folder):
            path = self.root / folder / name
            if path.is_dir():
                self.remove_dir(f"{folder}/{name}")
            else:
                path.unlink(missing_ok=True)
        if (self.root / folder).is_dir():
            (self.root / folder).rmdir()
        self._durable.discard(folder)

    def sync_dir(self, folder: str) -> None:
        _sync_dir(self.root / folder)

    def free_bytes(self) -> int:
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize
