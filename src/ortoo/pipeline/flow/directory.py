"""A directory of Parquet files that a sink writes: whoever reads it finds each batch whole, and once, whatever crashed.

    DIR/batch=12/date=2026-01-31/*.parquet      a batch of a stream: its folder comes into place in one step
    DIR/*.parquet                               what replaces everything: all of DIR is exchanged in one step
    .DIR.ortoo/                                 beside it: manifest, journal, lock, what is being written

After a crash Spark gives the last batch again, with the same number: the manifest knows, by query, which were the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import msgspec

from ortoo.model.errors import ConfigError, CorruptionError
from ortoo.pipeline.durable.files import clear, exchange, locked, make_dirs, write_durably
from ortoo.pipeline.durable.publishing import Journal, Publisher, sync_all
from ortoo.stores.disk.files import sync

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH = "batch"  # the column, as folders are named by it
VERSION = 1
_QUERY = "sql.streaming.queryId"
_LOCK_SECONDS = 600.0  # another sink may be moving its batch into the same directory
_OURS = re.compile(r"part-[0-9A-Za-z.-]+\.parquet")  # as Spark names files


class Manifest(msgspec.Struct):
    version: int = VERSION
    kind: Literal["", "batches", "whole"] = ""
    next: int = 0  # the number of the next folder
    batches: dict[str, int] = {}  # by query: how many of its batches are in


class Directory:
    """What is done here is done alone: others that write to the directory wait."""

    def __init__(self, path: str | Path, sink: str) -> None:
        self.path = Path(path)
        self.own = self.path.parent / f".{self.path.name}.ortoo"
        self._sink = sink
        self._manifest = Manifest()

    def staging(self) -> Path:
        """Another one each time: a Spark that was left to itself may still be writing to the one before."""
        return self.own / "staging" / f"{self._sink}-{uuid4().hex}"

    def begin(self) -> None:
        """A crash has left something in the middle, or half written."""
        with self._alone():
            if self.path.exists() and self.path.stat().st_dev != self.own.stat().st_dev:
                raise ConfigError(f"{self.path} is a file system of its own; write to a folder in it")
            for folder in (self.own / "staging").glob(f"{self._sink}-{'[0-9a-f]' * 32}"):
                clear(folder)

    def add(self, query: str, batch: int, staged: Path) -> None:
        """A batch that Spark has written to `staged`."""
        files = _tidy(staged, keeps_empty=False)
        with self._alone() as publisher:
            done = self._manifest.batches.get(query, 0)
            if batch < done - 1:
                raise CorruptionError(
                    f"{self.path} has batches up to {done - 1} of this checkpoint, which gives batch {batch} again: the "
                    "checkpoint is an older copy; give the pipeline a new checkpoint and a new directory"
                )
            if batch < done:
                clear(staged)
                return
            self._become("batches")
            moves = [(staged, self.path / f"{BATCH}={self._manifest.next}")] if files else []
            publisher.publish(query, batch, staged, moves)

    def replace(self, staged: Path) -> None:
        """Everything that was there before."""
        _tidy(staged, keeps_empty=True)
        sync_all(staged)
        with self._alone():
            self._become("whole")
            if self.path.exists():
                exchange(staged, self.path)
            else:
                make_dirs(self.path.parent)
                staged.replace(self.path)
            sync(self.path.parent)
            sync(staged.parent)
        clear(staged)

    @contextmanager
    def _alone(self) -> Iterator[Publisher]:
        """With what was begun carried on, and the manifest as it is then."""
        refusal = f"another pipeline has been writing to {self.path} for {_LOCK_SECONDS:.0f} seconds; stop it, or write elsewhere"
        with locked(self.own / "lock", refusal, _LOCK_SECONDS):
            self._manifest = self._load()
            publisher = Publisher(self.path.parent, self.own, self)
            publisher.recover()
            yield publisher

    def _load(self) -> Manifest:
        path = self.own / "manifest.json"
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return Manifest()
        except msgspec.MsgspecError as error:
            raise CorruptionError(f"{path} is damaged: {error}; restore it with {self.path} from a backup") from None
        if found.version != VERSION:
            raise ConfigError(
                f"{path} is of version {found.version}, and this program knows {VERSION}: use a newer one"
            )
        return found

    def _become(self, kind: Literal["batches", "whole"]) -> None:
        """Nothing that others put there is replaced, and folders of both kinds cannot be read as one table."""
        known = self._manifest.kind
        if known not in ("", kind):
            how = "batch by batch" if known == "batches" else "as a whole, each time"
            raise ConfigError(f"{self.path} was written {how}; what this sink writes needs another directory")
        if known == "whole":
            foreign = next((path for path in self._files() if not _OURS.fullmatch(path.name)), None)
            if foreign is not None:
                raise ConfigError(
                    f"{foreign} would be deleted, and no pipeline wrote it; move it away, or write elsewhere"
                )
        if not known:
            if any(self.path.glob(f"{BATCH}=*")):
                raise CorruptionError(
                    f"{self.path} has batches, but {self.own / 'manifest.json'}, which tells whose they are, is missing: restore "
                    "it, or write to a new directory"
                )
            if any(self._files()):
                raise ConfigError(f"{self.path} has files that no pipeline wrote; write to a new or empty directory")
            self._manifest.kind = kind
            self._save()

    def _files(self) -> Iterator[Path]:
        return (path for path in self.path.rglob("*") if not path.is_dir())

    # -- the manifest, as the publisher knows it

    def has(self, name: str, sequence: int) -> bool:
        return sequence < self._manifest.batches.get(name, 0)

    def note(self, name: str, entry: Journal) -> None:
        self._manifest.batches[name] = entry.sequence + 1
        self._manifest.next += len(entry.moves)
        self._save()

    def _save(self) -> None:
        write_durably(self.own / "manifest.json", msgspec.json.encode(self._manifest))


def _tidy(staged: Path, keeps_empty: bool) -> int:
    """Leaves the files of the attempts that Spark counts. Returns how many that are."""
    import pyarrow.parquet as pq

    count = 0
    for path in list(staged.iterdir()) if staged.is_dir() else ():
        if path.is_dir() and path.name.startswith(("_", ".")) and "=" not in path.name:
            clear(path)
        elif path.is_dir():
            count += _tidy(path, keeps_empty)
        elif path.suffix != ".parquet" or not (keeps_empty or pq.read_metadata(path).num_rows):
            path.unlink()
        else:
            count += 1
    return count


class Writer:
    """Gives the directory what Spark computes."""

    def __init__(self, path: str, sink: str, partition_by: tuple[str, ...], options: dict[str, str]) -> None:
        self._directory = Directory(path, sink)
        self._partition_by = partition_by
        self._options = options
        self._has_begun = False

    def take(self, frame: DataFrame, batch: int) -> None:
        """Another batch of a stream. It is computed also when it is there already: Spark keeps what aggregations know with it."""
        self._directory.add(query_of(frame), batch, self._stage(frame))

    def take_all(self, frame: DataFrame, batch: int) -> None:
        """A batch that holds everything; it replaces all before it."""
        self.replace(frame)

    def replace(self, frame: DataFrame) -> None:
        """The outcome of a batch run, in the place of that of the last one."""
        self._directory.replace(self._stage(frame))

    def _stage(self, frame: DataFrame) -> Path:
        if not self._has_begun:
            self._directory.begin()
            self._has_begun = True
        staged = self._directory.staging()
        make_dirs(staged.parent)
        writer = frame.write.options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.parquet(f"file:{staged}")
        return staged


def query_of(frame: DataFrame) -> str:
    """The query's id lives as long as its checkpoint; another query's batches have the same numbers."""
    query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY)
    assert query is not None
    return query
