"""A TCP door that really listens, on a free port, over a queue in memory; and a client by hand, frame by frame."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import AddressLimits, Broker, Budget, Gate
from ortoo.doors.listening import ServerTls
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import LimitSettings, TcpSettings
from ortoo.ports import Clock, Store
from ortoo.stores.memory import MemoryStore
from ortoo.wire import protocol as p
from ortoo.wire.frames import HEAD_BYTES, encode_frame

CLOSED = "closed"


class Home:
    """`queue` is the same queue without the door, to look at what a request did."""

    def __init__(self, broker: Broker, gate: Gate, door: TcpDoor) -> None:
        self.broker = broker
        self.gate = gate
        self.door = door
        self.queue = Queue(gate.host(), consumer="host")
        self.host, self.port = door.address
        self.url = f"ortoo://127.0.0.1:{self.port}"

    def connect(self, **options: Any) -> Queue:
        return ortoo.connect(self.url, **options)

    @asynccontextmanager
    async def wire(self, *, greets: bool = True, source: str = "127.0.0.1") -> AsyncIterator[Wire]:
        reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=(source, 0))
        wire = Wire(reader, writer)
        try:
            if greets:
                assert (await wire.hello())[0] == p.ANSWER
            yield wire
        finally:
            wire.cut()

    async def fill(self) -> None:
        """Makes a topic that has room for one job, and has it."""
        await self.queue.create_topic("jobs", max_depth=1)
        await self.queue.create_group("jobs", "default")
        await self.queue.publish("jobs", b"full")

    async def waiters(self, count: int) -> None:
        """Returns when so many consumers wait."""
        await until(lambda: len(self.broker.waiters) == count)


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._id = 0

    def send(self, *requests: tuple[int, Any]) -> None:
        """Together, so that they arrive in one piece."""
        self.writer.write(b"".join(encode_frame(request) for request in requests))

    async def receive(self) -> tuple[int, int, Any]:
        """Kind, id and body; CLOSED in the place of the kind when the server has closed the connection."""
        while True:
            try:
                async with asyncio.timeout(300):
                    head = await self.reader.readexactly(HEAD_BYTES)
                    body = await self.reader.readexactly(int.from_bytes(head, "big"))
            except (asyncio.IncompleteReadError, ConnectionError):
                return CLOSED, 0, None  # type: ignore[return-value]
            kind, request_id, content = msgspec.msgpack.decode(body)
            if (kind, request_id, content) != (p.ANSWER, 0, None):  # a mere sign of life
                return kind, request_id, content

    async def hello(self, token: str | None = None) -> tuple[int, int, Any]:
        self.send((0, p.Hello(p.PROTOCOL, "by hand", token)))
        return await self.receive()

    async def ask(self, request: Any) -> tuple[int, Any]:
        """Kind and body of the next frame, which must be the answer."""
        self._id += 1
        self.send((self._id, request))
        kind, request_id, body = await self.receive()
        assert request_id == self._id, (kind, request_id, body)
        return kind, body

    async def is_closed(self) -> bool:
        return (await self.receive())[0] == CLOSED  # type: ignore[comparison-overlap]

    def cut(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def serving(
    *,
    token: str | None = None,
    connections: int = 1000,
    budget: int = 1 << 30,
    port: int = 0,
    clock: Clock | None = None,
    store: Store | None = None,
    tls: ssl.SSLContext | None = None,
    addresses: AddressLimits | None = None,
) -> AsyncIterator[Home]:
    broker = Broker(store or MemoryStore(), clock or SystemClock())
    await broker.open()
    limits = LimitSettings(connections=connections)
    gate = Gate("tcp", broker, Authenticator(token), limits, Budget(budget), addresses=addresses)
    door = TcpDoor(gate, TcpSettings(port=port), tls=None if tls is None else ServerTls(lambda: tls))
    await door.open()
    try:
        yield Home(broker, gate, door)
    finally:
        await door.close(1)
        await broker.close()


async def until(is_so: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = 300) -> None:
    """Returns when it is so; for what tells nobody that it has happened."""
    async with asyncio.timeout(seconds):
        while True:
            found = is_so()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.001)
