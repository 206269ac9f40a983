"""A door for every test of this folder."""

import asyncio
import gc
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
def nothing_unseen(nothing_unexpected: None) -> Iterator[None]:
    """A task that failed unseen is reported when it goes: before it is checked that there is no such report."""
    yield
    gc.collect()


@pytest_asyncio.fixture
async def failures() -> AsyncIterator[list[dict[str, Any]]]:
    """What the event loop was told of exceptions that nobody caught."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    yield found
    asyncio.get_running_loop().set_exception_handler(None)
