"""Redis killed, paused, restarted with nothing, failed over: publishing goes on, and what it knew comes back. And TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from ortoo.app.dev_certificates import make_set
from ortoo.stores.redis import connection
from ortoo.testing.private_redis import PrivateRedis
from tests.redis.sharing import LONG_S, connection_of, is_up, sharing_queue, until, values

SHARED: dict[str, Any] = {"dedup_scope": "namespace"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_S", 0.05)


async def test_without_redis_each_server_knows_its_own_ids_and_says_so(own_redis: PrivateRedis) -> None:
    async with sharing_queue(own_redis.url) as (one, broker, sharing):
        await one.create_topic("orders", **SHARED)
        await one.publish("orders", b"1", dedup_id="a")
        assert broker.problems() == []
        own_redis.kill()
        assert (await one.publish("orders", b"1", dedup_id="a")).duplicate
        assert not (await one.publish("orders", b"2", dedup_id="b")).duplicate
        assert (await one.publish("orders", b"2", dedup_id="b")).duplicate
        [problem] = broker.problems()
        assert problem.startswith(f"Redis at {own_redis.url} does not answer: ")
        figures = sharing.figures()
        assert (figures.is_up, figures.failures) == (False, 1)
        assert figures.fallbacks["dedup"] >= 2


async def test_a_server_starts_without_its_redis_and_finds_it_later(own_redis: PrivateRedis) -> None:
    own_redis.kill()
    async with sharing_queue(own_redis.url) as (one, broker, sharing):
        await one.create_topic("orders", **SHARED)
        assert not (await one.publish("orders", b"1", dedup_id="a")).duplicate
        assert len(broker.problems()) == 1
        own_redis.start()
        await until(lambda: is_up(sharing))
        assert broker.problems() == []


async def test_a_redis_that_is_paused_holds_nobody_up_for_long_and_learns_later_what_was_published(
    own_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CALL_S", 0.5)
    async with (
        sharing_queue(own_redis.url) as (one, _, sharing),
        sharing_queue(own_redis.url) as (two, _, other),
    ):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        own_redis.pause()
        sent = await one.publish("orders", b"1", dedup_id="a")  # it waits once
        for number in range(100):
            await one.publish("orders", b"2", dedup_id=f"{number}")
        assert not sent.duplicate
        assert connection_of(sharing).failures >= 1
        own_redis.resume()
        await until(lambda: is_up(sharing) and is_up(other) and not sharing._claims._late)
        assert (await two.publish("orders", b"1", dedup_id="a")).id == sent.id
        assert (await two.publish("orders", b"1", dedup_id="99")).duplicate


async def test_what_an_emptied_redis_has_forgotten_is_still_known_where_it_was_published(
    own_redis: PrivateRedis,
) -> None:
    async with (
        sharing_queue(own_redis.url) as (one, _, sharing),
        sharing_queue(own_redis.url) as (two, _, other),
    ):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        sent = await one.publish("orders", b"1", dedup_id="a")
        own_redis.kill()
        own_redis.empty()
        own_redis.start()
        for queue in (one, two):  # they notice
            await queue.publish("orders", b"x", dedup_id="b")
        await until(lambda: is_up(sharing) and is_up(other))
        assert (await one.publish("orders", b"1", dedup_id="a")).id == sent.id
        assert (await two.publish("orders", b"1", dedup_id="a")).id == sent.id


async def test_redis_may_go_and_come_at_any_moment_and_nothing_is_doubled_on_one_server(
    own_redis: PrivateRedis,
) -> None:
    async with sharing_queue(own_redis.url) as (one, _, sharing):
        await one.create_topic("orders", **SHARED)
        for turn in range(3):
            names = [f"{turn}.{number}" for number in range(60)]
            work = [asyncio.create_task(one.publish("orders", name.encode(), dedup_id=name)) for name in 2 * names]
            await asyncio.sleep(0.002 * turn)
            own_redis.kill()
            await asyncio.gather(*work)
            own_redis.start()
            await until(lambda: is_up(sharing))
        assert len(await values(one, "orders")) == 180


async def test_a_password_that_is_wrong_is_reported_and_never_shown(own_redis: PrivateRedis) -> None:
    url = own_redis.url.replace("//", "//:hunter2@")
    async with sharing_queue(url) as (one, broker, _):
        await one.create_topic("orders", **SHARED)
        await one.publish("orders", b"1", dedup_id="a")
        [problem] = broker.problems()
        assert "AUTH" in problem
        assert "hunter2" not in problem


async def test_sentinels_lead_to_the_next_master(tmp_path: Path) -> None:
    with ExitStack() as running:
        first = started(running, PrivateRedis(tmp_path / "first"))
        started(running, PrivateRedis(tmp_path / "second", "--replicaof", "127.0.0.1", str(first.port)))
        lines = [
            f"sentinel monitor queue 127.0.0.1 {first.port} 1",
            "sentinel down-after-milliseconds queue 300",
            "sentinel failover-timeout queue 2000",
        ]
        sentinel = started(running, PrivateRedis(tmp_path / "sentinel", configuration=lines))
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/queue"
        async with sharing_queue(url) as (one, _, sharing), sharing_queue(url) as (two, _, other):
            for queue in (one, two):
                await queue.create_topic("orders", **SHARED)
            sent = await one.publish("orders", b"1", dedup_id="a")
            await replicated(first, sentinel)
            first.kill()
            await one.publish("orders", b"2", dedup_id="b")
            await two.publish("orders", b"3", dedup_id="c")
            await until(lambda: is_up(sharing) and is_up(other))
            assert (await two.publish("orders", b"1", dedup_id="a")).id == sent.id


def started(running: ExitStack, server: PrivateRedis) -> PrivateRedis:
    running.callback(server.kill)
    server.start()
    return server


async def replicated(first: PrivateRedis, sentinel: PrivateRedis) -> None:
    """Until another has what it has, and the Sentinel could choose that."""
    async with Redis(port=first.port) as client:
        await client.wait(1, 0)
    async with Redis(port=sentinel.port) as client, asyncio.timeout(LONG_S):
        while not await client.sentinel_slaves("queue"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_redis_over_tls_is_trusted_only_with_its_authority(own_redis: PrivateRedis, tmp_path: Path) -> None:
    make_set(tmp_path, ["localhost"], 1, force=False)
    async with tls_in_front_of(own_redis, tmp_path) as port:
        url = f"rediss://localhost:{port}/0"
        async with sharing_queue(f"{url}?ssl_ca_certs={tmp_path}/ca.pem") as (_, broker, sharing):
            assert is_up(sharing)
            assert broker.problems() == []
        async with sharing_queue(url) as (_, broker, sharing):
            [problem] = broker.problems()
            assert "certificate verify failed" in problem


@asynccontextmanager
async def tls_in_front_of(redis: PrivateRedis, folder: Path) -> AsyncIterator[int]:
    """The program at hand has none of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server-key.pem")

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
        finally:
            target.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", redis.port)
        await asyncio.gather(copy(reader, outer), copy(inner, writer), return_exceptions=True)

    server = await asyncio.start_server(take, "localhost", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]
