"""A queue that Queen's clients reach on our own port and on one of theirs, and ours over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import msgspec

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, Presence
from ortoo.broker.access import Authenticator as Access
from ortoo.dialects.queen import QUEEN
from ortoo.doors.http import HttpDoor
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.ports import Clock, Store
from ortoo.stores.memory import MemoryStore

API = "/api/v1"


class Home:
    """`web` is a client of the shared port, `own` of Queen's own, `queue` is the same queue without a door."""

    def __init__(self, broker: Broker, gate: Gate, web: str, own: str, tcp: str) -> None:
        self.broker = broker
        self.queue = Queue(gate.host(), consumer="host")
        self.url, self.own_url = web, own
        self.web = httpx.AsyncClient(base_url=web, timeout=60, limits=httpx.Limits(max_connections=None))
        self.own = httpx.AsyncClient(base_url=own, timeout=60)
        self.tcp = tcp

    def connect(self) -> Queue:
        return ortoo.connect(self.tcp)

    async def post(self, path: str, body: Any = None, expected: int | None = None, /, **query: Any) -> Any:
        response = await self.web.post(API + path, json=body, params=query)
        return _checked(response, expected)

    async def get(self, path: str, expected: int | None = None, /, **query: Any) -> Any:
        return _checked(await self.web.get(API + path, params=query), expected)

    async def delete(self, path: str, expected: int | None = None, /, **query: Any) -> Any:
        return _checked(await self.web.delete(API + path, params=query), expected)

    async def configure(self, queue: str, options: Any = None, **more: Any) -> Any:
        return await self.post("/configure", {"queue": queue, "options": options or {}, **more}, 201)

    async def push(self, queue: str, *payloads: Any, **more: Any) -> list[dict[str, Any]]:
        """As a client of the first generation: it says `config`."""
        items = [{"queue": queue, "payload": payload, **more} for payload in payloads]
        answer = await self.post("/push", {"items": items, "config": {}}, 201)
        found: list[dict[str, Any]] = answer["messages"]
        return found

    async def pop(self, queue: str, partition: str | None = None, **query: Any) -> list[dict[str, Any]]:
        path = f"/pop/queue/{queue}" + (f"/partition/{partition}" if partition else "")
        answer = await self.get(path, **query)
        found: list[dict[str, Any]] = [] if answer is None else answer["messages"]
        return found

    async def ack(self, message: dict[str, Any], status: str = "completed", **more: Any) -> Any:
        """As a client of the first generation."""
        return await self.post("/ack", {"transactionId": message["transactionId"], "status": status, **more}, 200)

    async def later_ack(self, message: dict[str, Any], status: str = "completed", **more: Any) -> Any:
        names = ("transactionId", "partitionId", "leaseId")
        body = {name: message[name] for name in names} | {"status": status, **more}
        return await self.post("/ack", body, 200)


def _checked(response: httpx.Response, status: int | None) -> Any:
    """What was answered; None for 204."""
    if status is not None:
        assert response.status_code == status, response.text
    else:
        assert response.is_success, response.text
    return None if response.status_code == 204 else msgspec.json.decode(response.content)


async def _no_metrics(link: object = None) -> bytes:
    return b""


@asynccontextmanager
async def serving(
    *,
    access: Access | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
    settings: HttpSettings | None = None,
    auto_create: bool = True,
) -> AsyncIterator[Home]:
    broker = Broker(store or MemoryStore(), clock or SystemClock(), auto_create=auto_create)
    budget, presence, limits = Budget(1 << 30), Presence(broker), LimitSettings()
    access = access or Authenticator(None)
    gates = {name: Gate(name, broker, access, limits, budget, presence) for name in ("http", "queen", "tcp")}
    settings = msgspec.structs.replace(settings or HttpSettings(), port=0)
    web = HttpDoor(gates["http"], settings, metrics=_no_metrics, ready=lambda: None, dialects=[QUEEN])
    own = HttpDoor(gates["queen"], settings, metrics=_no_metrics, ready=lambda: None, own=QUEEN)
    tcp = TcpDoor(gates["tcp"], TcpSettings(port=0))
    async with AsyncExitStack() as stack:
        await broker.open()
        stack.push_async_callback(broker.close)
        for door in (web, own, tcp):
            await door.open()
            stack.push_async_callback(door.close, 1)
        shared, alone = (f"http://127.0.0.1:{door.address[1]}" for door in (web, own))
        home = Home(broker, gates["http"], shared, alone, f"ortoo://127.0.0.1:{tcp.address[1]}")
        stack.push_async_callback(home.web.aclose)
        stack.push_async_callback(home.own.aclose)
        yield home
