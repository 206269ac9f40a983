"""A queue in memory and the clock that moves it, for every test of this folder, through each door in turn."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import ortoo
from ortoo import Queue
from ortoo.broker import Access, Broker, Budget, Gate
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import LimitSettings, TcpSettings
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock, open_manual


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture(params=["embedded", "tcp"])
async def queue(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Queue]:
    if request.param == "embedded":
        async with open_manual(clock) as queue:
            yield queue
        return
    broker = Broker(MemoryStore(), clock)
    await broker.open()
    gate = Gate("tcp", broker, Access(), LimitSettings(), Budget(1 << 30))
    door = TcpDoor(gate, TcpSettings(port=0))
    await door.open()
    try:
        async with ortoo.connect(f"ortoo://127.0.0.1:{door.address[1]}") as queue:
            yield queue
    finally:
        await door.close(1.0)
        await broker.close()
