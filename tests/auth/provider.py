"""An identity provider on loopback: it answers as it is told, and counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Provider:
    def __init__(self) -> None:
        self.body = b"{}"
        self.status = "200 OK"
        self.headers: list[str] = []
        self.is_silent = False  # takes requests and answers nothing
        self.drips = b""  # begins so, then a byte at a time, for ever
        self.requests = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: self.requests >= times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await reader.readuntil(b"\r\n\r\n")
            async with self._changed:
                self.requests += 1
                self._changed.notify_all()
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up, as some tests want it to
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_silent:
            await reader.read()
        if self.drips:
            writer.write(self.drips)
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                try:
                    async with asyncio.timeout(0.02):
                        await reader.read()
                except TimeoutError:
                    continue
        head = [f"HTTP/1.1 {self.status}", f"Content-Length: {len(self.body)}", *self.headers, "", ""]
        writer.write("\r\n".join(head).encode() + self.body)
        await writer.drain()


@asynccontextmanager
async def providing() -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start()
    try:
        yield provider
    finally:
        await provider.stop()


async def until(holds: Callable[[], bool]) -> None:
    """For what a task of its own does: the event loop turns until it is so."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
