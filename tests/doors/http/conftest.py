"""A door for every test of this folder, and a check that nothing went wrong behind its back."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.doors.http.home import Home, serving


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home


@pytest.fixture(autouse=True)
def nothing_unexpected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An exception that nobody expected is logged by the door or by the event loop; no test may cause one."""
    yield
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == []
