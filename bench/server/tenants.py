"""What it costs to share a server: the processor time of one with tokens, rights, quotas and stamps, beside one without; and how
long a publish of one tenant takes while another floods the server.

Both servers run at the same time and are asked by turns, so that whatever disturbs one disturbs the other. The medians count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from bench.processes import running
from bench.settings import Settings

NAME = "server, tenants"
TOPIC = "orders"
OURS, THEIRS = "payments", "shipping"
_BATCH = 100
_TASKS = 16
_FLOODERS = 4
_FLOOD_BATCH = 1000
_QUOTA = 60_000  # messages a minute, of the tenant that floods
_SETTLE_SECONDS = 2.0  # until the flood is there
_TICKS = os.sysconf("SC_CLK_TCK")


def scenario(settings: Settings) -> list[Figure]:
    with TemporaryDirectory(prefix="ortoo-bench-") as bare, TemporaryDirectory(prefix="ortoo-bench-") as shared:
        tokens = {name: _token(Path(shared), name) for name in (OURS, THEIRS, "*")}
        with serving(Path(bare)) as without, serving(Path(shared)) as within:
            costs = uvloop.run(_costs(without, within, tokens, settings))
            alone, flooded, bounded = uvloop.run(_latencies(within, tokens, settings))
    return [
        Figure(NAME, "processor, no tokens", median(bare for bare, _ in costs), "µs/message"),
        Figure(NAME, "processor, shared", median(own for _, own in costs), "µs/message"),
        Figure(NAME, "shared ÷ no tokens", median(own / bare for bare, own in costs), "ratio"),
        Figure(NAME, "p99 of one publish at a time", alone, "ms"),
        Figure(NAME, "p99 beside a flood", flooded, "ms"),
        Figure(NAME, "p99 beside a flood with a quota", bounded, "ms"),
        Figure(NAME, "flood with a quota ÷ alone", bounded / alone, "ratio"),
    ]


def _token(folder: Path, namespace: str) -> str:
    """Of a tenant, which may do everything in its namespace; the server then asks everybody for one."""
    command = [sys.executable, "-m", "ortoo", "token", "create", "--data", str(folder / "data")]
    command += ["--name", namespace, "--namespace", namespace, "--scope", "admin"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def _costs(
    without: Served, within: Served, tokens: dict[str, str], settings: Settings
) -> list[tuple[float, float]]:
    """Pairs of processor time a message, of the server alone. The one that is shared has a quota, which is never reached."""
    found = []
    async with ortoo.connect(within.url, token=tokens["*"]) as root:
        await root.set_namespace(OURS, messages_per_minute=1 << 40, stored_bytes=1 << 50)
    async with (
        ortoo.connect(without.url, namespace=OURS) as open_queue,
        ortoo.connect(within.url, token=tokens[OURS], namespace=OURS) as own_queue,
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
    beside = []
    for quota in (None, _QUOTA):
        async with ortoo.connect(served.url, token=tokens["*"]) as root:
            await root.set_namespace(THEIRS, messages_per_minute=quota)
        with running([sys.executable, "-m", "bench.server.tenants", served.url, tokens[THEIRS]]):
            await asyncio.sleep(_SETTLE_SECONDS)
            beside.append(to_p50_p99(await times_ms(publishing(), settings.single_seconds))[1])
    return alone, beside[0], beside[1]


async def _flood(url: str, token: str) -> None:
    """Of a client that takes no heed of anybody, in a process of its own."""
    async with ortoo.connect(url, token=token, namespace=THEIRS) as queue:
        await queue.ensure_topic(TOPIC, retention_bytes=64 << 20, durability="none")

        async def publish() -> None:
            while True:
                try:
                    await queue.publish_many(TOPIC, values(0, _FLOOD_BATCH))
                except ortoo.RateLimitedError:
                    await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_FLOODERS):
                tasks.create_task(publish())


if __name__ == "__main__":
    uvloop.run(_flood(*sys.argv[1:3]))
