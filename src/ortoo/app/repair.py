"""Making the best of a damaged data directory: a new one with everything that can be read, and a list of what cannot.

The damaged directory is never changed; it is kept beside the new one under another name. What is gone leaves a gap that counts
as deleted, so that offsets and ids of the others stay what they were. The new directory is opened, to see that it can be,
before it takes the old one's place.
"""

from __future__ import annotations

import os
import re
import shutil
from glob import escape
from pathlib import Path

from ortoo.auth.files import FOLDER as AUTH_FOLDER
from ortoo.engine import Engine
from ortoo.model.errors import CorruptionError, ExistsError, NotFoundError, OrtooError, UnavailableError
from ortoo.stores.disk import KeyRing, RealDisk, open_ring
from ortoo.stores.disk.check import Directory
from ortoo.stores.disk.directory import DAMAGED, REPAIRING, refuse_interrupted_repair
from ortoo.stores.disk.files import PRIVATE, sync
from ortoo.stores.disk.format import refuse_unknown
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.stores.disk.view import ViewDisk

from .losses import Loss, LostCommit, Repair
from .rebuild import MISFITS, Rebuild

__all__ = ["Loss", "LostCommit", "Repair", "repair_directory"]

MOUNTS = Path("/proc/self/mountinfo")


def repair_directory(path: Path, keys: str | dict[str, bytes] | None = None) -> Repair:
    """Repairs in place: afterwards `path` is whole, and the damaged directory lies beside it. Of a link, what it points to."""
    path = path.resolve()
    refuse_interrupted_repair(path)
    if not path.is_dir():
        raise NotFoundError(f"there is no directory {path}")
    if not (path / "FORMAT").exists() and not (path / "wal").is_dir():
        raise NotFoundError(f"{path} is not a data directory of Ortoo, so there is nothing to repair")
    refuse_unknown(ViewDisk(path))
    _refuse_mount_point(path)
    lock = DirectoryLock(path)
    lock.acquire()
    _remove_dead_drafts(path)
    draft, aside = _beside(path, REPAIRING), _beside(path, DAMAGED)
    try:
        repair = _rebuild(path, draft, open_ring(keys))
        _keep_auth(path, draft)
        _exchange(path, draft, aside)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        lock.release()
    repair.damaged = str(aside)
    return repair


def _refuse_mount_point(path: Path) -> None:
    """The system renames none. It is asked itself: a folder that is mounted elsewhere looks like any other."""
    if not MOUNTS.exists():
        return
    mounts = [line.split()[4] for line in MOUNTS.read_bytes().splitlines()]
    if os.fsencode(path) in [re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), one) for one in mounts]:
        raise UnavailableError(
            f"{path} is a mount point, and no other directory can take its place; copy it with `cp -a`, repair the copy, and "
            "put what that has then in the place of what is here, or keep the data in a folder below from now on"
        )


def _remove_dead_drafts(path: Path) -> None:
    """Of repairs that were killed: one that runs has the lock, which we have. What somebody has opened since is theirs."""
    for draft in path.parent.glob(f"{escape(path.name)}.{REPAIRING}-*"):
        if draft.name.rpartition("-")[2].isdecimal() and not (draft / "LOCK").exists():
            shutil.rmtree(draft, ignore_errors=True)


def _beside(path: Path, word: str) -> Path:
    for number in range(1, 1000):
        candidate = path.parent / f"{path.name}.{word}-{number}"
        if not candidate.exists():
            return candidate
    raise ExistsError(f"there are too many {word} directories beside {path}; remove some")


def _keep_auth(path: Path, draft: Path) -> None:
    """Without its keys, a server would let everybody in."""
    if (path / AUTH_FOLDER).is_dir():
        shutil.copytree(path / AUTH_FOLDER, draft / AUTH_FOLDER)
        for copied in [*(draft / AUTH_FOLDER).iterdir(), draft / AUTH_FOLDER, draft]:
            sync(copied)


def _exchange(path: Path, draft: Path, aside: Path) -> None:
    """When it ends in between, opening tells how to go on."""
    path.rename(aside)
    try:
        draft.rename(path)
    except OSError:
        aside.rename(path)
        raise
    sync(path.parent)


def _rebuild(path: Path, draft: Path, ring: KeyRing) -> Repair:
    """With the state, if what is left agrees with it; otherwise from the messages alone."""
    problem = ""
    for keep_state in (True, False):
        draft.mkdir(PRIVATE)
        try:
            repair = Rebuild(ViewDisk(path), RealDisk(draft), ring, keep_state).run()
            _open(draft, ring)
        except UnavailableError as error:
            raise UnavailableError(f"{error}; without it, repairing would lose what it protects") from None
        except (OrtooError, *MISFITS) as error:
            _refuse_stranger(ring)
            problem = f"{type(error).__name__}: {error}"
            shutil.rmtree(draft)
            continue
        _refuse_stranger(ring)
        if problem:
            repair.complaints.append(f"the state disagrees with what is left, so groups start over ({problem})")
        return repair
    raise CorruptionError(f"{path} could not be repaired, and is as it was ({problem}); restore a backup")


def _refuse_stranger(ring: KeyRing) -> None:
    if strangers := ring.failed - ring.proved:
        raise UnavailableError(f"encryption key {min(strangers)!r} decrypts nothing here; give the one that was used")


def _open(draft: Path, ring: KeyRing) -> None:
    engine, directory = Engine(), Directory(ViewDisk(draft), ring)
    for records in directory.records():
        for record in records:
            engine.apply(record)
            engine.confirm(record)
    directory.catalog.close_files()
    if directory.problems:
        raise CorruptionError(directory.problems[0])
