"""A door for every test of this folder."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.dialects.gomq.home import Client, Home, serving


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home


@pytest_asyncio.fixture
async def client(home: Home) -> AsyncIterator[Client]:
    async with home.client() as client:
        yield client
