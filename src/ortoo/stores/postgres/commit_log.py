"""The log in front of PostgreSQL: commits that are confirmed, and that the database does not have yet.

Whoever has one (`Front`) decides when a commit goes there, reads it back for those who ask for its messages, and moves it to the
database, in order. The log itself only keeps bytes: it knows neither records nor SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from ortoo.model.histogram import Histogram
from ortoo.stores.disk.wal_writer import Sync

from .writing import Commit, commit_of

__all__ = ["CommitLog", "GoneError", "LogRoom", "Sync", "pack", "unpack"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list).decode


class GoneError(Exception):
    """A commit that is asked for has left the log: the database has it."""


class LogRoom(NamedTuple):
    full: str | None = None  # why nothing more may be published; what only settles still finds room
    bytes: int | None = None  # that may be published; None: nobody knows, or cares


class CommitLog(Protocol):
    """Commits in the order of their numbers, without a gap, all of one term.

    One task appends, another one reads and trims; none of them does two things at a time. It is opened before all else, and again
    after it was closed.
    """

    first: int  # number of the oldest
    last: int  # of the newest; less than `first` when there is none
    term: int  # of the owner that made them; 0 when there is none
    token: str  # the same: a database that goes back gives terms a second time
    size: int  # about how many bytes it takes
    sync_seconds: Histogram

    @property
    def where(self) -> str:
        """For people."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether it has commits, as far as can be told before it is opened."""
        ...

    async def open(self, shard: str) -> list[str]:
        """Takes it for itself, and finds what is there. Returns what an operator should know.

        ConfigError when it belongs to another shard, UnavailableError when another process has it, CorruptionError when something
        that was confirmed cannot be read.
        """
        ...

    async def append(self, number: int, term: int, token: str, data: bytes, sync: Sync) -> None:
        """Returns when it is as durable as `sync` demands. OSError when that failed: then it may be there, or not."""
        ...

    async def read(self, numbers: Sequence[int], bytes_max: int) -> list[bytes]:
        """Some of the first of these, one at least, about as many bytes at most. GoneError when one is not there any more."""
        ...

    async def sync(self) -> None:
        """All that was appended is durable."""
        ...

    async def trim(self, upto: int) -> None:
        """The database has the commits up to that number, durably. When none is left, that is durable, too."""
        ...

    async def set_aside(self, why: str) -> str:
        """All that is there can never be moved: it is kept elsewhere, for people, and the log is empty. Returns where."""
        ...

    def room(self) -> LogRoom: ...

    async def close(self) -> None: ...


def pack(commit: Commit) -> bytes:
    """As the database would be given it: what is encrypted there is encrypted here."""
    return _encode(commit.arguments)


def unpack(data: bytes) -> Commit:
    return commit_of(_decode(data))
