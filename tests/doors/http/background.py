"""A door in a thread of its own, on uvloop as in a server, for tests that are not async; and a watch over what it logs."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from types import TracebackType
from typing import Any

import msgspec
import uvloop
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.doors.http.home import Home, serving


class _Watch(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


class Background:
    def __init__(self) -> None:
        self._ready = threading.Event()
        self._watch = _Watch()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), daemon=True)
        self._home: Home
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serving() as self._home:
            self.url = self._home.url
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> Background:
        logging.getLogger().addHandler(self._watch)
        self._thread.start()
        self._ready.wait(300)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(300)
        logging.getLogger().removeHandler(self._watch)

    def send(self, data: bytes) -> bytes:
        """What comes back until the server closes, or has nothing to say because it waits for the rest."""
        with socket.create_connection((self._home.host, self._home.port), timeout=300) as connection:
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
            with connect(self._home.stream_url) as websocket:
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
        logged, self._watch.messages = self._watch.messages, []
        assert logged == []
        return self.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )
