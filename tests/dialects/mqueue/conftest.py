"""Every route of the dialect does what its table says that it does, and nothing else."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.dialects.mqueue.home import Home, serving
from tests.doors.http.conftest import honest_routes

__all__ = ["honest_routes"]


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home
