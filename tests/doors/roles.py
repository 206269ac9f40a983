"""A queue behind both doors whose clients are told apart: each role has a token of its own name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from ortoo.app.clock import SystemClock
from ortoo.app.metrics import Metrics
from ortoo.broker import Broker, Budget, Gate, Presence, Throttle
from ortoo.doors.http import HttpDoor
from ortoo.doors.tcp import TcpDoor
from ortoo.model.access import EVERYTHING, Grant, Principal
from ortoo.model.errors import UnauthenticatedError
from ortoo.model.peer import PeerCertificate
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.ports import Clock
from ortoo.stores.memory import MemoryStore
from tests.doors.tcp.home import Home

OURS, THEIRS = "payments", "shipping"

ROLES: dict[str, tuple[Grant, ...]] = {
    "server": (EVERYTHING,),
    "admin": (Grant(("admin",), OURS),),
    "reader": (Grant(("read",), OURS),),
    "writer": (Grant(("write",), OURS),),
    "worker": (Grant(("read", "write"), OURS),),
    "orders admin": (Grant(("admin",), OURS, ("orders",)),),
    "mails admin": (Grant(("admin",), OURS, ("mails*",)),),
    "stranger": (Grant(("admin",), THEIRS),),
    "nobody": (),
}


class Roles:
    """Authenticates by name. Whose token is in `revoked` has lost it."""

    needs_token = True

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    @property
    def version(self) -> int:
        return len(self.revoked)

    def now(self) -> float:
        return 1.0

    def admit(self, token: str | None, certificate: PeerCertificate | None = None) -> Principal:
        if token not in ROLES or token in self.revoked:
            raise UnauthenticatedError("this server asks for the name of a role")
        return Principal(token, ROLES[token], token=token)

    def valid_until(self, principal: Principal) -> float:
        return 0.0 if principal.name in self.revoked else 2.0


class Shared(Home):
    """A queue with both doors, and a client for each role."""

    def __init__(
        self, broker: Broker, gate: Gate, tcp: TcpDoor, http: HttpDoor, roles: Roles, throttle: Throttle
    ) -> None:
        super().__init__(broker, gate, tcp)
        self.throttle = throttle
        self.roles = roles
        self.http = http
        self.base = f"http://127.0.0.1:{http.address[1]}"
        self.web = httpx.AsyncClient(base_url=self.base, timeout=60)

    async def ask(self, role: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {role}"}
        return await self.web.request(method, path, json=body, headers=headers)


@asynccontextmanager
async def serving_roles(lake: str | None = None, clock: Clock | None = None) -> AsyncIterator[Shared]:
    broker, budget, roles = Broker(MemoryStore(), clock or SystemClock()), Budget(1 << 30), Roles()
    presence, throttle = Presence(broker), Throttle(broker)
    gates = {
        name: Gate(name, broker, roles, LimitSettings(), budget, presence, throttle=throttle)
        for name in ("tcp", "http")
    }
    tcp = TcpDoor(gates["tcp"], TcpSettings(port=0))
    metrics = Metrics(broker)
    http = HttpDoor(gates["http"], HttpSettings(port=0), metrics=metrics.render, ready=lambda: None, lake=lake)
    await broker.open()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(broker.close)
        for door in (tcp, http):
            await door.open()
            stack.push_async_callback(door.close, 1)
        home = Shared(broker, gates["tcp"], tcp, http, roles, throttle)
        stack.push_async_callback(home.web.aclose)
        yield home
