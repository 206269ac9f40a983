"""Push: what a subscription does to others that run in the same loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ortoo import Queue
from ortoo.broker import Broker
from ortoo.broker.subscription import Subscription
from ortoo.client import streams
from ortoo.model.commands import Lease
from ortoo.model.replies import LeasedRun
from ortoo.testing import ManualClock
from ortoo.testing.crash import kill
from tests.semantics.stores import LastingStore
from tests.turns import counting_turns


class Plenty:
    """There is always something to lease, and nothing to wait for."""

    async def lease(self, command: Lease, *, accepted: Any = None) -> list[LeasedRun]:
        return []


async def test_others_run_before_each_delivery_however_much_there_is() -> None:
    subscription = Subscription(Plenty(), Lease(topic="t", consumer="ann"), 1_000)
    async with counting_turns() as turns:
        for _ in range(100):
            await subscription.next()
    assert turns.count >= 100


async def test_a_subscriber_that_thinks_for_long_outlives_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had said how long it may think; a server that was started again has to be told once more."""
    monkeypatch.setattr(streams, "_SIGN_OF_LIFE_SECONDS", 0.001)
    clock = ManualClock()
    broker = Broker(LastingStore(), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("news", partitions=1)
        async with queue.subscribe("news", prefetch=1) as messages:
            await queue.publish("news", b"delayed", delay=60)
            await clock.advance(1)
            await queue.publish("news", b"first")
            assert (await anext(messages)).value == b"first"
            await kill(broker)
            await broker.open()
            await asyncio.sleep(0.05)
            await clock.advance(30)  # longer than a consumer may be silent that has not said otherwise
            await queue.publish("news", b"second")
            assert (await anext(messages)).value == b"second"
            await clock.advance(60)
            assert (await anext(messages)).value == b"delayed"
