"""Connections: uvicorn's HTTP and WebSocket protocols, with our limits, our errors and our log.

What is added: the gate's count of connections, a bound on the head of a request and on how long it may take, problem
documents for what is not HTTP, and telling the request that is being served that its client has gone, also when the client
had sent the next one already.
"""

from __future__ import annotations

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from ortoo.broker.gate import Gate
from ortoo.model.errors import InvalidError, OrtooError, TooManyError

from .problems import CONTENT_TYPE, Refusal, encode_problem, problem_headers, to_problem

HEAD_BYTES_MAX = 64 * 1024
HEAD_SECONDS = 30.0

log = logging.getLogger("ortoo.http")


_H2C = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n|$)", re.IGNORECASE)


def _without_h2c(data: bytes) -> bytes:
    """Some clients offer HTTP/2 with every first request. The parser would take that as an upgrade and drop the body."""
    if data.find(b"h2c", 0, HEAD_BYTES_MAX) < 0:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return _H2C.sub(b"", head) + end + rest


class Connection(HttpToolsProtocol):
    def __init__(self, config: Config, server_state: ServerState, gate: Gate) -> None:
        super().__init__(config, server_state, {"gate": gate})
        self.logger = log
        self.access_log = False
        self._gate = gate
        self._entered = False
        self._running: RequestResponseCycle | None = None
        self._head_bytes = 0
        self._in_head = False
        self._quiet_since: float | None = None  # no request has come together since then; None while one is served
        self._consumer = ""

    @property
    def consumer(self) -> str:
        """The name of a consumer that gives none."""
        if not self._consumer:
            self._consumer = f"http-{uuid4().hex}"
        return self._consumer

    @property
    def is_gone(self) -> bool:
        return self.transport.is_closing()

    def cut(self) -> None:
        """Ends it in the middle of an answer."""
        if self._running is not None:
            self._running.disconnected = True
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._quiet_since = self.loop.time()
        try:
            self._gate.enter()
            self._entered = True
        except TooManyError as error:
            self._refuse(error)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        if self._entered:
            self._entered = False
            self._gate.leave()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if not self._in_head and (self.cycle is None or not self.cycle.more_body):
            data = _without_h2c(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._entered = False  # the WebSocket leaves in our place
                self.handle_websocket_upgrade()
        except httptools.HttpParserError as error:
            self._refuse(InvalidError(f"this is not an HTTP request: {error}"))
        else:
            self._bound_head(len(data))

    def _bound_head(self, size: int) -> None:
        if self._in_head:
            self._head_bytes += size
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(Refusal(431, f"the head of a request has at most {HEAD_BYTES_MAX} bytes"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["connection"] = self
        self._in_head, self._head_bytes = True, 0
        self._quiet_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        self._quiet_since = None
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._quiet_since = self.loop.time()
        super().on_response_complete()

    def sweep(self, now: float) -> None:
        """A connection that does not get a request together in time makes room for others."""
        waits_for_next = self.timeout_keep_alive_task is not None  # then that one closes it
        if self._quiet_since is not None and not waits_for_next and now - self._quiet_since > HEAD_SECONDS:
            self.transport.close()

    def _refuse(self, error: OrtooError | Refusal) -> None:
        """An answer to what could not be read, after those that are under way; then the connection ends."""
        running = self._running
        if running is not None and not running.response_complete:
            if not running.more_body:
                self.cycle.keep_alive = False
                self.flow.pause_reading()
                return
            running.disconnected = True  # it was waiting for this body
            running.message_event.set()
            if running.response_started:
                self.transport.close()
                return
        problem = to_problem(error)
        body = encode_problem(problem)
        headers = [
            (b"content-type", CONTENT_TYPE),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *problem_headers(error, problem.status),
            *self.server_state.default_headers,
        ]
        phrase = HTTPStatus(problem.status).phrase
        lines = [f"HTTP/1.1 {problem.status} {phrase}".encode(), *(b"%b: %b" % header for header in headers)]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.transport.close()


class Socket(WebSocketsSansIOProtocol):
    """A connection that has become a WebSocket."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _Quiet(log)  # type: ignore[assignment]
        self.conn.logger = self.logger
        self._gate: Gate = app_state["gate"]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gate.leave()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # it was refused, and that is the end of it

    def data_received(self, data: bytes) -> None:
        if self.conn.parser_exc is None and not self.transport.is_closing():
            super().data_received(data)

    def sweep(self, now: float) -> None:
        """Its own pings find out whether it lives."""


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """uvicorn tells of every WebSocket that comes; that belongs on the level of details."""

    level = logging.DEBUG

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        self.logger.debug(msg, *args, **kwargs)
