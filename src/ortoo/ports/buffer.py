"""A buffer outside of the process that commits are confirmed from, before the store's database has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class BufferAwayError(Exception):
    """The buffer does not answer, or cannot take what it is given: do without it."""


class BufferEra(NamedTuple):
    """One stretch of commits without a gap, that one owner puts into one buffer."""

    name: str  # of the buffer: random, so that no two databases ever mean the same one
    number: int  # of the era: nothing of an earlier one counts
    owner: str  # whoever is not that one is refused


class BufferServer(NamedTuple):
    run: str  # another one after each restart
    warnings: Sequence[str]  # why it may lose more than one expects


class BufferFound(NamedTuple):
    is_there: bool
    used_by: str = ""  # another owner that was there a moment ago; then nothing was taken over
    first: int = 1  # number of the oldest commit
    last: int = 0
    run: str = ""


class CommitBuffer(Protocol):
    """Every call takes a bounded time, and raises BufferAwayError when nobody knows what came of it."""

    @property
    def shown(self) -> str:
        """Where it is, without a password."""
        ...

    @property
    def is_up(self) -> bool: ...

    async def start(self) -> None:
        """Tries it once; it is tried again and again until it is stopped."""
        ...

    async def stop(self) -> None: ...

    def problem(self) -> str | None: ...

    async def begin(self, era: BufferEra, node: str, first: int, instead_of: str | None) -> BufferServer:
        """Empty, and takes commits from that number on. `instead_of`: the name of one that is not needed any more."""
        ...

    async def append(self, era: BufferEra, number: int, data: bytes, upto: int) -> str | None:
        """Commits up to `upto` may go. Returns why it was not taken: the buffer is not what it was."""
        ...

    async def touch(self, era: BufferEra, upto: int) -> None:
        """Its owner is still there."""
        ...

    async def take_over(self, era: BufferEra, by_force: bool) -> BufferFound:
        """Whoever had it cannot add anything from now on."""
        ...

    async def read(self, era: BufferEra, first: int, number: int) -> list[bytes]:
        """Some commits from that number on. `first`: number of the oldest."""
        ...

    async def end(self, era: BufferEra, keep_s: int | None = None) -> None:
        """It is removed; or it goes by itself after that time; or it stays, for people (0)."""
        ...

    def key_of(self, name: str) -> str:
        """Where people find it."""
        ...
