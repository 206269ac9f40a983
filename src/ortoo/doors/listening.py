"""Listening for connections, plain or with TLS.

With TLS, connections are taken in here and not by the event loop, for four reasons: each handshake uses the certificate of
that moment, so that a new one needs no restart; a client that does not speak TLS is told so in its own protocol; one whose
handshake fails is told why; and those who begin a handshake and go no further are bounded in time and number, although no
gate has counted them yet.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from time import monotonic
from typing import Any, NamedTuple, Protocol

from .tls import RefusedError
from .unix import PREFIX, UnixListening, is_unix

HANDSHAKES_MAX = 256  # under way at a time, per door; further clients wait in the queue of the system
HANDSHAKE_SECONDS = 10.0  # for the first bytes, and again for the handshake
CROWDED_SECONDS = 1.0  # while others wait, for all of it
FILES_PER_HANDSHAKE = 2

_HANDSHAKE = 0x16  # the first byte of every client that speaks TLS
_FIRST_BYTES = 16
_PARTING_BYTES, _PARTING_SECONDS = 64 * 1024, 1.0
_NO_FILES_SECONDS = 1.0
_TELL_SECONDS = 10.0
_WHY_CHARS_MAX = 200

_log = logging.getLogger("ortoo.tls")

Make = Callable[[], asyncio.Protocol]
Context = Callable[[], ssl.SSLContext]  # the one to use now
Plain = Callable[[bytes], bytes]  # what is answered to a client that does not speak TLS; given its first bytes


class ServerTls(NamedTuple):
    context: Context
    handshakes_max: int = HANDSHAKES_MAX


class Listening(Protocol):
    @property
    def sockets(self) -> Sequence[Any]: ...

    def close(self) -> None: ...


async def listen(
    door: str,
    make: Make,
    address: tuple[str, int],
    tls: ServerTls | None,
    plain: Plain,
    backlog: int,
    mode: str = "600",
) -> Listening:
    """OSError when the address cannot be had. `mode` is for Unix sockets, which have no TLS: nobody listens in between."""
    host, port = address
    loop = asyncio.get_running_loop()
    if is_unix(host):
        return await UnixListening(host.removeprefix(PREFIX), int(mode, 8), backlog).serve(make)
    if tls is None:
        return await loop.create_server(make, host, port, backlog=backlog, reuse_address=True)
    return TlsListener(door, make, await _bind(host, port, backlog), tls, plain)


def bound_address(listening: Listening, host: str) -> tuple[str, int]:
    """Host and port; of a Unix socket its name and 0."""
    if is_unix(host):
        return host, 0
    found = listening.sockets[0].getsockname()
    return found[0], found[1]


def shown_address(host: str, port: int) -> str:
    return host if is_unix(host) else f"{host}:{port}"


async def _bind(host: str, port: int, backlog: int) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            sockets.append(made := socket.socket(family, kind, protocol))
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(place)
            made.listen(backlog)
    except OSError:
        for made in sockets:
            made.close()
        raise
    return sockets


class TlsListener:
    def __init__(self, door: str, make: Make, sockets: list[socket.socket], tls: ServerTls, plain: Plain) -> None:
        self.sockets = sockets
        self._door = door
        self._make = make
        self._tls = tls
        self._plain = plain
        self._began: dict[asyncio.Task[None], float] = {}  # when each handshake began, the oldest first
        self._is_closing = False
        self._failed = 0
        self._told = -_TELL_SECONDS
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._accept(each), name=f"ortoo-{door}-tls") for each in sockets]

    @property
    def handshakes(self) -> int:
        """Under way."""
        return len(self._began)

    def close(self) -> None:
        """Connections that are open stay."""
        self._is_closing = True
        for task in [*self._accepting, *self._began]:
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                await self._make_room()
                try:
                    connected, _ = await loop.sock_accept(listening)
                except ConnectionError:
                    continue  # it has gone already
                except OSError as error:  # no more files; those who leave give some back
                    self._tell(error.strerror or str(error))
                    await asyncio.sleep(_NO_FILES_SECONDS)
                    continue
                task = loop.create_task(self._take_in(connected))
                self._began[task] = loop.time()
                task.add_done_callback(self._ended)

    async def _make_room(self) -> None:
        """Who takes longer than the others need gives way to them."""
        loop = asyncio.get_running_loop()
        while len(self._began) >= self._tls.handshakes_max:
            oldest, began = next(iter(self._began.items()))
            patience = began + CROWDED_SECONDS - loop.time()
            if patience <= 0:
                oldest.cancel()
                await asyncio.wait([oldest])
            else:
                await asyncio.wait(self._began, timeout=patience, return_when=asyncio.FIRST_COMPLETED)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._began[task]
        if task.cancelled():
            if not self._is_closing:
                self._tell("it took too long")
        elif (error := task.exception()) is not None:
            self._tell(_why(error))

    def _tell(self, why: str) -> None:
        """Now and then: whoever fails tries again at once."""
        self._failed += 1
        if monotonic() - self._told >= _TELL_SECONDS:
            self._told = monotonic()
            extra = {"door": self._door, "reason": why[:_WHY_CHARS_MAX], "failed": self._failed}
            _log.warning("a TLS handshake failed", extra=extra)

    # -- one connection

    async def _take_in(self, connected: socket.socket) -> None:
        """OSError when there is no handshake with it."""
        with ExitStack() as undo:
            undo.callback(connected.close)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                first = await _peek(connected)
            if not first:
                return  # somebody looked whether we are there
            if first[0] != _HANDSHAKE:
                await _part(connected, self._plain(first))
                raise ConnectionAbortedError("the client does not speak TLS")
            kept = connected.dup()  # stays when the event loop, to which the other now belongs, has closed that
            undo.pop_all()
        with kept:
            await self._shake_hands(connected, kept)

    async def _shake_hands(self, connected: socket.socket, kept: socket.socket) -> None:
        loop, context = asyncio.get_running_loop(), self._tls.context()
        try:
            await loop.connect_accepted_socket(
                self._make, connected, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except RefusedError as error:
            await _part(kept, error.alert)
            raise


def _why(error: BaseException) -> str:
    if isinstance(error, RefusedError):
        return error.why
    return "it took too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


async def _peek(connected: socket.socket) -> bytes:
    """The first bytes, which stay there; none when the client has gone."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(connected, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(connected)
    return connected.recv(_FIRST_BYTES, socket.MSG_PEEK)


async def _part(connected: socket.socket, word: bytes) -> None:
    """Says it and hangs up. What the client has sent is taken first, or the system would take back what was said."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):  # it has gone
        async with asyncio.timeout(_PARTING_SECONDS):
            await loop.sock_sendall(connected, word)
            connected.shutdown(socket.SHUT_WR)
            left = _PARTING_BYTES
            while left > 0 and (taken := await loop.sock_recv(connected, 4096)):
                left -= len(taken)
