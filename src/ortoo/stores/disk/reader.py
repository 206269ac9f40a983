"""Reading messages and history for a store, a little in each turn of the event loop.

A message may lie in a commit by itself, or in one with a thousand others, so what is asked for does not tell how much has to be
read. So all readers together count what they read, and when it was enough for this turn, they wait for the next one.

Between two turns a topic may be deleted, and the store may have to recover. So logs and histories are looked up in every turn,
and none is made: what is not there is empty, and a reader never brings back what was deleted.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence

from ortoo.model.errors import CorruptionError, UnavailableError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import Columns, join_columns
from ortoo.ports import StoredHistory

from .catalog import Catalog
from .crypto import KeyRing
from .history import DiskHistory, Report
from .log import DiskLog
from .logged import CommitReader

READ_PER_TURN = 2 << 20  # as CommitReader counts it: some 5 to 10 ms
HISTORY_PER_TURN = 200  # records


class Reader:
    def __init__(self, ring: KeyRing, report: Report) -> None:
        self._ring = ring
        self._report = report
        self._next_turn: asyncio.Future[None] | None = None
        self.per_turn = READ_PER_TURN

    def open(self, catalog: Catalog, commits: CommitReader) -> None:
        self._catalog = catalog
        self._commits = commits
        self._next_turn = None

    @property
    def _is_enough(self) -> bool:
        return self._commits.spent > self.per_turn

    async def _turn(self) -> None:
        """Waits until something may be read again. Who has just read something waits behind the others."""
        if self._is_enough:
            await asyncio.sleep(0)
        while self._is_enough:
            if self._next_turn is None:
                loop = asyncio.get_running_loop()
                self._next_turn = loop.create_future()
                loop.call_soon(self._begin_turn, self._next_turn)
            await asyncio.shield(self._next_turn)

    def _begin_turn(self, waiting: asyncio.Future[None]) -> None:
        self._next_turn, self._commits.spent = None, 0
        waiting.set_result(None)

    # -- messages

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        return await self._read(topic, partition, lambda _: offsets)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._read(topic, partition, lambda log: log.span(start, count))

    async def _read(self, topic: TopicId, partition: int, wanted: Callable[[DiskLog], Sequence[int]]) -> Columns:
        parts: list[Columns] = []
        left: Sequence[int] | None = None
        try:
            while left is None or left:
                await self._turn()
                log = self._find(topic, partition)
                if log is None:
                    break
                left = self._read_some(log, wanted(log) if left is None else left, parts)
        except CorruptionError as error:
            self._report(str(error))
            raise
        return join_columns(parts)

    def _find(self, topic: TopicId, partition: int) -> DiskLog | None:
        if (topic, partition) in self._catalog.unreadable:
            raise CorruptionError(f"logs/{topic}/{partition} could not be loaded, and is quarantined")
        return self._catalog.logs.get((topic, partition))

    def _read_some(self, log: DiskLog, offsets: Sequence[int], parts: list[Columns]) -> Sequence[int]:
        """As much as may be in this turn; returns what is left."""
        for part in log.parts(offsets, self._ring):
            parts.append(part)
            if self._is_enough:
                return offsets[bisect_right(offsets, part.offsets[-1]) :]
        return []

    # -- history

    async def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[HistoryRecord]]:
        at: int | None = 0
        while at is not None:
            await self._turn()
            history = self._catalog.histories.get((topic, partition))
            if history is None:
                break
            found: list[HistoryRecord] = []
            at = self._tell_some(history, offset, at, found)
            if found:
                yield found

    def _tell_some(self, history: DiskHistory, offset: int, at: int, found: list[HistoryRecord]) -> int | None:
        """As much as may be in this turn; returns the number to go on from."""
        for end, records in history.about(offset, at, self._ring):
            found += records
            if self._is_enough:
                return end
        return None

    async def read_history(self, history: DiskHistory, start: int, count: int, end: int) -> StoredHistory:
        """From one number to before another, until some are missing."""
        records: list[HistoryRecord] = []
        while True:
            await self._turn()
            if self._catalog.histories.get((history.topic, history.partition)) is not history:
                raise UnavailableError("the topic was deleted, or the store had to recover; ask again")
            at, wanted = start + len(records), min(count - len(records), HISTORY_PER_TURN)
            some = history.read_history(at, wanted, end, self._ring, self._report)
            if not records:
                start = some.start
            elif some.start != at:
                break
            records += some.records
            if not some.records or len(records) >= count:
                break
        return StoredHistory(records, start, history.first, end)
