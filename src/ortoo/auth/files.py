"""Small files that others write while the server runs: noticed when they change, kept when they break; and private ones of ours.

A file is read in a thread and taken in by the event loop, so that nothing changes in the middle of a decision.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from ortoo.model.errors import ConfigError

T = TypeVar("T")
FOLDER = "auth"  # of a data directory
FILE_BYTES_MAX = 16 * 1024 * 1024
_LOCK = "LOCK"

Fingerprint = tuple[int, int, int, int] | None  # None: there is no file


class Found(NamedTuple, Generic[T]):
    """What a changed file has now: a value, or what is wrong with it, or both when it can be used all the same."""

    fingerprint: Fingerprint
    value: T | None
    problem: str | None


class WatchedFile(Generic[T]):
    """A file as a value. `parse` raises ConfigError; `missing` is the value without a file, or None where there must be one.
    `is_private`: it is a problem when others can read it.
    """

    def __init__(
        self, path: Path, parse: Callable[[bytes], T], missing: T | None = None, is_private: bool = False
    ) -> None:
        self.path = path
        self._parse = parse
        self._missing = missing
        self._is_private = is_private
        found = self._read()
        if found.value is None:
            raise ConfigError(found.problem)
        self._fingerprint, self.value, self.problem = found.fingerprint, found.value, found.problem

    def look(self) -> Found[T] | None:
        """None while it is as it was. For a thread: changes nothing here."""
        try:
            is_same = _fingerprint(self.path.stat()) == self._fingerprint
        except FileNotFoundError:
            is_same = self._fingerprint is None
        except OSError:
            is_same = False
        return None if is_same else self._read()

    def take(self, found: Found[T]) -> bool:
        """Whether the value is another one now. A file that broke leaves the last good value, and a problem."""
        self._fingerprint, self.problem = found.fingerprint, found.problem
        if found.value is None:
            return False
        is_new = found.value != self.value
        self.value = found.value
        return is_new

    def _read(self) -> Found[T]:
        fingerprint: Fingerprint = None
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                fingerprint = _fingerprint(status)
                data = file.read(FILE_BYTES_MAX + 1)
            if len(data) > FILE_BYTES_MAX:
                raise ConfigError(f"it is larger than {FILE_BYTES_MAX} bytes")
            is_open = self._is_private and status.st_mode & 0o077
            problem = f"{self.path} can be read by others: chmod 600 it, and rotate the keys" if is_open else None
            return Found(fingerprint, self._parse(data), problem)
        except FileNotFoundError as error:
            problem = None if self._missing is not None else f"{self.path} cannot be read: {error.strerror}"
            return Found(None, self._missing, problem)
        except OSError as error:
            return Found(
                fingerprint, None, f"{self.path} cannot be read: {error.strerror}; let the server's user read it"
            )
        except ConfigError as error:
            return Found(fingerprint, None, f"{self.path} cannot be used: {error}")


def _fingerprint(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder, for its owner only, and keeps other commands away while it is changed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    _give_to_owner_of(folder.parent, folder)
    fd = os.open(folder / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _give_to_owner_of(folder, folder / _LOCK)
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def write_private(path: Path, data: bytes) -> None:
    """Readable by its owner only; whole or not at all, and durable when this returns."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _give_to_owner_of(path.parent, draft)
    draft.rename(path)
    for folder in (path.parent, path.parent.parent):  # the folder may be new, and its name is in the one above
        _sync(folder)


def _give_to_owner_of(folder: Path, path: Path) -> None:
    """What root makes in a server's directory must be the server's, or it could not read it."""
    if os.geteuid() == 0:
        owner: Any = folder.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
