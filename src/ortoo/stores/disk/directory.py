"""A directory as a store."""

from __future__ import annotations

from glob import escape
from pathlib import Path

from ortoo.model.errors import UnavailableError

from .crypto import open_ring
from .files import RealDisk, make_durable_dir
from .lock import DirectoryLock
from .store import DiskStore

DAMAGED = "damaged"  # what a repair replaces is kept under such a name
REPAIRING = "repairing"  # and what it makes begins so


def open_directory(path: Path, keys: str | dict[str, bytes] | None = None) -> DiskStore:
    """The store in that directory, made when it is not there. Nobody else may have it open."""
    refuse_interrupted_repair(path)
    try:
        make_durable_dir(path)
    except OSError as error:
        raise UnavailableError(f"the data directory {path} cannot be made: {error}") from None
    return DiskStore(RealDisk(path), open_ring(keys), lock=DirectoryLock(path))


def refuse_interrupted_repair(path: Path) -> None:
    """A new directory in the place of one that a repair has just put aside would hide that everything is there."""
    path = path.resolve()
    if path.exists() or not path.parent.is_dir():
        return
    aside = list(path.parent.glob(f"{escape(path.name)}.{DAMAGED}-*"))
    if aside:
        latest = max(aside, key=lambda found: found.stat().st_ctime_ns).name
        raise UnavailableError(
            f"there is no directory {path}, but {latest} lies beside it: a repair was interrupted; rename that one to "
            f"{path.name} and repair it again, or move it elsewhere to begin with nothing"
        )
