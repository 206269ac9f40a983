"""The world of `OutageWorld`, with a buffer in a real Redis: it fails before and after a call, and so does the process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from ortoo.ports import Store
from ortoo.ports.buffer import BufferAwayError
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import Address, parse_address
from ortoo.stores.postgres.commit_log import CommitLog
from ortoo.stores.postgres.writing import Commit
from ortoo.stores.redis import RedisBuffer, RedisConnection
from ortoo.stores.redis import parse_address as parse_redis
from ortoo.testing.clock import ManualClock
from tests.simulation.postgres_world import KEYS, OutageWorld, SimulatedStore
from tests.stores.redis_server import server


class BufferedWorld(OutageWorld):
    """Half of the seeds have a spill, too."""

    def __init__(self, random: Random, clock: ManualClock) -> None:
        super().__init__(random, clock)
        self._has_spill = random.random() < 0.5

    def boot(self) -> Store:
        is_locked = not self.is_calm and self.random.random() < 0.15
        ring, address = KeyRing({} if is_locked else KEYS), parse_address(self._url)
        log = self._make_log(address) if self._has_spill else None
        self._store = BufferedStore(self, address, ring, log, before=self._store)
        return self._store

    def complaints(self) -> list[str]:
        return [one for one in super().complaints() if "without the buffer" not in one and "appendonly" not in one]


class UnsteadyBuffer(RedisBuffer):
    def __init__(self, world: BufferedWorld) -> None:
        super().__init__(RedisConnection(parse_redis(server().url)))
        self._world = world

    async def _call(self, script: str, keys: list[str], *arguments: bytes | str | int) -> Any:
        await self._trouble("before")
        answer = await super()._call(script, keys, *arguments)
        await self._trouble("after")
        return answer

    async def _trouble(self, when: str) -> None:
        chance = self._world.random.random()
        if self._world.is_calm:
            return
        if chance < 0.02:
            self._world.crashed.set()
            await asyncio.Event().wait()
        if chance < 0.06:
            raise BufferAwayError(f"simulated: Redis went away {when} the call")


class BufferedStore(SimulatedStore):
    def __init__(
        self,
        world: BufferedWorld,
        address: Address,
        ring: KeyRing,
        log: CommitLog | None,
        *,
        before: SimulatedStore | None,
    ) -> None:
        size = world.random.choice([2_000, 1 << 20])
        super().__init__(world, address, ring, log, buffer=UnsteadyBuffer(world), buffer_bytes=size, before=before)
        self._steadily_many = self.shard.send_many
        self.shard.send_many = self._send_many  # type: ignore[method-assign]

    async def _send_many(self, commits: Sequence[Commit]) -> None:
        await self._unsteadily(lambda: self._steadily_many(commits))

    def kill(self) -> None:
        super().kill()
        assert self.buffering is not None
        for task in (self.buffering._beat, self.buffering.flusher._task):
            if task is not None:
                task.cancel()

    async def end(self) -> None:
        await super().end()
        assert self.buffering is not None
        await self.buffering.stop()
        await self.buffering.buffer.stop()
