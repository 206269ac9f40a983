"""A queue in memory and the clock that moves it, for every test of this folder."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ortoo import Queue
from ortoo.testing import ManualClock, open_manual


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def queue(clock: ManualClock) -> AsyncIterator[Queue]:
    async with open_manual(clock) as queue:
        yield queue
