"""What the disk store needs of a file system, so that tests can put a simulated one in its place."""

from __future__ import annotations

import ctypes
import errno
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from secrets import randbits
from typing import NamedTuple, Protocol
from weakref import WeakSet

from .frame import SIZE, BadFrameError, Buffer, FrameHead, Salt, Span, UnreadableError, check_head, parse_fixed
from .scratch import MappedScratch
from .syncing import sync_all, sync_data

PAGE_BYTES = 4_096  # the system reads whole pages, so what it cannot read is some of these
HEAD_GUESS_BYTES = 512  # most heads are no longer, with the bytes before them
PRIVATE = 0o700  # the mode of folders; that of files is 0o600
CHUNK_BYTES = 1 << 30  # it reads no more than 2 GiB at a time

# What means that this place cannot be read, and others perhaps can: a bad sector, or a checksum of the file system.
_UNREADABLE = (errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA, errno.EILSEQ)


class File(Protocol):
    """An open file. `append` writes all parts or raises; nothing is durable before `sync` has returned."""

    @property
    def descriptor(self) -> int | None:
        """What the kernel knows it by; None where only `sync` can sync it."""
        ...

    def append(self, *parts: Buffer) -> None: ...

    def read(self, position: int, size: int) -> bytes:
        """Fewer bytes only where the file ends; UnreadableError where the disk cannot read one of them."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Scratch(Protocol):
    """Room for pieces of one size: see scratch.py."""

    def keep(self, piece: array[int]) -> memoryview | None: ...


class Disk(Protocol):
    """A directory tree; paths are relative, with slashes. Names are durable once `sync_dir` of their folder has returned.

    What cannot be opened, read or listed because of the disk is an UnreadableError."""

    salt: Salt  # of all frames in it, once FORMAT has been read

    def new_salt(self) -> int:
        """That nobody can guess; never 0."""
        ...

    def open(self, path: str) -> File:
        """For appending and reading; made when it is not there."""
        ...

    def list(self, folder: str) -> list[str]:
        """Names in the folder, sorted; [] when there is no such folder."""
        ...

    def entries(self, folder: str) -> dict[str, bool]:
        """The same names, and whether each is of a folder; of one look, for others may come and go meanwhile."""
        ...

    def make_dir(self, folder: str, durably: bool = True) -> None:
        """With the folders above it; no error when it is there. Their names are durable, unless somebody syncs them later."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_dir(self, folder: str) -> None:
        """With everything in it; no error when it is not there."""
        ...

    def sync_dir(self, folder: str) -> None: ...

    def syncing_all(self) -> AbstractContextManager[Callable[[], None] | None]:
        """What syncs everything that is written to the tree meanwhile, names included, at once; None where nothing can."""
        ...

    def free_bytes(self) -> int: ...

    def scratch(self) -> Scratch:
        """Room for what need not survive."""
        ...


def read_head(file: File, position: int) -> tuple[FrameHead, bytes]:
    """The head of the frame at that place, checked, without reading its body. BadFrameError when there is none."""
    try:
        first = _first_bytes(file, position)
        fixed = parse_fixed(first)
        head = first[fixed.fixed_size : fixed.body_at]
        if len(head) < fixed.head_size:
            head += file.read(position + len(first), fixed.body_at - len(first))
        check_head(fixed, first[:SIZE], head)
        if position + fixed.size > file.size():
            raise BadFrameError("the file ends within a frame")
    except BadFrameError as error:
        raise BadFrameError(error.reason, position) from None
    return fixed, head


def _first_bytes(file: File, position: int) -> bytes:
    """Mostly with all of the head: one read in place of two."""
    try:
        return file.read(position, HEAD_GUESS_BYTES)
    except UnreadableError:  # perhaps only the body, or another frame
        return file.read(position, SIZE)


def read_heads(file: File) -> Iterator[tuple[int, FrameHead, bytes]]:
    """(position, fixed part, head) of every frame in the file."""
    position = 0
    while position < file.size():
        fixed, head = read_head(file, position)
        yield position, fixed, head
        position += fixed.size


class Content(NamedTuple):
    """The bytes of a file, with zeros in the `holes`: what the disk cannot read."""

    data: bytes
    holes: list[Span]
    salt: Salt = Salt()


def read_file(disk: Disk, path: str, position: int = 0, size: int | None = None) -> Content:
    """What can be read from there on, at most `size` bytes. A file that cannot even be opened is one hole."""
    try:
        file = disk.open(path)
    except UnreadableError:
        return Content(b"\0", [(0, 1)], _salt_of(disk, path))
    try:
        return read_around(file, position, size)._replace(salt=_salt_of(disk, path))
    finally:
        file.close()


def _salt_of(disk: Disk, path: str) -> Salt:
    return disk.salt.within(path.rpartition("/")[0])


def read_around(file: File, position: int = 0, size: int | None = None) -> Content:
    end = file.size() if size is None else min(file.size(), position + size)
    parts, holes = [], []
    for at in range(position, end, CHUNK_BYTES):
        try:
            parts.append(file.read(at, min(CHUNK_BYTES, end - at)))
        except UnreadableError:
            for start, page in _pages(file, at, min(at + CHUNK_BYTES, end)):
                parts.append(page.data)
                holes += [(start - position, start - position + len(page.data))] if page.holes else []
    return Content(b"".join(parts), holes)


def _pages(file: File, at: int, end: int) -> Iterator[tuple[int, Content]]:
    """Where each begins, and what can be read of it: all or nothing."""
    while at < end:
        size = min(PAGE_BYTES - at % PAGE_BYTES, end - at)
        try:
            yield at, Content(file.read(at, size), [])
        except UnreadableError:
            yield at, Content(bytes(size), [(0, size)])
        at += size


@contextmanager
def telling_unreadable() -> Iterator[None]:
    """The one place that knows which errors of the system mean a place that cannot be read."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        raise UnreadableError(error) from None


def read_at(fd: int, position: int, size: int) -> bytes:
    """The system gives what lies before a place that it cannot read, and fails only when asked for that place itself."""
    with telling_unreadable():
        data = os.pread(fd, size, position)
        while len(data) < size and (more := os.pread(fd, size - len(data), position + len(data))):
            data += more
    return data


def make_private_dir(path: Path) -> None:
    """Makes the folder and those above it, for nobody else to look in, whatever the process gives to others by default."""
    if not path.is_dir():
        make_private_dir(path.parent)
        path.mkdir(PRIVATE, exist_ok=True)


def make_durable_dir(path: Path) -> None:
    """The same, durably. A folder's name is in the one above, which is synced for it: also when it is there
    already, for whoever made it may have come no further."""
    if not path.is_dir():
        make_durable_dir(path.parent)
        path.mkdir(PRIVATE, exist_ok=True)
    elif not os.access(path.parent, os.R_OK):
        return  # not ours, and we may not
    sync(path.parent)


def sync(path: Path) -> None:
    """A file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        sync_all(fd)
    finally:
        os.close(fd)


class RealFile:
    def __init__(self, path: Path) -> None:
        with telling_unreadable():
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size
        _open_files.add(self)

    @property
    def descriptor(self) -> int:
        return self._fd

    def append(self, *parts: Buffer) -> None:
        size = sum(map(len, parts))
        try:
            written = os.writev(self._fd, parts)
            if written < size:
                view = memoryview(b"".join(parts))[written:]
                while view:
                    view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self._size)  # half a frame must not stay before the next one
            raise
        self._size += size

    def read(self, position: int, size: int) -> bytes:
        return read_at(self._fd, position, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size  # it may be open twice: to be written, and to be read

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        sync_data(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def leave_to_parent(self) -> None:
        """In a forked child: neither writes to the file nor keeps its place on the disk when the parent has removed it."""
        if self._fd >= 0:
            self.close()


# One call in the place of thousands. The C library has it on Linux; everywhere else each file is synced by itself.
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)

_open_files: WeakSet[RealFile] = WeakSet()


def _leave_files_to_parent() -> None:
    for file in _open_files:
        file.leave_to_parent()


os.register_at_fork(after_in_child=_leave_files_to_parent)


class RealDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.salt = Salt()
        self._durable: set[str] = set()  # folders whose names are surely on the disk

    def __str__(self) -> str:
        return str(self.root)

    def new_salt(self) -> int:
        return randbits(64) or 1

    def open(self, path: str) -> File:
        return RealFile(self.root / path)

    def list(self, folder: str) -> list[str]:
        try:
            with telling_unreadable():
                return sorted(path.name for path in (self.root / folder).iterdir())
        except FileNotFoundError:
            return []

    def entries(self, folder: str) -> dict[str, bool]:
        try:
            with telling_unreadable(), os.scandir(self.root / folder) as entries:
                return {entry.name: entry.is_dir() for entry in sorted(entries, key=lambda entry: entry.name)}
        except FileNotFoundError:
            return {}

    def make_dir(self, folder: str, durably: bool = True) -> None:
        if folder in self._durable:
            return
        if not durably:
            make_private_dir(self.root / folder)
            return
        above, _, _ = folder.rpartition("/")
        if above:
            self.make_dir(above)
        path = self.root / folder
        known = [folder]
        if path.is_dir():  # then so are its neighbours, and one sync is enough for all
            known = [f"{above}/{name}".lstrip("/") for name in self.list(above)]
        path.mkdir(PRIVATE, exist_ok=True)
        sync(path.parent)
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
        sync(self.root / folder)

    @contextmanager
    def syncing_all(self) -> Iterator[Callable[[], None] | None]:
        if _syncfs is None or not self._is_on_one_device():
            yield None
            return
        fd = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC)  # a failure since is told to who had it open

        def sync_all() -> None:
            if _syncfs(fd):
                failed = ctypes.get_errno()
                raise OSError(failed, os.strerror(failed))

        try:
            yield sync_all
        finally:
            os.close(fd)

    def _is_on_one_device(self) -> bool:
        """Whether nobody has put a folder elsewhere, with a link or a mount: it would not be synced with the rest."""
        folders = [self.root / "logs", self.root / "history"]
        folders += [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
        return {path.stat().st_dev for path in [self.root, *folders] if path.exists()} == {self.root.stat().st_dev}

    def scratch(self) -> Scratch:
        return MappedScratch(self.root)

    def free_bytes(self) -> int:
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize
