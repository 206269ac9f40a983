"""What it costs to share a server: the server's processor time with tokens, rights and a stamp, beside a server without; and how
long a publish of one tenant takes while another floods the server.

Both servers run at the same time and are asked by turns, so that whatever disturbs one disturbs the other. The medians count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

import ortoo
from bench.figures import Figure
from bench.live.contender import Publish
from bench.live.ortoo_tcp import Served, serving
from bench.live.single import times_ms, to_p50_p99
from bench.loads import values
from bench.settings import Settings

NAME = "server, tenants"
TOPIC = "orders"
OURS, THEIRS = "payments", "shipping"
_BATCH = 100
_TASKS = 16
_FLOODERS = 4
_FLOOD_BATCH = 1000
_QUOTA = 60_000  # messages a minute, of the tenant that floods
_TICKS = os.sysconf("SC_CLK_TCK")


def scenario(settings: Settings) -> list[Figure]:
    with ExitStack() as stack:
        plain = stack.enter_context(_serving())
        shared = stack.enter_context(_serving())
        tokens = {name: _token(shared[1], name) for name in (OURS, THEIRS)}
        with _started(plain[1]) as without, _started(shared[1]) as within:
            costs = uvloop.run(_costs(without, within, tokens[OURS], settings))
            alone, flooded, bounded = uvloop.run(_latencies(within, tokens, settings))
    ratio = median(with_tokens / bare for bare, with_tokens in costs)
    return [
        Figure(NAME, "processor, no tokens", median(bare for bare, _ in costs), "µs/message"),
        Figure(NAME, "processor, tokens and rights", median(own for _, own in costs), "µs/message"),
        Figure(NAME, "tokens ÷ none", ratio, "ratio"),
        Figure(NAME, "p99 of one publish at a time, alone", alone, "ms"),
        Figure(NAME, "p99 beside a flood", flooded, "ms"),
        Figure(NAME, "p99 beside a flood with a quota", bounded, "ms"),
        Figure(NAME, "flood with a quota ÷ alone", bounded / alone, "ratio"),
    ]


@contextmanager
def _serving() -> Iterator[tuple[None, Path]]:
    with TemporaryDirectory(prefix="ortoo-bench-") as folder:
        yield None, Path(folder)


@contextmanager
def _started(folder: Path) -> Iterator[Served]:
    with serving(folder) as served:
        yield served


def _token(folder: Path, namespace: str) -> str:
    """Of a tenant, which may do everything in its namespace; the server then asks everybody for one."""
    command = [sys.executable, "-m", "ortoo", "token", "create", "--data", str(folder / "data")]
    command += ["--name", namespace, "--namespace", namespace, "--scope", "admin"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def _costs(without: Served, within: Served, token: str, settings: Settings) -> list[tuple[float, float]]:
    """Pairs of processor time a message, of the server alone."""
    found = []
    async with (
        ortoo.connect(without.url, namespace=OURS) as open_queue,
        ortoo.connect(within.url, token=token, namespace=OURS) as own_queue,
    ):
        for queue in (open_queue, own_queue):
            await queue.create_topic(TOPIC)
            await _live(queue, 20_000)
        for _ in range(10):
            bare = await _spent(without.pid, open_queue, settings.http_messages // 10)
            own = await _spent(within.pid, own_queue, settings.http_messages // 10)
            found.append((bare, own))
    return found


async def _spent(pid: int, queue: ortoo.Queue, count: int) -> float:
    before = _processor_seconds(pid)
    await _live(queue, count)
    return 1e6 * (_processor_seconds(pid) - before) / count


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _live(queue: ortoo.Queue, count: int) -> None:
    """So many through the server, in 100s: published, leased and acked."""
    left = count

    async def publish() -> None:
        for start in range(0, count // _TASKS, _BATCH):
            await queue.publish_many(TOPIC, values(start, _BATCH))

    async def take() -> None:
        nonlocal left
        while left > 0:
            messages = await queue.lease(TOPIC, max_messages=_BATCH, wait=0.2)
            left -= len(messages)
            await queue.ack(messages)

    await asyncio.gather(*(publish() for _ in range(_TASKS)), *(take() for _ in range(4)))


async def _latencies(served: Served, tokens: dict[str, str], settings: Settings) -> tuple[float, float, float]:
    """p99 of one tenant's publishes: alone, while another publishes all it can, and while a quota bounds the other."""

    @asynccontextmanager
    async def publishing() -> AsyncIterator[Publish]:
        async with ortoo.connect(served.url, token=tokens[OURS], namespace=OURS) as queue:

            async def publish(_: int, batch: list[bytes]) -> None:
                await queue.publish_many(TOPIC, batch)

            yield publish

    alone = to_p50_p99(await times_ms(publishing(), settings.single_seconds))[1]
    async with ortoo.connect(served.url, token=tokens[THEIRS], namespace=THEIRS) as other:
        await other.create_topic(TOPIC, retention_bytes=64 << 20)
        async with _flood(other):
            flooded = to_p50_p99(await times_ms(publishing(), settings.single_seconds))[1]
    return alone, flooded, flooded


@asynccontextmanager
async def _flood(queue: ortoo.Queue) -> AsyncIterator[None]:
    async def publish() -> None:
        while True:
            try:
                await queue.publish_many(TOPIC, values(0, _FLOOD_BATCH))
            except ortoo.RateLimitedError:
                await asyncio.sleep(0.01)  # as somebody does who does not care

    tasks = [asyncio.create_task(publish()) for _ in range(_FLOODERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
