"""Gives up what may be in a buffer: for a shard that cannot be opened because of it."""

from __future__ import annotations

from socket import gethostname
from typing import Any

from ortoo.model.errors import NotFoundError, UnavailableError

from .address import Address
from .connections import PATIENT_S, Connections
from .errors import failing_while
from .mark import Mark, look_here, read_mark
from .migrations import refuse_unready

_LAST = "select greatest((select max(number) from commits), (select max(number) from checkpoints), 0)"


async def find_mark(address: Address) -> tuple[Mark, str] | None:
    """The mark of a shard of which commits may be in a buffer, and what is lost without that, in words."""
    connections = Connections(address, PATIENT_S, is_reader=True)
    try:
        return await _find(await connections.reconnect(), address)
    finally:
        await connections.close()


async def _find(connection: Any, address: Address) -> tuple[Mark, str] | None:
    await refuse_unready(connection, address)
    mark, here = await read_mark(connection), await look_here(connection)
    if mark is None or not mark.is_open:
        return None
    with failing_while("looking for the last commit"):
        last = await connection.fetchval(_LAST)
    if mark.identity != here.identity:
        return (
            mark,
            f"this is a copy of another database, to which these commits belong; this one ends with commit {last}",
        )
    lost = f"commits from {last + 1} on are lost, as far as there are any"
    certain = f": {last + 1} to {mark.known} for certain" if mark.known > last else ""
    return mark, f"the database has commits up to {last}; {lost}{certain}"


async def abandon(address: Address) -> str:
    """Returns what is lost. The queue must not be running."""
    connections = Connections(address, PATIENT_S)
    try:
        connection = await connections.reconnect()
        if not await connections.lock(by_force=False):
            raise UnavailableError(f"{address.shown} is in use by a queue, which is connected; stop that one first")
        found = await _find(connection, address)
        if found is None:
            raise NotFoundError(f"nothing of {address.shown} waits in a buffer: it can be opened as it is")
        with failing_while("giving up the buffer"):  # one that was cut off, and still runs, must not go on with it
            async with connection.transaction():
                await connection.fetchval("select claim(null, 0, $1)", f"ortoo buffer abandon on {gethostname()}")
                await connection.execute("update buffer set is_open = false")
        return found[1]
    finally:
        await connections.close()
