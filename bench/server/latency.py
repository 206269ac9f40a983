"""From `publish` to the consumer's hands, at a steady rate that leaves the server time to breathe."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop

import ortoo
from bench.figures import Figure
from bench.live.ortoo_tcp import TOPIC, serving
from bench.settings import Settings

NAME = "server, latency"
_PER_SECOND = 1000
_WARM_UP_SECONDS = 0.5


def scenario(settings: Settings) -> list[Figure]:
    """Of the repetition that was disturbed least."""
    found: list[tuple[float, float]] = []
    for _ in range(settings.repetitions):
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
            cuts = quantiles(uvloop.run(_delays_ms(served.url, settings.latency_seconds)), n=100)
        found.append((cuts[98], cuts[49]))
    p99, p50 = min(found)
    return [Figure(NAME, f"p50 at {_PER_SECOND:,}/s", p50, "ms"), Figure(NAME, f"p99 at {_PER_SECOND:,}/s", p99, "ms")]


async def _delays_ms(url: str, seconds: float) -> list[float]:
    count = round((seconds + _WARM_UP_SECONDS) * _PER_SECOND)
    async with ortoo.connect(url) as producer, ortoo.connect(url) as consumer:
        await producer.create_topic(TOPIC, durability="interval")
        consuming = asyncio.create_task(_consume(consumer, count))
        await _publish_steadily(producer, count)
        return (await consuming)[round(_WARM_UP_SECONDS * _PER_SECOND) :]


async def _publish_steadily(queue: ortoo.Queue, count: int) -> None:
    """Each message at its own instant, whether the one before is confirmed or not."""
    began = perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / _PER_SECOND - perf_counter()))
            tasks.create_task(queue.publish(TOPIC, repr(perf_counter()).ljust(100)))


async def _consume(queue: ortoo.Queue, count: int) -> list[float]:
    delays: list[float] = []
    async with queue.consume(TOPIC, prefetch=1000) as messages, asyncio.TaskGroup() as tasks:
        async for message in messages:
            delays.append((perf_counter() - float(message.value)) * 1000)
            tasks.create_task(queue.ack(message))
            if len(delays) == count:
                break
    return delays
