"""What was leased for a client that cannot have read its answer goes back at once, and was no delivery."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from ortoo.dialects import DIALECTS
from ortoo.dialects.goqueue import members
from ortoo.dialects.queen.popping import group_name
from ortoo.doors.http import app
from tests.dialects.home import DialectHome, serving

MEMBER, _ = members.new("c", ["t"], 30_000)
RESET = struct.pack("ii", 1, 0)  # for SO_LINGER: what is on its way is thrown away


class Asking(msgspec.Struct, frozen=True):
    """What a client asks, and the dialect, namespace and group that it is in."""

    dialect: str
    path: str
    body: bytes = b""
    namespace: str = "default"
    group: str = "g"

    @property
    def request(self) -> bytes:
        head = f"{'POST' if self.body else 'GET'} {self.path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        return f"{head}content-type: application/json\r\ncontent-length: {len(self.body)}\r\n".encode()


ASKING = {
    "ours": Asking("queen", "/v1/topics/t/groups/g/lease", b'{"max_messages":100}'),
    "ours, waiting": Asking("queen", "/v1/topics/t/groups/g/lease", b'{"max_messages":100,"wait":5}'),
    "queen": Asking("queen", "/api/v1/pop/queue/t?batch=100", group=group_name(None)),
    "queen, waiting": Asking("queen", "/api/v1/pop/queue/t?batch=100&wait=true", group=group_name(None)),
    "mqueue": Asking("mqueue", "/dequeue?namespace=n&topic=t&limit=100", namespace="n", group="default"),
    "goqueue": Asking("goqueue", f"/groups/g/poll?timeout=0s&member_id={MEMBER}"),
    "goqueue, waiting": Asking("goqueue", f"/groups/g/poll?timeout=5s&member_id={MEMBER}"),
    "goqueue, consuming": Asking("goqueue", "/api/v1/topics/t/consume?group=g"),
}


@asynccontextmanager
async def with_messages(asking: Asking, count: int, value: bytes) -> AsyncIterator[DialectHome]:
    async with serving(DialectHome, DIALECTS[asking.dialect]) as home:
        await home.queue.create_topic("t", namespace=asking.namespace, partitions=1, ordering="none", lease=3_000)
        await home.queue.create_group("t", asking.group, namespace=asking.namespace)
        for _ in range(count):
            await home.queue.publish("t", value, namespace=asking.namespace)
        yield home


async def leased(home: DialectHome, asking: Asking, expected: bool) -> int:
    """How many, once there are some, or none."""
    while True:
        found = (await home.queue.group("t", asking.group, namespace=asking.namespace)).leased
        if bool(found) is expected:
            return found
        await asyncio.sleep(0.001)


async def lease_all(home: DialectHome, asking: Asking) -> Sequence[Any]:
    return await home.queue.lease("t", group=asking.group, namespace=asking.namespace, max_messages=100)


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("is_reset", [True, False])
async def test_a_client_that_leaves_in_the_middle_of_an_answer_keeps_nothing(name: str, is_reset: bool) -> None:
    asking = ASKING[name]
    async with with_messages(asking, 16, b"x" * 900_000) as home:  # more than sockets hold between it and us
        reader, writer = await asyncio.open_connection("127.0.0.1", home.web.base_url.port, limit=1_000)
        writer.write(asking.request + b"\r\n" + asking.body)
        await reader.readexactly(500)
        assert await leased(home, asking, True)
        if is_reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
        async with asyncio.timeout(20):
            await leased(home, asking, False)
        assert {message.attempt for message in await lease_all(home, asking)} == {1}


@pytest.mark.parametrize("name", ASKING)
async def test_a_client_that_leaves_before_its_answer_is_written_keeps_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_left = asyncio.Event()

    async def slowly(coding: str, body: bytes) -> bytes:
        await has_left.wait()
        return body

    monkeypatch.setattr(app, "compress", slowly)
    asking = ASKING[name]
    async with with_messages(asking, 10, b"x" * 1_000) as home:
        _, writer = await asyncio.open_connection("127.0.0.1", home.web.base_url.port)
        writer.write(asking.request + b"accept-encoding: gzip\r\n\r\n" + asking.body)
        assert await leased(home, asking, True) == 10
        writer.transport.abort()
        await asyncio.sleep(0.05)  # its end has to come in
        has_left.set()
        async with asyncio.timeout(20):
            await leased(home, asking, False)
        assert {message.attempt for message in await lease_all(home, asking)} == {1}


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("count", [10, 16_000])
@pytest.mark.parametrize("more", [b"", b"connection: close\r\n", b"accept-encoding: gzip\r\n"])
async def test_a_client_that_leaves_with_its_answer_keeps_what_it_has(name: str, count: int, more: bytes) -> None:
    """However the connection ends."""
    asking = ASKING[name]
    async with with_messages(asking, 16, b"x" * count) as home:
        reader, writer = await asyncio.open_connection("127.0.0.1", home.web.base_url.port)
        writer.write(asking.request + more + b"\r\n" + asking.body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length: " in head:
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
        else:
            await reader.readuntil(b"0\r\n\r\n")
        count = await leased(home, asking, True)
        writer.transport.abort()
        await asyncio.sleep(0.05)
        assert (await home.queue.group("t", asking.group, namespace=asking.namespace)).leased == count
