"""How long one message takes: from `publish` to the consumer's hands, at a rate far below what the server can do; and from
one publish over HTTP to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop

import ortoo
from bench.figures import Figure
from bench.live.contender import Publish
from bench.live.ortoo_tcp import TOPIC, OrtooTcp, serving
from bench.live.single import times_ms, to_p50_p99
from bench.loads import VALUE_BYTES
from bench.settings import Settings

from .http_connection import HttpConnection, to_request

NAME = "server, latency"
_PER_SECOND = 1000
_WARM_UP_SECONDS = 0.5


def scenario(settings: Settings) -> list[Figure]:
    """Of the repetition that was disturbed least."""
    delays, answers = [], []
    for _ in range(settings.repetitions):
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
            delays.append(to_p50_p99(uvloop.run(_delays_ms(served.url, settings.latency_seconds))))
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
            asyncio.run(OrtooTcp().prepare(served.url))
            answers.append(to_p50_p99(uvloop.run(times_ms(_http(served.http_port), settings.single_seconds))))
    (p50, p99), (http_p50, http_p99) = (min(found, key=lambda pair: pair[1]) for found in (delays, answers))
    return [
        Figure(NAME, f"p50 at {_PER_SECOND:,}/s", p50, "ms"),
        Figure(NAME, f"p99 at {_PER_SECOND:,}/s", p99, "ms"),
        Figure(NAME, "p50 of one publish at a time, HTTP", http_p50, "ms"),
        Figure(NAME, "p99 of one publish at a time, HTTP", http_p99, "ms"),
    ]


@asynccontextmanager
async def _http(port: int) -> AsyncIterator[Publish]:
    connection = await HttpConnection.connect(port)
    request = to_request(f"/v1/topics/{TOPIC}/messages", b'{"messages":[{"value":"%s"}]}' % (b"x" * (VALUE_BYTES - 2)))

    async def publish(_: int, __: list[bytes]) -> None:
        status, body = await connection.ask(request)
        if status >= 300:
            raise RuntimeError(f"{status}: {body!r}")

    yield publish
    connection.close()


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
