"""Does each door keep one address to its limits, and leave the others alone?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from websockets.asyncio.client import connect

from ortoo import RateLimitedError
from ortoo.broker.addresses import AddressLimits
from ortoo.doors.http import connection
from ortoo.doors.http.connection import HEAD_SECONDS, Connection
from ortoo.model.queries import GetStats
from ortoo.wire import protocol as p
from tests.doors.http import home as http
from tests.doors.tcp import home as tcp
from tests.doors.tcp.test_handshake import refusal

GREEDY, OTHER = "127.0.0.2", "127.0.0.3"


def limits(connections: int = 0, rate: float = 0.0) -> AddressLimits:
    return AddressLimits(connections, rate, exempts_loopback=False, now=lambda: 0.0)


@asynccontextmanager
async def client(home: http.Home, source: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.AsyncHTTPTransport(local_address=source)
    async with httpx.AsyncClient(base_url=home.url, transport=transport, timeout=60) as found:
        yield found


async def test_over_tcp_an_address_has_so_many_connections_until_one_leaves() -> None:
    async with tcp.serving(addresses=limits(connections=2)) as home:
        async with home.wire(source=GREEDY), home.wire(source=GREEDY) as second:
            async with home.wire(source=GREEDY, greets=False) as third:
                code, words = await refusal(third)
                assert (code, "limits.connections_per_ip" in words) == ("too_many", True)
            async with home.wire(source=OTHER):
                assert (await second.ask(p.Ping()))[0] == p.ANSWER
        await tcp.until(lambda: home.gate.connections == 0)
        async with home.wire(source=GREEDY):
            pass


async def test_over_http_an_address_has_so_many_connections_until_one_leaves() -> None:
    async with http.serving(addresses=limits(connections=1)) as home:
        async with client(home, GREEDY) as first, client(home, OTHER) as other:
            assert (await first.get("/v1/stats")).status_code == 200
            async with client(home, GREEDY) as second:
                refused = await second.get("/v1/stats")
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
                assert refused.headers["retry-after"] == "1"
            assert (await other.get("/v1/stats")).status_code == 200
        await http.until(lambda: home.gate.connections == 0)
        async with client(home, GREEDY) as third:
            assert (await third.get("/v1/stats")).status_code == 200


async def test_a_websocket_counts_as_the_connection_that_it_was() -> None:
    async with http.serving(addresses=limits(connections=1)) as home:
        async with connect(home.stream_url, local_addr=(GREEDY, 0)), client(home, GREEDY) as second:
            assert (await second.get("/v1/stats")).status_code == 429
        await http.until(lambda: home.gate.connections == 0)
        async with client(home, GREEDY) as third:
            assert (await third.get("/v1/stats")).status_code == 200


async def test_connections_that_never_say_anything_take_no_more_than_their_address_may() -> None:
    """Slow-loris: whoever holds connections open without asking anything leaves the others room."""
    async with http.serving(addresses=limits(connections=5)) as home:
        held = [await asyncio.open_connection(home.host, home.port, local_addr=(GREEDY, 0)) for _ in range(50)]
        for _, writer in held:
            writer.write(b"GET /v1/stats HTTP/1.1\r\nhost: local")
        answers = [asyncio.create_task(reader.readline()) for reader, _ in held]
        await http.until(lambda: sum(answer.done() for answer in answers) >= 45)
        async with client(home, OTHER) as other:
            assert (await other.get("/v1/stats")).status_code == 200
            assert home.gate.connections == 6
        ended = [answer.result() for answer in answers if answer.done()]
        assert len(ended) == 45
        assert all(line.startswith(b"HTTP/1.1 429") for line in ended)
        for _, writer in held:
            writer.transport.abort()
        await asyncio.gather(*answers)


async def test_a_head_that_comes_byte_by_byte_does_not_come_for_ever() -> None:
    async with http.serving() as home:
        reader, writer = await asyncio.open_connection(home.host, home.port)
        began = asyncio.get_running_loop().time()
        for byte in b"GET /health HTTP/1.1\r\nx: y\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        await http.until(lambda: any(_in_head(one) for one in home.door._state.connections))
        [slow] = home.door._state.connections
        assert isinstance(slow, Connection)
        slow.sweep(began + HEAD_SECONDS / 2)
        assert not slow.is_gone
        slow.sweep(asyncio.get_running_loop().time() + HEAD_SECONDS + 1)
        assert await reader.read() == b""
        writer.close()


def _in_head(one: object) -> bool:
    return isinstance(one, connection.Connection) and one._in_head


async def test_requests_over_http_beyond_the_rate_get_429_and_health_never_does() -> None:
    async with http.serving(addresses=limits(rate=3), token="s3cret") as home:
        async with client(home, GREEDY) as greedy, client(home, OTHER) as other:
            assert [(await greedy.get("/v1/stats")).status_code for _ in range(3)] == [401] * 3
            refused = await greedy.get("/v1/stats", headers={"authorization": "Bearer s3cret"})
            assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
            assert refused.headers["retry-after"] == "1"
            assert (await greedy.get("/nowhere")).status_code == 429
            assert [(await greedy.get(path)).status_code for path in ("/health", "/ready")] == [200, 200]
            assert (await other.get("/v1/stats")).status_code == 401
        assert home.broker.meters.door("http").errors["connect", "rate_limited"] == 2


async def test_requests_over_tcp_beyond_the_rate_are_refused_and_the_connection_lives_on() -> None:
    async with tcp.serving(addresses=limits(rate=3)) as home, home.wire(source=GREEDY) as wire:
        for _ in range(2):  # and the hello
            assert (await wire.ask(GetStats()))[0] == p.ANSWER
        kind, body = await wire.ask(GetStats())
        assert (kind, body["code"]) == (p.ERROR, RateLimitedError.code)
        assert (await wire.ask(p.Ping()))[0] == p.ANSWER
        async with home.wire(source=GREEDY, greets=False) as second:
            kind, _, body = await second.hello()
            assert (kind, body["code"]) == (p.ERROR, RateLimitedError.code)
        async with home.wire(source=OTHER) as other:
            assert (await other.ask(GetStats()))[0] == p.ANSWER


async def test_what_is_under_way_is_answered_though_the_rate_is_used_up() -> None:
    async with tcp.serving(addresses=limits(rate=2)) as home, home.connect() as queue:
        await home.queue.create_topic("jobs")
        async with asyncio.timeout(300):
            waiting = asyncio.create_task(queue.lease("jobs", wait=60))  # the second of two, with the hello
            await home.waiters(1)
            with pytest.raises(RateLimitedError):
                await queue.stats()
            await home.queue.publish("jobs", b"tea")
            assert [message.value for message in await waiting] == [b"tea"]


async def test_what_is_said_on_a_websocket_counts() -> None:
    async with http.serving(addresses=limits(rate=2)) as home, connect(home.stream_url) as socket:
        publish = {"type": "publish", "topic": "t", "messages": [{"value": 1}]}
        await socket.send(json.dumps({**publish, "ref": "a"}))  # the second, with the handshake
        assert json.loads(await socket.recv())["type"] == "published"
        await socket.send(json.dumps({**publish, "ref": "b"}))
        told = json.loads(await socket.recv())
        assert (told["type"], told["code"], told["ref"]) == ("error", "rate_limited", "b")
