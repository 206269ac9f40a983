"""Requests that are sent before the ones ahead of them are answered: all are, in their order, and nobody else waits for it."""

from __future__ import annotations

import asyncio

import pytest

from ortoo.doors.http.connection import HEADERS_MAX, REST_BYTES, SLICE_BYTES, Connection
from tests.doors.http.home import Home, until

LONG = 60  # seconds: only what hangs takes so long
HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POLL = b"POST /v1/topics/t/groups/g/lease HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 11\r\n\r\n" + b'{"wait":60}'


def publish(number: int) -> bytes:
    body = b'{"messages":[{"value":%d}]}' % number
    head = b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many waited each time that another was read."""
    seen: list[int] = []
    begin = Connection.on_message_begin

    def note(self: Connection) -> None:
        seen.append(len(self.pipeline))
        begin(self)

    monkeypatch.setattr(Connection, "on_message_begin", note)
    return seen


async def test_many_are_served_in_their_order_and_few_are_read_ahead(home: Home, ahead: list[int]) -> None:
    await home.queue.create_topic("t", partitions=1)
    reader, writer = await asyncio.open_connection(home.host, home.port)
    requests = [publish(number) for number in range(3_000)]
    writer.write(b"".join(requests))
    async with asyncio.timeout(LONG):
        for _ in requests:
            assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(size)
    writer.close()
    values = [int(message.value) async for message in home.queue.read("t")]
    assert values == list(range(3_000))
    assert max(ahead) <= SLICE_BYTES // min(map(len, requests)) + 1


async def test_what_stands_behind_a_long_poll_is_bounded(home: Home, ahead: list[int]) -> None:
    await home.queue.create_topic("t")
    _, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(POLL + HEALTH * 500_000)  # 20 MB: far more than sockets buffer
    (connection,) = await _connections(home)
    await asyncio.wait_for(until(lambda: len(connection._rest) > REST_BYTES and connection.flow.read_paused), LONG)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(connection._rest) <= REST_BYTES + 256 * 1024  # what a socket is read in
    assert max(ahead) <= SLICE_BYTES // len(HEALTH) + 1
    writer.transport.abort()


async def test_a_client_that_leaves_is_noticed_though_a_request_stands_behind_its_poll(home: Home) -> None:
    await home.queue.create_topic("t")
    _, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(POLL + HEALTH)
    async with asyncio.timeout(LONG):
        await _until_waiting(home, 1)
        writer.transport.abort()
        await _until_waiting(home, 0)


async def _until_waiting(home: Home, count: int) -> None:
    while (await home.queue.stats()).waiters != count:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def _connections(home: Home) -> list[Connection]:
    found: set[Connection] = home.door._state.connections  # type: ignore[assignment]
    await asyncio.wait_for(until(lambda: bool(found)), LONG)
    return list(found)


@pytest.mark.parametrize(("count", "status"), [(HEADERS_MAX, b"200"), (HEADERS_MAX + 1, b"431")])
async def test_a_request_has_a_bounded_number_of_headers(home: Home, count: int, status: bytes) -> None:
    reader, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(HEALTH[:-2] + b"a:\r\n" * (count - 1) + b"\r\n")
    assert (await asyncio.wait_for(reader.readline(), LONG)).split()[1] == status
    writer.close()
