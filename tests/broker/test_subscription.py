"""Push: what a subscription does to others that run in the same loop."""

from __future__ import annotations

import asyncio

from ortoo.broker.subscription import Subscription
from ortoo.model.commands import Lease
from ortoo.model.replies import LeasedRun


class Plenty:
    """There is always something to lease, and nothing to wait for."""

    async def lease(self, command: Lease) -> list[LeasedRun]:
        return []


async def test_others_run_before_each_delivery_however_much_there_is() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    subscription = Subscription(Plenty(), Lease(topic="t", consumer="ann"), 1_000)
    for _ in range(100):
        await subscription.next()
    assert turns >= 100
    task.cancel()
