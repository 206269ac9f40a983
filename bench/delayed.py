"""Delayed messages: how fast they go in, and how late they come out at light load."""

from __future__ import annotations

import asyncio
import gc
import time
from random import Random
from statistics import quantiles

import ortoo

from .figures import Figure
from .loads import values
from .timing import Stopwatch
from .traffic import TOPIC, WAIT_SECONDS

_BATCH = 1000
_HEAD_START_SECONDS = 0.3  # the consumer is waiting before the first message is due


async def insert(count: int) -> dict[str, float]:
    """Messages due at random within the second hour from now, so that none comes out meanwhile."""
    random, inserting = Random(3), Stopwatch()
    values(0, _BATCH)  # made before the watch runs
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        for start in range(0, count, _BATCH):
            delays = [3600 + 3600 * random.random() for _ in range(_BATCH)]
            with inserting:
                pairs = zip(values(start, _BATCH), delays, strict=True)
                await queue.publish_many(TOPIC, [ortoo.Message(value, delay=delay) for value, delay in pairs])
    return {"insert": count / inserting.seconds}


async def lateness_ms(count: int, seconds: float) -> list[float]:
    """Delivered minus due, of messages that come due one after the other while a consumer waits for them."""
    async with ortoo.open() as queue:
        first = time.time() + _HEAD_START_SECONDS
        dues = [first + seconds * number / count for number in range(count)]
        await queue.publish_many(TOPIC, [ortoo.Message(repr(due), deliver_at=due) for due in dues])
        late: list[float] = []
        while len(late) < count:
            messages = await queue.lease(TOPIC, max_messages=_BATCH, wait=WAIT_SECONDS)
            now = time.time()
            late.extend((now - float(message.value)) * 1000 for message in messages)
            await queue.ack(messages)
    return late


def lateness(repetitions: int, count: int, seconds: float) -> list[Figure]:
    """Of the repetition that was disturbed least."""
    found: list[tuple[float, float]] = []
    for _ in range(repetitions):
        gc.collect()
        cuts = quantiles(asyncio.run(lateness_ms(count, seconds)), n=100)
        found.append((cuts[98], cuts[49]))
    p99, p50 = min(found)
    return [Figure("delayed", "lateness p50", p50, "ms"), Figure("delayed", "lateness p99", p99, "ms")]
