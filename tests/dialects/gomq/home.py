"""A queue with GoMQ's door and our own over TCP, and a client that says lines by hand."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, Presence
from ortoo.broker.access import Authenticator as Access
from ortoo.dialects.gomq import GomqDoor
from ortoo.doors.listening import ServerTls
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import GomqSettings, LimitSettings, TcpSettings
from ortoo.ports import Clock, Store
from ortoo.stores.memory import MemoryStore
from tests.doors.tcp.home import until


class Client:
    """Answers and deliveries come on one connection: whoever waits for the one keeps the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._answers: list[str] = []
        self._deliveries: list[dict[str, Any]] = []

    def say(self, *lines: str | bytes) -> None:
        for line in lines:
            self.writer.write((line.encode() if isinstance(line, str) else line) + b"\n")

    async def ask(self, line: str | bytes) -> str:
        self.say(line)
        return await self.answer()

    async def answer(self) -> str:
        while not self._answers:
            await self._read()
        return self._answers.pop(0)

    async def delivery(self) -> dict[str, Any]:
        while not self._deliveries:
            await self._read()
        return self._deliveries.pop(0)

    async def _read(self) -> None:
        async with asyncio.timeout(60):
            line = (await self.reader.readline()).decode()
        if not line:
            raise ConnectionResetError
        assert line.endswith("\n")
        if line.startswith("MESSAGE "):
            self._deliveries.append(msgspec.json.decode(line.removeprefix("MESSAGE ")))
        else:
            self._answers.append(line[:-1])

    async def nothing_comes(self) -> bool:
        """Whether a PING is answered before any delivery: what was to come would have come."""
        for _ in range(3):
            await self.ask("PING")
        return not self._deliveries

    def cut(self) -> None:
        self.writer.transport.abort()


class Home:
    """`queue` is the same queue without a door."""

    def __init__(self, broker: Broker, gate: Gate, door: GomqDoor, tcp: TcpDoor) -> None:
        self.broker = broker
        self.gate = gate
        self.door = door
        self.queue = Queue(gate.host(), consumer="host")
        self._tcp = tcp

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        client = Client(*await asyncio.open_connection(*self.door.address, limit=1 << 22))
        try:
            yield client
        finally:
            client.cut()

    def connect(self) -> Queue:
        return ortoo.connect(f"ortoo://127.0.0.1:{self._tcp.address[1]}")

    async def until_alone(self) -> None:
        """Returns when no connection is left, and what they held is back."""
        await until(lambda: not self.door._sessions)


@asynccontextmanager
async def serving(
    *,
    access: Access | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
    limits: LimitSettings | None = None,
    budget: int = 1 << 30,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Home]:
    broker = Broker(store or MemoryStore(), clock or SystemClock())
    shared = (access or Authenticator(None), limits or LimitSettings(), Budget(budget), Presence(broker))
    gates = {name: Gate(name, broker, *shared) for name in ("gomq", "tcp")}
    door = GomqDoor(gates["gomq"], GomqSettings(port=0), tls=None if tls is None else ServerTls(lambda: tls))
    tcp = TcpDoor(gates["tcp"], TcpSettings(port=0))
    async with AsyncExitStack() as stack:
        await broker.open()
        stack.push_async_callback(broker.close)
        for one in (door, tcp):
            await one.open()
            stack.push_async_callback(one.close, 1)
        yield Home(broker, gates["gomq"], door, tcp)
