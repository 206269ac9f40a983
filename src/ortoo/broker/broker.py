"""The broker: takes commands one at a time, lets the engine decide, makes the records durable, answers.

    submit ──▶ decide ──▶ apply ──▶ pending commit ──▶ one append ──▶ replies released, waiters stirred

`submit` runs to its end without awaiting, so there is one writer and no lock. Replies are parked until their records are
durable, so there is no rollback: if an append fails, the engine is dropped and recovered from the store, as at the start.
A lease's reply does not wait for the disk: it promises nothing that a crash could break.
"""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Any

from ortoo.engine import Engine
from ortoo.engine.picker import Budget
from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.model.commands import (
    ChangeTopic,
    Command,
    CreateTopic,
    Lease,
    Once,
    Publish,
    Settle,
    Stage,
    Transact,
    plain,
)
from ortoo.model.errors import ClosedError, ConfigError, FullError, OrtooError, OutcomeUnknownError, StoreFailedError
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicName
from ortoo.model.records import Extended, Leased, Record, TopicCreated, TopicDeleted
from ortoo.model.replies import LeasedRun, LeaseTaken, Placed
from ortoo.model.runs import runs_of
from ortoo.ports import Alarm, Clock, Store

from .commits import Observer, PendingCommit, tell
from .copies import fill_copies
from .meters import Meters
from .reader import Reader
from .subscription import Subscription
from .waiters import Rooms, Waiters, describe, let_go

_RECOVERY_PAUSE_MS, _RECOVERY_PAUSE_MAX_MS = 10, 5_000

_log = logging.getLogger("ortoo.broker")

_PUBLISHING = (Publish, Stage, Transact)

_PATIENT = (Leased, Extended)  # records that free nothing, and that no reply waits for
_LINGER_MS = 5


class Broker(Reader):
    """Everything a door may ask. The reading half is in reader.py."""

    def __init__(self, store: Store, clock: Clock, *, auto_create: bool = True) -> None:
        self.store = store
        self.clock = clock
        self.waiters = Waiters(self._try_lease)
        self.meters = Meters()
        self.on_commit: list[Observer] = []  # told of the records of each commit, once they are durable
        self._auto_create = auto_create
        self.engine = Engine(auto_create)
        self._commit = PendingCommit()
        self._in_flight: PendingCommit | None = None
        self._dirty = asyncio.Event()
        self._lingering: Alarm | None = None
        self._rooms = Rooms(clock)
        self._alarm: tuple[int, Alarm] | None = None
        self._is_behind = False  # more was due than one turn may do
        self._refusal: OrtooError | None = ClosedError(
            "the queue is not open yet; use it in `async with`, or await its open()"
        )
        self._committer: asyncio.Task[None] | None = None
        self._last_now = 0
        self._pause_ms = 0  # before the next try to recover

    async def open(self) -> None:
        if self._committer is not None:
            return
        try:
            await self._recover()
        except OSError as error:
            raise StoreFailedError(f"the store cannot be opened: {error}") from error
        finally:
            if self._refusal is not None:  # it did not open: let go of the store, so that another may have it
                await self.store.close()
        self._committer = asyncio.create_task(self._commit_forever(), name="ortoo-committer")

    async def close(self, *, checkpoint: bool = False) -> None:
        """Refuses new work, finishes what was accepted, sends waiters home, closes the store.

        With a checkpoint, if the store has use for one, so that it opens quickly and its files have all there is.
        """
        if self._committer is None:
            return
        checkpoint = checkpoint and self._refusal is None
        self._refuse(ClosedError("the queue was closed"))
        await self.flush()
        self._committer.cancel()
        await asyncio.gather(self._committer, return_exceptions=True)
        self._committer = None
        if checkpoint and self.store.status().checkpoint_useful:
            await self.store.checkpoint(self.engine.snapshot(), self.engine.state.now)
        await self.store.close()

    async def kill(self) -> None:
        """Ends as a crash would: nothing is finished, nobody is answered. For tests."""
        self._refusal = ClosedError("the queue was killed")
        if self._alarm is not None:
            self._alarm[1].cancel()
        if self._committer is not None:
            self._committer.cancel()
            await asyncio.gather(self._committer, return_exceptions=True)
            self._committer = None

    @property
    def is_working(self) -> bool:
        """Whether commits are made at all: false when it is closed, or a mistake of ours ended that."""
        return self._committer is not None and not self._committer.done()

    @property
    def refusal(self) -> OrtooError | None:
        """Why nothing is taken now; None when all is well."""
        return self._refusal

    @property
    def _state(self) -> State:
        if self._refusal is not None:
            raise self._refusal
        return self.engine.state

    # -- commands

    def submit(self, command: Command) -> Any:
        """Decides and applies. The reply is good once `flush` has returned, or at once where nothing durable is promised."""
        if self._refusal is not None:
            raise self._refusal
        wanted = plain(command)
        if isinstance(wanted, CreateTopic | ChangeTopic) and wanted.config.encrypted:
            self._check_can_encrypt()
        if isinstance(wanted, _PUBLISHING) and (full := self.store.status().full) is not None:
            raise FullError(f"{full}; nothing more is published until there is room, settling still works")
        now = self.now()
        self._do_due(now)
        decision = self.engine.decide(command, now)
        self._log(decision.records)
        self._stir_shifted()
        self._arm()
        return decision.reply

    def _check_can_encrypt(self) -> None:
        if not self.store.status().can_encrypt:
            raise ConfigError("an encrypted topic needs a key; set ORTOO_ENCRYPTION_KEYS or pass keys= when opening")

    async def call(self, command: Command) -> Any:
        reply = self.submit(command)
        await self.flush()
        return reply

    async def publish(self, command: Publish | Once, wait_ms: int = 0) -> Placed:
        """With `wait_ms`, waits that long for room in a full topic."""
        wanted = plain(command)
        assert isinstance(wanted, Publish)
        deadline = self.now() + wait_ms
        while True:
            try:
                reply: Placed = self.submit(command)
            except FullError:
                if self.now() >= deadline:
                    raise
                await self._rooms.wait(wanted.topic, deadline)
            else:
                if reply.duplicates and (topic := self.engine.state.names.get(wanted.topic)) is not None:
                    topic.counters.duplicates += sum(reply.duplicates)
                await self.flush()
                return reply

    async def lease(self, command: Lease, seconds: Histogram | None = None) -> list[LeasedRun]:
        """`seconds` gets how long it took, without the waiting."""
        began = perf_counter()
        taken = self._try_lease(command)
        while taken.more:  # it let others run; look on afterwards
            await asyncio.sleep(0)
            taken = self._try_lease(command)
        if not taken.taken and command.wait_ms:
            taken = await self._wait(command)
            began = perf_counter()
        try:
            if command.auto_ack and taken.taken:
                await self.flush()
            runs = [LeasedRun(run, await self._read(run)) for run in taken.taken]
        except asyncio.CancelledError:
            if not command.auto_ack:
                self._return(taken)  # nobody will settle it
            raise
        if seconds is not None:
            seconds.observe(perf_counter() - began)
        return runs

    def subscribe(self, command: Lease, credit: int) -> Subscription:
        return Subscription(self, command, credit)

    def _try_lease(self, command: Lease) -> LeaseTaken:
        return self.submit(command)  # type: ignore[no-any-return]

    async def _wait(self, command: Lease) -> LeaseTaken:
        future: asyncio.Future[LeaseTaken] = asyncio.get_running_loop().create_future()
        remove = self.waiters.park(command, self.now() + command.wait_ms, future)
        self._arm()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._return(future.result())  # it was served in the moment it went away
            raise
        finally:
            remove()

    def _return(self, taken: LeaseTaken) -> None:
        if taken.taken and self._refusal is None:
            self.submit(Settle("release", runs_of(taken.taken)))

    # -- time

    def now(self) -> int:
        """The broker's clock never runs backwards for decisions: a step back holds still."""
        self._last_now = max(self._last_now, self.clock.now_ms(), self.engine.state.now)
        return self._last_now

    def _do_due(self, now: int) -> None:
        """Does what is due, as much as one turn may; then later turns go on."""
        if self._is_behind:
            return
        budget = Budget(limits.DUE_PER_TURN)
        while budget.left > 0 and (records := self.engine.tick(now, budget)) is not None:
            self._log(records)
        if budget.left <= 0:
            self._is_behind = True
            asyncio.get_running_loop().call_soon(self._catch_up)
        self._stir_shifted()

    def _catch_up(self) -> None:
        self._is_behind = False
        if self._refusal is None:
            self._do_due(self.now())
            self._arm()

    def _arm(self) -> None:
        next_due = None if self._is_behind else self.engine.next_deadline()
        when = min((when for when in (next_due, self.waiters.next_deadline()) if when is not None), default=None)
        if when is None or (self._alarm is not None and self._alarm[0] <= when):
            return
        if self._alarm is not None:
            self._alarm[1].cancel()
        self._alarm = (when, self.clock.call_at(when, self._ring))

    def _ring(self) -> None:
        self._alarm = None
        if self._refusal is not None:
            return
        now = self.now()
        self._do_due(now)
        self.waiters.time_out(now)
        self._dirty.set()  # a checkpoint may be due
        self._arm()

    async def _sleep(self, ms: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.clock.call_at(self.now() + ms, lambda: let_go(future))
        await future

    # -- durability

    def _log(self, records: list[Record]) -> None:
        if not records:
            return
        state = self.engine.state
        for record in records:
            if isinstance(record, TopicDeleted):
                self._commit.stir(state.topics[record.topic].name, None)
            self.engine.apply(record)
            topic = state.topics.get(getattr(record, "topic", None))  # type: ignore[arg-type]
            if topic is not None and not isinstance(record, TopicCreated | Leased | Extended):  # these free nothing
                self._commit.stir(topic.name, getattr(record, "partition", None))
        self._commit.records.extend(records)
        if all(type(record) in _PATIENT for record in records):
            self._commit_soon()
        else:
            self._dirty.set()

    def _commit_soon(self) -> None:
        """Nobody waits for these, and the next commit that somebody waits for takes them along."""
        if self._lingering is None and not self._dirty.is_set():
            self._lingering = self.clock.call_at(self.now() + _LINGER_MS, self._dirty.set)

    async def flush(self) -> None:
        """Returns when everything submitted so far is durable."""
        if self._commit.records:
            self._dirty.set()
            await self._commit.park()
        elif self._in_flight is not None:
            await self._in_flight.park()

    async def _commit_forever(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            is_due = self.store.status().checkpoint_due
            if not self._commit.records and not is_due:
                continue
            commit, self._commit = self._commit, PendingCommit()
            self._in_flight = commit
            try:
                snapshot = self.engine.snapshot() if is_due else None
                at = self.engine.state.now
                records = await fill_copies(commit.records, self.store)
                began = perf_counter()
                await self.store.append(records)
                self.meters.commit(perf_counter() - began, len(records))
                if snapshot is not None:  # taken when all that is in it was in this commit or an earlier one
                    await self.store.checkpoint(snapshot, at)
            except Exception as error:  # whatever a store raises: what it has written is unknown
                await self._fail(commit, error)
                continue
            finally:
                self._in_flight = None
            self._pause_ms = 0
            for record in records:
                self.engine.confirm(record)
            commit.succeed()
            tell(self.on_commit, records)
            for name, partitions in commit.stirred.items():
                self._stir(name, partitions)
            if self.store.status().checkpoint_due:  # it may be what makes room, so it must not wait for a commit
                self._dirty.set()

    def _stir(self, name: TopicName, partitions: set[int] | None = None) -> None:
        if self._refusal is not None:
            return
        self.waiters.stir(describe(self.engine.state, name, partitions))
        self._rooms.look(name)

    def _stir_shifted(self) -> None:
        """Partitions that found another owner may have messages for one who waits; no commit tells of that."""
        while self.engine.state.shifted:
            asyncio.get_running_loop().call_soon(self._stir, self.engine.state.shifted.pop())

    async def _fail(self, commit: PendingCommit, error: Exception) -> None:
        """An append failed. What it held is unknown, what came after it was never written; begin again from the store."""
        commit.fail(OutcomeUnknownError(f"the store failed while writing ({error}); the outcome is unknown"))
        self._commit.fail(StoreFailedError(f"the store failed ({error}); nothing was written, try again"))
        self._refuse(StoreFailedError(f"the store failed ({error}); the queue is recovering, try again"))
        self._commit, self._in_flight = PendingCommit(), None
        self._dirty.clear()
        _log.error("the store failed, recovering", extra={"error": str(error)})
        self.meters.recoveries += 1
        while True:
            if self._pause_ms:
                await self._sleep(self._pause_ms)
            # At once the first time; then ever more slowly, until an append succeeds.
            self._pause_ms = min(max(2 * self._pause_ms, _RECOVERY_PAUSE_MS), _RECOVERY_PAUSE_MAX_MS)
            try:
                return await self._recover()
            except Exception as again:  # keep trying: a store may come back
                self._refusal = StoreFailedError(f"the store failed ({again}); the queue is recovering, try again")

    async def _recover(self) -> None:
        engine = Engine(self._auto_create)
        async for records in self.store.recover():
            for record in records:
                engine.apply(record)
                engine.confirm(record)
        opened = engine.open(max(self._last_now, self.clock.now_ms()))
        await self.store.append([opened])
        engine.apply(opened)
        engine.state.reset_counters()  # of this opening, not of all that was replayed
        self.engine = engine
        self._commit = PendingCommit()
        self._refusal = None
        self._ring()

    def _refuse(self, error: OrtooError) -> None:
        """No new work; whoever waits is told why."""
        self._refusal = error
        if self._alarm is not None:
            self._alarm[1].cancel()
            self._alarm = None
        for waiter in self.waiters.all():
            if not waiter.future.done():
                waiter.future.set_exception(error)
        self._rooms.look_all()
