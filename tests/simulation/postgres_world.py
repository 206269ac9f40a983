"""The store on PostgreSQL in a world where connections break, before and after a commit, and processes die: a real database.
In `OutageWorld` it is away for a while, too, and there is a spill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from ortoo.engine import Engine
from ortoo.engine.state import State
from ortoo.model.records import Record, encode_records
from ortoo.ports import Store
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import Address, parse_address
from ortoo.stores.postgres.commit_log import CommitLog
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.postgres.spill import Spill
from ortoo.stores.postgres.writing import Commit
from ortoo.testing.clock import ManualClock
from ortoo.testing.folded import FoldedStore, Journal, _difference, picture
from tests.stores.postgres_server import fresh_url
from tests.stores.waited_store import WaitedStore

KEYS = {"key": bytes(32)}


class PostgresWorld:
    def __init__(self, random: Random, clock: ManualClock) -> None:
        self.random = random
        self.clock = clock
        self.is_calm = False
        self.crashed = asyncio.Event()
        self.journal = Journal()
        self._url = fresh_url()
        self._store: SimulatedStore | None = None

    def boot(self) -> Store:
        is_locked = not self.is_calm and self.random.random() < 0.15
        ring, address = KeyRing({} if is_locked else KEYS), parse_address(self._url)
        self._store = SimulatedStore(self, address, ring, self._make_log(address), before=self._store)
        return self._store

    def _make_log(self, address: Address) -> CommitLog | None:
        return None

    def goes_away(self) -> bool:
        """Asked with each commit, and each try to come back."""
        return False

    def power_off(self) -> None:
        if self._store is not None:
            self._store.kill()

    def calm(self) -> None:
        self.is_calm = True

    @property
    def is_busy(self) -> bool:
        return self._store is not None and self._store.is_busy

    def complaints(self) -> list[str]:
        assert self._store is not None
        expected = ("quarantined", "the database is away")
        problems = self._store.status().problems
        return [*self.journal.faults, *(one for one in problems if not any(word in one for word in expected))]


class OutageWorld(PostgresWorld):
    def __init__(self, random: Random, clock: ManualClock) -> None:
        super().__init__(random, clock)
        self._spills = Path(mkdtemp(prefix="ortoo-spill-"))
        self._away = 0  # for so many questions

    def _make_log(self, address: Address) -> CommitLog:
        return Spill(self._spills, address, file_bytes=self.random.choice([1_000, 20_000]))

    def goes_away(self) -> bool:
        if self.is_calm:
            self._away = 0
        elif self._away == 0 and self.random.random() < 0.1:
            self._away = self.random.randint(1, 20)
        self._away = max(0, self._away - 1)
        return self._away > 0


class SimulatedStore(WaitedStore):
    """Held to what it confirmed, as the disk store is: what it recovers is a fold over the records that it was given."""

    is_forgetful = True

    def __init__(self, world: PostgresWorld, *arguments: Any, before: SimulatedStore | None, **options: Any) -> None:
        self._world = world
        self._before = before  # whose threads may still be at work
        self._journal = world.journal
        commits = world.random.choice([2, 10, 1_000])
        super().__init__(*arguments, checkpoint_commits=commits, now=lambda: world.clock.now_ms() / 1000, **options)
        worker = self.connections.worker

        @asynccontextmanager
        async def unsteady(doing: str) -> AsyncIterator[Any]:
            if self._fails(0.03):
                raise DatabaseError("simulated: the connection behind broke")
            async with worker(doing) as connection:
                yield connection

        self.connections.worker = unsteady  # type: ignore[method-assign]
        self._steadily = self.shard.send, self.shard.come_back
        self.shard.send, self.shard.come_back = self._send, self._come_back  # type: ignore[method-assign]

    def _fails(self, chance: float) -> bool:
        return not self._world.is_calm and self._world.random.random() < chance

    @property
    def is_busy(self) -> bool:
        return not self._world.crashed.is_set() and super().is_busy

    async def _send(self, commit: Commit) -> None:
        await self._unsteadily(lambda: self._steadily[0](commit))

    async def _unsteadily(self, send: Callable[[], Awaitable[None]]) -> None:
        if self._fails(0.03):
            await self._crash()
        if self._world.goes_away():
            raise DatabaseError("simulated: the database is away")
        if self._fails(0.06):
            self.connections.writer.terminate()
            raise DatabaseError("simulated: the connection broke before the commit")
        await send()
        if self._fails(0.06):
            self.connections.writer.terminate()
            raise DatabaseError("simulated: the connection broke after the commit")
        if self._fails(0.03):
            await self._crash()

    async def _come_back(self) -> None:
        if self._fails(0.3) or self._world.goes_away():
            raise DatabaseError("simulated: the database is away")
        await self._steadily[1]()

    async def _crash(self) -> None:
        """Says so, and never returns."""
        self._world.crashed.set()
        await asyncio.Event().wait()

    async def append(self, records: Sequence[Record]) -> None:
        self._journal.commits[self._number + 1] = encode_records(list(records))
        await super().append(records)
        self._journal.certain = max(self._journal.certain, self._number)

    async def recover(self) -> AsyncIterator[list[Record]]:
        await self._end_those_before()
        engine = Engine()
        async for records in super().recover():
            for record in records:
                engine.apply(record)
                engine.confirm(record)
            yield records
        await self._judge(engine.state)

    async def _judge(self, state: State) -> None:
        journal, last = self._journal, self._number
        if last < journal.certain:
            journal.faults.append(f"commits {last + 1} to {journal.certain} were confirmed and are lost")
        journal.commits = {number: commit for number, commit in journal.commits.items() if number <= last}
        journal.certain = last
        troubled = {topic.id for topic in state.topics.values() if any(p.quarantine_reason for p in topic.partitions)}
        wanted, values = journal.fold()
        difference = _difference(picture(state, troubled), picture(wanted, troubled))
        difference = difference or await FoldedStore._lost_values(self, state, values, troubled)  # type: ignore[arg-type]
        if difference is not None:
            journal.faults.append(f"recovered something else than what was confirmed: {difference}")

    def kill(self) -> None:
        """The process is gone."""
        self.is_gone()
        if self._syncing is not None:
            self._syncing.cancel()
        if self._checkpointing is not None:
            self._checkpointing.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._checkpointing.cancel()
        self.connections.terminate()

    async def _end_those_before(self) -> None:
        if self._before is not None:
            await self._before.end()
            self._before = None

    async def end(self) -> None:
        """What a process leaves to nobody when it is gone."""
        await self._end_those_before()
        if self.front is not None:
            await self.front.close()
            self.connections.terminate()
