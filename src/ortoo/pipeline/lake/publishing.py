"""Files from staging into a table: whoever reads the table sees each row once, whatever crashed in between.

A batch's files have names that come from its number. A journal names them before the first is moved, so that when the batch
runs again, whatever its first attempt had moved goes first.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .layout import Lake, clear, make_dirs, sync, write_durably


def file_name(sequence: int, index: int) -> str:
    return f"{sequence:012d}-{index:05d}.parquet"


class Journal(msgspec.Struct):
    sequence: int
    files: list[str]


def _journal(lake: Lake, table: str) -> Path:
    return lake.own / "journal" / f"{table}.json"


def publish(lake: Lake, table: str, staging: Path, sequence: int) -> list[Path]:
    """Moves the files of a staged batch into place, durably. Returns the folders it touched."""
    _undo(_journal(lake, table), sequence)
    moves = _moves(lake.table(table), staging, sequence)
    entry = Journal(sequence, [str(target.relative_to(lake.root)) for _, target in moves])
    write_durably(_journal(lake, table), msgspec.json.encode(entry))
    folders = list(dict.fromkeys(target.parent for _, target in moves))
    for folder in folders:
        make_dirs(folder)
    for source, target in moves:
        sync(source)
        source.replace(target)
    for folder in folders:
        sync(folder)
    clear(staging)
    return folders


def done(lake: Lake, table: str) -> None:
    """The manifest knows the batch now: there is nothing to undo any more."""
    _journal(lake, table).unlink(missing_ok=True)


def _undo(journal: Path, sequence: int) -> None:
    """Takes back what an earlier attempt at the same batch had moved. Another batch's files are in the manifest, and stay."""
    if not journal.exists():
        return
    entry = msgspec.json.decode(journal.read_bytes(), type=Journal)
    if entry.sequence == sequence:
        for name in entry.files:
            (journal.parents[2] / name).unlink(missing_ok=True)
    journal.unlink()


def _moves(table: Path, staging: Path, sequence: int) -> list[tuple[Path, Path]]:
    """Spark names files by the task that wrote them, and tasks are in the order of what they read."""
    found = sorted(staging.rglob("*.parquet"), key=lambda path: (path.parent, path.name))
    counts: dict[Path, int] = {}
    moves = []
    for path in found:
        folder = table / path.parent.relative_to(staging)
        moves.append((path, folder / file_name(sequence, counts.get(folder, 0))))
        counts[folder] = counts.get(folder, 0) + 1
    return moves
