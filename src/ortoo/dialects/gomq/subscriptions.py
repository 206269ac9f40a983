"""Deliveries to one connection: leased when the client reads, and for a queue, as long as it acks.

A queue is our topic with one group for all. A subscription to a topic has a group of its own, which begins now and goes with
it; what it was given is acked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import uuid4

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model import limits
from ortoo.model.commands import END, START, CreateGroup, Heartbeat, Lease, Settle
from ortoo.model.names import DEFAULT_GROUP, MessageRef, TopicName
from ortoo.model.replies import LeasedRun
from ortoo.model.runs import runs_of

from .messages import to_lines
from .places import Kind

PREFETCH = 10  # messages of one subscription that are not acked
_AT_ONCE = 20  # messages of a topic
_PATIENCE_MS = 60_000  # so long may a client read nothing, and its group stays; it is sent home before


class Reader(NamedTuple):
    """The client's end."""

    ready: Callable[[], Awaitable[None]]  # returns when it has read what it was sent
    is_ready: Callable[[], bool]
    send: Callable[[bytes], None]
    turn: asyncio.Lock  # one at a time leases for it, so that no more is held for a slow one than it may have


class Subscription:
    def __init__(
        self, link: AuthorizedLink, reader: Reader, kind: Kind, name: str, place: TopicName, consumer: str
    ) -> None:
        """`name` is what the client calls it."""
        self.place = place
        self.group = DEFAULT_GROUP if kind == "queue" else f"gomq-{uuid4().hex}"
        self.consumer = consumer
        self.task: asyncio.Task[None] | None = None  # once it was begun
        self.is_noted = False  # where those that are connected are kept
        self.link = link
        self._reader = reader
        self._kind: Kind = kind
        self._name = name
        self._held: dict[MessageRef, float] = {}  # until when it is leased, by the event loop's clock
        self._settled = asyncio.Event()
        self._command = Lease(
            topic=place.name,
            namespace=place.namespace,
            group=self.group,
            consumer=consumer,
            auto_ack=kind == "topic",
            start=START if kind == "queue" else None,
        )

    @property
    def is_shared(self) -> bool:
        """Whether its group is that of others, too."""
        return self.group == DEFAULT_GROUP

    async def open(self) -> None:
        """Nothing that is published from now on is missed."""
        if self._kind == "topic":
            await self.link.call(CreateGroup(self.place, self.group, END, ephemeral=True))
            await self._say_it_is_there()
        else:
            self.link.check(self._command)

    async def _say_it_is_there(self) -> None:
        """Else a group that goes with its consumer goes while that reads slowly."""
        await self.link.call(Heartbeat(self.place, self.group, self.consumer, _PATIENCE_MS))

    async def run(self) -> None:
        """Delivers until it is cancelled, or refused."""
        while True:
            count = await self._room()
            if self._kind == "topic" and (self._reader.turn.locked() or not self._reader.is_ready()):
                await self._say_it_is_there()
            async with self._reader.turn:
                await self._reader.ready()
                found = self._send(await self.link.lease(self._asking(count, 0)))
            if not found:
                await self._wait()

    async def _wait(self) -> None:
        """For one message. The client may not read when it comes: then it goes back, so that none is held for as long as that."""
        runs = await self.link.lease(msgspec.structs.replace(self._asking(1, limits.WAIT_MS_MAX), auto_ack=False))
        if not runs:
            return
        taken, turn = runs_of(run.taken for run in runs), self._reader.turn
        if turn.locked() or not self._reader.is_ready():
            await self.link.call(Settle("release", taken))
            return
        async with turn:
            if self._kind == "topic":
                await self.link.call(Settle("ack", taken))
            self._send(runs)

    def _asking(self, count: int, wait_ms: int) -> Lease:
        return msgspec.structs.replace(self._command, max_messages=count, wait_ms=wait_ms)

    def _send(self, runs: list[LeasedRun]) -> bool:
        for run in runs:
            for line in to_lines(run, self._kind, self._name):
                self._reader.send(line)
            if self._kind == "queue":
                self._hold(run)
        return bool(runs)

    # -- what was delivered and not acked

    def _hold(self, run: LeasedRun) -> None:
        found, taken = self.link.find_topic(self.place), run.taken
        lease = limits.LEASE_MS_MAX / 1000 if found is None else found.config.lease
        until = asyncio.get_running_loop().time() + lease
        for offset in run.columns.offsets:
            self._held[MessageRef(taken.topic_id, taken.partition, offset)] = until

    def settled(self, message: MessageRef) -> None:
        """It makes room for another."""
        if self._held.pop(message, None) is not None:
            self._settled.set()

    async def _room(self) -> int:
        """How many more may be delivered: at least one."""
        if self._kind == "topic":
            return _AT_ONCE
        clock = asyncio.get_running_loop().time
        while len(self._held) >= PREFETCH:
            self._settled.clear()
            try:
                async with asyncio.timeout_at(min(self._held.values())):
                    await self._settled.wait()
            except TimeoutError:  # they are delivered again, to whoever has room
                self._held = {message: until for message, until in self._held.items() if until > clock()}
        return PREFETCH - len(self._held)
