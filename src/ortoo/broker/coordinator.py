"""Commits named transactions: publishes what was staged slice by slice, while others run, and tells those who wait for it.

    Commit ──▶ CommitBegan ──▶ slice ──▶ slice ──▶ ... ──▶ the last slice, and TransactionEnded: all of it can be seen

Once a commit has begun it is certain. Each slice says how far it goes: after a crash or a failed append the next one is decided
from what the store has. Few slices are under way at a time, and one transaction is committed after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from ortoo.engine import Engine
from ortoo.engine.state import State
from ortoo.engine.transaction import Committing, Name, Slice
from ortoo.model import limits
from ortoo.model.batch import MESSAGE_OVERHEAD_BYTES, cut, message_sizes
from ortoo.model.commands import Publish
from ortoo.model.errors import CorruptionError, OrtooError, OutcomeUnknownError
from ortoo.model.names import TopicName
from ortoo.model.records import Staged
from ortoo.ports import Clock, Store

from .running import Runner

_UNDER_WAY_MAX = 8  # slices that are not durable yet
_PAUSE_MS = 1_000  # before the next try, when there is no room or the store fails to read

_log = logging.getLogger("ortoo.broker")


class Shell(Protocol):
    """What the coordinator needs of the broker."""

    engine: Engine

    @property
    def clock(self) -> Clock: ...
    @property
    def store(self) -> Store: ...
    @property
    def refusal(self) -> OrtooError | None: ...
    def publish_staged(self, name: Name, piece: Slice) -> None: ...
    async def flush(self) -> None: ...


class Coordinator:
    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._wanted = asyncio.Event()
        self._waiting: dict[Name, list[asyncio.Future[None]]] = {}
        self._ahead: list[Staged] = []  # read, and not published yet
        self._place: tuple[Name, int] | None = None  # whose they are, and the number of the first
        self._under_way = 0
        self._problem: str | None = None  # why a commit does not go on now
        self._runner = Runner("ortoo-coordinator", self._run)

    def start(self) -> None:
        self._runner.start()

    async def stop(self) -> None:
        """What is being committed goes on when the queue is opened again."""
        await self._runner.stop()

    def wake(self) -> None:
        """A commit has begun, or can go on."""
        self._wanted.set()

    def problems(self) -> list[str]:
        """Why a commit that has begun does not go on."""
        stalled = [
            f"transaction {name!r} cannot be committed further, and holds back what lies behind it: "
            f"{transaction.quarantine_reason}"
            for (_, name), transaction in self._shell.engine.state.transactions.items()
            if transaction.commit is not None and transaction.quarantine_reason is not None
        ]
        return stalled + ([self._problem] if self._problem is not None else [])

    async def finish(self, name: Name) -> None:
        """Returns when the transaction's commit, if it has begun, has ended durably."""
        self.wake()
        state = self._shell.engine.state
        transaction = state.transactions.get(name)
        if name not in state.soft.ending and (transaction is None or transaction.commit is None):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(future)
        await future

    def ended(self, name: Name) -> None:
        for future in self._waiting.pop(name, ()):
            if not future.done():
                future.set_result(None)

    def refuse(self, error: OrtooError) -> None:
        """The queue is closed, or recovers: who waits may ask again."""
        waiting, self._waiting = self._waiting, {}
        for name, futures in waiting.items():
            for future in futures:
                if not future.done():
                    future.set_exception(
                        OutcomeUnknownError(
                            f"transaction {name[1]!r} is being committed, and will be once the queue goes on ({error}); "
                            "commit it again to wait for that"
                        )
                    )

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._go_on()
            except (OrtooError, OSError) as error:  # it is woken when the queue has recovered
                self._pause(f"a transaction cannot be committed further now: {error}")
            except Exception:  # a mistake of ours; others must be able to go on
                _log.exception("committing a transaction failed")
                self._pause("a transaction cannot be committed further; see the log")

    async def _go_on(self) -> None:
        self._problem = None
        while self._shell.refusal is None and (names := self._shell.engine.committing()):
            full = self._shell.store.status().full
            if full is not None:
                self._pause(f"transaction {names[0][1]!r} is committed further when there is room: {full}")
                return
            await self._step(names[0])

    def _pause(self, problem: str) -> None:
        self._place = None
        if self._shell.refusal is None:
            self._problem = problem
            self._shell.clock.call_later(_PAUSE_MS, self.wake)

    async def _step(self, name: Name) -> None:
        commit = self._commit(name)
        if commit is None:
            return
        number, row = commit.number, commit.row
        try:
            if self._place != (name, number):
                self._ahead, self._place = [], None
                self._ahead = await self._shell.store.staged(*name, number, limits.SLICE_BYTES)
                self._place = (name, number)
            again = self._commit(name)
            if again is None or (again.number, again.row) != (number, row):  # the queue has recovered meanwhile
                return
            transaction = self._shell.engine.state.transactions[name]
            if not self._ahead and number < transaction.batches:
                raise CorruptionError(f"batch {number} of what was staged is missing")
            piece = take_slice(self._ahead, commit, limits.SLICE_MESSAGES, limits.SLICE_BYTES)
            self._shell.publish_staged(name, piece)
        except OrtooError as error:
            self._stall(name, error)
            return
        del self._ahead[: piece.number - number]
        self._place = (name, piece.number) if self._ahead else None
        self._under_way += 1
        if self._under_way < _UNDER_WAY_MAX:
            await asyncio.sleep(0)  # others run; what is decided meanwhile shares a commit
        else:
            self._under_way = 0
            await self._shell.flush()

    def _commit(self, name: Name) -> Committing | None:
        transaction = self._shell.engine.state.transactions.get(name)
        return transaction.commit if transaction is not None and self._shell.refusal is None else None

    def _stall(self, name: Name, error: OrtooError) -> None:
        """Until the queue is opened again: others go on."""
        transaction = self._shell.engine.state.transactions.get(name)
        if self._shell.refusal is None and transaction is not None:
            transaction.quarantine_reason = str(error)
            _log.error("a transaction cannot be committed", extra={"transaction": name[1], "error": str(error)})


def held_places(state: State, name: Name) -> list[tuple[TopicName, int]]:
    """Where a transaction that has just ended held something back, which can be seen then."""
    held = state.soft.ending.get(name, ())
    return [(state.topics[topic].name, partition) for topic, partition in held if topic in state.topics]


def take_slice(staged: Sequence[Staged], commit: Committing, messages_max: int, bytes_max: int) -> Slice:
    """What fits of what was staged, from where the commit is: one message at least. Parts that are not wanted are left out."""
    number, row = commit.number, commit.row
    publishes: list[Publish] = []
    for record in staged:
        batch = record.publish.batch
        if commit.wants(record.part):
            sizes = message_sizes(batch.values, batch.keys, batch.headers)[row:]
            fitting = sum(1 for size in accumulate(sizes) if size <= bytes_max)
            count = min(len(sizes), messages_max, max(fitting, 0 if publishes else 1))
            if count:
                some = cut(batch, row, row + count)
                publishes.append(Publish(record.publish.topic, some, record.publish.publisher))
                messages_max -= count
                bytes_max -= sum(sizes[:count]) + MESSAGE_OVERHEAD_BYTES * count
            if count < len(sizes):
                return Slice(publishes, number, row + count)
        number, row = number + 1, 0
        if messages_max <= 0 or bytes_max <= 0:
            break
    return Slice(publishes, number, row)
