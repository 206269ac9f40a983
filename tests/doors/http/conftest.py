"""A door for every test of this folder."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.doors.http.home import Home, serving


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home
