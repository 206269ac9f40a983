"""A queue for every test of this folder, whose routes do what their table says that they do, and nothing else."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.dialects.queen.home import Home, serving
from tests.doors.http.conftest import honest_routes

__all__ = ["home", "honest_routes"]


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home
