"""Small clients that mean well: whatever others do meanwhile, each of their requests is answered, and rightly.

One is answered, or the limit that only catches hangs is reached. Requests that are larger may be told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

import ortoo

LONG = 240  # seconds: only what hangs takes so long
_LARGE = 300_000  # more than those hold that hold little
_PAUSE_SECONDS = 0.005


class WebClient:
    """Publishes, leases and acks over HTTP. Each request leaves in one piece, so that none is ever half there for long."""

    def __init__(self, host: str, port: int, token: str | None, seed: int) -> None:
        self._address = host, port
        self._authorization = "" if token is None else f"authorization: Bearer {token}\r\n"
        self._random = Random(seed)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._topic = f"honest-{seed}"
        self.rounds = 0

    async def run(self, is_over: Callable[[], bool]) -> None:
        try:
            while not is_over() or not self.rounds:
                await self._round()
                self.rounds += 1
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._hang_up()

    async def _round(self) -> None:
        value = f"{self.rounds} " + "x" * (_LARGE if self.rounds % 20 == 3 else self._random.randrange(100))
        path = f"/v1/topics/{self._topic}"
        published = await self._ask(f"{path}/messages", {"messages": [{"value": value}]}, 201)
        assert len(published["results"]) == 1, published
        leased = await self._ask(f"{path}/groups/honest/lease", {"max_messages": 10}, 200)
        assert [message["value"] for message in leased["messages"]] == [value]
        receipts = [message["receipt"] for message in leased["messages"]]
        acked = await self._ask(f"{path}/groups/honest/ack", {"receipts": receipts}, 200)
        assert [result["ok"] for result in acked["results"]] == [True], acked
        if self._random.random() < 0.2:
            self._hang_up()

    async def _ask(self, path: str, body: Any, expected: int) -> Any:
        content = msgspec.json.encode(body)
        async with asyncio.timeout(LONG):
            while True:
                status, answer = await self._exchange(path, content)
                if status not in (408, 429) or len(content) < _LARGE:
                    break
                self._hang_up()
        assert status == expected, (status, answer)
        return msgspec.json.decode(answer)

    async def _exchange(self, path: str, content: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{self._authorization}content-length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        [size] = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
        return int(lines[0].split()[1]), await reader.readexactly(size)

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def run_tcp_client(url: str, token: str | None, is_over: Callable[[], bool]) -> None:
    """The same over our own protocol, through the client that everybody uses."""
    rounds = 0
    async with ortoo.connect(url, token=token, timeout=LONG) as queue:
        while not is_over() or not rounds:
            async with asyncio.timeout(LONG):
                value = b"%d" % rounds
                await queue.publish("honest", value)
                messages = await queue.lease("honest", group="honest", max_messages=10)
                assert [message.value for message in messages] == [value]
                await queue.ack(messages)
            rounds += 1
            await asyncio.sleep(_PAUSE_SECONDS)
