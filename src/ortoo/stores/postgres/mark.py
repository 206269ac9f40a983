"""The mark in the database that commits may wait in a buffer: without it nothing is confirmed from there, and with it nobody
opens the shard but with that buffer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from ortoo.model.errors import ConfigError, UnavailableError
from ortoo.ports.buffer import BufferEra, BufferServer

from .address import Address
from .errors import failing_while
from .shard import Shard

_COLUMNS = "name, era, is_open, first, known, term, token, node, place, run, identity, timeline, since"
_READ = f"select {_COLUMNS} from buffer"  # noqa: S608  names of columns
_HERE = """
    select (select oid from pg_database where datname = current_database())::text
        || '/' || (select oid from pg_namespace where nspname = current_schema())::text
"""
_SYSTEM = "select system_identifier::text from pg_control_system()"
_TIMELINE = "select left(pg_walfile_name(pg_current_wal_lsn()), 8)"


class Mark(NamedTuple):
    name: str
    era: int
    is_open: bool
    first: int
    known: int
    term: int
    token: str
    node: str
    place: str
    run: str
    identity: str
    timeline: str
    since: datetime

    @property
    def told(self) -> str:
        return f"commits from {self.first} on may wait in buffer {self.name} at {self.place}, put there by {self.node}"


class Here(NamedTuple):
    """Which database this is, as far as it tells. A copy has another identity; one that was promoted, another timeline."""

    identity: str
    timeline: str


async def read_mark(connection: Any) -> Mark | None:
    """None where there was never a buffer."""
    with failing_while("looking for a buffer"):
        if not await connection.fetchval("select to_regclass('buffer') is not null"):
            return None
        found = await connection.fetchrow(_READ)
    return None if found is None else Mark(*found)


async def look_here(connection: Any) -> Here:
    with failing_while("looking which database this is"):
        return Here(
            f"{await _told(connection, _SYSTEM)}/{await connection.fetchval(_HERE)}", await _told(connection, _TIMELINE)
        )


async def _told(connection: Any, sql: str) -> str:
    """Not every service lets everybody ask."""
    try:
        return str(await connection.fetchval(sql))
    except asyncpg.PostgresError as error:
        if error.sqlstate is not None and error.sqlstate[:2] in ("42", "0A", "55"):
            return ""
        raise


async def open_mark(shard: Shard, era: BufferEra, first: int, place: str, server: BufferServer, here: Here) -> None:
    """Durable when it returns."""
    arguments = shard.term, era.name, era.number, first, shard.node, place, server.run, *here
    with failing_while("noting the buffer"), shard.connections.whole(shard.connections.writer) as writer:
        await writer.execute("select open_buffer($1, $2, $3, $4, $5, $6, $7, $8, $9)", *arguments)


async def note_known(shard: Shard, era: BufferEra, known: int) -> None:
    with failing_while("noting the buffer"):
        await shard.connections.writer.execute("select note_buffer($1, $2, $3)", shard.term, era.number, known)


async def close_mark(shard: Shard) -> None:
    with failing_while("noting that the buffer is empty"):
        await shard.connections.writer.execute("select close_buffer($1)", shard.term)


def advice(address: Address) -> str:
    return f"or give up what may be there, told what that is, with: ortoo buffer abandon '{address.shown}'"


async def refuse_buffered(connection: Any, address: Address) -> None:
    """For those who would only see what the database has."""
    mark = await read_mark(connection)
    if mark is not None and mark.is_open:
        raise UnavailableError(
            f"{mark.told}, and not in {address.shown}: start and stop the queue with that buffer, which empties it, "
            f"{advice(address)}"
        )


def refuse_copy(mark: Mark, here: Here, address: Address) -> None:
    if mark.identity != here.identity:
        raise ConfigError(
            f"{address.shown} is a copy: {mark.told}, of the database that it was copied from ({mark.identity}, and this is "
            f"{here.identity}); they belong there. To go on without them here, run: ortoo buffer abandon '{address.shown}'"
        )
