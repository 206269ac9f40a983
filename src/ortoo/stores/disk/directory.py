"""A directory as a store."""

from __future__ import annotations

from pathlib import Path

from ortoo.model.errors import UnavailableError

from .crypto import KeyRing, load_keys
from .files import RealDisk, make_durable_dir
from .lock import DirectoryLock
from .store import DiskStore


def open_directory(path: Path, keys: str | dict[str, bytes] | None = None) -> DiskStore:
    """The store in that directory, made when it is not there. Nobody else may have it open."""
    try:
        make_durable_dir(path)
    except OSError as error:
        raise UnavailableError(f"the data directory {path} cannot be made: {error}") from None
    return DiskStore(
        RealDisk(path), KeyRing(load_keys(keys), keys if isinstance(keys, str) else None), lock=DirectoryLock(path)
    )
