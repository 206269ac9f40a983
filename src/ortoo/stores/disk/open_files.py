"""The only place that knows how many files may be open at a time.

Segments are many and their number grows, so their files are not kept open: a `FilePool` opens what is used and closes what
was not used for the longest time. Everything else that the store opens is a handful, whatever it holds.
"""

from __future__ import annotations

import errno
import resource
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from .files import Disk, File

POOL_MIN, POOL_MAX = 16, 4_096
OTHERS = (
    64  # the write-ahead log, drafts, the lock; and what every process has open: streams, the event loop, listeners
)


def file_limit() -> int:
    """How many files this process may have open, sockets included."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit


def raise_file_limit() -> None:
    """To what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # some systems name a limit that they do not grant
            return


def pool_size() -> int:
    return max(POOL_MIN, min(POOL_MAX, file_limit() // 4))


def files_for_sockets() -> int:
    """What may be open beside the store; 0 or less when there is not even enough for that."""
    return file_limit() - pool_size() - OTHERS


class _Open:
    __slots__ = ("file", "is_leaving", "users")

    def __init__(self, file: File) -> None:
        self.file = file
        self.users = 0
        self.is_leaving = False


class FilePool:
    """Files by path. Used by the event loop and by checkpoints beside it, so none is closed while it is in use."""

    def __init__(self, disk: Disk, files_max: int | None = None) -> None:
        self._disk = disk
        self._files_max = files_max or pool_size()
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()  # what was used last comes last

    @contextmanager
    def use(self, path: str) -> Iterator[File]:
        with self._lock:
            entry = self._take(path)
        try:
            yield entry.file
        finally:
            with self._lock:
                entry.users -= 1
                if entry.is_leaving and not entry.users:
                    entry.file.close()

    def _take(self, path: str) -> _Open:
        entry = self._open.get(path)
        if entry is None:
            self._make_room(self._files_max - 1)
            entry = self._open[path] = _Open(self._open_file(path))
        else:
            self._open.move_to_end(path)
        entry.users += 1
        return entry

    def _open_file(self, path: str) -> File:
        try:
            return self._disk.open(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._make_room(0):
                raise
        return self._disk.open(path)  # others took what was meant for the store

    def _make_room(self, upto: int) -> bool:
        """Closes what is not in use, the oldest first, until so many are left. False when nothing could be closed."""
        excess = max(0, len(self._open) - upto)
        idle = list(islice((path for path, entry in self._open.items() if not entry.users), excess))
        for path in idle:
            self._open.pop(path).file.close()
        return bool(idle)

    def close(self, path: str) -> None:
        """Now, or when it is not in use any more."""
        with self._lock:
            entry = self._open.pop(path, None)
            if entry is None:
                return
            if entry.users:
                entry.is_leaving = True
            else:
                entry.file.close()

    def close_under(self, folder: str) -> None:
        """All files in it; "" is everything."""
        with self._lock:
            paths = [path for path in self._open if path.startswith(folder)]
        for path in paths:
            self.close(path)
