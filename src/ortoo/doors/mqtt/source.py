"""Messages of one topic that a group hands out to one client, as many at a time as the client takes.

An inbox and a durable queue are the same here: what is leased is delivered, and settled when the client has answered. Leases end
with the connection: what was not settled goes back, uncounted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from time import monotonic
from typing import Final

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model import limits
from ortoo.model.commands import Extend, Lease, Run
from ortoo.model.errors import NotFoundError, OrtooError
from ortoo.model.names import TopicName
from ortoo.model.replies import LeasedRun, Taken

from .rules.state import Ref

_log = logging.getLogger("ortoo.mqtt")

_AT_ONCE: Final = 500  # messages of one lease
_PAUSE_SECONDS: Final = 1.0  # after an error that may pass


Given = list[tuple[LeasedRun, list[Ref]]]  # what a lease took, with the references of its messages


class Lot:
    """What one lease took of one partition."""

    __slots__ = ("_place", "until")

    def __init__(self, taken: Taken, until: float) -> None:
        self._place = (taken.topic_id, taken.group_id, taken.lease, taken.partition)
        self.until = until  # when the lease ends, if nobody extends it

    def run(self, offsets: list[int]) -> Run:
        """What settles these of it."""
        return Run(*self._place, offsets)


class Source:
    def __init__(
        self,
        link: AuthorizedLink,
        lease: Lease,
        *,
        credit: Callable[[], int],
        give: Callable[[Given], None],
        to_refs: Callable[[LeasedRun], list[Ref]],
        id_of: Callable[[Ref], Ref] | None = None,
        lease_seconds: float,
        is_told: bool = False,
    ) -> None:
        """`credit`: how many the client takes now; `wake` when that changes. `give` hands them out. `is_told`: `wake` also tells
        of new messages."""
        assert lease.topic is not None
        self.topic = TopicName(lease.namespace, lease.topic)
        self.group = lease.group
        self.held: dict[Ref, tuple[Lot, int]] = {}  # and the offset, by what `id_of` makes of their references
        self._link = link
        self._lease = msgspec.structs.replace(lease, wait_ms=0 if is_told else limits.WAIT_MS_MAX)
        self._credit = credit
        self._give = give
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

    def take(self, ref: Ref) -> Run | None:
        """What settles it; there is room for another. None where it is not held."""
        found = self.held.pop(ref if self._id_of is None else self._id_of(ref), None)
        if found is None:
            return None
        self._wake.set()
        lot, offset = found
        return lot.run([offset])

    def take_all(self, ids: Iterable[Ref]) -> tuple[list[Run], list[Ref]]:
        """What settles those that are held, and those that are not."""
        found: dict[Lot, list[int]] = {}
        others: list[Ref] = []
        pop = self.held.pop
        for one in ids:
            held = pop(one, None)
            if held is None:
                others.append(one)
            elif held[0] in found:
                found[held[0]].append(held[1])
            else:
                found[held[0]] = [held[1]]
        self._wake.set()
        return [lot.run(offsets) for lot, offsets in found.items()], others

    async def extend(self) -> None:
        """The client is there, though it has not answered."""
        lots: dict[Lot, list[int]] = {}
        for lot, offset in self.held.values():
            lots.setdefault(lot, []).append(offset)
        if lots:
            runs, until = [], monotonic() + self.lease_seconds
            for lot, offsets in lots.items():
                runs.append(lot.run(offsets))
                lot.until = until
            try:
                await self._link.call(Extend(runs, self._lease.lease_ms))
            except OrtooError as error:  # they run out, and the messages come again
                _log.debug("leases of an MQTT client were not extended", extra={"error": str(error)})

    def prune(self) -> None:
        """Forgets leases that have run out: there is room for others."""
        now = monotonic()
        over = [ref for ref, (lot, _) in self.held.items() if lot.until < now]
        for ref in over:
            del self.held[ref]
        if over:
            self._wake.set()

    async def _leave(self) -> None:
        await self._link.leave(self._lease.consumer, self.topic, self.group)

    async def _run(self, again: Sequence[Ref], forget: Callable[[Ref], None]) -> None:
        await self._leave()  # from before a restart
        missing = set(again)
        while missing:
            found = missing.intersection(self._hand_out(await self._ask(min(len(missing), _AT_ONCE), 0)))
            if not found:
                break  # the others are gone, or somebody else has them: to go on would be to take everything there is
            missing -= found
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
        given: Given = []
        known: list[Ref] = []
        until = monotonic() + self.lease_seconds
        for run in runs:
            refs = self._to_refs(run)
            ids = refs if self._id_of is None else map(self._id_of, refs)
            places = zip(repeat(Lot(run.taken, until)), run.columns.offsets, strict=False)
            self.held.update(zip(ids, places, strict=True))
            given.append((run, refs))
            known += refs
        self._give(given)
        return known
