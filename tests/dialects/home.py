"""A queue that the clients of a dialect reach on our own port and on one of theirs, and ours over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import httpx
import msgspec

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, Presence
from ortoo.broker.access import Authenticator as Access
from ortoo.doors.http import HttpDoor
from ortoo.doors.http.routing import Dialect
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.ports import Clock, Store
from ortoo.stores.memory import MemoryStore


class DialectHome:
    """`web` is a client of the shared port, `own` of the dialect's own, `queue` is the same queue without a door."""

    def __init__(self, broker: Broker, gate: Gate, web: str, own: str, tcp: str) -> None:
        self.broker = broker
        self.queue = Queue(gate.host(), consumer="host")
        self.url, self.own_url = web, own
        self.web = httpx.AsyncClient(base_url=web, timeout=60, limits=httpx.Limits(max_connections=None))
        self.own = httpx.AsyncClient(base_url=own, timeout=60)
        self.tcp = tcp

    def connect(self) -> Queue:
        return ortoo.connect(self.tcp)

    async def answered(self, method: str, path: str, expected: int | None, body: Any, query: dict[str, Any]) -> Any:
        """On the shared port; None for nothing."""
        response = await self.web.request(method, path, json=body, params=query)
        assert response.status_code == expected if expected is not None else response.is_success, response.text
        return msgspec.json.decode(response.content) if response.content else None


async def no_metrics(*asked: object) -> bytes:
    return b""


H = TypeVar("H", bound=DialectHome)


@asynccontextmanager
async def serving(
    kind: type[H],
    dialect: Dialect,
    *,
    beside: Sequence[Dialect] = (),
    access: Access | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
    settings: HttpSettings | None = None,
    reason: str | None = None,
    auto_create: bool = True,
) -> AsyncIterator[H]:
    """`beside`: what else the shared port has. `reason`: why it is not ready."""
    broker = Broker(store or MemoryStore(), clock or SystemClock(), auto_create=auto_create)
    budget, presence, limits = Budget(1 << 30), Presence(broker), LimitSettings()
    access = access or Authenticator(None)
    gates = {name: Gate(name, broker, access, limits, budget, presence) for name in ("http", dialect.name, "tcp")}
    shared = msgspec.structs.replace(settings or HttpSettings(), port=0)
    alone = msgspec.structs.replace(shared, cors_origins=shared.dialect_cors_origins)  # as a server has it
    dialects = [dialect, *beside]
    web = HttpDoor(gates["http"], shared, metrics=no_metrics, ready=lambda: reason, dialects=dialects)
    own = HttpDoor(gates[dialect.name], alone, metrics=no_metrics, ready=lambda: reason, own=dialect)
    tcp = TcpDoor(gates["tcp"], TcpSettings(port=0))
    async with AsyncExitStack() as stack:
        await broker.open()
        stack.push_async_callback(broker.close)
        for door in (web, own, tcp):
            await door.open()
            stack.push_async_callback(door.close, 1)
        urls = (f"http://127.0.0.1:{door.address[1]}" for door in (web, own))
        home = kind(broker, gates["http"], next(urls), next(urls), f"ortoo://127.0.0.1:{tcp.address[1]}")
        stack.push_async_callback(home.web.aclose)
        stack.push_async_callback(home.own.aclose)
        yield home
