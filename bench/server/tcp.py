"""Publishing over TCP, in batches and one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop

import ortoo
from bench.figures import Figure
from bench.live.ortoo_tcp import TOPIC, serving
from bench.loads import VALUE_BYTES, values
from bench.settings import Settings
from bench.timing import Rates

NAME = "server, TCP"
_BATCH, _BATCHES_AT_A_TIME, _SINGLE_TASKS = 1000, 4, 256


def scenario(settings: Settings) -> list[Figure]:
    best: Rates = {}
    for _ in range(settings.repetitions):
        for what, rate in _measure(settings).items():
            best[what] = max(rate, best.get(what, 0.0))
    return [Figure(NAME, what, rate) for what, rate in best.items()]


def _measure(settings: Settings) -> Rates:
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
        return uvloop.run(_publish(served.url, settings))


async def _publish(url: str, settings: Settings) -> Rates:
    async with ortoo.connect(url) as queue:
        await queue.create_topic(TOPIC)
        return {
            "publish in 1000s": await _batches(queue, settings.server_messages),
            "publish one by one": await _singles(queue, settings.single_messages),
        }


async def _batches(queue: ortoo.Queue, count: int) -> float:
    starts = iter(range(0, count, _BATCH))
    values(0, _BATCH)  # made before the watch runs

    async def publish() -> None:
        for start in starts:
            await queue.publish_many(TOPIC, values(start, _BATCH))

    return await _rate(count, publish, _BATCHES_AT_A_TIME)


async def _singles(queue: ortoo.Queue, count: int) -> float:
    """Each task waits for its own answer; the client gathers what they publish at the same time."""
    value, numbers = bytes(VALUE_BYTES), iter(range(count))

    async def publish() -> None:
        for _ in numbers:
            await queue.publish(TOPIC, value)

    return await _rate(count, publish, _SINGLE_TASKS)


async def _rate(count: int, work: Callable[[], Awaitable[None]], tasks: int) -> float:
    began = perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return count / (perf_counter() - began)
