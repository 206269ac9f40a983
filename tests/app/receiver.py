"""A webhook's receiver, on loopback: it answers as it is told, and remembers what it got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class Receiver:
    def __init__(self) -> None:
        self.answers: list[int] = []  # status of the next requests; 0 hangs up; 200 when there are none
        self.letters: list[dict[str, Any]] = []  # that were taken
        self.requests = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()  # nothing is answered while it is shut
        self.gate.set()
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.redirect = ""  # where answers of 3xx lead

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def until(self, *, letters: int = 0, requests: int = 0) -> None:
        async with asyncio.timeout(300), self._changed:
            await self._changed.wait_for(lambda: len(self.letters) >= letters and self.requests >= requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length"))
        body = await reader.readexactly(size)
        self.heads.append(head)
        self.bodies.append(body)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._tell(requests=1)
        await self.gate.wait()
        self.at_once -= 1
        status = self.answers.pop(0) if self.answers else 200
        if status:
            where = f"Location: {self.redirect}\r\n" if 300 <= status < 400 else ""
            writer.write(f"HTTP/1.1 {status} So\r\n{where}Content-Length: 0\r\n\r\n".encode())
        if 200 <= status < 300:
            self.letters.append(json.loads(body))
        writer.close()
        await self._tell()

    async def _tell(self, requests: int = 0) -> None:
        async with self._changed:
            self.requests += requests
            self._changed.notify_all()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start()
    try:
        yield receiver
    finally:
        receiver.gate.set()
        await receiver.stop()
