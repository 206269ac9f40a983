"""Listening on Unix sockets: `unix:/run/ortoo/http.sock` in the place of a host. Who may connect, the file's mode says.

A file with a lock beside the socket says that somebody listens, also while two servers start at once. A socket that a server left
behind when it was killed has no lock and no listener, and is replaced; anything else under that name is left alone.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PREFIX = "unix:"
_PATH_BYTES_MAX = 107
_IN_USE = "another process listens on it"


def is_unix(host: str) -> bool:
    return host.startswith(PREFIX)


class UnixListening:
    """Its socket goes with it, unless somebody has put another one there."""

    def __init__(self, path: str, mode: int, backlog: int) -> None:
        """OSError when it cannot be had."""
        _check_path(path)
        self._path = path
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._take_lock()
            _remove_stale(path)
            self._socket = _bind(path, mode, backlog)
        except OSError:
            os.close(self._lock)
            raise
        found = Path(path).stat()
        self._is = found.st_dev, found.st_ino
        self._server: asyncio.Server | None = None
        self.sockets: Sequence[Any] = [self._socket]

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EADDRINUSE, _IN_USE) from None

    async def serve(self, make: Callable[[], asyncio.Protocol]) -> UnixListening:
        self._server = await asyncio.get_running_loop().create_unix_server(make, sock=self._socket)
        return self

    def close(self) -> None:
        """Connections that are open stay."""
        with suppress(OSError):  # somebody has removed it
            found = Path(self._path).stat()
            if (found.st_dev, found.st_ino) == self._is:
                Path(self._path).unlink()
        if self._server is not None:
            self._server.close()
        self._socket.close()
        os.close(self._lock)


def _check_path(path: str) -> None:
    """OSError, before anything is made of it."""
    if not path or "\0" in path:
        raise OSError(errno.EINVAL, "a Unix socket needs a path, as in unix:/run/ortoo/http.sock")
    if path.startswith("@"):
        raise OSError(errno.EINVAL, "abstract names are for everybody on the machine; use a path")
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise OSError(errno.ENAMETOOLONG, f"the path of a Unix socket has at most {_PATH_BYTES_MAX} bytes")


def _remove_stale(path: str) -> None:
    try:
        found = Path(path).lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError(errno.EEXIST, "there is a file of that name, and it is no socket")
    with socket.socket(socket.AF_UNIX) as trial:
        trial.setblocking(False)
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
        except BlockingIOError:  # so many wait for it
            raise OSError(errno.EADDRINUSE, _IN_USE) from None
        else:
            raise OSError(errno.EADDRINUSE, _IN_USE)


def _bind(path: str, mode: int, backlog: int) -> socket.socket:
    """Nobody can connect before it listens, and by then it has its mode."""
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        made.bind(path)
        Path(path).chmod(mode)
        made.listen(backlog)
    except OSError:
        made.close()
        raise
    return made
