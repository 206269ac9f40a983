"""What each path takes of the processor: plain messages, keys and priorities, by turns in one process, so that they compare."""

from __future__ import annotations

import asyncio
import gc
from statistics import median
from time import process_time_ns

import ortoo

from .figures import Figure
from .loads import LOADS, Load, warm_up
from .settings import Settings
from .traffic import LEASE_SECONDS, TOPIC, look_at

NAME = "paths"
_COUNT = 100_000
_SIZES = (1000, 100)
_OPERATIONS = ("publish", "lease", "ack")

Costs = tuple[float, float, float]  # nanoseconds a message, of each operation


async def _measure(load: Load, size: int) -> Costs:
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        began = process_time_ns()
        for start in range(0, _COUNT, size):
            await queue.publish_many(TOPIC, load(start, size))
        publishing = process_time_ns() - began
        leasing, acking, left = 0, 0, _COUNT
        while left > 0:
            began = process_time_ns()
            messages = await queue.lease(TOPIC, max_messages=min(size, left), lease=LEASE_SECONDS)
            look_at(messages)
            leased = process_time_ns()
            await queue.ack(messages)
            leasing, acking = leasing + leased - began, acking + process_time_ns() - leased
            left -= len(messages)
    return publishing / _COUNT, leasing / _COUNT, acking / _COUNT


def scenario(settings: Settings) -> list[Figure]:
    figures: list[Figure] = []
    for size in _SIZES:
        costs: dict[str, list[Costs]] = {name: [] for name in LOADS}
        for _ in range(1 + settings.repetitions):
            for name, load in LOADS.items():
                warm_up(load, size)
                gc.collect()
                costs[name].append(asyncio.run(_measure(load, size)))
        totals = {name: median(map(sum, found)) for name, found in costs.items()}
        for name, found in costs.items():
            path = f"{NAME}, {name} in {size}s"
            for operation, each in zip(_OPERATIONS, zip(*found, strict=True), strict=True):
                figures.append(Figure(path, operation, median(each), "ns/message"))
            figures.append(Figure(path, "rate ÷ plain", totals["plain"] / totals[name], "ratio"))
    return figures
