"""Backups: a copy of a data directory that opens by itself, taken while the queue runs, and back again.

Sealed segments never change, so they are linked, not copied, where the target is on the same file system. Everything else
is copied as far as the checkpoint counts it. The queue goes on meanwhile, and a checkpoint takes away what it replaces: so
all that a backup needs is held by links of its own first, which takes no time, however long the copying takes.

A copy gets its FORMAT last, when everything else is synced: without it nobody takes one that was killed for a whole one, in
which the write-ahead log merely has a torn end.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ortoo.model.errors import CorruptionError, ExistsError, NotFoundError, UnavailableError

from .checkpoint import FOLDER as CHECKPOINT_FOLDER
from .checkpoint import Checkpoint, read_checkpoint
from .contents import WAL_FILES, list_files
from .files import PRIVATE, make_durable_dir, make_private_dir, read_heads, sync, telling_unreadable
from .format import NAME, PIN_PREFIX, PIN_SUFFIX, UNFINISHED
from .frame import BadFrameError, UnreadableError
from .keys import NAME as KEYS
from .view import ViewDisk
from .wal import FOLDER as WAL_FOLDER
from .wal import Wal, file_name, is_needless, list_wal

TRIES = 20
Progress = Callable[[str], None]


def back_up(source: Path, target: Path, progress: Progress = lambda _: None) -> int:
    """Makes `target`, which must not exist or be empty. Returns the bytes it holds."""
    _check_source(source)
    _check_target(target)
    _remove_dead_pins(source)
    try:
        for _ in range(TRIES):
            _clear(target)
            _begin(source, target)
            if _try(source, target, progress):
                _finish(target)
                return _bytes_in(target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # half a backup is worse than none
        raise
    shutil.rmtree(target, ignore_errors=True)
    raise UnavailableError("the queue made a checkpoint during each try; try again when it is less busy")


def restore(backup: Path, target: Path, progress: Progress = lambda _: None) -> int:
    """Copies a backup to where a queue may open it. The backup stays as it is."""
    _check_source(backup)
    _check_target(target)
    try:
        _begin(backup, target)
        for path in sorted(path.relative_to(backup) for path in backup.rglob("*") if path.is_file()):
            if path.name not in ("LOCK", NAME) and not path.parts[0].startswith(PIN_PREFIX):
                progress(str(path))
                _copy(backup, target, str(path))
        _finish(target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return _bytes_in(target)


def _check_source(source: Path) -> None:
    if not (source / NAME).is_file():
        raise NotFoundError(f"{source} is not a data directory of Ortoo")


def _check_target(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ExistsError(f"{target} exists and is not empty; name a new directory")


def _clear(target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)


def _begin(source: Path, target: Path) -> None:
    make_durable_dir(target)
    fd = os.open(target / UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as writer:
        writer.write((source / NAME).read_bytes())


def _finish(target: Path) -> None:
    _sync_tree(target)
    (target / UNFINISHED).rename(target / NAME)
    sync(target)


def _bytes_in(target: Path) -> int:
    return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())


class _Part(NamedTuple):
    path: str
    size: int | None  # how much of it counts; None: all


def _try(source: Path, target: Path, progress: Progress) -> bool:
    """One copy; False when files were taken away meanwhile."""
    before, pins = _checkpoints(source), _make_pins(source)
    parts: list[_Part] = []
    try:
        parts = list(_parts(source))
        if pins is not None:
            for part in parts:
                _link(source, pins, part.path)
        if _checkpoints(source) != before:
            return False
        _refuse_gaps(ViewDisk(pins or source))
        for part in parts:
            progress(part.path)
            if part.path.endswith(".seg"):
                _link_or_copy(pins or source, target, part.path)
            else:
                _copy(pins or source, target, part.path, part.size)
    except FileNotFoundError:
        return False
    except CorruptionError:
        if _checkpoints(source) == before and all(((pins or source) / part.path).exists() for part in parts):
            raise
        return False  # a checkpoint took the files away, or an opening those that were held
    finally:
        if pins is not None:
            shutil.rmtree(pins, ignore_errors=True)
    return pins is not None or _checkpoints(source) == before


def _make_pins(source: Path) -> Path | None:
    """A folder for links to what the backup needs; None where there can be none: then it may have to begin anew."""
    for number in count():
        pins = source / f"{PIN_PREFIX}{os.getpid()}-{number}{PIN_SUFFIX}"
        try:
            pins.mkdir(PRIVATE)
        except FileExistsError:
            continue
        except OSError:
            return None
        try:
            _link(source, pins, NAME)
        except OSError:
            shutil.rmtree(pins)
            return None
        (pins / NAME).unlink()
        return pins
    return None


def _remove_dead_pins(source: Path) -> None:
    """Of backups that were killed."""
    for pins in source.glob(f"{PIN_PREFIX}*{PIN_SUFFIX}"):
        process = pins.name.removeprefix(PIN_PREFIX).partition("-")[0]
        try:
            os.kill(int(process), 0)
        except (ProcessLookupError, ValueError):
            shutil.rmtree(pins, ignore_errors=True)
        except PermissionError:
            continue


def _checkpoints(source: Path) -> list[tuple[str, int, int]]:
    """Which there are. One of the same commits takes another's name, so that names alone do not tell."""
    folder = source / CHECKPOINT_FOLDER
    paths = [path for path in folder.iterdir() if path.suffix == ".ckpt"] if folder.is_dir() else []
    return sorted((path.name, (found := path.stat()).st_ino, found.st_mtime_ns) for path in paths)


def _parts(source: Path) -> Iterator[_Part]:
    if (source / KEYS).exists():
        yield _Part(KEYS, None)
    checkpoint = read_checkpoint(ViewDisk(source))
    if checkpoint is not None:
        yield _Part(f"{CHECKPOINT_FOLDER}/{checkpoint.number:020d}.ckpt", None)
        yield from _files(source, checkpoint)
    for name in list_files(ViewDisk(source), WAL_FOLDER, WAL_FILES):
        yield _Part(f"{WAL_FOLDER}/{name}", (source / WAL_FOLDER / name).stat().st_size)


def _refuse_gaps(disk: ViewDisk) -> None:
    """A copy that lacks commits does not open: better to learn that now than when it is needed."""
    checkpoint = read_checkpoint(disk)
    after, kept = (0, []) if checkpoint is None else (checkpoint.number, checkpoint.kept())
    Wal(disk).find(after, kept)
    for first, following in pairwise(list_wal(disk)):
        begin = (_last_commit(disk, first) or following) + 1
        if begin < following and not is_needless(begin, following - 1, after, kept):
            raise CorruptionError(
                f"commits {begin} to {following - 1} are missing between {file_name(first)} and {file_name(following)}; bring "
                "back what was there, or repair the directory first"
            )


def _last_commit(disk: ViewDisk, first: int) -> int | None:
    """In a file of the write-ahead log; None where it is damaged."""
    try:
        file = disk.open(file_name(first))
    except UnreadableError:
        return None
    try:
        return max((fixed.number for _, fixed, _ in read_heads(file)), default=first - 1)
    except BadFrameError:
        return None
    finally:
        file.close()


def _files(source: Path, checkpoint: Checkpoint) -> Iterator[_Part]:
    for log in checkpoint.manifest.logs:
        for base, size, _ in log.segments:
            stem = f"logs/{log.topic}/{log.partition}/{base:020d}"
            yield _Part(f"{stem}.seg" if (source / f"{stem}.seg").exists() else f"{stem}.log", size)
    for history in checkpoint.manifest.histories:
        for number, size in history.files:
            yield _Part(f"history/{history.topic}/{history.partition}/{number:010d}.hist", size)


def _copy(source: Path, target: Path, path: str, size: int | None = None) -> None:
    place = target / path
    make_private_dir(place.parent)
    # Nobody else may read a copy either, so it is made with the permissions of the original.
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    left = sys.maxsize if size is None else size
    with (source / path).open("rb") as reader, os.fdopen(fd, "wb") as writer:
        while left > 0 and (chunk := _read(reader, min(left, 1 << 20), path)):
            writer.write(chunk)
            left -= len(chunk)


def _read(reader: BinaryIO, size: int, path: str) -> bytes:
    try:
        with telling_unreadable():
            return reader.read(size)
    except UnreadableError as error:
        raise CorruptionError(f"{path} cannot be copied: {error.reason}; repair the directory first") from None


def _link(source: Path, target: Path, path: str) -> None:
    place = target / path
    make_private_dir(place.parent)
    os.link(source / path, place)


def _link_or_copy(source: Path, target: Path, path: str) -> None:
    try:
        _link(source, target, path)
    except FileNotFoundError:
        raise
    except OSError:  # another file system
        _copy(source, target, path)


def _sync_tree(target: Path) -> None:
    for path in [target, *target.rglob("*")]:
        sync(path)
