"""Connections to a shard: one that writes, and owns the shard as long as it lives; one that works behind; some that read.

Session settings are given with each connection, so that what a role or a database is set to does not change what is promised.
The writer holds an advisory lock: a second queue on the same schema is refused while the first one is there.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from secrets import token_hex
from time import monotonic
from typing import Any

import asyncpg

from ortoo.model.errors import ConfigError

from .address import Address
from .errors import DatabaseError, failing_while

VERSION_MIN = 14  # multiranges
CONNECT_S, COMMAND_S = 5.0, 30.0
PATIENT_S = 60.0  # for whoever works offline, and has nobody waiting
LOCK_WAIT_S = 5.0  # for one whose process has just ended
LOCK_LINE_S = 1.0  # in line for it, before its holder is ended once more
READERS_MAX = 4
# A commit that is synchronous, and so are those before it.
LAST = "greatest((select max(number) from commits), (select max(number) from checkpoints), 0)"
SYNC = f"select pg_postmaster_start_time(), {LAST}, pg_logical_emit_message(true, 'ortoo', '')"
AWAY_S = 2.0  # for one who reads while the database is away: it may be there for that
_OLD_PIDS = 100
_LOCK_CLASS = 0x4F72746F  # "Orto"
_SETTINGS = {
    "application_name": "ortoo",
    "ortoo.writer": "queue",  # what the guard of the tables asks for
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "idle_session_timeout": "0",  # else an owner that has nothing to do would lose its lock
    "tcp_keepalives_idle": "10",  # else a machine that lost its power would own the shard for hours
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "jit": "off",
    "timezone": "UTC",
}
_READING = {"application_name": "ortoo reader", "ortoo.writer": "", "default_transaction_read_only": "on"}
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


async def _keep(connection: Any) -> None:
    """In the place of what a pool does with each connection that is given back: there is nothing to undo, and it would take a
    round trip."""


class Connections:
    def __init__(self, address: Address, connect_s: float = CONNECT_S, is_reader: bool = False) -> None:
        """`is_reader`: nothing can be written, not even by mistake."""
        self._address = address
        self._connect_s = connect_s
        self._settings = {**_SETTINGS, **_READING} if is_reader else _SETTINGS
        self._writer: Any = None
        self._worker: Any = None
        self._readers: Any = None
        self._working = asyncio.Lock()
        self._is_over = False  # what is still being connected has come too late
        self.is_away: Callable[[], bool] = lambda: False  # whoever knows may tell
        self.check: Callable[[Any], Awaitable[None]] = _keep  # each new connection that works or reads, before all else
        self.on_end: Callable[[], None] = lambda: None  # is told when the writer's connection ends by itself
        self.token = token_hex(
            8
        )  # tells this owner from another one to which a database that went back gave the same term
        self.synchronous_commit = "on"  # as the role or the database has it
        self._pid: int | None = None  # of the writer's process in the database
        self._started: datetime | None = None  # when that database was
        self._old_pids: list[int] = []  # of those before

    def _options(self) -> dict[str, Any]:
        path = '"' + self._address.schema.replace('"', '""') + '"'
        return {
            "dsn": self._address.dsn,
            "timeout": self._connect_s,
            "command_timeout": COMMAND_S,
            "server_settings": {**self._settings, "search_path": path, "ortoo.token": self.token},
        }

    async def _connect(self, prepare: Callable[[Any], Awaitable[None]]) -> Any:
        with failing_while(f"connecting to {self._address.shown}"):
            connection = await asyncpg.connect(**self._options())
            try:
                await prepare(connection)
                if self._is_over:
                    raise DatabaseError(f"the connections to {self._address.shown} are closed")
            except BaseException:
                connection.terminate()
                raise
        return connection

    async def _prepare_checked(self, connection: Any) -> None:
        await _prepare(connection)
        await self.check(connection)

    async def _prepare_writer(self, connection: Any) -> None:
        await _prepare(connection)
        _check(connection, self._address)
        self._started, self.synchronous_commit = await connection.fetchrow(
            "select pg_postmaster_start_time(), current_setting('synchronous_commit')"
        )

    async def reconnect(self) -> Any:
        """A new writer. What the one before it may still be doing in the database is ended, and so is known when this returns."""
        self.drop_writer()
        connection = await self._connect(self._prepare_writer)
        self.drop_writer()  # that somebody else has connected meanwhile
        self._writer, self._pid = connection, connection.get_server_pid()
        connection.add_termination_listener(self._ended)
        return connection

    def _ended(self, connection: Any) -> None:
        if connection is self._writer:
            self.on_end()

    def drop_writer(self) -> None:
        """Whatever it is doing. It may still be doing that in the database."""
        if self._writer is not None:
            assert self._pid is not None
            self._old_pids = [*self._old_pids, self._pid][-_OLD_PIDS:]
            writer, self._writer = self._writer, None
            writer.terminate()

    @property
    def has_writer(self) -> bool:
        return self._writer is not None and not self._writer.is_closed()

    @property
    def writer(self) -> Any:
        if not self.has_writer:
            raise DatabaseError(f"the connection to {self._address.shown} is closed")
        return self._writer

    async def lock(self, by_force: bool) -> bool:
        """Waits a little for whoever has it. `by_force`: ends his connection; else only our own of before."""
        deadline = monotonic() + LOCK_WAIT_S
        key = (_LOCK_CLASS, self._address.schema)
        with failing_while("taking the shard's lock"):
            while not await self.writer.fetchval("select pg_try_advisory_lock($1, hashtext($2))", *key):
                await self.writer.execute(
                    "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted "
                    "and database = (select oid from pg_database where datname = current_database()) "
                    "and classid::bigint = $1 and objid::bigint = hashtext($2)::bigint & 4294967295 and objsubid = 2 "
                    "and ($3 or pid = any($4::int[]))",
                    *key,
                    by_force,
                    self._old_pids,
                )
                if by_force:
                    with suppress(TimeoutError):  # in line: who was ended may connect again, and have it first
                        await self.writer.execute(
                            "select pg_advisory_lock($1, hashtext($2))", *key, timeout=LOCK_LINE_S
                        )
                        break
                if monotonic() > deadline:
                    return False
                await asyncio.sleep(0.05)
        self._old_pids.clear()
        return True

    @asynccontextmanager
    async def worker(self, doing: str) -> AsyncIterator[Any]:
        """For what runs behind: one at a time."""
        if self.is_away():
            raise DatabaseError(f"{self._address.shown} is away")
        async with self._working:
            if self._worker is None or self._worker.is_closed():
                self._worker = await self._connect(self._prepare_checked)
            with failing_while(doing):
                yield self._worker

    @asynccontextmanager
    async def reader(self, doing: str = "reading") -> AsyncIterator[Any]:
        with failing_while(doing):
            async with asyncio.timeout(AWAY_S if self.is_away() else None):
                if self._readers is None:
                    self._readers = asyncpg.create_pool(
                        min_size=0, max_size=READERS_MAX, init=self._prepare_checked, reset=_keep, **self._options()
                    )
                    await self._readers
                async with self._readers.acquire(timeout=COMMAND_S) as connection:
                    yield connection

    async def sync(self) -> int | None:
        """Returns when everything committed so far is durable, whatever it was committed with: the last number. None: the
        database may have been restarted meanwhile."""
        writer, started = self._writer, self._started
        async with self.reader("syncing") as connection:
            with self.whole(connection):
                found, last, _ = await connection.fetchrow(SYNC)
        return last if writer is self._writer and self.has_writer and found == started else None

    @contextmanager
    def whole(self, connection: Any) -> Iterator[Any]:
        """All of it is done. A wait for a standby that is cancelled succeeds with a warning: it is committed, and perhaps only
        there."""
        warnings: list[str] = []

        def note(_: Any, message: Any) -> None:
            if message.severity_en == "WARNING":
                warnings.append(str(message))

        connection.add_log_listener(note)
        try:
            yield connection
        finally:
            connection.remove_log_listener(note)
        if warnings:
            raise DatabaseError(f"a commit may not be on every standby that it was to wait for: {warnings[0]}")

    async def close(self) -> None:
        readers, worker, writer = self._readers, self._worker, self._writer
        self._writer = self._worker = self._readers = None
        for one in (readers, worker, writer):
            if one is not None and not (one is not readers and one.is_closed()):
                try:
                    async with asyncio.timeout(CONNECT_S):
                        await one.close()
                except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    one.terminate()

    def terminate(self) -> None:
        """At once and for good, whatever they are doing."""
        self._is_over = True
        found = (self._writer, self._worker, self._readers)
        self._writer = self._worker = self._readers = None
        for connection in found:
            if connection is not None:
                connection.terminate()


async def _prepare(connection: Any) -> None:
    """What a peer that vanished without a word would leave open is found out. Settings that only some versions have are made."""
    if connection.get_server_version().major >= 17:
        await connection.execute("set transaction_timeout = 0")
    transport = connection._transport
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            found.setsockopt(socket.IPPROTO_TCP, option, value)


def _check(connection: Any, address: Address) -> None:
    version = connection.get_server_version()
    if version.major < VERSION_MIN:
        raise ConfigError(
            f"{address.shown} is PostgreSQL {version.major}.{version.minor}; the queue needs {VERSION_MIN} or newer"
        )
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise ConfigError(
            f"the database of {address.shown} is encoded as {encoding}; make one with: createdb --encoding UTF8"
        )
