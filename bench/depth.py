"""Whether a queue with much in it is slower: the same work with few and with many messages pending."""

from __future__ import annotations

import asyncio
import gc

import ortoo

from .figures import Figure, rates
from .loads import VALUE_BYTES, plain, warm_up
from .settings import Settings
from .timing import Rates
from .traffic import TOPIC, lease_and_ack_all, publish_all

_SIZE = 1000
_FILL = 10_000  # the largest batch
_COUNT = 100_000  # messages of one repetition


def depth(settings: Settings) -> list[Figure]:
    shallow, deep = asyncio.run(_both(settings))
    ratio = {what: deep[what] / shallow[what] for what in ("publish", "lease", "ack")}
    return [
        *rates(f"{settings.shallow:,} pending", shallow),
        *rates(f"{settings.deep:,} pending", deep),
        *(Figure("deep ÷ shallow", what, value, "ratio") for what, value in ratio.items()),
    ]


async def _both(settings: Settings) -> tuple[Rates, Rates]:
    warm_up(plain, _SIZE)
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        await _fill(queue, settings.shallow)
        shallow = await _best(queue, settings.repetitions)
        await _fill(queue, settings.deep - settings.shallow)
        return shallow, await _best(queue, settings.repetitions)


async def _fill(queue: ortoo.Queue, count: int) -> None:
    """All of them share one value, so that what grows is the queue and not the values."""
    batch = [ortoo.Message(bytes(VALUE_BYTES))] * _FILL
    for _ in range(0, count, _FILL):
        await queue.publish_many(TOPIC, batch)


async def _best(queue: ortoo.Queue, repetitions: int) -> Rates:
    """What is published is leased and acked again, so the depth stays."""
    best: Rates = {}
    for _ in range(repetitions):
        gc.collect()
        found = {"publish": await publish_all(queue, plain, _SIZE, _COUNT)}
        found.update(await lease_and_ack_all(queue, _SIZE, _COUNT))
        best = {what: max(rate, best.get(what, 0.0)) for what, rate in found.items()}
    return best
