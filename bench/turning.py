"""A queue whose turns of the event loop are measured, for the cases of turns.py and large_turns.py."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import thread_time
from typing import Any

import ortoo
from ortoo.app.garbage import Collector
from ortoo.broker import Broker
from ortoo.testing import ManualClock

BATCH = 5_000
TOGETHER = 10_000  # in a lease
LATER = 60.0

Case = Callable[["Turns", int], Awaitable[None]]


class TimedLoop(asyncio.SelectorEventLoop):
    longest = 0.0

    def _run_once(self) -> None:
        began = thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, thread_time() - began)


class Turns:
    """A queue on a clock that stands still. `watch` forgets the turns so far: what came before was only to prepare."""

    def __init__(self, loop: TimedLoop, queue: ortoo.Queue, clock: ManualClock) -> None:
        self._loop = loop
        self.queue = queue
        self.clock = clock
        self.longest: float | None = None

    async def watch(self) -> None:
        Collector(int).collect_all()
        await asyncio.sleep(0)  # the turn that prepared ends here
        self._loop.call_soon(setattr, self._loop, "longest", 0.0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """What follows does not count."""
        await asyncio.sleep(0)
        self.longest = self._loop.longest

    async def fill(self, topic: str, count: int, make: Callable[[int], ortoo.Message]) -> None:
        for start in range(0, count, BATCH):
            await self.queue.publish_many(topic, [make(number) for number in range(start, min(start + BATCH, count))])

    async def crowd(self, count: int, topic: str | None, **options: Any) -> list[asyncio.Task[object]]:
        """Long polls, all in line."""
        polls = []
        for number in range(count):
            poll = self.queue.lease(topic, wait=LATER, consumer=f"c{number}", **options)
            polls.append(asyncio.create_task(poll))
            await asyncio.sleep(0)
        await self.rest()
        assert (await self.queue.stats()).waiters == count
        return list(polls)

    async def rest(self, turns: int = 400) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)


async def end(polls: list[asyncio.Task[object]], served: int) -> None:
    assert sum(poll.done() for poll in polls) == served
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def hold(turns: Turns, count: int, together: int = TOGETHER) -> list[ortoo.Received]:
    """Of so many messages with a key of its own each, all are leased by one consumer."""
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n}"))
    held: list[ortoo.Received] = []
    while len(held) < count:
        held += await turns.queue.lease("t", max_messages=together, consumer="me", lease=3600)
    return held


async def snapshot(turns: Turns) -> None:
    broker = turns.queue._link
    assert isinstance(broker, Broker)
    await turns.watch()
    await broker._snapshot()
