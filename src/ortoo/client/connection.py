"""One connection to a server: frames in and out, hello first. What is asked through it is in link's hands."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import msgspec

from ortoo.model.errors import OrtooError, ProtocolError, UnavailableError
from ortoo.wire import protocol as p
from ortoo.wire.frames import Splitter, encode_frame
from ortoo.wire.outbox import Outbox

from .address import UNIX
from .tls import explain

Receive = Callable[[int, int, msgspec.Raw], None]  # kind, id, body

_GOODBYE_SECONDS = 1.0


class Connection(asyncio.Protocol):
    def __init__(self, receive: Receive, lost: Callable[[Connection, OrtooError], None]) -> None:
        self._receive = receive
        self._lost = lost
        self._splitter = Splitter(p.FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._reason: OrtooError | None = None
        self._welcomed: asyncio.Future[p.Welcome] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self.place = "the server"  # in errors
        self.heard = 0.0
        self.missed = 0.0  # seconds since then in which we stood still ourselves, and could not have asked or heard
        self.idle_seconds = 30.0
        self.is_given_up = False  # it fell silent

    async def greet(self, hello: p.Hello, seconds: float) -> None:
        """OrtooError when the server does not let us in."""
        self.send(encode_frame((0, hello)))
        try:
            async with asyncio.timeout(seconds):
                welcome = await self._welcomed
        except TimeoutError:
            raise UnavailableError(f"the server did not say hello within {seconds:g} seconds") from None
        finally:
            if self._welcomed.cancelled():  # nobody waits for the welcome any more
                self.abort(UnavailableError("the server took the connection and then said nothing"))
        self.idle_seconds = welcome.idle_ms / 1000

    def send(self, frame: bytearray) -> None:
        if self._outbox is not None:
            self._outbox.put(frame)

    @property
    def silent_at(self) -> float:
        """When the server is taken for gone, unless something is heard of it until then."""
        return self.heard + self.missed + self.idle_seconds

    def give_up(self) -> None:
        self.is_given_up = True
        self.abort(UnavailableError(f"the server has been silent for {self.idle_seconds:g} seconds"))

    async def close(self) -> None:
        if self._transport is None or self._outbox is None:
            return
        self._outbox.flush()
        self._transport.close()
        if self._transport.get_extra_info("sslcontext") is None:
            return
        try:  # TLS says goodbye and waits for the answer; the event loop may end before that, and would complain
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()
            await asyncio.sleep(0)

    def abort(self, reason: OrtooError) -> None:
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._outbox = Outbox(asyncio.get_running_loop().call_soon, transport.write)  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()
        refusal = explain(error, self.place) if error is not None else None  # TLS 1.3 refuses after the handshake
        reason = self._reason or refusal
        reason = reason or UnavailableError(f"the connection was lost: {error or 'the server closed it'}")
        if not self._welcomed.done():
            self._welcomed.set_exception(reason)
            self._welcomed.exception()  # who would have greeted may have gone already
        elif not self._welcomed.cancelled() and self._welcomed.exception() is None:
            self._lost(self, reason)

    def data_received(self, data: bytes) -> None:
        self.heard, self.missed = asyncio.get_running_loop().time(), 0.0
        try:
            for body in self._splitter.feed(data):
                self._take(*p.decode_response(body))
        except ProtocolError as error:
            self.abort(error)

    def _take(self, kind: int, request_id: int, body: msgspec.Raw) -> None:
        if self._welcomed.done() and request_id:
            self._receive(kind, request_id, body)
        elif kind == p.ERROR:
            self.abort(p.to_error(p.decode_from_server(p.problem_decoder, body)))
        elif kind == p.GOODBYE:
            self._reason = UnavailableError("the server is stopping")  # once it has answered what is under way
        elif not self._welcomed.done():
            self._welcomed.set_result(p.decode_from_server(p.welcome_decoder, body))


async def connect_to(
    host: str, port: int, tls: ssl.SSLContext | None, make: Callable[[], Connection], seconds: float
) -> Connection:
    """UnavailableError when nobody answers there, ConfigError when there is no TLS with whoever does."""
    loop, place = asyncio.get_running_loop(), host if host.startswith(UNIX) else f"{host}:{port}"

    def make_here() -> Connection:
        connection = make()
        connection.place = place
        return connection

    try:
        async with asyncio.timeout(seconds):
            if host.startswith(UNIX):
                _, connection = await loop.create_unix_connection(make_here, host.removeprefix(UNIX))
            else:
                _, connection = await loop.create_connection(make_here, host, port, ssl=tls)
    except TimeoutError:
        raise UnavailableError(f"{place} did not answer within {seconds:g} seconds") from None
    except OSError as error:
        refusal = explain(error, place)
        if refusal is not None:
            raise refusal from None
        reason = error.strerror or str(error) or "it hung up during the TLS handshake"
        raise UnavailableError(f"no Ortoo server at {place} ({reason}); `ortoo serve` starts one") from None
    return connection
