"""A real disk that knows what a power cut may leave of it.

Every write goes to the real directory. Beside it stands what is certain: the bytes that were synced, and the names whose
folder was synced since. `cut` writes a directory as the next boot may find it: of the rest some is there, and some is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from ortoo.stores.disk import File, RealDisk
from ortoo.stores.disk.frame import Buffer


class Inode:
    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.synced = len(content)  # the bytes before are certain

    def after_a_cut(self, random: Random) -> bytes:
        """What was not synced is there up to some byte, and within it some pages may never have been written."""
        size = random.randint(self.synced, len(self.content))
        left = self.content[:size]
        if size > self.synced and random.random() < 0.3:
            start = random.randint(self.synced, size)
            end = random.randint(start, size)
            left[start:end] = bytes(end - start)
        return bytes(left)


class ShadowDisk(RealDisk):
    """Its folder may hold something already, which counts as certain."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lock = threading.RLock()  # the store writes from threads
        self.names: dict[str, Inode | None] = {}  # by path; None is a folder
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            self.names[name] = None if path.is_dir() else Inode(path.read_bytes())
        self.certain = dict(self.names)

    def synced(self, path: Path) -> None:
        """The system was told to sync a folder: what is in it now is certain."""
        if not path.is_relative_to(self.root):
            return
        with self.lock:
            folder = path.relative_to(self.root).as_posix()
            for name in self.names.keys() | self.certain.keys():
                if Path(name).parent.as_posix() == folder:
                    if name in self.names:
                        self.certain[name] = self.names[name]
                    else:
                        del self.certain[name]

    def cut(self, target: Path, random: Random) -> None:
        with self.lock:
            left = dict(self.certain)
            for name in sorted(self.names.keys() | self.certain.keys()):
                now, then = self.names.get(name, "gone"), self.certain.get(name, "gone")
                if now is not then and random.random() < 0.5:
                    left.pop(name, None)
                    if name in self.names:
                        left[name] = self.names[name]
            target.mkdir()
            for name in sorted(left):  # a folder before what is in it
                inode, path = left[name], target / name
                if not path.parent.is_dir():
                    continue  # what is in a folder goes with it
                if inode is None:
                    path.mkdir()
                else:
                    path.write_bytes(inode.after_a_cut(random))

    # -- the Disk interface

    def open(self, path: str) -> File:
        with self.lock:
            real = super().open(path)
            inode = self.names.setdefault(path, Inode())
            assert inode is not None
            return ShadowFile(real, inode, self.lock)

    @contextmanager
    def syncing_all(self) -> Iterator[Callable[[], None] | None]:
        with super().syncing_all() as real:

            def sync_all() -> None:
                with self.lock:
                    names = dict(self.names)
                    sizes = [(inode, len(inode.content)) for inode in names.values() if inode is not None]
                if real is not None:
                    real()
                with self.lock:
                    self.certain = names
                    for inode, size in sizes:
                        inode.synced = max(inode.synced, min(size, len(inode.content)))

            yield sync_all

    def make_dir(self, folder: str, durably: bool = True) -> None:
        with self.lock:
            parts = folder.split("/")
            for count in range(1, len(parts) + 1):
                self.names.setdefault("/".join(parts[:count]), None)
            super().make_dir(folder, durably)  # which may sync what it makes

    def rename(self, old: str, new: str) -> None:
        with self.lock:
            super().rename(old, new)
            self.names[new] = self.names.pop(old)

    def remove(self, path: str) -> None:
        with self.lock:
            super().remove(path)
            self.names.pop(path, None)

    def remove_dir(self, folder: str) -> None:
        with self.lock:
            super().remove_dir(folder)
            for name in [name for name in self.names if name == folder or name.startswith(f"{folder}/")]:
                del self.names[name]


class ShadowFile:
    descriptor = None

    def __init__(self, real: File, inode: Inode, lock: threading.RLock) -> None:
        self.read, self.size, self.close = real.read, real.size, real.close
        self._real = real
        self._inode = inode
        self._lock = lock

    def append(self, *parts: Buffer) -> None:
        with self._lock:
            self._real.append(*parts)
            self._inode.content += b"".join(parts)

    def truncate(self, size: int) -> None:
        with self._lock:
            self._real.truncate(size)
            del self._inode.content[size:]
            self._inode.synced = min(self._inode.synced, size)

    def sync(self) -> None:
        with self._lock:
            size = len(self._inode.content)
        self._real.sync()
        with self._lock:
            self._inode.synced = max(self._inode.synced, min(size, len(self._inode.content)))


def path_of(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()
