"""What stands between a commit and the database, as far as there is any: a buffer, and a log for while the database is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ortoo.model.metrics import ShardHealth
from ortoo.ports.buffer import CommitBuffer

from . import buffer_recovery
from .buffering import Buffering
from .commit_log import CommitLog, LogRoom, Sync
from .front import Front
from .shard import Shard
from .waiting import Waiting
from .writing import Commit


class Ahead:
    def __init__(
        self,
        shard: Shard,
        log: CommitLog | None,
        buffer: CommitBuffer | None,
        buffer_bytes: int,
        prepare: Callable[[], Awaitable[None]],
        on_problem: Callable[[str], None],
    ) -> None:
        self._shard = shard
        self._prepare = prepare
        self.front = self.buffering = None
        if log is not None:
            self.front = Front(shard, log)
            self.front.on_problem, self.front.prepare = on_problem, prepare
        if buffer is not None:
            self.buffering = Buffering(shard, self.front, buffer, bytes_max=buffer_bytes)
            self.buffering.on_problem, self.buffering.flusher.prepare = on_problem, prepare

    @property
    def waiting(self) -> Waiting | None:
        nearest = self.buffering or self.front
        return None if nearest is None else nearest.waiting

    async def settle(self, by_force: bool = False) -> None:
        """The database has everything that was confirmed. The log first: it has the older ones."""
        if self.front is not None:
            await self.front.settle()
        if self.buffering is None:
            await buffer_recovery.refuse_without_buffer(self._shard, by_force=by_force)
        else:
            await buffer_recovery.settle(self.buffering, by_force=by_force)

    async def commit(self, commit: Commit, sync: Sync) -> None:
        if self.buffering is not None:
            await self.buffering.commit(commit)
        elif self.front is not None:
            await self.front.commit(commit, sync)
        else:
            await self._prepare()
            await self._shard.commit(commit)

    async def reached(self, number: int) -> None:
        """Returns when the database has that commit."""
        if self.front is not None:
            await self.front.reached(number)
        if self.buffering is not None:
            await self.buffering.flusher.reached(number)

    def is_away(self) -> bool:
        """The database is."""
        return (self.front is not None and self.front.is_away()) or (
            self.buffering is not None and self.buffering.is_away()
        )

    @property
    def is_clear(self) -> bool:
        """Whether the database has everything, but for what is soon drained."""
        return self.front is None or self.front.is_clear

    def confirmed(self, upto: int) -> int:
        """The last commit that the database must have."""
        if self.front is not None and self.front.log.first <= self.front.log.last:
            upto = min(upto, self.front.log.first - 1)
        held = None if self.buffering is None else self.buffering.flusher.first
        return upto if held is None else min(upto, held - 1)

    def room(self) -> LogRoom | None:
        """While commits do not go to the database."""
        if self.front is not None and self.front.is_open:
            return self.front.room()
        return self.buffering.room() if self.buffering is not None and self.buffering.is_away() else None

    def problems(self) -> list[str]:
        found = [self.front.problem()] if self.front is not None and self.front.is_away() else []
        return found if self.buffering is None else found + self.buffering.problems()

    def health(self) -> ShardHealth:
        health = ShardHealth() if self.front is None else self.front.health()
        return health if self.buffering is None else self.buffering.health(health)

    async def stop(self) -> None:
        for one in (self.buffering, self.front):
            if one is not None:
                await one.stop()

    async def close(self) -> None:
        for one in (self.buffering, self.front):
            if one is not None:
                await one.close()
