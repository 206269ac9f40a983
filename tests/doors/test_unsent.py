"""What was written to a client and has not reached it, also where the system has taken it already."""

from __future__ import annotations

import asyncio
import socket

from ortoo.doors.unsent import unsent
from tests.doors.tcp.home import until

MB = 1 << 20


async def test_what_the_system_holds_for_a_client_counts_until_the_client_takes_it() -> None:
    loop = asyncio.get_running_loop()
    ends = asyncio.Queue[asyncio.StreamWriter]()
    listener = await asyncio.start_server(lambda _, writer: ends.put(writer), "127.0.0.1", 0)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, listener.sockets[0].getsockname())
        writer = await ends.get()  # kept: from Python 3.13 on it closes its transport when it goes
        transport = writer.transport
        transport.write(bytes(MB))
        left = unsent(transport)
        assert left > transport.get_write_buffer_size() + 10_000
        taken = 0
        while taken < MB:
            taken += len(await loop.sock_recv(client, 65_536))
        await until(lambda: unsent(transport) == 0)
    transport.abort()
    listener.close()
    await asyncio.sleep(0)
    assert unsent(transport) == 0, "of one that is closed"
