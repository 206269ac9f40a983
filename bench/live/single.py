"""One publish at a time, each confirmed and synced before the next: how long one takes, beside the rivals in the same run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop

from bench.figures import Figure
from bench.loads import VALUE_BYTES, values
from bench.server.http_connection import HttpConnection, to_request
from bench.settings import Settings

from .contender import Contender, Publish
from .ortoo_tcp import TOPIC, OrtooTcp, serving
from .race import present

NAME = "server, one publish at a time"
_WARM_UP = 50  # publishes
_LEFT_OUT = "ortoo, plain loop"  # which publishes one message as the other does


def scenario(settings: Settings) -> list[Figure]:
    """By turns; of each, the repetition that was disturbed least."""
    contenders = [contender for contender in present() if contender.name != _LEFT_OUT]
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(settings.repetitions):
        for contender in contenders:
            with TemporaryDirectory(prefix="ortoo-bench-") as folder, contender.serve(Path(folder)) as server:
                asyncio.run(contender.prepare(server.address))
                times = uvloop.run(_times_ms(contender, server.address, settings.latency_seconds))
                found.setdefault(contender.name, []).append(_p50_p99(times))
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
            asyncio.run(OrtooTcp().prepare(served.url))
            times = uvloop.run(_http_times_ms(served.http_port, settings.latency_seconds))
            found.setdefault("ortoo over HTTP", []).append(_p50_p99(times))
    return [
        Figure(NAME, f"{name}, {what}", min(pair[at] for pair in pairs), "ms")
        for name, pairs in found.items()
        for at, what in enumerate(("p50", "p99"))
    ]


def _p50_p99(times: list[float]) -> tuple[float, float]:
    cuts = quantiles(times, n=100)
    return cuts[49], cuts[98]


async def _times_ms(contender: Contender, address: str, seconds: float) -> list[float]:
    async with contender.publishing(address) as publish:
        return await _measure(publish, seconds)


async def _http_times_ms(port: int, seconds: float) -> list[float]:
    async with _http(port) as publish:
        return await _measure(publish, seconds)


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


async def _measure(publish: Publish, seconds: float) -> list[float]:
    value = values(0, 1)
    times: list[float] = []
    until = perf_counter() + seconds
    while (began := perf_counter()) < until or len(times) < 2 * _WARM_UP:
        await publish(0, value)
        times.append((perf_counter() - began) * 1000)
    return times[_WARM_UP:]
