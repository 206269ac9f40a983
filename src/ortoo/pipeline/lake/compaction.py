"""Many small files become one. A folder is exchanged as a whole, at once: no reader ever sees a row twice, or misses it."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ortoo.model.errors import UnavailableError

from .layout import HISTORY, MESSAGES, Lake, clear, make_dirs, sync

SMALL_BYTES = 32 << 20
LARGE_BYTES = 128 << 20  # no file is made larger than about this
FEW = 8  # small files are left alone as long as there are no more

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


class Compacted(NamedTuple):
    folders: int = 0
    before: int = 0  # files
    after: int = 0

    def __add__(self, other: object) -> Compacted:
        assert isinstance(other, Compacted)
        return Compacted(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def compact(lake: Lake, few: int = 1) -> Compacted:
    """The whole lake. Nobody else may write to it meanwhile."""
    total = Compacted()
    for table in (MESSAGES, HISTORY):
        for folder in sorted({path.parent for path in lake.files(table)}):
            total += compact_folder(lake, folder, few)
    return total


def compact_folder(lake: Lake, folder: Path, few: int = FEW) -> Compacted:
    """One topic's day."""
    files = sorted(folder.glob("*.parquet"))
    groups = [group for group in _groups(files) if len(group) > 1]
    if sum(map(len, groups)) <= few:
        return Compacted()
    fresh = lake.staging(f"compact-{folder.parent.name}-{folder.name}")
    clear(fresh)
    make_dirs(fresh)
    merged = {path for group in groups for path in group}
    for path in files:
        if path not in merged:
            _link(path, fresh / path.name)
    for group in groups:
        _merge(group, fresh / group[0].name)  # in the place of the first: names tell the order
    sync(fresh)
    exchange(fresh, folder)
    sync(folder.parent)
    clear(fresh)
    return Compacted(1, len(files), len(files) - len(merged) + len(groups))


def _groups(files: list[Path]) -> Iterator[list[Path]]:
    """Neighbours that are small, together not too large. Only neighbours: what is merged stays in order."""
    group: list[Path] = []
    size = 0
    for path in files:
        bytes_here = path.stat().st_size
        if bytes_here > SMALL_BYTES or size + bytes_here > LARGE_BYTES:
            yield group
            group, size = [], 0
        if bytes_here <= SMALL_BYTES:
            group.append(path)
            size += bytes_here
    yield group


def _merge(files: list[Path], target: Path) -> None:
    """One row group a file that goes in, so that memory holds one at a time."""
    schema = pq.read_schema(files[0])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in files:
            table: pa.Table = pq.ParquetFile(path).read()
            writer.write_table(table.cast(schema))
    sync(target)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # not every file system has them
        shutil.copyfile(source, target)
        sync(target)


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
