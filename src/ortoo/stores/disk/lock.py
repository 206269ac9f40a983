"""One owner per directory: a lock that names its holder, and goes with the process."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from ortoo.model.errors import UnavailableError


class DirectoryLock:
    def __init__(self, root: Path) -> None:
        self._path = root / "LOCK"
        self._fd: int | None = None

    def acquire(self) -> None:
        if self._fd is not None:
            return
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(fd, 200).decode(errors="replace").strip() or "another process"
            os.close(fd)
            raise UnavailableError(
                f"{self._path.parent} is in use by {holder}; one process has it open at a time, so stop that one first"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None
