"""Messages of one topic that a group hands out to one client, as many at a time as the client takes.

An inbox and a durable queue are the same here: what is leased is delivered, and settled when the client has answered. Leases end
with the connection: what was not settled goes back, uncounted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model import limits
from ortoo.model.commands import Extend, Lease, Leave, Run
from ortoo.model.errors import NotFoundError, OrtooError
from ortoo.model.names import GroupId, LeaseId, TopicId, TopicName
from ortoo.model.replies import LeasedRun
from ortoo.model.runs import merge_runs

from .rules.messages import Delivery
from .rules.state import Ref

_log = logging.getLogger("ortoo.mqtt")

_AT_ONCE: Final = 500  # messages of one lease
_PAUSE_SECONDS: Final = 1.0  # after an error that may pass


class Held(NamedTuple):
    """A lease of one message."""

    topic: TopicId
    group: GroupId
    lease: LeaseId
    partition: int
    offset: int
    until: float  # when it ends, if nobody extends it


class Source:
    def __init__(
        self,
        link: AuthorizedLink,
        lease: Lease,
        *,
        credit: Callable[[], int],
        deliver: Callable[[list[Delivery]], None],
        to_deliveries: Callable[[LeasedRun, list[Ref]], list[Delivery]],
        to_refs: Callable[[LeasedRun], list[Ref]],
        id_of: Callable[[Ref], Ref] | None = None,
        lease_seconds: float,
        is_told: bool = False,
    ) -> None:
        """`credit`: how many the client takes now; `wake` when that changes. `is_told`: `wake` also tells of new messages."""
        assert lease.topic is not None
        self.topic = TopicName(lease.namespace, lease.topic)
        self.group = lease.group
        self.held: dict[Ref, Held] = {}  # by what `id_of` makes of their references
        self._link = link
        self._lease = msgspec.structs.replace(lease, wait_ms=0 if is_told else limits.WAIT_MS_MAX)
        self._credit = credit
        self._deliver = deliver
        self._to_deliveries = to_deliveries
        self._to_refs = to_refs
        self._id_of = id_of
        self._is_told = is_told
        self.lease_seconds = lease_seconds
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, again: Sequence[Ref] = (), forget: Callable[[Ref], None] = lambda ref: None) -> None:
        """`again`: what was under way when the last connection ended. `forget` is told what of it cannot be had any more."""
        self._task = asyncio.get_running_loop().create_task(self._run(again, forget), name="ortoo-mqtt-source")

    def wake(self) -> None:
        self._wake.set()

    async def stop(self) -> None:
        """What the client has not settled goes back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None
        self.held.clear()
        await self._leave()

    def holds(self, ref: Ref) -> bool:
        return (ref if self._id_of is None else self._id_of(ref)) in self.held

    def take(self, ref: Ref) -> Held | None:
        """It is being settled: there is room for another."""
        held = self.held.pop(ref if self._id_of is None else self._id_of(ref), None)
        if held is not None:
            self._wake.set()
        return held

    async def extend(self) -> None:
        """The client is there, though it has not answered."""
        runs = merge_runs(run_of(held) for held in self.held.values())
        if runs:
            until = monotonic() + self.lease_seconds
            self.held = {ref: held._replace(until=until) for ref, held in self.held.items()}
            try:
                await self._link.call(Extend(runs, self._lease.lease_ms))
            except OrtooError as error:  # they run out, and the messages come again
                _log.debug("leases of an MQTT client were not extended", extra={"error": str(error)})

    def prune(self) -> None:
        """Forgets leases that have run out: there is room for others."""
        now = monotonic()
        over = [ref for ref, held in self.held.items() if held.until < now]
        for ref in over:
            del self.held[ref]
        if over:
            self._wake.set()

    async def _leave(self) -> None:
        try:
            await self._link.call(Leave(self._lease.consumer, self.topic, self.group))
        except OrtooError:
            pass  # the topic or the group is gone, or the queue is closing: then leases run out by themselves

    async def _run(self, again: Sequence[Ref], forget: Callable[[Ref], None]) -> None:
        await self._leave()  # from before a restart
        missing = set(again)
        while missing and (runs := await self._ask(len(missing), 0)):
            missing.difference_update(self._hand_out(runs))
        for ref in [ref for ref in again if ref in missing]:
            forget(ref)
        while True:
            self._wake.clear()
            count = min(self._credit(), _AT_ONCE)
            if count <= 0:
                await self._wake.wait()
                continue
            runs = await self._ask(count, self._lease.wait_ms)
            if runs:
                self._hand_out(runs)
                await asyncio.sleep(0)  # others run, too, however much there is
            elif self._is_told:
                await self._wake.wait()

    async def _ask(self, count: int, wait_ms: int) -> list[LeasedRun]:
        wanted = msgspec.structs.replace(self._lease, max_messages=count, wait_ms=wait_ms)
        try:
            return await self._link.lease(wanted)
        except NotFoundError:  # deleted; whoever publishes makes it anew
            await asyncio.sleep(_PAUSE_SECONDS)
        except OrtooError as error:
            _log.warning(
                "an MQTT client cannot be given messages", extra={"topic": str(self.topic), "error": str(error)}
            )
            await asyncio.sleep(_PAUSE_SECONDS)
        return []

    def _hand_out(self, runs: list[LeasedRun]) -> list[Ref]:
        deliveries: list[Delivery] = []
        known: list[Ref] = []
        until = monotonic() + self.lease_seconds
        for run in runs:
            taken, refs = run.taken, self._to_refs(run)
            ids = refs if self._id_of is None else list(map(self._id_of, refs))
            place = (taken.topic_id, taken.group_id, taken.lease, taken.partition)
            for one, offset in zip(ids, run.columns.offsets, strict=True):
                self.held[one] = Held(*place, offset, until)
            deliveries += self._to_deliveries(run, refs)
            known += refs
        self._deliver(deliveries)
        return known


def run_of(held: Held) -> Run:
    return Run(held.topic, held.group, held.lease, held.partition, [held.offset])
