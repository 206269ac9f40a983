"""The floor of a JSON API: a server that reads a batch of messages, answers with a place for each, and does nothing else.

`python -m bench.server.json_reader PORT`. It understands just what `HttpConnection` sends.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import msgspec
import uvloop


class _New(msgspec.Struct, gc=False):
    value: str


class _Batch(msgspec.Struct):
    messages: list[_New]


class _Placed(msgspec.Struct, gc=False):
    partition: int
    offset: int
    priority: str


_decode = msgspec.json.Decoder(_Batch).decode
_encode = msgspec.json.Encoder().encode
_LENGTH = b"Content-Length: "


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if found and len(body) >= int(head.partition(_LENGTH)[2].partition(b"\r\n")[0] or b"0"):
            self._buffer = b""
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        size = len(_decode(body).messages)
        answer = _encode({"results": list(map(_Placed, [0] * size, range(size), ["normal"] * size))})
        self._transport.writelines([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(answer), answer])


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
