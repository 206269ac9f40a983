"""A connection that speaks just enough HTTP to ask as fast as a server can answer: the load, not the client, is the point."""

from __future__ import annotations

import asyncio
from typing import cast


class HttpConnection(asyncio.Protocol):
    """Keeps the connection open; one request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body_at = -1  # where the body of the answer begins; -1 while its head is not complete
        self._end = 0
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, port: int) -> HttpConnection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._body_at < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._body_at = end + 4
            self._end = self._body_at + _content_length(bytes(self._buffer[:end]))
        if len(self._buffer) >= self._end and self._answer is not None:
            status, body = int(self._buffer[9:12]), bytes(self._buffer[self._body_at : self._end])
            del self._buffer[: self._end]
            self._body_at = -1
            self._answer.set_result((status, body))


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    if at < 0:
        raise RuntimeError(f"an answer without a length: {head!r}")
    return int(head[at + 17 :].split(b"\r\n", 1)[0])


def to_request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
