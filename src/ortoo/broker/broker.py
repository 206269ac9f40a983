"""The broker: takes commands one at a time, lets the engine decide, makes the records durable, answers.

    submit ──▶ decide ──▶ apply ──▶ pending commit ──▶ one append ──▶ replies released, waiters woken

`submit` runs to its end without awaiting, so there is one writer and no lock. Replies are parked until their records are
durable, so there is no rollback: if an append fails, the engine is dropped and recovered from the store, as at the start.
A lease's reply does not wait for the disk: it promises nothing that a crash could break.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Never, TypeVar

from ortoo.engine import Engine
from ortoo.engine.picker import Budget
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.engine.transaction import Name, Slice
from ortoo.model import limits
from ortoo.model.commands import AnyCommand, Aside, ById, Command, Commit, Lease, Leave, Once, Publish, unwrap
from ortoo.model.errors import ClosedError, NotOwnerError, OrtooError, OutcomeUnknownError, UnavailableError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.queries import Query
from ortoo.model.records import Extended, Leased, Record, TopicCreated, TopicDeleted, TransactionEnded
from ortoo.model.replies import Placed
from ortoo.model.shown_settings import ShownSettings
from ortoo.model.topic_defaults import NO_DEFAULTS, TopicDefaults
from ortoo.ports import Clock, Store

from .admission import admit, copy_room
from .aside import call_aside
from .by_id import Settling
from .commits import Committer, Observer, PendingCommit, tell
from .coordinator import Coordinator, held_places
from .dead_letters import Listener, tell_dead_letters
from .discarding import discard
from .failing import NOT_OPEN, unopened, words_for
from .following import follow
from .heavy import Line
from .leasing import Leasing
from .meters import Meters
from .paging import page_out_keys
from .publishing import Check, Publishing
from .reader import Reader
from .recovering import rebuild
from .subscription import Subscription
from .timekeeper import Timekeeper
from .view import View
from .waiters import CapacityWaiters, describe, room_in
from .wakeup import Wakeup, sleep

_FREES_NOTHING = frozenset({TopicCreated, Leased, Extended})  # nobody who waits finds anything after these
_RECOVERY_PAUSE_MS, _RECOVERY_PAUSE_MAX_MS = 10, 5_000
_log = logging.getLogger("ortoo.broker")

A = TypeVar("A")


class Broker:
    """Everything a door may ask. Queries are answered by reader.py."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        auto_create: bool = True,
        shard: int | None = None,
        topic_defaults: TopicDefaults = NO_DEFAULTS,
    ) -> None:
        self.store = store
        self.clock = clock
        self.meters = Meters()
        self.settings: ShownSettings | None = None  # of the server that it belongs to, if to any
        self.by_id = Settling(self)
        self._reader = Reader(self)
        self._leasing = Leasing(self, self._reader.read, self._arm)
        self.lease, self.waiters = self._leasing.lease, self._leasing.waiters
        self.on_dead_letters: list[Listener] = []  # told of those of a commit whose topics have a webhook
        self.problem_sources: list[Callable[[], list[str]]] = []  # of what runs beside the queue, for its operator
        self.on_commit: list[Observer] = [partial(tell_dead_letters, self)]  # told of a commit's records, once durable
        self._commits = Committer(store, clock, self.meters, self._snapshot, self._confirm, self._fail)
        self._make_engine = partial(Engine, auto_create, lambda: copy_room(store, self._commits), shard, topic_defaults)
        self.engine = self._make_engine()
        self._capacity_waiters = CapacityWaiters(clock)
        self.publishing = Publishing(self, self._capacity_waiters)
        self._time = Timekeeper(clock)
        self.now = self._time.now  # the instant of a decision, in ms since 1970
        self._wakeup = Wakeup(clock, self._ring)
        self._is_behind = False  # more was due than one turn may do
        self._refusal: OrtooError | None = ClosedError(NOT_OPEN)
        self._coordinator = Coordinator(self)
        self.line = Line()  # of heavy requests, through all doors
        self._committer: asyncio.Task[None] | None = None
        self._is_closing = False
        self._has_failed = False  # while it closed, or for good: what the engine holds is not what the store has
        self._pause_ms = 0  # before the next try to recover
        self._suspended: dict[TopicId, str] = {}  # topics whose due work could not be applied, and why

    async def open(self) -> None:
        if self._committer is not None:
            return
        self._is_closing = self._has_failed = False
        try:
            await self._recover()
        except OSError as error:
            raise unopened(error) from error
        finally:
            if self._refusal is not None:  # it did not open: let go of the store, so that another may have it
                await self.store.close()
        self._committer = asyncio.create_task(self._commits.run(), name="ortoo-committer")
        self._coordinator.start()

    async def close(self, *, checkpoint: bool = False) -> None:
        """Refuses new work, finishes what was accepted, sends waiters home, closes the store.
        With a checkpoint, if the store has use for one, so that it opens quickly and its files have all there is.
        """
        if self._committer is None:
            return
        checkpoint = checkpoint and self._refusal is None
        self._is_closing = True
        self._refuse(ClosedError("the queue was closed"))
        await self._coordinator.stop()
        with suppress(OutcomeUnknownError, UnavailableError):  # told to those whose commit it was
            await self.flush()
        self._committer.cancel()
        await asyncio.gather(self._committer, return_exceptions=True)
        self._committer = None
        if checkpoint and not self._has_failed and self.store.status().checkpoint_useful:
            await self.store.checkpoint(*await self._snapshot())
        await self.store.close()

    @property
    def is_working(self) -> bool:
        """Whether commits are made at all: false when it is closed, or a mistake of ours ended that."""
        return self._committer is not None and not self._committer.done()

    @property
    def refusal(self) -> OrtooError | None:
        """Why nothing is taken now; None when all is well."""
        return self._refusal

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)  # else it would grow with each who is refused

    @property
    def state(self) -> State:
        self._check_open()
        return self.engine.state

    # -- commands

    def submit(self, command: Command) -> Any:
        """Decides and applies. The reply is good once `flush` has returned, or at once where nothing durable is promised."""
        self._check_open()
        command = admit(command, self.store, self.engine, self._commits.bytes_under_way)
        now = self.now()
        self._do_due(now)
        decision = self.engine.decide(command, now)
        self._log(decision.records)
        if self.engine.state.soft.reassigned:
            self._wake_reassigned()
        self._arm(now)
        return decision.reply

    async def call(self, command: AnyCommand) -> Any:
        if isinstance(command, Aside):
            return await call_aside(self, command, self._reader.pipelines, self._commits.look)
        return await self.publishing.claimed(command, self._call)

    async def _call(self, command: Command) -> Any:
        wanted = unwrap(command)
        reply = await self.by_id.settle(command) if isinstance(wanted, ById) else self.submit(command)
        if isinstance(wanted, Leave):
            await self._leasing.leave_on(wanted, is_more=reply is True)
            reply = None
        reply = await follow(self, wanted, reply)
        await self._commits.flush()
        if isinstance(wanted, Commit):
            await self._coordinator.finish((wanted.namespace, wanted.transaction))
        return reply

    def publish_staged(self, name: Name, piece: Slice) -> None:
        """For the coordinator: the next slice of a transaction that is being committed."""
        self._check_open()
        now = self.now()
        self._do_due(now)
        self._log(self.engine.publish_staged(name, piece, now))
        self._arm()

    async def publish(self, command: Publish | Once, wait_ms: int = 0, check: Check | None = None) -> Placed:
        return await self.publishing.publish(command, wait_ms, check)

    def subscribe(self, command: Lease, credit: int) -> Subscription:
        return Subscription(self, command, credit)

    def parked(self, command: Lease) -> Callable[[], None]:
        """A consumer waits, and is alive as long as it does. Returns what ends that."""
        unpark = self.engine.park(command)
        return lambda: unpark(self.now())

    # -- queries

    async def ask(self, query: Query[A], view: View | None = None) -> A:
        return await self._reader.ask(query, view)

    def find_topic(self, name: TopicName) -> Topic | None:
        return self.engine.state.names.get(name)

    # -- time

    def problems(self) -> list[str]:
        sources = (self._time.problems, self.engine.problems, self._coordinator.problems, *self.problem_sources)
        return [*self.store.status().problems, *self._reader.missing, *chain.from_iterable(ask() for ask in sources)]

    def full(self) -> str | None:
        """Why the store takes no more messages; None while it does."""
        return self.store.status().full

    def _do_due(self, now: int) -> None:
        """Does what is due, as much as one turn may; later turns go on. A mistake of ours suspends its topic, no other."""
        if self._is_behind or not self.engine.is_due(now):
            return
        budget = Budget(limits.DUE_PER_TURN)
        while budget.left > 0 and (records := self.engine.tick(now, budget)) is not None:
            named = {record.topic for record in records if hasattr(record, "topic")}
            try:
                self._log(records)
            except UnavailableError as error:
                self._suspend(named, error.__cause__)
                raise
            self._commits.pending.due_topics |= named
        if budget.left <= 0:
            self._is_behind = True
            asyncio.get_running_loop().call_soon(self._go_on)
        self._wake_reassigned()

    def _suspend(self, topics: set[TopicId], error: BaseException | None) -> None:
        self._suspended |= dict.fromkeys(topics, f"what became due could not be done: {error!r}")

    def _go_on(self) -> None:
        self._is_behind = False
        self._ring()

    def _arm(self, now: int | None = None) -> None:
        """Waits count on the monotonic clock; what the engine has due, in the queue's time."""
        due = None if self._is_behind else self.engine.next_deadline()
        waits = self.waiters.next_deadline()
        delay = None if due is None else due - (self.now() if now is None else now)
        if waits is not None:
            wait = waits - self.clock.monotonic_ms()
            delay = wait if delay is None else min(delay, wait)
        if delay is not None:
            self._wakeup.within(max(0, delay))

    def _ring(self) -> None:
        self._wakeup.cancel()
        if self._refusal is None:
            with suppress(UnavailableError):  # a mistake of ours: the committer begins again
                self._catch_up()

    def _catch_up(self) -> None:
        self._do_due(self.now())
        self.waiters.time_out(self.clock.monotonic_ms())
        self._commits.look()  # a checkpoint may be due
        if self._capacity_waiters and self.store.status().full is None:  # no commit tells of that
            self._capacity_waiters.notify_all(lambda name: room_in(self.engine.state, name))
        self._arm()

    # -- durability

    def _log(self, records: list[Record]) -> None:
        if not records:
            return
        state, commit = self.engine.state, self._commits.pending
        try:
            for record in records:
                if type(record) is TopicDeleted:
                    commit.wake(state.topics[record.topic].name, None)
                self.engine.apply(record)
                if type(record) is TransactionEnded:
                    for place in held_places(state, (record.namespace, record.transaction)):
                        commit.wake(*place)
                elif type(record) not in _FREES_NOTHING:
                    topic = state.topics.get(getattr(record, "topic", None))  # type: ignore[arg-type]
                    if topic is not None:
                        commit.wake(topic.name, getattr(record, "partition", None))
        except Exception as error:
            self._give_up(error)
        self._commits.add(records, self.engine.take_copied_bytes())

    def _give_up(self, error: Exception) -> Never:
        """A mistake of ours left the state half changed. Nothing of it is written; begin again from the store."""
        _log.error("a record could not be applied, recovering", exc_info=error)
        refusal = UnavailableError(f"the queue made a mistake ({error!r}) and is recovering; try again")
        self._refuse(refusal)
        self._commits.give_up(error)
        raise refusal from error

    async def flush(self) -> None:
        """Returns when everything submitted so far is durable."""
        await self._commits.flush()

    async def _snapshot(self) -> tuple[bytes, int, dict[TopicId, bytes]]:
        with self.engine.snapshotting() as snapshot:
            while not snapshot.go_on(limits.SNAPSHOT_PER_TURN):  # noqa: ASYNC110  # this is work, not a wait
                await asyncio.sleep(0)
        finished = snapshot.finish(), snapshot.at, snapshot.secrets
        await page_out_keys(self.engine.state, self.store)
        return finished

    def _confirm(self, commit: PendingCommit, records: list[Record]) -> None:
        self._pause_ms = 0
        for record in records:
            self.engine.confirm(record)
            if type(record) is TransactionEnded:
                self._coordinator.ended((record.namespace, record.transaction))
        if self._refusal is None:
            self._do_due(self.now())  # what it supersedes is gone before anybody learns that it is durable
        discard(self.engine, self.store, self._commits.pending.records)
        commit.succeed()
        tell(self.on_commit, records)
        for name, partitions in commit.to_wake.items():
            self._wake_waiters(name, partitions)

    def _wake_waiters(self, name: TopicName, partitions: set[int] | None = None) -> None:
        if self._refusal is None:
            if self.waiters:
                self.waiters.wake(describe(self.engine.state, name, partitions))
            if self._capacity_waiters:
                self._capacity_waiters.freed(self.engine.state, name)

    def _wake_reassigned(self) -> None:
        """Partitions that found another owner may have messages for one who waits; no commit tells of that."""
        while self.engine.state.soft.reassigned:
            asyncio.get_running_loop().call_soon(self._wake_waiters, self.engine.state.soft.reassigned.pop())

    async def _fail(self, error: Exception) -> None:
        """A commit failed. What it held is unknown, what came after it was never written; begin again from the store.
        Where it is not the disk that fails but what is to be written, the same would be due again at once: not for ever.
        """
        if not isinstance(error, OSError) and self._pause_ms:
            self._suspend(self._commits.due_topics, error)
        errors = words_for(error)
        self._commits.drop(errors.in_flight, errors.behind)
        self._refuse(errors.refusal)
        if self._is_closing or isinstance(error, NotOwnerError):  # another has it: two owners must not take it in turns
            self._has_failed = True
            return None
        _log.error("the store failed, recovering", extra={"error": str(error)})
        self.meters.recoveries += 1
        while not self._has_failed:  # for good: another has it by now
            if self._pause_ms:
                await sleep(self.clock, self._pause_ms)
            # At once the first time; then ever more slowly, until an append succeeds.
            self._pause_ms = min(max(2 * self._pause_ms, _RECOVERY_PAUSE_MS), _RECOVERY_PAUSE_MAX_MS)
            try:
                return await self._recover()
            except Exception as again:  # keep trying: a store may come back
                self._refusal, self._has_failed = words_for(again).refusal, isinstance(again, NotOwnerError)
        return None

    async def _recover(self) -> None:
        while True:
            self.engine = self.publishing.recovered(self.engine, await self._rebuild())
            self._refusal = None
            self._coordinator.wake()
            suspended = len(self._suspended)
            try:
                return self._catch_up()
            except UnavailableError as error:  # what is due cannot be done: again, without the topic that is to blame
                self._commits.drop(error, error)
                if len(self._suspended) == suspended:
                    raise

    async def _rebuild(self) -> Engine:
        return await rebuild(self._make_engine(), self.store, self._time, self._suspended, self.engine.state.epoch)

    def _refuse(self, error: OrtooError) -> None:
        """No new work; whoever waits is told why."""
        self._refusal = error
        self._wakeup.cancel()
        for waiter in self.waiters.all():
            if not waiter.future.done():
                waiter.future.set_exception(error)
        self._coordinator.refuse(error)
        self._capacity_waiters.notify_all()
