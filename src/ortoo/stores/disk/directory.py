"""A directory as a store."""

from __future__ import annotations

from glob import escape
from pathlib import Path

from ortoo.model.errors import UnavailableError

from .crypto import KeyRing, open_ring
from .files import PRIVATE, RealDisk, make_durable_dir
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
    return DirectoryStore(path, open_ring(keys))


class DirectoryStore(DiskStore):
    """Tells when others may look into its directory. Its mode is left alone: whoever gave it may have had a reason."""

    def __init__(self, path: Path, ring: KeyRing) -> None:
        super().__init__(RealDisk(path), ring, lock=DirectoryLock(path))
        self._path = path
        self._is_shared = _is_shared(path)

    @property
    def problems(self) -> list[str]:
        self._is_shared = self._is_shared and _is_shared(self._path)  # until somebody changes that
        found = super().problems
        if self._is_shared:
            found.append(f"other users of this machine may look into {self._path}: run `chmod 700 {self._path}`")
        return found


def _is_shared(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & ~PRIVATE & 0o777)
    except OSError:  # that is told elsewhere
        return False


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
