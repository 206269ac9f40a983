"""The storage port. The contract every store must keep is the suite in `ortoo.testing.store_contract`."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from ortoo.model.metrics import StoreFigures
from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import HistoryRecord, Record, Staged
from ortoo.model.replies import Columns

from .keys import Keys


class StoreStatus(msgspec.Struct, frozen=True):
    checkpoint_due: bool = False  # the broker should hand over a snapshot with its next commit
    checkpoint_useful: bool = False  # there is something that the last one does not have
    full: str | None = None  # why nothing more may be published; settling still works
    room_bytes: int | None = None  # how much more may be published; None: nobody knows, or cares
    can_encrypt: bool = True  # whether there is a key for encrypted topics
    problems: tuple[str, ...] = ()  # what an operator should know: quarantined partitions, failed checkpoints
    can_copy: bool = True  # whether what is dead-lettered can be read: not while the database is away that has it


class StoredHistory(msgspec.Struct, frozen=True):
    """A run of a partition's history. Its records are numbered from 0 in the order of their commits; no number is used twice."""

    records: list[HistoryRecord]  # numbered without a gap
    start: int  # number of the first one here; higher than asked for when what lies before is gone
    first: int  # the oldest that is still known
    end: int  # one past the newest


class Store(Protocol):
    """Keeps records, and finds messages and their history in them.

    One broker owns a store at a time. `append` is never called again before the last call has returned; the reading
    methods may be called at any time and see everything whose append has returned.
    """

    def recover(self) -> AsyncIterator[list[Record]]:
        """Everything durable, in order, commit by commit. Called before the first append, and again after a failed one."""
        ...

    def appends_at_once(self, records: Sequence[Record]) -> bool:
        """Whether to append these now waits for nothing, so that whoever asked for it may do it in its own turn of the event
        loop."""
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Makes the records durable, all or none, before it returns.

        An error means that the outcome is unknown: the broker drops its state and recovers. Stores act on what the
        records say: Trimmed, TopicPurged and TopicDeleted free what they make unreachable, and TransactionEnded what was
        staged.
        """
        ...

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        """What was staged in an open transaction, in order, from the record of that number on: about as many bytes, but one
        record at least; none when there are no more. They are numbered from 0 since the transaction began."""
        ...

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        """Those messages, in the order asked for (ascending); offsets that are not there any more are left out.
        CorruptionError when one that is there cannot be read."""
        ...

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        """Up to `count` messages from the first that is there at or after `start`."""
        ...

    def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[HistoryRecord]]:
        """What happened to one message, in order, as far as it is kept; piece by piece, for it may be much."""
        ...

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        """What happened to all its messages: up to `count` records from that number on, fewer where some are missing.

        Numbers survive whatever the records survive. What is answered here is never lost again, not even with the power.
        """
        ...

    def status(self) -> StoreStatus: ...

    def figures(self) -> StoreFigures | None:
        """What it measures of itself; None if nothing. It may look at the disk, so it is called in a thread."""
        ...

    def keys(self) -> Keys | None:
        """Where it encrypts; None where it never does."""
        ...

    async def checkpoint(self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes] | None = None) -> None:
        """The engine's state as of the last append. Returns soon; the work goes on beside the appends.

        `secrets`: by topic, what belongs to the state and has to be encrypted. A Restored record brings both back.
        """
        ...

    def discard(self, topic: TopicId, partition: int, offsets: OffsetSet) -> None:
        """Nobody asks for these messages again: their room may be had back, in time. They may still be answered meanwhile.

        That need not survive: it is told again after `recover`. The ids of what was published stay known as long as they count.
        """
        ...

    def page_out(self, numbers: array[int]) -> memoryview | None:
        """Keeps 64-bit numbers that need not survive and are rarely read outside of memory; None where that cannot be. All pieces
        have one size, and one is freed when nobody has its view any more."""
        ...

    async def close(self) -> None: ...
