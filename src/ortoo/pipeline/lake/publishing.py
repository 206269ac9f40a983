"""Batches of the archive into the lake's tables: see `durable.publishing`. Names of files come from the batch's number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from ortoo.pipeline.durable.publishing import Journal, Move, Offsets
from ortoo.pipeline.durable.publishing import Publisher as Files

from .layout import Lake
from .manifest import Manifest, save


def file_name(sequence: int, index: int) -> str:
    return f"{sequence:012d}-{index:05d}.parquet"


class _Saved:
    """Two tables share a manifest, and each has a thread."""

    def __init__(self, lake: Lake, manifest: Manifest) -> None:
        self._lake = lake
        self._manifest = manifest
        self._changing = Lock()

    def has(self, name: str, sequence: int) -> bool:
        return sequence < self._manifest.batches.get(name, 0)

    def note(self, name: str, entry: Journal) -> None:
        with self._changing:
            self._manifest.note(name, entry.sequence, entry.offsets)
            save(self._lake, self._manifest)


class Publisher:
    def __init__(self, lake: Lake, manifest: Manifest) -> None:
        self._lake = lake
        self._manifest = manifest
        self._files = Files(lake.root, lake.own, _Saved(lake, manifest))

    def publish(self, table: str, staging: Path, topics: Mapping[str, str], offsets: Offsets) -> list[Path]:
        """A staged batch, of topics by the names of their folders there. Returns the folders that it came to."""
        sequence = self._manifest.batches.get(table, 0)
        moves = self._moves(table, staging, topics, sequence)
        self._files.publish(table, sequence, staging, moves, offsets)
        return list(dict.fromkeys(target.parent for _, target in moves))

    def recover(self) -> None:
        """What an earlier job began is done, and what it left is removed."""
        self._files.recover()
        self._lake.clear_staging()

    def _moves(self, table: str, staging: Path, topics: Mapping[str, str], sequence: int) -> list[Move]:
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
