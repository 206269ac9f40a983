"""Where things lie in a lake, and how they get there so that they stay.

    LAKE/messages/topic=orders/date=2026-01-31/*.parquet
    LAKE/history/topic=orders/date=2026-01-31/*.parquet
    LAKE/_ortoo/                                            manifest, checkpoints, what is being written

Whoever reads a table sees whole files only: they are written under _ortoo and moved into place.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ortoo.model.errors import ConfigError, NotFoundError, UnavailableError

MESSAGES, HISTORY = "messages", "history"


class Lake:
    def __init__(self, root: str | Path) -> None:
        text = str(root).removeprefix("file://")
        if "://" in text:
            raise ConfigError(f"a lake is a directory of this machine, or one that is mounted; {root} is neither")
        self.root = Path(text).absolute()
        self.own = self.root / "_ortoo"

    def __str__(self) -> str:
        return str(self.root)

    @classmethod
    def existing(cls, root: str | Path) -> Lake:
        lake = cls(root)
        if not lake.own.is_dir():
            raise NotFoundError(f"{root} is not a lake; `ortoo pipeline archive --to {root}` makes one")
        return lake

    def table(self, name: str) -> Path:
        return self.root / name

    def checkpoint(self, table: str) -> Path:
        return self.own / "checkpoint" / table

    def staging(self, name: str) -> Path:
        return self.own / "staging" / name

    def files(self, table: str, topic: str | None = None) -> list[Path]:
        """By date, and within a date in the order they were archived in, which is that of every partition."""
        wanted = "topic=*" if topic is None else f"topic={escaped(topic)}"
        folders = [self.table(table)] if topic is None else [self.table(table) / wanted]
        found = [path for folder in folders for path in folder.rglob("*.parquet")]
        return sorted(found, key=lambda path: (path.parent.name, path.name))

    @contextmanager
    def alone(self, doing: str) -> Iterator[None]:
        """One job at a time writes to a lake."""
        make_dirs(self.own)
        with (self.own / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnavailableError(
                    f"another job is at work on the lake {self.root}; {doing} waits for nobody: stop that one first"
                ) from None
            yield


_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in (*range(1, 32), 127)}


def escaped(topic: str) -> str:
    """As Spark and Hive write a value into the name of a folder."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in topic)


def make_dirs(path: Path) -> None:
    """With the folders above it; their names are durable."""
    if not path.is_dir():
        make_dirs(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """A file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, data: bytes) -> None:
    """In the place of what was there, at once; durable when this returns."""
    make_dirs(path.parent)
    draft = path.with_name(f"{path.name}.tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
