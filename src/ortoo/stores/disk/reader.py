"""Reading messages and history for a store, a little in each turn of the event loop.

Between two turns a topic may be deleted, and the store may have to recover. So logs and histories are looked up in every turn,
and none is made: what is not there is empty, and a reader never brings back what was deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ortoo.model.errors import CorruptionError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import Columns, join_columns

from .catalog import Catalog
from .crypto import KeyRing
from .history import Report
from .log import DiskLog
from .logged import CommitReader

READ_PER_TURN = 4 << 20  # bytes of commits


class Reader:
    def __init__(self, ring: KeyRing, report: Report) -> None:
        self._ring = ring
        self._report = report

    def open(self, catalog: Catalog, commits: CommitReader) -> None:
        self._catalog = catalog
        self._commits = commits

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        return await self._read(topic, partition, lambda log: log.read(offsets, self._ring))

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._read(topic, partition, lambda log: log.scan(start, count, self._ring))

    async def _read(self, topic: TopicId, partition: int, read: Callable[[DiskLog], Columns]) -> Columns:
        if self._commits.bytes_read > READ_PER_TURN:  # many partitions may mean many large commits to go through
            self._commits.bytes_read = 0
            await asyncio.sleep(0)
        try:
            if (topic, partition) in self._catalog.unreadable:
                raise CorruptionError(f"logs/{topic}/{partition} could not be loaded, and is quarantined")
            log = self._catalog.logs.get((topic, partition))
            return join_columns([]) if log is None else read(log)
        except CorruptionError as error:
            self._report(str(error))
            raise

    async def history(self, topic: TopicId, partition: int, offset: int) -> list[HistoryRecord]:
        history = self._catalog.histories.get((topic, partition))
        return [] if history is None else history.history(offset, self._ring)
