"""Connections: uvicorn's HTTP protocol, with our limits, our errors and our log.

What is added: the gate's count of connections, a bound on the head of a request, on its trailers, on how long it may take,
and on what is read behind requests that are not answered yet, problem documents for what is not HTTP, telling the request
that is being served that its client has gone, also when the client had sent the next one already, and an end to connections
whose clients do not take what is written to them.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import httptools
from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ortoo.broker.addresses import Visit
from ortoo.broker.gate import Gate
from ortoo.doors.peer import peer_certificate
from ortoo.doors.unsent import unsent
from ortoo.model.errors import InvalidError, OrtooError, TooManyError
from ortoo.model.peer import PeerCertificate

from .answers import PROBLEM_TYPE, Headers, Refusal, encode_problem, problem_headers, to_problem

HEAD_BYTES_MAX = 64 * 1024  # of a request; trailers and what else stands between pieces of a body have no more, either
HEADERS_MAX = 1_000  # of a request
SLICE_BYTES = 16 * 1024  # that parsers are fed with at a time
REST_BYTES = (
    64 * 1024
)  # of requests behind others; with more of them, nothing is read, not even that the client has gone
HEAD_SECONDS = 30.0
UNREAD_SECONDS = 30.0  # without taking a byte of what waits to be sent

log = logging.getLogger("ortoo.http")


def to_answer(error: OrtooError | Refusal, default_headers: Headers) -> bytes:
    """A whole answer, after which the connection ends."""
    problem = to_problem(error)
    body = encode_problem(problem)
    headers = [
        (b"content-type", PROBLEM_TYPE),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *problem_headers(error, problem.status),
        *default_headers,
    ]
    phrase = HTTPStatus(problem.status).phrase
    lines = [f"HTTP/1.1 {problem.status} {phrase}".encode(), *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join([*lines, b"", body])


def _too_large(what: str) -> Refusal:
    return Refusal(431, f"{what} has at most {HEAD_BYTES_MAX} bytes")


class Unread:
    """Whether a client takes what is written to it, judged while we wait for that and write nothing more."""

    def __init__(self) -> None:
        self._bytes = 0
        self._since: float | None = None  # no byte was taken since then

    def is_stuck(self, transport: asyncio.Transport, waits: bool, now: float) -> bool:
        size = unsent(transport)
        if not waits or self._since is None or size < self._bytes:
            self._since = now if waits else None
        self._bytes = size
        return self._since is not None and now - self._since > UNREAD_SECONDS


class _Outlet:
    """Where one answer is written to: its head leaves with the beginning of its body, in one write that wakes the client once."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] = []
        self.is_head = False  # what is written now

    def write(self, data: bytes) -> None:
        if self.is_head:
            self._held.append(data)
        elif self._held:
            self._transport.writelines([*self._held, data])
            self._held.clear()
        else:
            self._transport.write(data)

    def flush(self) -> None:
        if self._held:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


class _Cycle(RequestResponseCycle):
    """What is written to a connection that is closing goes nowhere, and that is no mistake."""

    flow: _Flow
    transport: _Outlet  # type: ignore[assignment]

    async def send(self, message: Any) -> None:
        while self.flow.write_paused and not self.transport.is_closing():
            await self.flow.drain()
        if self.transport.is_closing():
            self.disconnected = True
        self.transport.is_head = message["type"] == "http.response.start"
        await super().send(message)
        if self.response_complete:  # there may have been no body
            self.transport.flush()

    async def has_left(self) -> bool:
        """Of an answer that was sent to its end: False where its client cannot have read all of it, because it went away."""
        while self.flow.write_paused and not self.flow.is_cut:
            await self.flow.drain()
        return not (self.disconnected or self.flow.is_cut)


class _Flow(FlowControl):
    """Reads when uvicorn wants to, and nothing that was read before waits to be parsed."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_wanted = True
        self._is_held = False
        self.is_cut = False  # it ended before all was sent

    def pause_reading(self) -> None:
        self._is_wanted = False
        super().pause_reading()

    def resume_reading(self) -> None:
        self._is_wanted = True
        if not self._is_held:
            super().resume_reading()

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held
        if is_held:
            super().pause_reading()
        elif self._is_wanted:
            super().resume_reading()

    def end(self) -> None:
        """The connection is lost: what waits to be sent will not be."""
        self.is_cut = self.is_cut or self.write_paused
        self.resume_writing()


class Connection(HttpToolsProtocol):
    flow: _Flow

    def __init__(self, config: Config, server_state: ServerState, gate: Gate) -> None:
        super().__init__(config, server_state, {"gate": gate})
        self.logger = log
        self.access_log = False
        self._gate = gate
        self._entered = False
        self._visit: Visit = None  # type: ignore[assignment]  # until it has entered
        self._running: _Cycle | None = None
        self._bare_bytes = 0  # of the request being read, since its beginning or the last piece of its body
        self._rest = b""  # of what was read: parsed once the requests ahead of it are answered
        self._is_due = False  # that will happen
        self._in_head = False
        self._in_request = False
        self._quiet_since: float | None = None  # no request has come together since then; None while one is served
        self._consumer = ""
        self.peer: PeerCertificate | None = None
        self._unread = Unread()

    @property
    def consumer(self) -> str:
        """The name of a consumer that gives none."""
        if not self._consumer:
            self._consumer = f"http-{uuid4().hex}"
        return self._consumer

    @property
    def is_gone(self) -> bool:
        return self.transport.is_closing()

    @property
    def running(self) -> _Cycle:
        """The request that is being served."""
        assert self._running is not None
        return self._running

    def cut(self) -> None:
        """Ends it in the middle of an answer."""
        if self._running is not None:
            self._running.disconnected = True
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self.peer = peer_certificate(transport)
        self.app_state["peer"] = self.peer  # of every request, also of the one that becomes a WebSocket
        self._quiet_since = self.loop.time()
        try:
            self._visit = self._gate.enter(self.client[0] if self.client else None)
            self.app_state["visit"] = self._visit  # for its requests, and the WebSocket that it may become
            self._entered = True
        except TooManyError as error:
            self._refuse(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.flow.end()
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        if self._entered:
            self._entered = False
            self._visit.leave()

    # -- reading

    def data_received(self, data: bytes) -> None:
        self._rest = self._rest + data if self._rest else data
        if not self._is_due:
            self._parse()

    def _parse(self) -> None:
        """No further than the next request that has to wait: each is served in a turn of its own, and so is what is read."""
        self._is_due = False
        self._unset_keepalive_if_required()
        try:
            while self._rest and not self.pipeline and self._entered and not self.transport.is_closing():
                data, self._rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
                again = self._feed(data)
                self._rest = again + self._rest if again else self._rest
        except httptools.HttpParserError as error:
            refusal = error.__context__  # what a callback of ours raised
            if not isinstance(refusal, Refusal):
                refusal = InvalidError(f"this is not an HTTP request: {error}")
            self._refuse(refusal)
        if not self._entered:
            self._rest = b""
        elif not self.transport.is_closing():
            self.flow.hold(len(self._rest) > REST_BYTES)

    def _feed(self, data: bytes) -> bytes:
        """What is to be read again. It is fed in slices, so that no large head is made before it is counted."""
        self._bare_bytes += len(data)  # callbacks begin anew
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._on_upgrade(data[upgrade.args[0] :])
        if self._in_request and self._bare_bytes > HEAD_BYTES_MAX:
            self._refuse(_too_large("the head of a request" if self._in_head else "what is no part of a body"))
        return b""

    def _on_upgrade(self, rest: bytes) -> bytes:
        """The parser stops where another protocol may begin."""
        if self.transport.is_closing():
            return b""
        if self.parser.get_method() == b"CONNECT":
            self._refuse(Refusal(405, "CONNECT is for proxies, and this is none"))
        elif not self._should_upgrade():  # some clients offer HTTP/2 with every first request; nobody has to take it
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's, which this one replaces
            return self._head_without_upgrade() + rest
        elif self.cycle is not None and not self.cycle.response_complete:
            self._refuse(InvalidError("a WebSocket cannot begin before the requests ahead of it are answered"))
        else:
            self._entered = False  # the WebSocket leaves in our place
            self.handle_websocket_upgrade()
        return b""

    def _head_without_upgrade(self) -> bytes:
        lines = [b"%b %b HTTP/%b" % (self.scope["method"].encode(), self.url, self.scope["http_version"].encode())]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["connection"] = self
        self._in_head, self._in_request, self._bare_bytes = True, True, 0
        self._quiet_since = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are nobody's headers: they come after everything was decided."""
        if self._in_head:
            if len(self.headers) >= HEADERS_MAX:
                raise Refusal(431, f"a request has at most {HEADERS_MAX} headers")
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES_MAX:
            raise _too_large("the head of a request")
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            return
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = self.parser.get_http_version()

    def on_body(self, body: bytes) -> None:
        self._bare_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_request = False
        if not self.parser.should_upgrade():  # else there is nothing yet that it would be the end of
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.__class__ = _Cycle  # uvicorn makes them where nobody can say of which class
        assert isinstance(cycle, _Cycle)
        cycle.transport = _Outlet(self.transport)
        self._running = cycle
        self._quiet_since = None
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._quiet_since = self.loop.time()
        super().on_response_complete()
        if self._rest and not self.pipeline and not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._parse)

    # -- ending

    def sweep(self, now: float) -> None:
        """A connection that gets no request together in time, or takes no answer, makes room for others."""
        waits_for_next = self.timeout_keep_alive_task is not None  # then that one closes it
        if self._quiet_since is not None and not waits_for_next and now - self._quiet_since > HEAD_SECONDS:
            self.transport.close()
        if self._unread.is_stuck(self.transport, self.flow.write_paused or self.is_gone, now):
            self.transport.abort()

    def _refuse(self, error: OrtooError | Refusal) -> None:
        """An answer to what could not be read, after those that are under way; then the connection ends."""
        running = self._running
        self._rest = b""
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
        self.transport.write(to_answer(error, self.server_state.default_headers))
        self.transport.close()
