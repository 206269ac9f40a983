"""Leasing: deciding it, waiting for it, reading what was leased, and keeping the answer within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Protocol

import msgspec

from ortoo.engine.topic import Topic
from ortoo.model.commands import Command, Lease, Leave, Run, Settle
from ortoo.model.errors import OrtooError, StoreFailedError, UnavailableError
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, LeasedRun, LeaseTaken, Settled, Taken, filter_columns
from ortoo.model.runs import merge_runs, runs_of, runs_of_messages
from ortoo.ports import Clock

from .portion import Portion, bound_lease
from .waiters import Waiters

_log = logging.getLogger("ortoo.broker")


Accepted = Callable[[str], None]  # by consumer


class Shell(Protocol):
    """What leasing needs of the broker."""

    @property
    def clock(self) -> Clock: ...
    def now(self) -> int: ...
    @property
    def refusal(self) -> OrtooError | None: ...
    def submit(self, command: Command) -> Any: ...
    def find_topic(self, name: TopicName) -> Topic | None: ...
    def parked(self, command: Lease) -> Callable[[], None]: ...
    async def flush(self) -> None: ...


class Leasing:
    def __init__(
        self, shell: Shell, read: Callable[[Taken, Sequence[int]], Awaitable[Columns]], arm: Callable[[], None]
    ) -> None:
        self.waiters = Waiters(self._attempt)
        self._shell = shell
        self._read = read
        self._arm = arm
        self._leaving: set[asyncio.Task[OrtooError | None]] = set()

    async def lease(
        self,
        command: Lease,
        seconds: Histogram | None = None,
        check: Callable[[], None] | None = None,
        accepted: Accepted | None = None,
    ) -> list[LeasedRun]:
        """With `auto_ack`, what is handed out was acked first, durably: read and within bounds by then, so none is lost.

        `seconds` gets how long it took, without the waiting. `check` is asked once something has come, before it is acked: where
        it raises, all of it goes back. `accepted` is told once the lease is not refused, before it waits.
        """
        began = perf_counter()
        topic = None if command.topic is None else self._shell.find_topic(TopicName(command.namespace, command.topic))
        wanted = bound_lease(topic, msgspec.structs.replace(command, auto_ack=False) if command.auto_ack else command)
        deadline = self._shell.clock.monotonic_ms() + command.wait_ms
        while True:
            taken = self._try(wanted)
            if accepted is not None:
                accepted(command.consumer)
            while taken.more:  # it let others run; look on afterwards
                await asyncio.sleep(0)
                taken = self._try(wanted)
            if not taken.taken and command.wait_ms:
                if command.topic is not None:  # the group is there by now; should it be deleted, it is not made again
                    wanted = msgspec.structs.replace(wanted, start=None)
                taken = await self._wait(wanted, deadline)
                began = perf_counter()
            runs = await self._read_all(taken)
            if not command.wait_ms or not taken.taken or any(len(run.columns) for run in runs):
                break  # else all that it got was gone by then: purged, or deleted with its topic
        if check is not None:
            self._check(taken, check)
        self._observe(runs)
        if command.auto_ack and runs:
            runs = await self._acked(runs)
        if seconds is not None:
            seconds.observe(perf_counter() - began)
        return runs

    def _check(self, taken: LeaseTaken, check: Callable[[], None]) -> None:
        try:
            check()
        except OrtooError:
            self._return(taken)
            raise

    def _observe(self, runs: list[LeasedRun]) -> None:
        """How long they had waited for their first delivery; the first of each run stands for all that came with it."""
        now = self._shell.now()
        for run in runs:
            taken, published = run.taken, run.columns.timestamps
            if published and not taken.attempts and (topic := self._shell.find_topic(taken.topic)) is not None:
                group = topic.groups.get(taken.group_id)
                if group is not None and topic.id == taken.topic_id:
                    group.delivered(max(0, now - published[0]), now)

    async def _read_all(self, taken: LeaseTaken) -> list[LeasedRun]:
        """As much as one answer takes; the rest goes back."""
        portion = Portion()
        try:
            for run in taken.taken:
                offsets = portion.wanted(self._shell.find_topic(run.topic), run)
                portion.add(run, offsets, await self._read(run, offsets))
        except (asyncio.CancelledError, StoreFailedError):  # a store that is away says nothing against the messages
            self._return(taken)  # nobody will settle it
            raise
        if portion.rest:
            self._settle("release", merge_runs(portion.rest))
        return portion.runs

    async def _acked(self, runs: list[LeasedRun]) -> list[LeasedRun]:
        """Those that could be read, and still be acked: a lease may have run out meanwhile. The others fail by themselves."""
        merged = runs_of_messages(runs)
        settled: Settled = self._settle("ack", merged)
        await self._shell.flush()
        for run, lost in zip(merged, settled.lost or (), strict=False):
            if lost:
                runs = [_without(one, run.partition, lost) if one.taken.lease == run.lease else one for one in runs]
        return runs

    def _try(self, command: Lease) -> LeaseTaken:
        taken: LeaseTaken = self._shell.submit(command)
        return taken

    async def _wait(self, command: Lease, deadline: int) -> LeaseTaken:
        future: asyncio.Future[LeaseTaken] = asyncio.get_running_loop().create_future()
        remove = self.waiters.park(command, deadline, future)
        unpark = self._shell.parked(command)
        self._arm()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._return(future.result())  # it was served in the moment it went away
            raise
        finally:
            remove()
            unpark()
            self._arm()

    def _return(self, taken: LeaseTaken) -> None:
        if taken.taken and self._shell.refusal is None:
            with suppress(OrtooError):  # nobody is there to be told; the lease runs out
                self._settle("release", runs_of(taken.taken))

    async def leave_on(self, command: Leave, is_more: bool) -> None:
        """More returns than one turn may do; others run. It goes on though the caller does not wait any more."""
        if not is_more:
            return
        task = asyncio.get_running_loop().create_task(self._leave(command))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        if (error := await asyncio.shield(task)) is not None:
            raise error

    async def _leave(self, command: Leave) -> OrtooError | None:
        is_more = True
        while is_more:
            await asyncio.sleep(0)
            try:
                is_more = self._shell.submit(command) is True
            except OrtooError as error:  # the queue is closing or recovering; perhaps nobody is there to be told
                return error
        return None

    def _settle(self, outcome: str, runs: list[Run]) -> Any:
        return self._shell.submit(Settle(outcome, runs))  # type: ignore[arg-type]

    def _attempt(self, command: Lease) -> LeaseTaken:
        """For one who waits. A mistake of ours is told to it, and stops nobody else."""
        try:
            return self._try(command)
        except OrtooError:
            raise
        except Exception as error:
            _log.exception("a lease could not be decided")
            raise UnavailableError(f"the queue made a mistake: {error!r}") from error


def _without(run: LeasedRun, partition: int, lost: list[int]) -> LeasedRun:
    if run.taken.partition != partition:
        return run
    return LeasedRun(run.taken, filter_columns(run.columns, OffsetSet(lost)))
