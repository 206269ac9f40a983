"""MQTT over WebSocket: the bytes of MQTT in binary messages, cut wherever the client likes.

The HTTP door listens; it hands over WebSockets of one path, which are let in here by their CONNECT, as any other connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from .connection import Connection, Door

PATH: Final = b"/mqtt"
_SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
_HIGH_WATER: Final = 64 * 1024  # bytes that wait to be sent, above which a client is slow

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class WebSocketChannel:
    """Writes and stops reading as a transport does."""

    def __init__(self, send: Send, connection: Connection) -> None:
        self._send = send
        self._connection = connection
        self._waiting: list[bytes] = []
        self._size = 0
        self._is_closing = False
        self._is_slow = False
        self._wake = asyncio.Event()
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.ended = asyncio.Event()

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._wake.set()
        if self._size > _HIGH_WATER and not self._is_slow:
            self._is_slow = True
            self._connection.pause_writing()

    def close(self) -> None:
        self._is_closing = True
        self._wake.set()

    def abort(self) -> None:
        self._waiting.clear()
        self.close()
        self.ended.set()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.may_read.clear()

    def resume_reading(self) -> None:
        self.may_read.set()

    def get_write_buffer_size(self) -> int:
        return self._size

    async def run(self) -> None:
        """Sends what is written, until it is closed; what was written before that is sent."""
        while True:
            while self._waiting:
                data = b"".join(self._waiting)
                self._waiting.clear()
                await self._send({"type": "websocket.send", "bytes": data})
                self._size = sum(map(len, self._waiting))
                if self._is_slow and self._size <= _HIGH_WATER // 2:
                    self._is_slow = False
                    self._connection.resume_writing()
            if self._is_closing:
                break
            self._wake.clear()
            await self._wake.wait()
        await self._send({"type": "websocket.close", "code": 1000})


async def serve(door: Door, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    chosen = next((each for each in _SUBPROTOCOLS if each in scope["subprotocols"]), None)
    if chosen is None:
        await send({"type": "websocket.http.response.start", "status": 400, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"a WebSocket here needs the subprotocol mqtt\n"})
        return
    scope["state"]["is_binary_only"] = True
    await send({"type": "websocket.accept", "subprotocol": chosen})
    connection = Connection(door)
    channel = WebSocketChannel(send, connection)
    client = scope.get("client")
    connection.open(channel, client[0] if client else None, scope["state"]["peer"], scope["state"]["visit"])
    writing = asyncio.create_task(_quietly(channel.run()))
    reading = asyncio.create_task(_read(channel, connection, receive))
    ending = asyncio.create_task(channel.ended.wait())
    try:
        await asyncio.wait((writing, reading, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        connection.connection_lost(None)
        channel.close()
        for task in (reading, ending):
            task.cancel()
        await asyncio.wait((writing,), timeout=1.0)
        writing.cancel()


async def _read(channel: WebSocketChannel, connection: Connection, receive: Receive) -> None:
    while True:
        await channel.may_read.wait()
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        connection.data_received(message.get("bytes") or b"")


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:  # noqa: S110  the client has gone while it was written to, in whatever way the server tells that
        pass
