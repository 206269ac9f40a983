"""Everything that a store holds, from one to another: what `ortoo migrate` and `ortoo shards move` ask of both.

A source is only read, and nobody writes to it meanwhile. A target is empty, and is no store before all of it is there: until
then whoever opens it is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord, Published, Record, Staged, TopicCreated
from ortoo.model.replies import Columns

from .store import StoredHistory


class Contents(Protocol):
    """As the store itself, whose methods of the same name these are."""

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns: ...

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory: ...

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]: ...


class Source(Contents, Protocol):
    problems: list[str]  # what it cannot vouch for, once all records are told

    def records(self) -> AsyncIterator[list[Record]]: ...

    async def close(self) -> None: ...


class Target(Protocol):
    """What is written is durable when `finish` returns; it is a store when `release` does."""

    async def look(self) -> str | None:
        """Whether it can be begun: an error if not, ExistsError where there is something. Nothing is written. A mark is returned
        where an earlier copy is whole, and only waits for its release."""
        ...

    async def begin(self) -> None:
        """Once it was looked at. What an earlier one left that was not finished goes."""
        ...

    def can_encrypt(self) -> bool: ...

    async def create(self, topic: TopicCreated, starts: Sequence[int]) -> None:
        """`starts`: of each partition, the offset of the first message."""
        ...

    async def publish(self, records: Sequence[Published]) -> None:
        """Of each partition without a gap, from its start on."""
        ...

    async def tell(self, topic: TopicId, partition: int, number: int, records: Sequence[HistoryRecord]) -> None:
        """What happened, from that number on; without records, that numbers before that one are not given again."""
        ...

    async def finish(
        self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes], commits: AsyncIterator[list[Record]]
    ) -> None:
        """The state; and what is replayed behind it."""
        ...

    def reopen(self) -> Source:
        """What was written, to be read again."""
        ...

    async def mark(self, told: str) -> None:
        """All of it is there. It is released now, or by a later one that finds this mark."""
        ...

    async def release(self) -> None:
        """If that was cut short, again."""
        ...

    async def close(self) -> None: ...
