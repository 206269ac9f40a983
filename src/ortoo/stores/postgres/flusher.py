"""Drains what a buffer has confirmed to the database, in order and in batches. It is held in memory until the database has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice
from time import monotonic, time

from ortoo.model.errors import NotOwnerError, OrtooError

from .connections import COMMAND_S
from .errors import DatabaseError, WentBackError
from .front import REACH_S, RETRY_MAX_S, RETRY_S, nothing
from .shard import Shard
from .waiting import Waiting
from .writing import Commit

DRAINED_BYTES, DRAINED_TOGETHER = 4 << 20, 256  # commits, in one transaction
FEWER = 16  # that part of it is tried when it fails
_log = logging.getLogger("ortoo.postgres")


class Flusher:
    def __init__(self, shard: Shard, waiting: Waiting) -> None:
        self._shard = shard
        self._waiting = waiting
        self.held = waiting.held
        self.bytes = 0  # of what is held
        self.moved = 0  # number of the last commit that the database has
        self.drained = 0  # commits
        self.reason: str | None = None  # why nothing can be drained
        self.since: float | None = None
        self.broken: OrtooError | None = None  # what is held cannot be drained: begin again from the database
        self.prepare: Callable[[], Awaitable[None]] = nothing  # what the database must have before any commit
        self.after: Callable[[], Awaitable[None]] = nothing  # is done with the database after each batch
        self._together = DRAINED_TOGETHER
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def hold(self, commit: Commit) -> None:
        self.held[commit.number] = commit
        self.bytes += commit.size
        self._waiting.note(commit)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="ortoo-flusher")

    @property
    def first(self) -> int | None:
        """The first commit that the database does not have."""
        return next(iter(self.held), None)

    @property
    def is_going(self) -> bool:
        """Something is held, and nothing speaks against its being drained."""
        return bool(self.held) and self._task is not None and self.reason is None and self.broken is None

    @property
    def is_idle(self) -> bool:
        return not self.held and self._task is None

    def check(self) -> None:
        if self.broken is not None:
            raise self.broken.with_traceback(None)

    async def _run(self) -> None:
        """Until nothing is left."""
        pause, is_connected, me = RETRY_S, True, asyncio.current_task()
        while self.held and self._task is me:
            try:
                async with asyncio.timeout(REACH_S):
                    if not is_connected:
                        await self._shard.come_back()
                        await self.look()
                    await self.prepare()
                async with asyncio.timeout(REACH_S if self._together > 1 else COMMAND_S):
                    await self.drain_some()
                    await self.after()
            except (NotOwnerError, WentBackError) as error:
                self._fail(error)
                return
            except Exception as error:  # it runs by itself
                self.reason = str(error) or "PostgreSQL does not answer"
                self.since = self.since or time()
                if not isinstance(error, OrtooError | TimeoutError):
                    _log.exception("commits could not be drained")
                self._shard.connections.drop_writer()  # a batch may be under way in it
                is_connected = False
                if isinstance(error, TimeoutError):  # it may have been too much
                    self._together = max(1, self._together // FEWER)
                self._progress.set()
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_MAX_S)
            else:
                pause, is_connected, self.reason, self.since = RETRY_S, True, None, None
                self._together = min(2 * self._together, DRAINED_TOGETHER)
        if self._task is me:
            self._task = None  # in the same turn in which nothing was left
        self._progress.set()

    def _fail(self, error: OrtooError) -> None:
        self.broken, self._task = error, None
        if isinstance(error, NotOwnerError):
            self._shard.lost = error
        self._progress.set()

    async def look(self) -> None:
        """What the database has of it already need not be sent again."""
        last, first = await self._shard.last(), self.first
        if first is None:
            return
        if last < first - 1:
            raise WentBackError(
                f"the database went back: it has commits up to {last}, and {first - 1} was there; was a backup restored, or is "
                "it a standby that was behind?"
            )
        if last >= first:
            await self._shard.sync()  # made, and perhaps only here
            await self._forget(last)

    async def drain_some(self) -> None:
        """In one transaction, which is durable when it returns."""
        batch: list[Commit] = []
        size = 0
        for commit in islice(self.held.values(), self._together):
            size += commit.size
            if batch and size > DRAINED_BYTES:
                break
            batch.append(commit)
        if batch:
            await self._shard.send_many(batch)
            self.drained += len(batch)
            await self._forget(batch[-1].number)

    async def _forget(self, upto: int) -> None:
        while (first := self.first) is not None and first <= upto:
            self.bytes -= self.held.pop(first).size
        self.moved = max(self.moved, upto)
        self._waiting.moved(upto)
        self._progress.set()
        while self._waiting.forget():  # noqa: ASYNC110  it gives others a turn
            await asyncio.sleep(0)

    async def some_progress(self, deadline: float | None = None) -> None:
        self._progress.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - monotonic())):
                await self._progress.wait()

    async def reached(self, number: int, patience_s: float = 0.0) -> None:
        """Returns when the database has that commit. DatabaseError when it is away for longer than that."""
        deadline = monotonic() + patience_s
        while (first := self.first) is not None and first <= number:
            if not self.is_going and monotonic() >= deadline:
                raise DatabaseError(f"commit {number} has to wait until the database is back")
            await self.some_progress(None if self.is_going else deadline)

    def taken(self) -> None:
        """Something else has what is held, and will move it."""
        self.held.clear()
        self.bytes, self.reason, self.since = 0, None, None
        self._progress.set()

    def begin_anew(self) -> None:
        """Nothing waits anywhere."""
        self.taken()
        self._waiting.clear()
        self.broken = None

    async def stop(self) -> None:
        """What is held stays."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._progress.set()  # whoever waits for it waits in vain
