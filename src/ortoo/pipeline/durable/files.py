"""Folders and files whose names stay: what is done here is on the disk when it returns."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ortoo.model.errors import UnavailableError
from ortoo.stores.disk.files import sync

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_LOOK_SECONDS = 0.05


def make_dirs(path: Path) -> None:
    """With the folders above it; their names are durable."""
    if not path.is_dir():
        make_dirs(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def write_durably(path: Path, data: bytes) -> None:
    """In the place of what was there, at once; durable when this returns."""
    make_dirs(path.parent)
    draft = path.with_name(f"{path.name}.tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def clear(folder: Path) -> None:
    """Somebody else's Spark may still be writing into it; then something is left, which nobody reads."""
    shutil.rmtree(folder, ignore_errors=True)


def exchange(one: Path, other: Path) -> None:
    """The two folders change places, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        raise UnavailableError(
            f"the file system of {other} cannot exchange two folders in one step, so its files stay as they are"
        )
    raise OSError(code, os.strerror(code), str(other))


@contextmanager
def locked(path: Path, refusal: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """One process, and one thread of it, at a time. The lock ends with the process."""
    make_dirs(path.parent)
    until = time.monotonic() + wait_seconds
    with path.open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise UnavailableError(refusal) from None
                time.sleep(_LOOK_SECONDS)
        yield
