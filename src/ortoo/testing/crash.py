"""Ends a broker as a crash would."""

from __future__ import annotations

import asyncio

from ortoo.broker import Broker
from ortoo.model.errors import ClosedError


async def kill(broker: Broker) -> None:
    """Nothing is finished, nobody is answered."""
    broker._refusal = ClosedError("the queue was killed")
    broker._wakeup.cancel()
    await broker._coordinator.stop()
    if broker._committer is not None:
        broker._committer.cancel()
        await asyncio.gather(broker._committer, return_exceptions=True)
        broker._committer = None
