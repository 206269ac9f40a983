"""A queue that mqueue's clients reach on our own port and on one of theirs, and ours over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, Presence
from ortoo.broker.access import Authenticator as Access
from ortoo.dialects.mqueue import MQUEUE
from ortoo.doors.http import HttpDoor
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.ports import Clock, Store
from ortoo.stores.memory import MemoryStore


class Home:
    """`web` is a client of the shared port, `own` of mqueue's own, `queue` is the same queue without a door."""

    def __init__(self, broker: Broker, gate: Gate, web: str, own: str, tcp: str) -> None:
        self.broker = broker
        self.queue = Queue(gate.host(), consumer="host")
        self.web = httpx.AsyncClient(base_url=web, timeout=60)
        self.own = httpx.AsyncClient(base_url=own, timeout=60)
        self.tcp = tcp

    def connect(self) -> Queue:
        return ortoo.connect(self.tcp)


async def _no_metrics(link: object = None) -> bytes:
    return b""


@asynccontextmanager
async def serving(
    *,
    access: Access | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
    settings: HttpSettings | None = None,
    reason: str | None = None,
    auto_create: bool = True,
) -> AsyncIterator[Home]:
    broker = Broker(store or MemoryStore(), clock or SystemClock(), auto_create=auto_create)
    budget, presence, limits = Budget(1 << 30), Presence(broker), LimitSettings()
    access = access or Authenticator(None)
    gates = {name: Gate(name, broker, access, limits, budget, presence) for name in ("http", "mqueue", "tcp")}
    settings = settings or HttpSettings(port=0)
    web = HttpDoor(gates["http"], settings, metrics=_no_metrics, ready=lambda: reason, dialects=[MQUEUE])
    own = HttpDoor(gates["mqueue"], settings, metrics=_no_metrics, ready=lambda: reason, own=MQUEUE)
    tcp = TcpDoor(gates["tcp"], TcpSettings(port=0))
    async with AsyncExitStack() as stack:
        await broker.open()
        stack.push_async_callback(broker.close)
        for door in (web, own, tcp):
            await door.open()
            stack.push_async_callback(door.close, 1)
        ports = [door.address[1] for door in (web, own, tcp)]
        urls = [f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}", f"ortoo://127.0.0.1:{ports[2]}"]
        home = Home(broker, gates["http"], *urls)
        stack.push_async_callback(home.web.aclose)
        stack.push_async_callback(home.own.aclose)
        yield home
