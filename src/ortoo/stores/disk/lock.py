"""One owner per directory: a lock that names its holder, and goes with the process.

The system keeps such a lock as long as any process has it open, and a forked child inherits what is open. So a child closes
it at once, and may not use the store: there is one owner, and that is the parent.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from weakref import WeakSet

from ortoo.model.errors import UnavailableError


class DirectoryLock:
    def __init__(self, root: Path) -> None:
        self._path = root / "LOCK"
        self._fd: int | None = None
        self.is_parents = False
        _locks.add(self)

    def acquire(self) -> None:
        self.check_owner()
        if self._fd is not None:
            return
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(fd, 200).decode(errors="replace").strip() or "another process"
            os.close(fd)
            raise UnavailableError(
                f"{self._path.parent} is in use by {holder}; one process has it open at a time: if that is a server, use "
                "`ortoo.connect` or --url, else stop it or open another directory"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._fd = fd

    def check_owner(self) -> None:
        if self.is_parents:
            raise UnavailableError(
                f"{self._path.parent} was opened by the process that this one was forked from, and stays with it; open the "
                "queue after the fork, or run a server and connect to it"
            )

    def leave_to_parent(self) -> None:
        """In a forked child. Closing gives nothing free as long as the parent has it open; unlocking would."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd, self.is_parents = None, True

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            # A child that is about to run another program may have it open for a moment more.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None


_locks: WeakSet[DirectoryLock] = WeakSet()


def _leave_locks_to_parent() -> None:
    for lock in _locks:
        lock.leave_to_parent()


os.register_at_fork(after_in_child=_leave_locks_to_parent)
