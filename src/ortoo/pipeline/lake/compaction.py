"""Many small files become one. A folder is exchanged as a whole, at once: no reader ever sees a row twice, or misses it.

What is merged gets a name that was never there before. So a reader that looked at the folder before the exchange, and opens
its files after, misses one and can look again; it never takes a merged file for one of those that went into it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from time import sleep
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ortoo.model.errors import CorruptionError
from ortoo.pipeline.durable.files import clear, exchange, make_dirs
from ortoo.stores.disk.files import sync

from .layout import HISTORY, MESSAGES, Lake

SMALL_BYTES = 32 << 20
LARGE_BYTES = 128 << 20  # no file is made larger than about this
FEW = 8  # small files are left alone as long as there are no more
GRACE_SECONDS = 2.0  # for who is in the middle of looking into a folder that was exchanged

_GROUP_BYTES = 32 << 20  # of rows that lie together in a file, and that are in memory at once
_GROUP_ROWS = 200_000
_BATCH_ROWS = 5_000


class Compacted(NamedTuple):
    folders: int = 0
    before: int = 0  # files
    after: int = 0
    replaced: tuple[Path, ...] = ()  # folders that nobody needs, once nobody is in the middle of looking into them

    def and_(self, other: Compacted) -> Compacted:
        return Compacted(
            self.folders + other.folders,
            self.before + other.before,
            self.after + other.after,
            self.replaced + other.replaced,
        )


def compact(lake: Lake, few: int = 1, grace: float = GRACE_SECONDS) -> Compacted:
    """The whole lake. Nobody else may write to it meanwhile."""
    total = Compacted()
    for table in (MESSAGES, HISTORY):
        for folder in sorted({path.parent for path in lake.files(table)}):
            total = total.and_(compact_folder(lake, folder, few))
    if total.replaced:
        sleep(grace)
    for folder in total.replaced:
        clear(folder)
    return total


def compact_folder(lake: Lake, folder: Path, few: int = FEW) -> Compacted:
    """One topic's day. The folder that was there is left in `replaced`."""
    files = sorted(folder.glob("*.parquet"))
    groups = [group for group in _groups(files) if len(group) > 1]
    if sum(map(len, groups)) <= few:
        return Compacted()
    groups = [alike for group in groups for alike in _alike(group) if len(alike) > 1]
    fresh = lake.staging("compact")
    is_exchanged = False
    try:
        make_dirs(fresh)
        merged = {path for group in groups for path in group}
        for path in files:
            if path not in merged:
                _link(path, fresh / path.name)
        for group in groups:
            _merge(group, fresh / merged_name(group))
        sync(fresh)
        exchange(fresh, folder)
        is_exchanged = True
    finally:
        if not is_exchanged:
            clear(fresh)
    sync(folder.parent)
    return Compacted(1, len(files), len(files) - len(merged) + len(groups), (fresh,))


def merged_name(files: list[Path]) -> str:
    """The first and the last that went in. So it is in order, and new: whatever has it later has more in it."""
    return f"{files[0].stem.partition('_')[0]}_{files[-1].stem.rpartition('_')[2]}.parquet"


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


def _alike(files: list[Path]) -> Iterator[list[Path]]:
    """Only what has the same columns can be one file."""
    schemas = {path: pq.read_schema(path).remove_metadata() for path in files}
    for _, alike in groupby(files, key=lambda path: str(schemas[path])):
        yield list(alike)


def _merge(files: list[Path], target: Path) -> None:
    count = 0
    with pq.ParquetWriter(target, pq.read_schema(files[0]), compression="zstd") as writer:
        for table in _gathered(files):
            writer.write_table(table, row_group_size=len(table))
            count += len(table)
    expected = sum(pq.read_metadata(path).num_rows for path in files)
    if not count == expected == pq.read_metadata(target).num_rows:
        raise CorruptionError(f"{target} would hold {count} rows, and not the {expected} of the files it is made of")
    sync(target)


def _gathered(files: list[Path]) -> Iterator[pa.Table]:
    """As much at a time as is good to read, and fits into memory."""
    schema = pq.read_schema(files[0])
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for path in files:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                held.append(batch.cast(schema))
                rows, size = rows + len(batch), size + batch.nbytes
                if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                    yield pa.Table.from_batches(held, schema)
                    held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # not every file system has them
        shutil.copyfile(source, target)
        sync(target)
