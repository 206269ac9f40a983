"""Where results go: a Parquet file per table, and one JSON file, each replaced as a whole.

Every table is a folder of one file, because a file can be exchanged in one step and a folder cannot: a reader has the old table
or the new one. The JSON file goes last, so whoever sees it new finds the tables new, too.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ortoo.model.analytics import HISTORY_FILE, Report
from ortoo.model.errors import UnavailableError

_STAGING = "_staging-"  # Spark and other readers pass over names that begin so
_ABANDONED_SECONDS = 86_400.0


class Results:
    def __init__(self, lake: Path, staging: Path) -> None:
        self._lake = lake
        self._staging = staging

    def save(self, name: str, table: pa.Table) -> pa.Table:
        """Writes the table without showing it yet, and gives it back."""
        pq.write_table(table, self._staging / f"{name}.parquet", compression="zstd")
        return table

    def show(self, report: Report) -> None:
        """Puts every table that was saved, and then the report, in the place of the old ones."""
        for staged in sorted(self._staging.iterdir()):
            folder = self._lake / "analytics" / staged.stem
            folder.mkdir(exist_ok=True)
            _sync(staged)
            staged.replace(folder / staged.name)
        written = self._staging / "history.json"
        written.write_bytes(msgspec.json.encode(report))
        _sync(written)
        written.replace(self._lake / HISTORY_FILE)


@contextmanager
def open_results(lake: Path) -> Iterator[Results]:
    folder = lake / "analytics"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(mkdtemp(prefix=_STAGING, dir=folder))
    except OSError as error:
        raise UnavailableError(f"results cannot be written to {folder}: {error.strerror or error}") from error
    _remove_abandoned(folder)
    try:
        yield Results(lake, staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """What a run that was killed has left."""
    for staging in folder.glob(f"{_STAGING}*"):
        if time.time() - staging.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(staging, ignore_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def in_order(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """What has no group stands first. A rank has done its work then."""
    keys = {name: pc.fill_null(table[name], "") if name == "group" else table[name] for name in order}
    found = table.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in order]))
    return found.drop_columns(["rank"]) if "rank" in order else found


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Instants become seconds since 1970, the beginning of an hour a whole number of them."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            micros = table.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            seconds = pc.divide(micros, 1_000_000 if column.name == "hour" else 1_000_000.0)
            table = table.set_column(at, column.name, seconds)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
