"""The HTTP door: it listens, it closes. What comes in through it is served in app.py and stream.py."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from importlib.metadata import version
from typing import Any

import msgspec
from uvicorn import Config
from uvicorn.server import ServerState

from ortoo.broker.gate import Gate
from ortoo.doors.listening import Listening, ServerTls, bound_address, listen, shown_address
from ortoo.model.errors import ConfigError, InvalidError
from ortoo.model.settings import HttpSettings

from .answers import guarding_headers
from .app import App
from .call import ForeignSocket, HttpServices, Metrics, Ready, Receive, Scope, Send
from .connection import Connection, to_answer
from .dashboard import INDEX, Dashboard
from .monitoring import Analytics
from .openapi import Description
from .publishing import Inboxes
from .routing import Dialect, Router, SocketHandler
from .table import ROUTES
from .websocket import Socket

_SWEEP_TICKS = 10
_KEEP_ALIVE_SECONDS = 75
_INBOX_SECONDS = 1.0  # to tidy up after requests and their answers


class HttpDoor:
    """Runs in the event loop of whoever opens it; takes no signals and configures no logging."""

    def __init__(
        self,
        gate: Gate,
        settings: HttpSettings,
        *,
        tls: ServerTls | None = None,
        metrics: Metrics,
        ready: Ready,
        lake: str | None = None,
        dialects: Sequence[Dialect] = (),
        own: Dialect | None = None,
        sockets: Mapping[bytes, ForeignSocket] | None = None,
    ) -> None:
        """`dialects` are served beside our own routes; `own` is served alone, and whole: the port is its own. `sockets` are those
        of other doors, by path."""
        self._gate = gate
        self._settings = settings
        self._tls = tls
        self._headers = [(b"server", b"ortoo"), *guarding_headers(tls is not None)]
        description = Description(ROUTES, version("ortoo"))
        self._services = HttpServices(
            gate, settings, metrics, ready, description, Analytics(lake), Inboxes(gate.host())
        )
        self._app = App(self._services, *_routes(dialects, own, settings.dashboard), sockets)
        self._state = ServerState()
        self._server: Listening | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticks = 0

    async def open(self) -> None:
        """Listening when it returns. ConfigError when the address cannot be had."""
        host, port = self._settings.host, self._settings.port
        config = Config(
            self._serve,
            http=Connection,
            ws=Socket,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            ws_max_size=self._settings.max_body_bytes,
            ws_per_message_deflate=False,
        )
        config.load()
        try:
            self._server = await listen(
                "http",
                lambda: Connection(config, self._state, self._gate),
                (host, port),
                self._tls,
                self._answer_plain,
                backlog=4096,
                mode=self._settings.socket_mode,
            )
        except OSError as error:
            raise ConfigError(
                f"HTTP cannot listen on {shown_address(host, port)}: {error.strerror or error}"
            ) from error
        self._tick()

    def _answer_plain(self, first: bytes) -> bytes:
        """To a client that does not speak TLS."""
        return to_answer(InvalidError("this port speaks TLS: use https://"), self._state.default_headers)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as bound."""
        assert self._server is not None, "the door is not open"
        return bound_address(self._server, self._settings.host)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            pass  # by `close`, when the time was over; the connection is cut already

    def _tick(self) -> None:
        """Once a second: the date for answers, and now and then a look at who sits there idle."""
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode()), *self._headers]
        self._ticks += 1
        loop = asyncio.get_running_loop()
        if self._ticks % _SWEEP_TICKS == 0:
            now = loop.time()
            for connection in list(self._state.connections):
                connection.sweep(now)  # type: ignore[union-attr]
        self._timer = loop.call_later(1.0, self._tick)

    async def close(self, grace: float = 10.0) -> None:
        """Stops listening, ends long polls and WebSockets, lets other requests finish for `grace` seconds, then ends all."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._services.end_waiting()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=grace)
        await self._end_all()
        if self._timer is not None:
            self._timer.cancel()

    async def _end_all(self) -> None:
        for left in list(self._state.connections):
            left.transport.abort()
        await asyncio.sleep(0)  # lets the connections know
        tasks: list[asyncio.Task[Any]] = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await asyncio.wait_for(self._services.inboxes.close(), _INBOX_SECONDS)
        except TimeoutError:
            pass  # retention removes what is left of them


def _routes(
    dialects: Sequence[Dialect], own: Dialect | None, with_dashboard: bool
) -> tuple[Router, Dialect | None, dict[bytes, SocketHandler]]:
    if own is not None:
        whole = msgspec.structs.replace(own, routes=own.routes + own.own_routes)
        return Router((), [whole]), own, dict(own.sockets)
    routes = [*ROUTES, *Dashboard().routes] if with_dashboard else [*ROUTES, INDEX]
    return Router(routes, dialects), None, {path: found for each in dialects for path, found in each.sockets.items()}
