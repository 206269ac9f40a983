"""Where things lie in a lake, and how they get there so that they stay.

    LAKE/messages/topic=orders/date=2026-01-31/*.parquet
    LAKE/history/topic=orders/date=2026-01-31/*.parquet
    LAKE/_ortoo/                                            manifest, journals, checkpoints, what is being written

Whoever reads a table sees whole files only: they are written under _ortoo and moved into place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from ortoo.model.errors import ConfigError, NotFoundError
from ortoo.pipeline.durable.files import clear, locked

MESSAGES, HISTORY = "messages", "history"


class Lake:
    def __init__(self, root: str | Path) -> None:
        text = str(root).removeprefix("file://")
        if "://" in text:
            raise ConfigError(f"a lake is a directory of this machine, or one that is mounted; {root} is neither")
        self.root = Path(text).absolute()
        self.own = self.root / "_ortoo"
        if self.root.exists() and not self.root.is_dir():
            raise ConfigError(f"a lake is a directory, and {root} is a file")

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

    def topic(self, table: str, name: str) -> Path:
        return self.table(table) / f"topic={folder_name(name)}"

    def checkpoint(self, table: str) -> Path:
        return self.own / "checkpoint" / table

    def staging(self, what: str) -> Path:
        """Another one each time: a Spark that was left to itself may still be writing to the one before."""
        return self.own / "staging" / f"{what}-{uuid4().hex[:12]}"

    def clear_staging(self) -> None:
        clear(self.own / "staging")

    def files(self, table: str, topic: str | None = None) -> list[Path]:
        """By date, and within a date in the order they were archived in, which is that of every partition."""
        topics = _folders(self.table(table)) if topic is None else [self.topic(table, topic)]
        found = [path for folder in topics for date in _folders(folder) for path in parquet_files(date)]
        return sorted(found, key=lambda path: (path.parent.name, path.name))

    @contextmanager
    def alone(self, doing: str) -> Iterator[None]:
        """One job at a time writes to a lake."""
        refusal = f"another job is at work on the lake {self.root}; {doing} waits for nobody: stop that one first"
        with locked(self.own / "lock", refusal):
            yield


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []


def parquet_files(folder: Path) -> list[Path]:
    """Looks again when the folder was exchanged for another meanwhile: the one that was looked into may be empty by now."""
    while True:
        before = folder.stat()
        found = sorted(folder.glob("*.parquet"))
        after = folder.stat()
        if (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns):
            return found


_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in (*range(1, 32), 127)}
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # as a folder's value it means null
_BYTES_MAX = 255 - len("topic=")  # of a name in a file system
_SHORTENED_BYTES = 200


def folder_name(topic: str) -> str:
    """As Spark and Hive write a value into a folder's name. One that is too long is cut, and a hash tells it from others."""
    name = "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in topic)
    if name == _NOTHING:
        return f"%5F{name[1:]}"
    if len(name.encode()) <= _BYTES_MAX:
        return name
    kept, size = "", 0
    for char in topic:
        escaped = f"%{ord(char):02X}" if char in _ESCAPED else char
        size += len(escaped.encode())
        if size > _SHORTENED_BYTES:
            break
        kept += escaped
    return f"{kept}~{sha256(topic.encode()).hexdigest()[:16]}"
