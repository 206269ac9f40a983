"""A door for every test of this folder, and a check that nothing went wrong behind its back."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.doors.tcp.home import Home, serving


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home


@pytest.fixture(autouse=True)
def nothing_unexpected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An exception that nobody expected is logged by the door or by the event loop; no test may cause one."""
    yield
    gc.collect()  # a task that failed unseen is reported when it goes
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == []


@pytest_asyncio.fixture
async def failures() -> AsyncIterator[list[dict[str, Any]]]:
    """What the event loop was told of exceptions that nobody caught."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    yield found
    asyncio.get_running_loop().set_exception_handler(None)
