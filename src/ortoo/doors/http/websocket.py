"""WebSockets: uvicorn's protocol, with our limits and our errors.

What is added: a bound on what is parsed in one turn of the event loop and on the control frames of a second, a share of the
budget for messages that are not whole yet, and an end to connections whose clients are gone or take nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import SecurityError
from websockets.frames import CloseCode, Frame

from ortoo.broker.addresses import Visit
from ortoo.broker.budget import Share
from ortoo.broker.gate import Gate
from ortoo.doors.unsent import unsent

from .answers import Refusal
from .connection import Unread, to_answer

SLICE_BYTES = 4 * 1024  # parsed in one turn: at most some hundred frames
CONTROLS_MAX = 1_000  # pings and pongs in a second
PIECE_SECONDS = 30.0  # between two pieces of a message

log = logging.getLogger("ortoo.http")


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
        self.conn.debug = False  # it would log headers and frames, and with them tokens and messages
        self._gate: Gate = app_state["gate"]
        self._visit: Visit = app_state["visit"]
        self._unread = Unread()
        self._unread_bytes = 0  # when the last ping was sent
        self._has_read = False  # since then
        self._pong = b""  # owed to a client that takes nothing now
        self._share = Share(self._gate.budget, self._resume, self._cut)  # of a message that is not whole yet
        self._has_room = True
        self._grown_at = 0.0
        self._rest = b""  # of what was read: parsed in later turns
        self._is_due = False  # that will happen
        self._controls = 0  # control frames in this second
        self._controls_since = 0.0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visit.leave()
        self._share.give_back(self._share.bytes)
        self._share.leave()

    # -- reading

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # by the parser of requests, which has counted it
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._refuse(self.conn.handshake_exc)
            return
        is_next = not self._rest
        self._rest += data
        if is_next:
            self._parse()

    def _parse(self) -> None:
        """One slice in a turn: frames with nothing in them are many, and others are to be served meanwhile."""
        self._is_due = False
        if self.read_paused or not self._has_room:
            return
        data, self._rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
        if self.conn.parser_exc is None and not self.transport.is_closing():
            super().data_received(data)
            self._count()
        if self.conn.parser_exc is not None or self.transport.is_closing():
            self._rest = b""
        else:
            self._read_on()

    def _read_on(self) -> None:
        """If it may: first what is left of the last read, then more."""
        if self._rest or self.read_paused or not self._has_room:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()
        if self._rest and not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._parse)

    def _count(self) -> None:
        """A message counts from its first byte; once it is whole, the session counts it."""
        held, known = len(self.conn.reader.buffer) + sum(map(len, self.frames)), self._share.bytes
        if held > known:
            self._share.take(held - known)
            self._grown_at = self.loop.time()
        else:
            self._share.become(known - held)
            self._share.expect(False)  # what comes after it is begun anew
        self._share.expect(held > 0 and not self.read_paused)
        if held and not self.transport.is_closing() and not self._share.may_go_on():
            self._has_room = False

    def _resume(self) -> None:
        self._has_room = True
        if not self.transport.is_closing():
            self._read_on()

    def _cut(self) -> None:
        """Others need what is held here, and the rest does not come."""
        self.transport.abort()

    async def receive(self) -> Any:
        message = await super().receive()
        if not self.transport.is_closing():
            self._read_on()  # uvicorn reads more when all was taken, whether it may or not
        return message

    def _refuse(self, error: Exception) -> None:
        """The parser of requests was content, the parser of handshakes is not; it would say nothing and wait."""
        text = f"this is not a WebSocket handshake: {error.__cause__ or error}"
        status = 431 if isinstance(error, SecurityError) else 400
        self.transport.write(to_answer(Refusal(status, text), self.default_headers))
        self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        """In one piece: of many small ones, each would weigh more than what is in it."""
        if not isinstance(self.frames[0], bytearray):
            self.frames = [bytearray(self.frames[0])]  # type: ignore[list-item]
        self.frames[0] += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and self.scope["state"].get("is_binary_only"):
            self.conn.fail(CloseCode.UNSUPPORTED_DATA, "only binary messages are taken here")
            self.handle_parser_exception()
            return
        self.curr_msg_data_type = "bytes"  # the reader of JSON tells what is wrong with a text
        self.frames = [bytes(self.frames[0])]
        super().send_receive_event_to_app()

    def handle_pong(self, event: Frame) -> None:
        self._note_control()
        super().handle_pong(event)

    def handle_ping(self) -> None:
        """The last one alone is answered when they come faster than answers are taken (RFC 6455, 5.5.3)."""
        self._note_control()
        output = self.conn.data_to_send()
        if self.transport.is_closing():
            return
        if self.writable.is_set() or self.conn.close_rcvd is not None:
            self.transport.write(b"".join(output))
        elif output:
            self._pong = output[-1]

    def _note_control(self) -> None:
        """Nobody needs many of them, and each costs more than the few bytes it has."""
        now = self.loop.time()
        if now - self._controls_since >= 1:
            self._controls, self._controls_since = 0, now
        self._controls += 1
        if self._controls == CONTROLS_MAX + 1 and not self.close_sent and not self.transport.is_closing():
            self.conn.fail(CloseCode.POLICY_VIOLATION, f"at most {CONTROLS_MAX} pings and pongs in a second")
            self.handle_parser_exception()

    # -- writing

    async def send(self, message: Any) -> None:
        while not self.writable.is_set():  # of those that wait, the first to write may fill it again
            await self.writable.wait()
        if self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        if message["type"] == "websocket.http.response.start":
            message["headers"] = [*self.default_headers, *message["headers"]]  # as every answer has them
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # it was refused, and that is the end of it

    def resume_writing(self) -> None:
        self._has_read = True
        super().resume_writing()
        if self._pong and not self.transport.is_closing():
            self.transport.write(self._pong)
        self._pong = b""

    # -- ending

    def send_keepalive_ping(self) -> None:
        super().send_keepalive_ping()
        self._unread_bytes, self._has_read = unsent(self.transport), False

    def keepalive_timeout(self) -> None:
        """No pong has come. Whoever is still busy with what lies before the ping, or waits for us, gets more time."""
        unread = unsent(self.transport)
        waits_for_us = (self.read_paused or not self._has_room) and self.writable.is_set()
        if waits_for_us or self._has_read or unread < self._unread_bytes:
            self._unread_bytes, self._has_read = unread, False
            assert self.ping_timeout is not None
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        self.pong_timer = None
        self.transport.abort()  # closing would wait for it to read; its consumers leave at once

    def sweep(self, now: float) -> None:
        """Pings find out whether it lives, until it is closing. A message that is begun has to come to its end."""
        waits_for_rest = self._share.bytes and self._has_room and not self.read_paused
        is_late = waits_for_rest and now - self._grown_at > PIECE_SECONDS
        if is_late or self._unread.is_stuck(self.transport, self.transport.is_closing(), now):
            self.transport.abort()


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """uvicorn tells of every WebSocket that comes, with all of its address, which may hold secrets."""

    level = logging.WARNING

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        pass
