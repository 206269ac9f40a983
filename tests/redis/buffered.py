"""Stores on PostgreSQL with a buffer in Redis, whose database is away when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from ortoo.model import records as r
from ortoo.stores.postgres import PostgresStore, parse_address
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.postgres.spill import Spill
from ortoo.stores.postgres.writing import Commit
from ortoo.stores.redis import RedisBuffer, RedisConnection
from ortoo.stores.redis import parse_address as parse_redis

LONG_S = 120.0


class BufferedStore(PostgresStore):
    """`is_away` is asked before each commit, and before each try to connect again; not while it recovers."""

    def __init__(self, url: str, redis: str, spill: Path | None = None, **options: Any) -> None:
        address = parse_address(url)
        log = None if spill is None else Spill(spill, address)
        super().__init__(address, None, log, buffer=RedisBuffer(RedisConnection(parse_redis(redis))), **options)
        self.is_away: Callable[[], bool] = lambda: False
        self._is_recovering = False
        send, send_many, come_back = self.shard.send, self.shard.send_many, self.shard.come_back

        async def unsteady_send(commit: Commit) -> None:
            self._check()
            await send(commit)

        async def unsteady_send_many(commits: Sequence[Commit]) -> None:
            self._check()
            await send_many(commits)

        async def unsteady_come_back() -> None:
            self._check()
            await come_back()

        self.shard.send = unsteady_send  # type: ignore[method-assign]
        self.shard.send_many = unsteady_send_many  # type: ignore[method-assign]
        self.shard.come_back = unsteady_come_back  # type: ignore[method-assign]

    def _check(self) -> None:
        if not self._is_recovering and self.is_away():
            raise DatabaseError("the database is away, says the test")

    async def recover(self) -> AsyncIterator[list[r.Record]]:
        self._is_recovering = True
        try:
            async for records in super().recover():
                yield records
        finally:
            self._is_recovering = False

    @property
    def held(self) -> dict[int, Commit]:
        assert self.buffering is not None
        return self.buffering.held

    @property
    def is_on(self) -> bool:
        assert self.buffering is not None
        return self.buffering.is_on

    async def drained(self) -> None:
        async with asyncio.timeout(LONG_S):
            while self.held:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def die(self) -> None:
        """As the process that is killed: nothing is told to anybody."""
        assert self.buffering is not None
        await self.buffering.stop()
        await self.buffering.buffer.stop()
        if self.front is not None:
            await self.front.stop()
            await self.front.log.close()
        await self._stop()
        self.connections.terminate()


async def recovered(store: PostgresStore) -> list[r.Record]:
    return [record async for records in store.recover() for record in records]
