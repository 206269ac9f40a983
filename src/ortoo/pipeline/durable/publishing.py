"""From staging into place: whoever reads the place sees each row once, whatever crashes in between.

    staging/…            Spark writes a batch to a folder of its own, a new one for each attempt
    journal/NAME.json    says what goes where: from here on the batch counts
    …                    what it names is moved into place, by renaming
    manifest.json        says how far it is; what it has already is never put in place again
                         then the journal goes

A batch counts from the moment its journal is written. By that time all it names is complete and durable in staging. What is cut
short afterwards is carried on by whoever comes next, before anything else is done. No name is ever given twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from ortoo.model.errors import CorruptionError
from ortoo.stores.disk.files import sync

from .files import clear, make_dirs, write_durably

Offsets = dict[str, dict[str, int]]  # as a stream has them: {"orders": {"0": 41, "1": 7, "id": 3}}
Move = tuple[Path, Path]


class Journal(msgspec.Struct):
    sequence: int
    offsets: Offsets  # where the batch ends, if that is what the manifest goes by
    moves: list[tuple[str, str]]  # files or folders, from and to, below the root


class Manifest(Protocol):
    """How far the place is."""

    def has(self, name: str, sequence: int) -> bool: ...

    def note(self, name: str, entry: Journal) -> None:
        """The batch is in place; durable when this returns."""


class Publisher:
    """One at a time works on a place; who makes one sees to it. Several names share the manifest."""

    def __init__(self, root: Path, own: Path, manifest: Manifest) -> None:
        self._root = root
        self._own = own
        self._manifest = manifest

    def publish(
        self, name: str, sequence: int, staging: Path, moves: Iterable[Move], offsets: Offsets | None = None
    ) -> None:
        """What is below `staging`, which goes away. A target that is there already is an error: names are given once."""
        moves = list(moves)
        for source, target in moves:
            if target.exists():
                raise CorruptionError(
                    f"{target} is there already, but {self._own / 'manifest.json'} does not know it: the manifest is an "
                    "older copy; restore it together with the files"
                )
            sync_all(source)
        for folder in {above for source, _ in moves for above in _above(source, staging.parent)}:
            sync(folder)
        entry = Journal(sequence, offsets or {}, [(self._below(source), self._below(to)) for source, to in moves])
        write_durably(self._journal(name), msgspec.json.encode(entry))
        self._finish(name, entry)
        clear(staging)

    def recover(self) -> None:
        """What an earlier job began is done."""
        for path in sorted((self._own / "journal").glob("*.json")):
            try:
                entry = msgspec.json.decode(path.read_bytes(), type=Journal)
            except msgspec.MsgspecError as error:
                raise CorruptionError(f"{path} is damaged: {error}; restore {self._own} from a backup") from None
            self._finish(path.stem, entry)

    def _finish(self, name: str, entry: Journal) -> None:
        if not self._manifest.has(name, entry.sequence):
            targets = [self._move(self._root / source, self._root / to) for source, to in entry.moves]
            for folder in dict.fromkeys(target.parent for target in targets):
                sync(folder)
            self._manifest.note(name, entry)
        self._journal(name).unlink(missing_ok=True)

    def _move(self, source: Path, target: Path) -> Path:
        make_dirs(target.parent)
        try:
            source.replace(target)
        except FileNotFoundError:
            if not target.exists():  # else it was moved before
                raise CorruptionError(
                    f"{source} is gone, which was to become {target}; restore {self._root} from a backup"
                ) from None
        return target

    def _journal(self, name: str) -> Path:
        return self._own / "journal" / f"{name}.json"

    def _below(self, path: Path) -> str:
        return str(path.relative_to(self._root))


def _above(path: Path, top: Path) -> list[Path]:
    """The folders that it is in, up to that one."""
    return [top, *(folder for folder in path.parents if folder.is_relative_to(top))]


def sync_all(path: Path) -> None:
    """A file, or a folder with all that is in it."""
    if path.is_dir():
        for each in path.iterdir():
            sync_all(each)
    sync(path)
