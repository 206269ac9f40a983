"""A store that remembers like a disk and fails like one: before or after the write, slowly, or with the whole process."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal

from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import HistoryRecord, Record, Staged, decode_records, encode_records
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory, StoreStatus
from ortoo.stores.memory import MemoryStore

Fault = Literal["none", "slow", "fail before", "fail after", "crash before", "crash after"]


class FaultyStore:
    """`plan(number)` says what happens to the append of that number."""

    def __init__(self, plan: Callable[[int], Fault] = lambda _: "none") -> None:
        self.plan = plan
        self.journal: list[bytes] = []  # what is durable: survives crashes
        self.appends = 0
        self.crashed = asyncio.Event()
        self._view = MemoryStore()

    async def recover(self) -> AsyncIterator[list[Record]]:
        self._view = MemoryStore()
        for data in self.journal:
            records = decode_records(data)
            await self._view.append(records)
            yield records

    def appends_at_once(self, records: Sequence[Record]) -> bool:
        return False

    async def append(self, records: Sequence[Record]) -> None:
        fault = self.plan(self.appends)
        self.appends += 1
        if fault == "slow":
            for _ in range(7):
                await asyncio.sleep(0)
        if fault == "fail before":
            raise OSError("simulated: the disk failed before the write")
        if fault == "crash before":
            await self._crash()
        self.journal.append(encode_records(list(records)))
        if fault == "fail after":
            raise OSError("simulated: the disk failed after the write")
        if fault == "crash after":
            await self._crash()
        await self._view.append(records)

    async def _crash(self) -> None:
        """Says so, and never returns: whoever runs the simulation throws the process away."""
        self.crashed.set()
        await asyncio.Event().wait()

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        return await self._view.staged(namespace, transaction, start, bytes_max)

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        return await self._view.read(topic, partition, offsets)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._view.scan(topic, partition, start, count)

    def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[HistoryRecord]]:
        return self._view.history(topic, partition, offset)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        return await self._view.read_history(topic, partition, start, count)

    def status(self) -> StoreStatus:
        return self._view.status()

    def figures(self) -> None:
        return None

    def keys(self) -> None:
        return None

    async def checkpoint(self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes] | None = None) -> None:
        await self._view.checkpoint(snapshot, at, secrets)

    def discard(self, topic: TopicId, partition: int, offsets: OffsetSet) -> None:
        self._view.discard(topic, partition, offsets)

    def page_out(self, numbers: array[int]) -> memoryview | None:
        return self._view.page_out(numbers)

    async def close(self) -> None:
        pass
