"""Commits that are confirmed from a buffer outside, and drained to the database in batches, under the same numbers.

    on      a commit is held in memory, put into the buffer, and confirmed. A task beside drains what is held (`flusher.py`)
    off     what is held goes to the database, or to the log in front of it (`front.py`). Then commits go there directly

It is off when the buffer does not answer, does not have what it had, or has no room left, and on again when it can be: so nothing
is lost unless the process and the buffer are. Before the first commit of an era is confirmed, the database has a mark of it
(`mark.py`), and whoever opens the shard begins with what the buffer has (`buffer_recovery.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from time import monotonic

from msgspec.structs import replace

from ortoo.model.errors import OrtooError
from ortoo.model.metrics import BufferHealth, ShardHealth
from ortoo.ports.buffer import BufferAwayError, BufferEra, CommitBuffer

from .commit_log import LogRoom, pack
from .errors import DatabaseError
from .flusher import Flusher
from .front import COMMIT_S, Front
from .mark import Here, Mark, close_mark, note_known, open_mark
from .report import away
from .shard import Shard
from .waiting import Waiting
from .writing import Commit

BUFFER_BYTES, BUFFER_COMMITS = 64 << 20, 20_000  # held at most
KEPT_BACK = 8  # that part of it is for what settles
BEAT_S, IDLE_S = 1.0, 5.0  # an era without commits is ended: an idle queue needs no buffer to be opened again
NOTED_S = 1.0  # between two notes of what was confirmed
CLOSE_S = 10.0  # for which the end waits until all is drained
_log = logging.getLogger("ortoo.postgres")


class Buffering:
    def __init__(
        self, shard: Shard, front: Front | None, buffer: CommitBuffer, *, bytes_max: int = BUFFER_BYTES
    ) -> None:
        """`front`: where commits go while the database is away, too."""
        self.shard, self.front, self.buffer = shard, front, buffer
        self.waiting = Waiting(None) if front is None else front.waiting
        self.flusher = Flusher(shard, self.waiting)
        self.flusher.after = self._note
        self.held = self.flusher.held
        self.is_on = False
        self.is_marked = False  # the database may have a mark that is open
        self.on_problem: Callable[[str], None] = lambda _: None
        self._here = Here("", "")
        self._bytes_max = bytes_max
        self._name, self._number = token_hex(16), 0
        self._before: str | None = None  # a buffer of this database that is not needed any more
        self._last = 0  # commit that was confirmed from there
        self._failures = 0
        self._warnings: list[str] = []
        self._off: str | None = None  # why it is off
        self._is_taken = False  # it says that somebody else has it: nothing but the database may confirm
        self._changing = asyncio.Lock()
        self._beat: asyncio.Task[None] | None = None
        self._used_at = self._noted_at = self._next_try = 0.0

    @property
    def era(self) -> BufferEra:
        return BufferEra(self._name, self._number, self.shard.connections.token)

    # -- the writer

    async def commit(self, commit: Commit) -> None:
        """One after the other. Confirmed when it returns."""
        async with self._changing:
            self.flusher.check()
            self._used_at = monotonic()
            if self.is_on:
                await self._make_room(commit.size)
            if not self.is_on:
                await self._fall_back()
                await self._begin(commit.number)
            if not self.is_on:
                await self._commit_below(commit)
            elif (why := await self._put(commit)) is not None:
                self._break_off(why)
                await self._fall_back()

    async def _put(self, commit: Commit) -> str | None:
        """Returns why the buffer does not have it, as far as is known. It is held in any case."""
        self.flusher.hold(commit)
        try:
            why = await self.buffer.append(self.era, commit.number, pack(commit), self.flusher.moved)
        except BufferAwayError as error:
            return str(error)
        if why is None:
            self._last = commit.number
        elif why.startswith("another owner"):
            self._is_taken = True
        return why

    async def _commit_below(self, commit: Commit) -> None:
        if self.front is not None:
            await self.front.commit(commit, "now")
        else:
            await self.flusher.prepare()
            await self.shard.commit(commit)

    # -- on and off

    async def _begin(self, number: int) -> None:
        """Where it can be on. The buffer first: a mark that is there without one could never be drained."""
        if self.front is not None and not self.front.is_through():
            self._off = "the spill has commits that the database has to have first"
            return
        if monotonic() < self._next_try:
            return
        self._next_try = monotonic() + BEAT_S
        if not self.buffer.is_up:
            self._off = self.buffer.problem()
            return
        if self.is_marked:  # of the era before, or it could not be told from one that Redis has lost
            await self._unmark()
            if self.is_marked:
                self._off = "PostgreSQL did not take the end of the mark before"
                return
        self._number += 1
        try:
            server = await self.buffer.begin(self.era, self.shard.node, number, self._before)
            self.is_marked = True
            async with asyncio.timeout(COMMIT_S):
                await open_mark(self.shard, self.era, number, self.buffer.shown, server, self._here)
        except (BufferAwayError, DatabaseError, TimeoutError) as error:
            self._off = str(error) or "PostgreSQL did not take the mark in time"
            if not isinstance(error, BufferAwayError):
                self.shard.connections.drop_writer()  # what it was doing has ended when the next one is there
            return
        self._warnings = [f"the buffer at {self.buffer.shown}: {one}" for one in server.warnings]
        self.is_on, self._off, self._is_taken, self._before = True, None, False, None
        self._last = self.flusher.moved = number - 1
        if self._beat is None:
            self._beat = asyncio.create_task(self._keep_beating(), name="ortoo-buffer")

    def _break_off(self, why: str) -> None:
        self.is_on, self._off = False, why
        self._next_try = monotonic() + BEAT_S
        self._failures += 1
        _log.warning("the buffer is not used for now", extra={"buffer": self.buffer.shown, "reason": why})

    async def _make_room(self, size: int) -> None:
        """Whoever is faster than the database waits for it. While it is away, what is held goes to the log."""
        while self._lacks(size) and self.flusher.is_going:
            await self.flusher.some_progress()
        self.flusher.check()
        if self._lacks(size):
            if self.front is None:
                raise DatabaseError(f"the buffer is full, and PostgreSQL is away: {self.flusher.reason}")
            self._break_off("it is full, and the database is away")
            await self._fall_back()

    def _lacks(self, size: int) -> bool:
        """It takes one commit, however large."""
        return bool(self.held) and (self.flusher.bytes + size > self._bytes_max or len(self.held) >= BUFFER_COMMITS)

    async def _fall_back(self) -> None:
        """What is held is durable without the buffer when this returns."""
        deadline = monotonic() + COMMIT_S
        has_other = self.front is not None and not self._is_taken
        while self.held and self.flusher.broken is None:
            is_late = monotonic() >= deadline
            if (is_late or not self.flusher.is_going) if has_other else (is_late and not self.flusher.is_going):
                break
            await self.flusher.some_progress(None if self.flusher.is_going and not has_other else deadline)
        self.flusher.check()
        if not self.held:
            if self._is_taken:
                self.rename()  # the database knows no other owner: it was a copy's
            return
        reason = self.flusher.reason or f"PostgreSQL took longer than {COMMIT_S:g} s"
        if self.front is None or not has_other:
            raise DatabaseError(f"{reason}; {len(self.held)} commits are held in memory until it is back")
        await self.flusher.stop()
        await self.front.take(list(self.held.values()), reason)
        self.flusher.taken()

    async def _tidy(self) -> None:
        """An era that is over, or that nobody uses, is ended."""
        if not self.flusher.is_idle or (self.front is not None and self.front.is_open):
            return
        if self.is_on and monotonic() > self._used_at + IDLE_S:
            await self._end()
        elif self.is_marked and not self.is_on:
            await self._unmark()

    async def _unmark(self) -> None:
        try:
            async with asyncio.timeout(COMMIT_S):
                await close_mark(self.shard)
            self.is_marked = False
        except (DatabaseError, TimeoutError) as error:  # one that stays is found to need nothing
            _log.info("the buffer's mark stays for now", extra={"error": str(error)})

    async def _end(self) -> None:
        """Of an era of which the database has everything: nobody needs the buffer any more."""
        self.is_on, self._next_try = False, 0.0
        await self._unmark()
        if not self.is_marked:
            with suppress(BufferAwayError):
                await self.buffer.end(self.era)

    async def _note(self) -> None:
        if self.is_on and self.held and monotonic() > self._noted_at + NOTED_S:
            self._noted_at = monotonic()
            await note_known(self.shard, self.era, self._last)

    async def _keep_beating(self) -> None:
        """Its owner is there."""
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                if self.is_on:
                    await self.buffer.touch(self.era, self.flusher.moved)
                if not self._changing.locked():  # who commits may wait long, and it is still there
                    async with self._changing:
                        await self._tidy()
            except BufferAwayError:
                continue  # the next commit finds out
            except OrtooError as error:
                _log.warning("the buffer could not be given up", extra={"error": str(error)})

    # -- opening

    def opened(self, mark: Mark | None, here: Here) -> None:
        """Nothing waits anywhere."""
        self.flusher.begin_anew()
        self._here, self.is_marked = here, False
        self.is_on, self._is_taken, self._next_try, self._off = False, False, 0.0, None
        is_same = mark is not None and (mark.identity, mark.timeline) == here
        self._before = mark.name if mark is not None and is_same else None

    def rename(self) -> None:
        """What is in the buffer stays there."""
        self._name = token_hex(16)

    # -- what it tells

    def is_away(self) -> bool:
        """The database is."""
        return self.flusher.reason is not None

    def room(self) -> LogRoom:
        """While the database is away."""
        if self.front is not None or not self.is_away():
            return LogRoom()
        left = self._bytes_max - self._bytes_max // KEPT_BACK - self.flusher.bytes
        if left <= 0 or len(self.held) >= BUFFER_COMMITS - BUFFER_COMMITS // KEPT_BACK:
            return LogRoom(f"the database is away, and the buffer has {len(self.held)} commits", 0)
        return LogRoom(None, left)

    def problems(self) -> list[str]:
        found = [*self._warnings] if self.is_on else []
        if (reason := self.flusher.reason) is not None:
            where = f"the buffer at {self.buffer.shown}" if self.is_on else "memory"
            found.append(away(reason, self.flusher.since, len(self.held), self.flusher.bytes, where))
        if not self.is_on and self._off is not None:
            found.append(
                f"commits are confirmed without the buffer at {self.buffer.shown}, as durably as without one: {self._off}"
            )
        return found

    def health(self, below: ShardHealth) -> ShardHealth:
        drain = self.flusher
        return replace(
            below,
            is_healthy=below.is_healthy and drain.reason is None,
            reason=below.reason or drain.reason,
            since=below.since or drain.since,
            buffer=BufferHealth(self.is_on, len(self.held), drain.bytes, drain.drained, self._failures),
        )

    # -- the end

    async def stop(self) -> None:
        """What is held stays."""
        await self.flusher.stop()
        task, self._beat = self._beat, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_S), self._changing:
                while self.flusher.is_going:
                    await self.flusher.some_progress()
                if self.shard.is_ours:
                    if self.held and self.front is not None:
                        await self._fall_back()
                    if not self.held and self.is_marked:
                        await self._end()
        except (OrtooError, TimeoutError, OSError) as error:
            _log.warning("the buffer could not be emptied", extra={"error": str(error) or "it took too long"})
        if self.held:
            waiting = {"first": self.flusher.first, "commits": len(self.held), "buffer": self.buffer.shown}
            _log.warning("commits wait in the buffer until the queue is opened again", extra=waiting)
        await self.stop()
        await self.buffer.stop()
