"""Backups: a copy of a data directory that opens by itself, taken while the queue runs, and back again.

Sealed segments never change, so they are linked, not copied, where the target is on the same file system. Everything else
is copied as far as the checkpoint counts it. If a new checkpoint came in between, the copy is begun anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ortoo.model.errors import ExistsError, NotFoundError, UnavailableError

from .checkpoint import FOLDER as CHECKPOINT_FOLDER
from .checkpoint import Checkpoint, read_checkpoint
from .files import RealDisk
from .format import NAME
from .wal import FOLDER as WAL_FOLDER

TRIES = 20
Progress = Callable[[str], None]


def back_up(source: Path, target: Path, progress: Progress = lambda _: None) -> int:
    """Makes `target`, which must not exist or be empty. Returns the bytes it holds."""
    _check_source(source)
    _check_target(target)
    try:
        for _ in range(TRIES):
            _clear(target)
            if _try(source, target, progress):
                _sync_tree(target)
                return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # half a backup is worse than none
        raise
    shutil.rmtree(target, ignore_errors=True)
    raise UnavailableError("the queue made a checkpoint during each try; try again when it is less busy")


def restore(backup: Path, target: Path, progress: Progress = lambda _: None) -> int:
    """Copies a backup to where a queue may open it. The backup stays as it is."""
    _check_source(backup)
    _check_target(target)
    target.mkdir(parents=True, exist_ok=True)
    total = 0
    for path in sorted(backup.rglob("*")):
        if path.is_file() and path.name != "LOCK":
            place = target / path.relative_to(backup)
            progress(str(path.relative_to(backup)))
            _copy(backup, target, str(path.relative_to(backup)))
            total += place.stat().st_size
    _sync_tree(target)
    return total


def _check_source(source: Path) -> None:
    if not (source / NAME).is_file():
        raise NotFoundError(f"{source} is not a data directory of Ortoo")


def _check_target(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ExistsError(f"{target} exists and is not empty; name a new directory")


def _clear(target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)


def _try(source: Path, target: Path, progress: Progress) -> bool:
    """One copy; False when a checkpoint took files away meanwhile."""
    try:
        before = _checkpoints(source)
        checkpoint = read_checkpoint(RealDisk(source))
        _copy(source, target, NAME)
        for name in before:
            _copy(source, target, f"{CHECKPOINT_FOLDER}/{name}")
        if checkpoint is not None:
            for path, size in _files(source, checkpoint):
                progress(path)
                if path.endswith(".seg"):
                    _link(source, target, path)
                else:
                    _copy(source, target, path, size)
        for name in sorted(path.name for path in (source / WAL_FOLDER).iterdir()):
            progress(f"{WAL_FOLDER}/{name}")
            _copy(source, target, f"{WAL_FOLDER}/{name}")
    except FileNotFoundError:
        return False
    return _checkpoints(source) == before


def _checkpoints(source: Path) -> list[str]:
    folder = source / CHECKPOINT_FOLDER
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".ckpt") if folder.is_dir() else []


def _files(source: Path, checkpoint: Checkpoint) -> Iterator[tuple[str, int]]:
    for log in checkpoint.manifest.logs:
        for base, size, _ in log.segments:
            stem = f"logs/{log.topic}/{log.partition}/{base:020d}"
            yield f"{stem}.seg" if (source / f"{stem}.seg").exists() else f"{stem}.log", size
    for history in checkpoint.manifest.histories:
        for number, size in history.files:
            yield f"history/{history.topic}/{history.partition}/{number:010d}.hist", size


def _copy(source: Path, target: Path, path: str, size: int | None = None) -> None:
    place = target / path
    place.parent.mkdir(parents=True, exist_ok=True)
    # Nobody else may read a copy either, so it is made with the permissions of the original.
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with (source / path).open("rb") as reader, os.fdopen(fd, "wb") as writer:
        if size is None:
            shutil.copyfileobj(reader, writer, 1 << 20)
            return
        while size > 0 and (chunk := reader.read(min(size, 1 << 20))):
            writer.write(chunk)
            size -= len(chunk)


def _link(source: Path, target: Path, path: str) -> None:
    place = target / path
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source / path, place)
    except FileNotFoundError:
        raise
    except OSError:  # another file system
        _copy(source, target, path)


def _sync_tree(target: Path) -> None:
    for path in [target, *target.rglob("*")]:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
