"""Connections that are made while somebody else makes one, or ends all: none is left behind."""

import asyncio
from typing import Any

import asyncpg
import pytest

from ortoo.stores.postgres import parse_address
from ortoo.stores.postgres.connections import Connections
from ortoo.stores.postgres.errors import DatabaseError

from .postgres_server import fresh_url


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every connection that is made."""
    found: list[Any] = []
    connect = asyncpg.connect

    async def counted(**options: Any) -> Any:
        found.append(await connect(**options))
        return found[-1]

    monkeypatch.setattr(asyncpg, "connect", counted)
    return found


async def test_of_two_writers_that_connect_at_once_one_is_left(made: list[Any]) -> None:
    connections = Connections(parse_address(fresh_url()))
    await asyncio.gather(connections.reconnect(), connections.reconnect())
    assert [one.is_closed() for one in made].count(False) == 1
    assert not connections.writer.is_closed()
    await connections.close()


async def test_one_that_connects_while_all_are_ended_is_ended_too(made: list[Any]) -> None:
    connections = Connections(parse_address(fresh_url()))
    connecting = asyncio.create_task(connections.reconnect())
    await asyncio.sleep(0)
    connections.terminate()
    with pytest.raises(DatabaseError, match="closed"):
        await connecting
    assert [one.is_closed() for one in made] == [True]
