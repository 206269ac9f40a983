"""A data directory that is only looked at: files are opened for reading, and nothing is made, cut or removed."""

from __future__ import annotations

import os
from pathlib import Path

from .files import File, RealDisk, read_at, telling_unreadable
from .frame import Buffer


class ViewFile:
    """A file that is only looked at. To cut it is to look at less of it."""

    descriptor = None

    def __init__(self, path: Path) -> None:
        with telling_unreadable():
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._fd).st_size

    def append(self, *_: Buffer) -> None:
        raise NotImplementedError("a data directory is not written from outside")

    def read(self, position: int, size: int) -> bytes:
        return read_at(self._fd, position, size)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        self._size = size

    def sync(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._fd)


class ViewDisk(RealDisk):
    """The same code that opens a directory can look at it through this: what it would change stays as it is."""

    def open(self, path: str) -> File:
        return ViewFile(self.root / path)

    def make_dir(self, folder: str, durably: bool = True) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        raise NotImplementedError("a data directory is not written from outside")

    def remove(self, path: str) -> None:
        pass

    def remove_dir(self, folder: str) -> None:
        pass

    def sync_dir(self, folder: str) -> None:
        pass
