"""A server for every test of this folder, with a proxy before it, and a client that does not wait long between tries."""

import gc
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from ortoo.client import remote
from tests.client.proxy import Proxy, between
from tests.doors.tcp.home import Home, serving


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home


@pytest_asyncio.fixture
async def proxy(home: Home) -> AsyncIterator[Proxy]:
    async with between(home.port) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_BACKOFF_FIRST", 0.005)
    monkeypatch.setattr(remote, "_BACKOFF_MAX", 0.02)


@pytest.fixture(autouse=True)
def nothing_unexpected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An exception that nobody expected is logged by the door or by the event loop; no test may cause one."""
    yield
    gc.collect()  # a task that failed unseen is reported when it goes
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == []
