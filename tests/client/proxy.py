"""Stands between a client and a door, and does to their connection what networks do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

Backoff = Callable[[], int | None]  # bytes that may pass in one direction before the connection is cut


class Proxy:
    def __init__(self, port: int) -> None:
        self.port = 0
        self.connections = 0  # that were made so far
        self.patience: Backoff = lambda: None
        self.hears_client = True  # what is not heard is swallowed
        self.hears_server = True
        self.bytes_per_ms = 0  # 0 is as fast as it goes
        self._server_port = port
        self._going = asyncio.Event()
        self._going.set()
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"ortoo://127.0.0.1:{self.port}"

    async def open(self) -> None:
        self._listener = await asyncio.start_server(self._join, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def hang(self) -> None:
        """As a server that is stopped (SIGSTOP): it is there, takes connections, and neither hears nor says anything."""
        self._going.clear()

    def go_on(self) -> None:
        self._going.set()

    def unplug(self) -> None:
        """As when a cable is pulled: what is said is lost, and nobody is told."""
        self.hears_server = self.hears_client = False

    def plug_in(self) -> None:
        self.hears_server = self.hears_client = True
        self.cut()  # what was half said meanwhile

    def go_away(self) -> None:
        """Nobody answers any more, until it is opened again."""
        assert self._listener is not None
        self._listener.close()
        self.cut()

    async def close(self) -> None:
        self.go_away()
        self.go_on()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        await self._going.wait()
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(up_writer)
        both = (writer, up_writer)
        for task in (
            asyncio.create_task(self._pump(reader, up_writer, both, lambda: self.hears_client)),
            asyncio.create_task(self._pump(up_reader, writer, both, lambda: self.hears_server)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        hears: Callable[[], bool],
    ) -> None:
        left = self.patience()
        with suppress(ConnectionError):
            while (left is None or left > 0) and (data := await reader.read(self.bytes_per_ms or 65_536)):
                if self.bytes_per_ms:
                    await asyncio.sleep(0.001)
                await self._going.wait()
                if not hears():
                    continue
                writer.write(data if left is None else data[:left])
                await writer.drain()
                left = None if left is None else left - len(data)
        await self._going.wait()
        for end in both:
            if end is writer and not end.transport.is_closing():
                with suppress(ConnectionError, TimeoutError):  # what passed so far arrives, and then no more
                    async with asyncio.timeout(1):
                        await end.drain()
            end.transport.abort() if left is not None else end.close()
            self._writers.discard(end)


@asynccontextmanager
async def between(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
