"""A door that really listens, on a free port, over a queue in memory; and the client to call it with."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker
from ortoo.broker.addresses import AddressLimits
from ortoo.broker.budget import Budget
from ortoo.broker.gate import Gate
from ortoo.doors.http import HttpDoor
from ortoo.doors.http.routing import Dialect
from ortoo.doors.listening import ServerTls
from ortoo.model.settings import HttpSettings, LimitSettings
from ortoo.ports import Clock, Store
from ortoo.stores.memory import MemoryStore


async def until(condition: Callable[[], bool]) -> None:
    """For what nobody is told of: looks again at every turn of the loop."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


class Home:
    """`queue` is the same queue without HTTP, to look at what a request did."""

    def __init__(self, broker: Broker, gate: Gate, door: HttpDoor) -> None:
        self.broker = broker
        self.gate = gate
        self.door = door
        self.queue = Queue(gate.host())
        self.host, self.port = door.address
        self.url = f"http://{self.host}:{self.port}"
        self.stream_url = f"ws://{self.host}:{self.port}/v1/stream"
        self.client = httpx.AsyncClient(base_url=self.url, timeout=300)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is None:
            return await self.client.post(path, **options)
        headers = {"content-type": "application/json", **options.pop("headers", {})}
        return await self.client.post(path, content=msgspec.json.encode(body), headers=headers, **options)

    async def publish(self, topic: str, *values: Any) -> list[dict[str, Any]]:
        """In several requests, for a body has its bound."""
        results: list[dict[str, Any]] = []
        for at in range(0, len(values), 20):
            messages = [{"value": value} for value in values[at : at + 20]]
            response = await self.post(f"/v1/topics/{topic}/messages", {"messages": messages})
            assert response.status_code == 201, response.text
            results += response.json()["results"]
        return results

    async def lease(self, topic: str, group: str = "g", **body: Any) -> list[dict[str, Any]]:
        response = await self.post(f"/v1/topics/{topic}/groups/{group}/lease", {"max_messages": 100, **body})
        assert response.status_code == 200, response.text
        messages: list[dict[str, Any]] = response.json()["messages"]
        return messages

    async def raw(self, data: bytes) -> bytes:
        """Sends bytes as they are and reads until the server closes."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(data)
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()

    async def waiters(self, count: int) -> None:
        """Returns when so many consumers wait."""
        await until(lambda: len(self.broker.waiters) == count)


async def _no_metrics(*asked: object) -> bytes:
    return b"up 1\n"


@asynccontextmanager
async def serving(
    *,
    token: str | None = None,
    settings: HttpSettings | None = None,
    limits: LimitSettings | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
    reason: str | None = None,
    auto_create: bool = True,
    tls: ssl.SSLContext | None = None,
    lake: str | None = None,
    addresses: AddressLimits | None = None,
    own: Dialect | None = None,
) -> AsyncIterator[Home]:
    broker = Broker(store or MemoryStore(), clock or SystemClock(), auto_create=auto_create)
    await broker.open()
    limits = limits or LimitSettings()
    gate = Gate("http", broker, Authenticator(token), limits, Budget(limits.in_flight_bytes), addresses=addresses)
    settings = msgspec.structs.replace(settings or HttpSettings(), port=0)
    secured = None if tls is None else ServerTls(lambda: tls)
    door = HttpDoor(gate, settings, metrics=_no_metrics, ready=lambda: reason, tls=secured, lake=lake, own=own)
    await door.open()
    home = Home(broker, gate, door)
    try:
        yield home
    finally:
        await home.client.aclose()
        await door.close(5)
        await broker.close()
