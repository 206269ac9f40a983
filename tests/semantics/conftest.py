"""A queue in memory and the clock that moves it, for every test of this folder: through each door in turn.

What holds for the embedded queue holds through every door, so the tests do not know which one they came through.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

import ortoo
from ortoo import Queue
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate
from ortoo.doors.http import HttpDoor
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.testing import ManualClock, open_manual
from tests.doors.http.driver import HttpQueue

DOORS = ["embedded", "tcp", "http"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture(params=DOORS)
async def queue(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Queue]:
    async with open_manual(clock) as inside, entering(request.param, inside) as queue:
        yield queue


@pytest_asyncio.fixture(params=["embedded", "tcp"])
async def python_queue(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Queue]:
    """For what only Python can get wrong: types that JSON does not have."""
    async with open_manual(clock) as inside, entering(request.param, inside) as queue:
        yield queue


def entering(door: str, inside: Queue) -> AbstractAsyncContextManager[Any]:
    """A queue like `inside`, that reaches the same broker through a door."""
    broker = inside._link
    assert isinstance(broker, Broker)
    gate = Gate(door, broker, Authenticator(), LimitSettings(), Budget(1 << 30))
    return {"embedded": _embedded, "tcp": _tcp, "http": _http}[door](inside, gate)


@asynccontextmanager
async def _embedded(inside: Queue, gate: Gate) -> AsyncIterator[Queue]:
    yield inside


@asynccontextmanager
async def _tcp(inside: Queue, gate: Gate) -> AsyncIterator[Queue]:
    door = TcpDoor(gate, TcpSettings(port=0))
    await door.open()
    try:
        async with ortoo.connect(f"ortoo://127.0.0.1:{door.address[1]}") as queue:
            yield queue
    finally:
        await door.close(1.0)


@asynccontextmanager
async def _http(inside: Queue, gate: Gate) -> AsyncIterator[HttpQueue]:
    async def no_metrics(link: object = None) -> bytes:
        return b""

    door = HttpDoor(gate, HttpSettings(port=0), metrics=no_metrics, ready=lambda: None)
    await door.open()
    try:
        async with HttpQueue(f"http://127.0.0.1:{door.address[1]}") as queue:
            yield queue
    finally:
        await door.close(1.0)
