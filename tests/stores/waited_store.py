"""A store on PostgreSQL for the manual clock: moving it on waits until the database has answered."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ortoo.model import records as r
from ortoo.model.names import TopicId
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory
from ortoo.stores.postgres import PostgresStore
from ortoo.testing.clock import waited_for


class WaitedStore(PostgresStore):
    """Counts what is under way. Little is kept in memory where `is_forgetful`, so that most is read from the database."""

    is_forgetful = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._under_way = 0
        super().__init__(*arguments, **options)

    def _reset(self) -> None:
        super()._reset()
        if self.is_forgetful:
            self.catalog.recent._bytes_max = self.catalog.frames._bytes_max = 0

    @property
    def is_busy(self) -> bool:
        return self._under_way > 0 or self._checkpointing is not None

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def recover(self) -> AsyncIterator[list[r.Record]]:
        if self._is_waited_for not in waited_for:
            waited_for.append(self._is_waited_for)
        with self._working():
            async for records in super().recover():
                yield records

    def _is_waited_for(self) -> bool:
        return self.is_busy

    async def append(self, records: Sequence[r.Record]) -> None:
        with self._working():
            await super().append(records)

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        with self._working():
            return await super().read(topic, partition, offsets)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        with self._working():
            return await super().scan(topic, partition, start, count)

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[r.Staged]:
        with self._working():
            return await super().staged(namespace, transaction, start, bytes_max)

    async def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[r.HistoryRecord]]:
        with self._working():
            found = [records async for records in super().history(topic, partition, offset)]
        for records in found:
            yield records

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        with self._working():
            return await super().read_history(topic, partition, start, count)

    async def checkpoint(self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes] | None = None) -> None:
        with self._working():
            await super().checkpoint(snapshot, at, secrets)

    async def close(self) -> None:
        await super().close()
        self.is_gone()

    def is_gone(self) -> None:
        """Nobody waits for it any more."""
        if self._is_waited_for in waited_for:
            waited_for.remove(self._is_waited_for)
