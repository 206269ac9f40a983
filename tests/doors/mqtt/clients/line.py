"""The line between a client and its server, which can be cut, or fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .client import Address


class Line:
    def __init__(self) -> None:
        self.address = Address("127.0.0.1", 0)
        self._writers: list[asyncio.StreamWriter] = []
        self._is_silent = False

    def cut(self) -> None:
        """As a crash, or a cable: nobody says goodbye."""
        for writer in self._writers:
            writer.transport.abort()

    def silence(self) -> None:
        """Nothing that the client says arrives any more; its connection stays."""
        self._is_silent = True

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_upward: bool) -> None:
        try:
            while data := await reader.read(65_536):
                if not (is_upward and self._is_silent):
                    writer.write(data)
                    await writer.drain()
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def line_to(server: Address) -> AsyncIterator[Line]:
    line = Line()
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(server.host, server.port)
        line._writers += [writer, up_writer]
        for source, target, is_upward in ((reader, up_writer, True), (up_reader, writer, False)):
            task = asyncio.create_task(line._carry(source, target, is_upward=is_upward))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    line.address = Address("127.0.0.1", listener.sockets[0].getsockname()[1])
    try:
        yield line
    finally:
        line.cut()
        listener.close()
        await asyncio.gather(*tasks, return_exceptions=True)
