"""A PostgreSQL with a standby behind it, and one address for whichever of them is the primary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from ortoo.testing.private_postgres import PrivatePostgres

HANGS_S = 60
_CUT = ("alter system set primary_conninfo = ''", "select pg_reload_conf()")


class Pair:
    """The standby becomes the primary when it fails over, and gets another standby for the next time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.chmod(0o711)
        self._numbers = count()
        self.primary = PrivatePostgres(folder / "node0", options={"fsync": "off", "shared_buffers": "16MB"})
        self.standby: PrivatePostgres | None = None
        self._wires: set[asyncio.StreamWriter] = set()

    def start(self) -> None:
        self.primary.start()

    def kill(self) -> None:
        for server in (self.primary, self.standby):
            if server is not None:
                server.kill()

    async def follow(self) -> PrivatePostgres:
        """A standby that has all there is so far."""
        if self.standby is None:
            folder = self._folder / f"node{next(self._numbers) + 1}"
            self.standby = await asyncio.to_thread(self.primary.make_standby, folder)
        async with sql_at(self.primary) as primary, sql_at(self.standby) as standby:
            upto = await primary.fetchval("select pg_current_wal_flush_lsn()::text")
            await _until(standby, f"select coalesce(pg_last_wal_replay_lsn() >= '{upto}', false)")
        return self.standby

    async def demand(self) -> None:
        """No commit is confirmed before the standby has it."""
        standby = await self.follow()
        async with sql_at(self.primary) as primary:
            await primary.execute(f"alter system set synchronous_standby_names = '{standby.folder.name}'")
            await primary.execute("select pg_reload_conf()")
            await _until(primary, "select exists (select 1 from pg_stat_replication where sync_state = 'sync')")
            await primary.execute("checkpoint")  # whoever does it tells all others that they have to wait

    async def waiting(self, *others: int) -> int:
        """The process of a commit that waits for the standby, none of these."""
        found = "select max(pid) from pg_stat_activity where wait_event = 'SyncRep' and pid <> all($1::int[])"
        async with sql_at(self.primary) as primary:
            return int(await _until(primary, found, list(others)))

    async def cut(self) -> None:
        """What is committed from now on, the standby does not get."""
        assert self.standby is not None
        async with sql_at(self.standby) as standby:
            for statement in _CUT:
                await standby.execute(statement)
            await _until(standby, "select not exists (select 1 from pg_stat_wal_receiver)")

    async def lose_primary(self) -> None:
        await asyncio.to_thread(self.primary.kill)
        self._hang_up()

    async def fail_over(self) -> None:
        """The standby is the primary now."""
        assert self.standby is not None
        await asyncio.to_thread(self.standby.promote)
        self.primary, self.standby = self.standby, None
        self._hang_up()

    # -- the address

    @asynccontextmanager
    async def address(self) -> AsyncIterator[str]:
        """A URL that leads to the primary."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        try:
            yield f"postgresql://queue@127.0.0.1:{server.sockets[0].getsockname()[1]}/postgres"
        finally:
            server.close()
            self._hang_up()

    def _hang_up(self) -> None:
        for wire in self._wires:
            wire.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self.primary.port)
        except OSError:
            writer.transport.abort()
            return
        wires = {writer, forth}
        self._wires |= wires
        await asyncio.gather(_pass(reader, forth), _pass(back, writer))
        self._wires -= wires


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def sql_at(server: PrivatePostgres) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(server.url)
    try:
        yield connection
    finally:
        await connection.close()


async def _until(connection: Any, question: str, *arguments: Any) -> Any:
    async with asyncio.timeout(HANGS_S):
        while not (found := await connection.fetchval(question, *arguments)):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)
        return found
