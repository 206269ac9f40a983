"""A door in a thread of its own, on uvloop as in a server, for tests that are not async; and a watch over what it logs.

The TCP door is there beside it, with the same budget: what one door is burdened with may not stop the other.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import msgspec
import uvloop
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from ortoo.auth import Authenticator
from ortoo.broker import Gate
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import LimitSettings, TcpSettings
from tests.doors.http.home import Home, serving


@asynccontextmanager
async def _tcp_beside(home: Home, token: str | None) -> AsyncIterator[TcpDoor]:
    gate = Gate("tcp", home.broker, Authenticator(token), LimitSettings(), home.gate.budget, home.gate.presence)
    door = TcpDoor(gate, TcpSettings(port=0))
    await door.open()
    try:
        yield door
    finally:
        await door.close(1)


class _Log(logging.Handler):
    """Keeps what is wrong: errors, and whatever tells a secret."""

    def __init__(self, secret: str | None) -> None:
        super().__init__(logging.DEBUG)
        self._secret = secret
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.levelno >= logging.ERROR or (self._secret is not None and self._secret in text):
            self.messages.append(text)


class Background:
    """`secret`: part of what nobody may find in the log, on any level. The rest is for `serving`."""

    def __init__(self, secret: str | None = None, **options: Any) -> None:
        self._ready = threading.Event()
        self._log = _Log(secret)
        self._options = options
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), daemon=True)
        self.home: Home
        self.tcp: TcpDoor
        self._stop: asyncio.Event
        self.loop: asyncio.AbstractEventLoop

    async def _run(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with (
            serving(**self._options) as self.home,
            _tcp_beside(self.home, self._options.get("token")) as self.tcp,
        ):
            self.url = self.home.url
            self.tcp_url = f"ortoo://127.0.0.1:{self.tcp.address[1]}"
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> Background:
        logging.getLogger().addHandler(self._log)
        self._thread.start()
        self._ready.wait(300)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(300)
        logging.getLogger().removeHandler(self._log)

    def send(self, data: bytes) -> bytes:
        """What comes back until the server closes, or has nothing to say because it waits for the rest."""
        with socket.create_connection((self.home.host, self.home.port), timeout=300) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
            except ConnectionError:
                pass
            return b"".join(parts)

    def converse(self, frames: list[Any], kind: str) -> None:
        """Sends each as a frame: bytes as they are, the rest as JSON and as a field of a command."""
        try:
            with connect(self.home.stream_url) as websocket:
                for frame in frames:
                    if isinstance(frame, bytes):
                        websocket.send(frame)
                        continue
                    websocket.send(msgspec.json.encode(frame).decode())
                    fields = frame if isinstance(frame, dict) else {"id": frame, "topic": frame, "receipts": frame}
                    websocket.send(msgspec.json.encode({**fields, "type": kind}).decode())
        except (WebSocketException, OSError):
            pass  # it may well be closed for what was sent

    def is_well(self) -> bool:
        """Nothing unexpected was logged, and the next client is served."""
        logged, self._log.messages = self._log.messages, []
        assert logged == []
        return self.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )
