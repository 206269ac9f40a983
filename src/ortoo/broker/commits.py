"""Group commit: what happens while one append is under way goes into the next, whoever asked for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from ortoo.model.batch import MESSAGE_OVERHEAD_BYTES, size_of
from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.records import Extended, Leased, Published, Record, Staged
from ortoo.ports import Alarm, Clock, Store

from .copies import fill_copies, has_copies
from .meters import Meters

Observer = Callable[[list[Record]], None]
T = TypeVar("T")

_PATIENT = (Leased, Extended)  # records that free nothing, and that no reply waits for
_LINGER_MS = 5
_IN_A_ROW = 16  # commits without a turn of the event loop for others

_log = logging.getLogger("ortoo.broker")


Snapshot = tuple[bytes, int, dict[TopicId, bytes]]


class PendingCommit(msgspec.Struct):
    """Records on their way to the store, the callers whose replies wait for them, and the topics to look at afterwards."""

    records: list[Record] = []
    _counted: int = 0
    _size: int = 0
    copied_bytes: int = 0  # of copies, whose values are not known yet: an estimate
    due_topics: set[TopicId] = set()  # for which something is in it that nobody asked for
    parked: list[asyncio.Future[None]] = []
    to_wake: dict[TopicName, set[int] | None] = {}  # in which partitions; None: in any

    def wake(self, topic: TopicName, partition: int | None) -> None:
        """Something of the topic may be deliverable once this is durable."""
        if partition is None:
            self.to_wake[topic] = None
        elif (partitions := self.to_wake.setdefault(topic, set())) is not None:
            partitions.add(partition)

    def park(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self.parked.append(future)
        return future

    def size(self) -> int:
        """What its messages take. They are counted when somebody asks, which is only while room is short."""
        self._size += sum(map(_size_of, islice(self.records, self._counted, None)))
        self._counted = len(self.records)
        return self._size

    def succeed(self) -> None:
        for future in self.parked:
            if not future.done():
                future.set_result(None)

    def fail(self, error: OrtooError) -> None:
        for future in self.parked:
            if not future.done():
                future.set_exception(error)


def _size_of(record: Record) -> int:
    if isinstance(record, Published):
        return record.size + MESSAGE_OVERHEAD_BYTES * record.count
    return size_of(record.publish.batch) if isinstance(record, Staged) else 0


class Committer:
    """Appends one commit after the other, for ever.

    snapshot  the engine's state, its instant and what of it is secret, when a checkpoint is due: as of the moment when it is
              called, when all there is is in this commit or an earlier one
    durable   the commit is on disk, with its copies filled in
    failed    something broke: what was written is unknown. It returns when there is a new beginning
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        meters: Meters,
        snapshot: Callable[[], Awaitable[Snapshot]],
        durable: Callable[[PendingCommit, list[Record]], None],
        failed: Callable[[Exception], Awaitable[None]],
    ) -> None:
        self._store, self._clock, self._meters = store, clock, meters
        self._snapshot, self._durable, self._failed = snapshot, durable, failed
        self.pending = PendingCommit()
        self._in_flight: PendingCommit | None = None
        self._dirty = asyncio.Event()
        self._lingering: Alarm | None = None
        self._broken: Exception | None = None
        self._in_a_row = 0
        self._first: asyncio.Task[Any] | None = None  # who committed by himself in this turn of the event loop
        self._is_crowded = False  # several wait for commits at the same time
        self._will_look = False

    def add(self, records: list[Record], copied_bytes: int = 0) -> None:
        self.pending.records.extend(records)
        self.pending.copied_bytes += copied_bytes
        for record in records:
            if type(record) not in _PATIENT:
                self._look_next_turn()  # whoever waits for it may commit by himself before
                return
        if self._lingering is None and not self._dirty.is_set():
            # Nobody waits for these, and the next commit that somebody waits for takes them along.
            self._lingering = self._clock.call_later(_LINGER_MS, self._dirty.set)

    def _look_next_turn(self) -> None:
        if not self._will_look:
            self._will_look = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._will_look, self._in_a_row, self._first = False, 0, None
        if self.pending.records:
            self._dirty.set()

    def bytes_under_way(self) -> int:
        """Of messages that are not durable yet."""
        return self.copied_bytes + sum(
            commit.size() for commit in (self.pending, self._in_flight) if commit is not None
        )

    @property
    def due_topics(self) -> set[TopicId]:
        """With due work in the commit under way."""
        return self._in_flight.due_topics if self._in_flight is not None else set()

    @property
    def copied_bytes(self) -> int:
        """Of copies that are not durable yet."""
        return self.pending.copied_bytes + (self._in_flight.copied_bytes if self._in_flight is not None else 0)

    def look(self) -> None:
        """Whether a checkpoint is due, although nothing is to be committed."""
        self._dirty.set()

    def give_up(self, error: Exception) -> None:
        """The state that records were drafted from is broken: no more is appended before a new beginning."""
        self._broken = error
        self._dirty.set()

    async def flush(self) -> None:
        """Returns when everything added so far is durable."""
        if not self.pending.records:
            if self._in_flight is not None:
                await self._in_flight.park()
        elif not self._may_commit_at_once():
            self._dirty.set()
            await self.pending.park()
        else:  # nothing has to be waited for, so whoever asked commits
            commit = self.pending
            try:
                await self._commit(with_checkpoint=False)
            except Exception as error:
                outcome = commit.park()
                self.give_up(error)
                await outcome
            self._in_a_row += 1
            if self._in_a_row >= _IN_A_ROW:
                await asyncio.sleep(0)

    def _may_commit_at_once(self) -> bool:
        """Where nobody else does, for what several ask for in one turn is cheaper together; once several have, nobody does
        until one is alone again. To fill in copies takes turns, however quick the store is."""
        if self._in_flight is not None or self._broken is not None:
            return False
        task, records = asyncio.current_task(), self.pending.records
        self._is_crowded = self._is_crowded or self._first not in (None, task)
        if self._is_crowded or not self._store.appends_at_once(records) or has_copies(records):
            return False
        self._first = task
        self._look_next_turn()
        return True

    def drop(self, in_flight: OrtooError, pending: OrtooError) -> None:
        """What was under way has failed, and what came after it was never written."""
        if self._in_flight is not None:
            self._in_flight.fail(in_flight)
        self.pending.fail(pending)
        self.pending, self._in_flight, self._broken = PendingCommit(), None, None
        self._dirty.clear()

    async def run(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            try:
                if self._broken is not None:
                    raise self._broken
                is_due = self._store.status().checkpoint_due
                self._is_crowded = len(self.pending.parked) > 1
                if self.pending.records or is_due:
                    await self._commit(is_due)
            except Exception as error:  # whatever a store raises, and mistakes of ours: begin again from what is stored
                await self._failed(error)
            finally:
                self._in_flight = None

    async def _commit(self, with_checkpoint: bool) -> None:
        commit, self.pending = self.pending, PendingCommit()
        self._in_flight = commit
        snapshot = await self._take_snapshot() if with_checkpoint else None
        records = commit.records
        if has_copies(records):
            records = await fill_copies(records, self._store)
        if records:
            began = perf_counter()
            await self._store.append(records)
            self._meters.commit(perf_counter() - began, len(records))
        if snapshot is not None:
            await self._checkpoint(snapshot)
        self._durable(commit, records)
        self._in_flight = None
        if not with_checkpoint and self._store.status().checkpoint_due:
            self._dirty.set()  # it may be what makes room, so it must not wait for a commit

    async def _take_snapshot(self) -> Snapshot | None:
        try:
            return await self._snapshot()
        except Exception:  # commits go on without a checkpoint
            _log.exception("a snapshot could not be taken")
            return None

    async def _checkpoint(self, snapshot: Snapshot) -> None:
        try:
            await self._store.checkpoint(*snapshot)
        except Exception:  # the commit is durable all the same
            _log.exception("a checkpoint failed")


def tell(observers: Iterable[Callable[[list[T]], None]], told: list[T]) -> None:
    """What is durable, to whoever looks on. A mistake of theirs is theirs alone."""
    for observer in observers:
        try:
            observer(told)
        except Exception:
            _log.exception("an observer of commits failed")
