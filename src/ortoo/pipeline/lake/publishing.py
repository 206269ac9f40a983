"""Files from staging into a table: whoever reads the table sees each row once, whatever crashes in between.

A batch counts from the moment its journal is written, which says where each file goes and how far the archive is then. By that
time all files are complete and durable in staging. What is cut short afterwards is carried on by whoever comes next, before
anything else is done. The names of files come from the batch's number and are never given twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import msgspec

from ortoo.model.errors import CorruptionError
from ortoo.stores.disk.files import sync

from .layout import HISTORY, MESSAGES, Lake, clear, make_dirs, write_durably
from .manifest import Manifest, Offsets, save


def file_name(sequence: int, index: int) -> str:
    return f"{sequence:012d}-{index:05d}.parquet"


class Journal(msgspec.Struct):
    sequence: int
    offsets: Offsets  # where the batch ends
    moves: list[tuple[str, str]]  # from and to, below the lake


class Publisher:
    """Two tables share a manifest."""

    def __init__(self, lake: Lake, manifest: Manifest) -> None:
        self._lake = lake
        self._manifest = manifest
        self._changing = Lock()

    def publish(self, table: str, staging: Path, topics: Mapping[str, str], offsets: Offsets) -> list[Path]:
        """A staged batch, of topics by the names of their folders there. Returns the folders that it came to."""
        sequence = self._manifest.batches.get(table, 0)
        moves = self._moves(table, staging, topics, sequence)
        for source, target in moves:
            if target.exists():
                raise CorruptionError(
                    f"{target} is there already, but the lake's manifest does not know it: the manifest is an older copy"
                )
            sync(source)
        for folder in {source.parent for source, _ in moves}:
            sync(folder)
            sync(folder.parent)
        if moves:
            sync(staging)
            sync(staging.parent)
        entry = Journal(sequence, offsets, [(self._below(source), self._below(target)) for source, target in moves])
        write_durably(self._journal(table), msgspec.json.encode(entry))
        self._finish(table, entry)
        clear(staging)
        return list(dict.fromkeys(target.parent for _, target in moves))

    def recover(self) -> None:
        """What an earlier job began is done, and what it left is removed."""
        for table in (MESSAGES, HISTORY):
            path = self._journal(table)
            if path.exists():
                try:
                    entry = msgspec.json.decode(path.read_bytes(), type=Journal)
                except msgspec.MsgspecError as error:
                    raise CorruptionError(f"{path} is damaged: {error}; restore the lake from a backup") from None
                self._finish(table, entry)
        self._lake.clear_staging()

    def _finish(self, table: str, entry: Journal) -> None:
        if entry.sequence >= self._manifest.batches.get(table, 0):
            targets = [self._move(self._lake.root / source, self._lake.root / to) for source, to in entry.moves]
            for folder in dict.fromkeys(target.parent for target in targets):
                sync(folder)
            with self._changing:
                self._manifest.note(table, entry.sequence, entry.offsets)
                save(self._lake, self._manifest)
        self._journal(table).unlink(missing_ok=True)

    def _move(self, source: Path, target: Path) -> Path:
        make_dirs(target.parent)
        try:
            source.replace(target)
        except FileNotFoundError:
            if not target.exists():  # else it was moved before
                raise CorruptionError(
                    f"{source} is gone, which was to become {target}; restore the lake from a backup"
                ) from None
        return target

    def _journal(self, table: str) -> Path:
        return self._lake.own / "journal" / f"{table}.json"

    def _below(self, path: Path) -> str:
        return str(path.relative_to(self._lake.root))

    def _moves(self, table: str, staging: Path, topics: Mapping[str, str], sequence: int) -> list[tuple[Path, Path]]:
        """Spark names files by the task that wrote them, and tasks are in the order of what they read."""
        counts: dict[Path, int] = {}
        moves = []
        for path in staged_files(staging):
            topic, date = path.relative_to(staging).parts[:2]
            folder = self._lake.topic(table, topics[topic.partition("=")[2]]) / date
            moves.append((path, folder / file_name(sequence, counts.get(folder, 0))))
            counts[folder] = counts.get(folder, 0) + 1
        return moves


def staged_files(staging: Path) -> list[Path]:
    """In order. Attempts that Spark gave up may have left something in hidden folders."""
    found = [
        path for path in staging.rglob("*.parquet") if not path.relative_to(staging).parts[0].startswith(("_", "."))
    ]
    return sorted(found, key=lambda path: (path.parent, path.name))
