"""Memory stores with a twist: one whose disk can be made slow, one that remembers across openings."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from ortoo import Queue
from ortoo.broker import Broker
from ortoo.model.names import TopicId
from ortoo.model.records import Record
from ortoo.model.replies import Columns
from ortoo.ports import Store
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock


class SlowStore(MemoryStore):
    """Writes and reads wait while the matching event is clear."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = asyncio.Event()
        self.reading = asyncio.Event()
        self.writing.set()
        self.reading.set()

    def appends_at_once(self, records: Sequence[Record]) -> bool:
        return False

    async def append(self, records: Sequence[Record]) -> None:
        await self.writing.wait()
        await super().append(records)

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        await self.reading.wait()
        return await super().read(topic, partition, offsets)


class LastingStore(MemoryStore):
    """What was appended is there again at the next opening, as on a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[list[Record]] = []

    def appends_at_once(self, records: Sequence[Record]) -> bool:
        return False

    async def append(self, records: Sequence[Record]) -> None:
        self.commits.append(list(records))
        await super().append(records)

    async def recover(self) -> AsyncIterator[list[Record]]:
        commits = list(self.commits)
        self._logs.clear()
        self._staged.clear()
        for records in commits:
            await super().append(records)
            yield records


def queue_on(store: Store, clock: ManualClock) -> Queue:
    return Queue(Broker(store, clock))
