"""What stands in front of the database: a breaker, and a log for commits while the database does not take them.

    closed    a commit goes to the database. One that fails, or takes too long, opens the breaker
    open      a commit goes to the log, under its number, and is confirmed there. Beside, a task tries to reach the database, and
              moves what the log has, in order; what the database has already is skipped, so unknown outcomes resolve themselves
    closed    when nothing is left in the log. The writer finds that out before its next commit: nobody else may, or one commit
              would go to the log behind its back

What the database was given softly, and may lose in a crash, is remembered until it is durable there: it goes to the log first, or
what follows it could never be moved. Where it is lost, it is made again, whoever notices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import time

from ortoo.model.errors import NotOwnerError, OrtooError
from ortoo.model.metrics import ShardHealth

from .commit_log import CommitLog, LogRoom, Sync, pack, unpack
from .errors import DatabaseError, WentBackError, failing_while
from .report import away, report
from .shard import Shard
from .waiting import Waiting
from .writing import Commit

COMMIT_S = 2.0  # for one that takes longer the breaker opens
RETRY_S, RETRY_MAX_S = 0.1, 2.0  # between tries to reach the database
REACH_S = 15.0  # for one such try
MOVED_BYTES, MOVED_TOGETHER = 4 << 20, 256  # commits, before they are made durable and leave the log
REST = 0.25  # of the time that moving took: the database has others to serve
MOVED_FOR_ONE = 2  # commits are moved for each that is added meanwhile, so that the end is reached
HELD_S = 0.5  # for which a commit waits for that, at most
SOFT_BYTES, SOFT_COMMITS = 8 << 20, 2_000  # that may be soft at a time
_log = logging.getLogger("ortoo.postgres")


async def nothing() -> None: ...


class Front:
    def __init__(self, shard: Shard, log: CommitLog) -> None:
        self._shard = shard
        self.log = log
        self.waiting = Waiting(log)
        self.is_open = False
        self._reason: str | None = None
        self._since: float | None = None
        self._moved = 0
        self._is_moving = False
        self._progress = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._soft: list[Commit] = []  # what the database has, and may lose
        self._soft_bytes = 0
        self._broken: OrtooError | None = (
            None  # what was moved, or was to be, is not there: begin again from the database
        )
        self.prepare: Callable[[], Awaitable[None]] = nothing  # what the database must have before any commit
        self.on_problem: Callable[[str], None] = lambda _: None  # is told what an operator should know

    # -- opening

    async def settle(self) -> None:
        """Before anything else is done with the database: what the log has is moved there, or set aside. It is empty afterwards.

        Where somebody else has claimed the shard since, as the term tells, what the database has is not what the log follows.
        """
        for problem in await self.log.open(await self._shard.identity()):
            self.on_problem(problem)
        self.waiting.clear()
        self._soft.clear()
        self._soft_bytes, self._broken, self.is_open, self._reason, self._since = 0, None, False, None, None
        if self.log.last < self.log.first:
            return
        owner, before = await self._shard.owner(), self._shard.term
        try:
            if (owner.term, owner.token) != (self.log.term, self.log.token):
                raise NotOwnerError(f"another owner has taken over: {owner.node}, with term {owner.term}")
            self._shard.term = self.log.term
            await self._shard.speak_for(owner)
            await self._move()
        except (NotOwnerError, WentBackError) as error:
            await self._set_aside(error)
        finally:
            self._shard.term = before
            if self._shard.connections.has_writer:
                await self._shard.speak_for(None)

    async def _set_aside(self, why: OrtooError) -> None:
        """It can never be moved."""
        _log.error("commits are set aside", extra={"first": self.log.first, "last": self.log.last, "why": str(why)})
        told = await report(self.log, f"could not be moved to PostgreSQL: {why}", await self._shard.topic_names())
        self.waiting.clear()
        self.on_problem(f"{told}; kept in {await self.log.set_aside(told)}")

    # -- the writer

    async def commit(self, commit: Commit, sync: Sync) -> None:
        """One after the other. Confirmed when it returns."""
        async with self._writing:
            if self._broken is not None:
                raise self._broken.with_traceback(None)
            if self.is_through() and await self._deliver(commit, sync):
                return
            await self._keep(commit, sync)
        await self._hold_back()

    async def _deliver(self, commit: Commit, sync: Sync) -> bool:
        """Whether the database has taken it."""
        try:
            async with asyncio.timeout(COMMIT_S):
                if self._soft_bytes > SOFT_BYTES or len(self._soft) > SOFT_COMMITS:
                    await self._shard.sync()
                    await self._shard.check_last(commit.number - 1)
                    self._synced(commit.number - 1)
                await self.prepare()
                await self._shard.commit(commit)
        except (DatabaseError, TimeoutError) as error:
            if self._shard.lost is not None or (isinstance(error, WentBackError) and not await self._lost_soft()):
                raise
            if isinstance(error, DatabaseError) and error.is_refusal:
                raise
            await self._open(str(error) or f"PostgreSQL took longer than {COMMIT_S:g} s for a commit")
            return False
        if sync == "now":
            self._synced(commit.number)
        else:
            self._soft.append(commit)
            self._soft_bytes += commit.size
        return True

    async def _lost_soft(self) -> bool:
        """Whether the database lacks something, and nothing but what is remembered."""
        if not self._soft or self.is_open:
            return False
        return self._soft[0].number - 1 <= await self._shard.last() < self._soft[-1].number

    async def synced(self, upto: int, last: int | None) -> None:
        """The database was asked to make durable what it has, up to `last`. Where that is not `upto`, it has crashed, and what it
        lost is made again, as far as it is remembered: from the log."""
        if last is not None and last >= upto:
            self._synced(upto)
            return
        async with self._writing:
            with failing_while("looking for commits after a crash"):
                async with asyncio.timeout(COMMIT_S):
                    is_lost = await self._lost_soft()
            if is_lost:
                await self._open("it has lost commits in a crash, which are made again")

    def _synced(self, upto: int) -> None:
        """What the database has up to that number is durable there."""
        self._soft = [commit for commit in self._soft if commit.number > upto]
        self._soft_bytes = sum([commit.size for commit in self._soft])

    async def _open(self, reason: str) -> None:
        _log.warning("the database is away, commits go to the spill", extra={"reason": reason, "spill": self.log.where})
        self._shard.connections.drop_writer()  # a commit may be under way in it
        self.is_open, self._reason, self._since = True, reason, time()
        soft, self._soft, self._soft_bytes = self._soft, [], 0
        for commit in soft:
            await self._keep(commit, "never")

    async def take(self, commits: Sequence[Commit], reason: str) -> None:
        """Commits that the database may have, or not. Confirmed when it returns."""
        if not self.is_open:
            await self._open(reason)
        for commit in commits:
            if commit.number > self.log.last:
                await self._keep(commit, "never")
        await self.log.sync()

    async def give_up(self, commits: Sequence[Commit], why: OrtooError) -> None:
        """Commits that can never be moved: they are kept for people."""
        assert self._shard.term is not None
        await self.stop()
        for commit in commits:
            if commit.number > self.log.last:
                await self.log.append(
                    commit.number, self._shard.term, self._shard.connections.token, pack(commit), "never"
                )
        await self._set_aside(why)

    def is_through(self) -> bool:
        """Whether commits go to the database. The writer asks, and switches back."""
        if self.is_open and self.is_clear:
            self._close()
        return not self.is_open

    def _close(self) -> None:
        _log.info("the database is back, and has all commits", extra={"moved": self._moved})
        self.is_open, self._reason, self._since = False, None, None

    async def _keep(self, commit: Commit, sync: Sync) -> None:
        assert self._shard.term is not None
        await self.log.append(commit.number, self._shard.term, self._shard.connections.token, pack(commit), sync)
        if self._broken is not None:  # meanwhile: it was written behind what was set aside
            raise self._broken.with_traceback(None)
        self.waiting.note(commit)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="ortoo-drain")

    async def _hold_back(self) -> None:
        """While commits are moved, new ones come more slowly than they go."""
        goal = self._moved + MOVED_FOR_ONE
        with suppress(TimeoutError):
            async with asyncio.timeout(HELD_S):
                while self._is_moving and self._moved < goal and self.log.first <= self.log.last:
                    self._progress.clear()
                    await self._progress.wait()

    # -- the drain

    async def _run(self) -> None:
        """Until nothing is left."""
        pause = RETRY_S
        while True:
            try:
                async with asyncio.timeout(REACH_S):
                    await self._shard.come_back()
                    await self.prepare()
                await self._move()
            except NotOwnerError as error:
                self._broken = self._shard.lost = error
                await self._set_aside(error)
                return
            except WentBackError as error:
                self._broken, self._reason = error, str(error)
                return
            except Exception as error:  # it runs by itself
                self._reason = str(error) or "PostgreSQL does not answer"
                self._since = self._since or time()
                if not isinstance(error, OrtooError | TimeoutError):
                    _log.exception("commits could not be moved")
            else:
                # In the same turn in which nothing was left: the next commit begins another task.
                self._task = self._reason = self._since = None
                return
            self._progress.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_MAX_S)

    async def _move(self) -> None:
        """Until nothing is left. What the database has is durable before it leaves the log."""
        last = await self._shard.last()
        if last < self.log.first - 1:
            raise WentBackError(
                f"the database went back: it has commits up to {last}, and {self.log.first - 1} was there; was a backup "
                "restored, or is it a standby that was behind?"
            )
        self._is_moving = True
        try:
            await self._forget(last)
            while self.log.first <= self.log.last:
                began = asyncio.get_running_loop().time()
                await self._forget(await self._move_some(self.log.first))
                if self.log.first > self.log.last:  # at once, or the writer would add another one meanwhile
                    break
                await asyncio.sleep(REST * (asyncio.get_running_loop().time() - began))
        finally:
            self._is_moving = False
            self._progress.set()

    async def _move_some(self, first: int) -> int:
        """Returns the number of the last one."""
        upto = min(self.log.last, first + MOVED_TOGETHER - 1)
        for data in await self.log.read(range(first, upto + 1), MOVED_BYTES):
            commit = unpack(data)
            await self._shard.send(commit.softly())
            first = commit.number
            self._moved += 1
            self._progress.set()
        return first

    async def _forget(self, upto: int) -> None:
        upto = min(upto, self.log.last)
        if upto >= self.log.first:
            await self._shard.sync()
            self.waiting.moved(upto)
            while self.waiting.forget():  # noqa: ASYNC110  it gives others a turn
                await asyncio.sleep(0)
            await self.log.trim(upto)
            self._progress.set()

    async def reached(self, number: int) -> None:
        """Returns when the database has that commit."""
        while self.log.first <= min(number, self.log.last):
            if self._reason is not None or self._task is None:
                raise DatabaseError(f"commit {number} has to wait until the database is back")
            self._progress.clear()
            await self._progress.wait()

    # -- what it tells

    def is_away(self) -> bool:
        return self._reason is not None

    @property
    def is_broken(self) -> bool:
        """Nothing is taken any more: begin again from what the database has."""
        return self._broken is not None

    @property
    def is_clear(self) -> bool:
        """Whether the database has everything; a checkpoint then has it, too."""
        return self.log.last < self.log.first and self._task is None

    def health(self) -> ShardHealth:
        commits = max(0, self.log.last - self.log.first + 1)
        return ShardHealth(self._reason is None, self._reason, self._since, commits, self.log.size, self._moved)

    def problem(self) -> str:
        health = self.health()
        return away(health.reason, health.since, health.spilled_commits, health.spilled_bytes, self.log.where)

    def room(self) -> LogRoom:
        return self.log.room() if self.is_open else LogRoom()

    @property
    def is_soft(self) -> bool:
        return bool(self._soft)

    # -- the end

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def close(self) -> None:
        await self.stop()
        await self.log.close()
