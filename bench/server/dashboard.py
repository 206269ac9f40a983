"""What ten people who look at a dashboard cost a server through which 50,000 messages a second pass.

Its processor time with them and without them is taken by turns, so that whatever disturbs one disturbs the other. The
median counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import uvloop
from websockets.asyncio.client import connect

import ortoo
from bench.figures import Figure
from bench.live.ortoo_tcp import Served, serving
from bench.loads import values
from bench.processes import processor_seconds
from bench.settings import Settings

NAME = "server, dashboard"
_TOPICS, _VIEWERS, _ROWS = 1_000, 10, 100
_RATE, _BATCH, _TASKS = 50_000, 500, 8
_PAIRS = 5
_SETTLE_SECONDS = 1.5  # until the viewers have their first overviews, or the server has forgotten them


class Load:
    """So many a second pass, as long as the server keeps up."""

    def __init__(self, queue: ortoo.Queue) -> None:
        self._queue = queue
        self._next = 0
        self.published = 0

    async def publish(self) -> None:
        """What is late is not made up for: the rate counts, not the sum."""
        loop, batch = asyncio.get_running_loop(), values(0, _BATCH)
        pause = _TASKS * _BATCH / _RATE
        due = loop.time()
        while True:
            self._next += 1
            await self._queue.publish_many(f"topic-{self._next % _TOPICS}", batch)
            self.published += _BATCH
            due = max(due + pause, loop.time())
            await asyncio.sleep(due - loop.time())


class Turn(msgspec.Struct, frozen=True):
    seconds: float  # of the processor, in one second
    rate: float  # messages a second


def scenario(settings: Settings) -> list[Figure]:
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
        pairs = uvloop.run(_measure(served, settings.idle_seconds))
    # A load that was slower for a moment costs less, and is no merit of the viewers.
    extra = [watched.seconds - alone.seconds * watched.rate / alone.rate for alone, watched in pairs]
    return [
        Figure(NAME, "messages passing", median(watched.rate for _, watched in pairs)),
        Figure(NAME, "processor, nobody looks", 100 * median(alone.seconds for alone, _ in pairs), "% of a core"),
        Figure(NAME, "processor, ten viewers more", 100 * median(extra), "% of a core"),
    ]


async def _measure(served: Served, seconds: float) -> list[tuple[Turn, Turn]]:
    async with ortoo.connect(served.url) as queue:
        for topic in range(_TOPICS):
            await queue.create_topic(f"topic-{topic}", partitions=1, durability="interval")
        load = Load(queue)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(load.publish()) for _ in range(_TASKS)]
            pairs = []
            for _ in range(_PAIRS):
                alone = await _turn(served, load, seconds)
                async with _watched(served):
                    pairs.append((alone, await _turn(served, load, seconds)))
            for task in tasks:
                task.cancel()
    return pairs


async def _turn(served: Served, load: Load, seconds: float) -> Turn:
    await asyncio.sleep(_SETTLE_SECONDS)
    loop = asyncio.get_running_loop()
    began, before, published = loop.time(), processor_seconds(served.pid), load.published
    await asyncio.sleep(seconds)
    took = loop.time() - began
    return Turn((processor_seconds(served.pid) - before) / took, (load.published - published) / took)


@asynccontextmanager
async def _watched(served: Served) -> AsyncIterator[None]:
    """Each looks at the overview, and half of them at topics of their own."""
    viewers = [asyncio.create_task(_view(served, number)) for number in range(_VIEWERS)]
    try:
        yield
        if any(viewer.done() for viewer in viewers):
            raise RuntimeError("a viewer was sent away")
    finally:
        for viewer in viewers:
            viewer.cancel()
        await asyncio.gather(*viewers, return_exceptions=True)


async def _view(served: Served, number: int) -> None:
    shown = {"type": "watch", "id": "overview", "sort": "in", "limit": _ROWS}
    if number % 2:
        shown |= {"sort": "name", "match": f"topic-{number}"}
    async with connect(f"ws://127.0.0.1:{served.http_port}/v1/stream", max_size=None) as socket:
        await socket.send(msgspec.json.encode(shown).decode())
        async for _ in socket:
            pass
