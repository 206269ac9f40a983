"""Ortoo's own server, over TCP, every commit synced. Twice: pushed to its consumers, which is its fastest way, and as the loop
that most people write."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

import ortoo
from bench.processes import free_port, running, wait_for_port
from ortoo.client.lazy import Messages
from ortoo.client.stream import Stream

from .contender import Contender, Publish, Server, Take

TOPIC = "bench"
AHEAD = 40  # batches that the client may hold
LEASE_SECONDS = 600.0  # no lease may run out while a slow machine is measured


class Served(msgspec.Struct, frozen=True):
    """Where a server listens, and which process it is."""

    tcp_port: int
    http_port: int
    pid: int

    @property
    def url(self) -> str:
        return f"ortoo://127.0.0.1:{self.tcp_port}"


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """`options` go to `ortoo serve`."""
    tcp, http, log = free_port(), free_port(), folder / "ortoo.log"
    command = [sys.executable, "-m", "ortoo", "serve", "--data", str(folder / "data")]
    command += ["--tcp-port", str(tcp), "--http-port", str(http), "--set", "log.level=warning", *options]
    with running(command, log=log) as process:
        wait_for_port(tcp, process, log)
        wait_for_port(http, process, log)
        yield Served(tcp, http, process.pid)


class OrtooTcp(Contender):
    name = "ortoo"
    settings = 'durability "commit"'
    producers, consumers = 32, 16  # tasks of one process each; the client gathers what they do

    def version(self) -> str:
        return f"ortoo {ortoo.__version__} over TCP"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        with serving(folder) as served:
            yield Server(served.url, served.pid)

    async def prepare(self, address: str) -> None:
        async with ortoo.connect(address) as queue:
            await queue.create_topic(TOPIC)

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        async with ortoo.connect(address) as queue:

            async def publish(_: int, values: list[bytes]) -> None:
                await queue.publish_many(TOPIC, values)

            yield publish

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        async with ortoo.connect(address) as queue, AsyncExitStack() as streams:
            held: list[Stream[Messages]] = []
            turn = asyncio.Lock()  # one stream for all: they take turns at it, and ack side by side

            async def take(_: int, count: int) -> list[bytes]:
                async with turn:
                    if not held:
                        ahead = min(AHEAD * count, 10_000)
                        stream = queue.consume_batches(TOPIC, max_messages=count, prefetch=ahead, lease=LEASE_SECONDS)
                        held.append(await streams.enter_async_context(stream))
                    messages = await anext(held[0])
                await queue.ack(messages)
                return [message.value for message in messages]

            yield take


class OrtooPlain(OrtooTcp):
    name = "ortoo, plain loop"
    settings = 'durability "commit"; sixteen tasks publish_many of Messages, four tasks lease and ack'
    producers, consumers = 16, 4

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        async with ortoo.connect(address) as queue:

            async def publish(_: int, values: list[bytes]) -> None:
                await queue.publish_many(TOPIC, [ortoo.Message(value) for value in values])

            yield publish

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        async with ortoo.connect(address) as queue:

            async def take(_: int, count: int) -> list[bytes]:
                messages = await queue.lease(TOPIC, max_messages=count, wait=1.0, lease=LEASE_SECONDS)
                await queue.ack(messages)
                return [message.value for message in messages]

            yield take
