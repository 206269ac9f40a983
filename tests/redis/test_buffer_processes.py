"""A process with a buffer in Redis is killed while it publishes, and started again: nothing that it confirmed is gone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from httpx import AsyncClient

import ortoo
from ortoo.model.errors import ConfigError
from ortoo.model.settings import Settings
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres
from ortoo.testing.private_redis import PrivateRedis
from tests.redis.sharing import serving
from tests.stores.postgres_server import fresh_url

_PUBLISHER = """
import asyncio, sys
import ortoo

async def main():
    url, buffer, first, spill = sys.argv[1:]
    async with ortoo.open(url, buffer=buffer, spill=spill or None) as queue:
        await queue.create_topic("t", partitions=1, exist_ok=True)
        number = int(first)
        while True:
            await queue.publish_many("t", [b"%d" % one for one in range(number, number + 3)])
            number += 3
            print(number, flush=True)

asyncio.run(main())
"""


async def confirmed_by_one_that_is_killed(arguments: list[str], after: int) -> int:
    """Returns how many messages were confirmed."""
    command = [sys.executable, "-c", _PUBLISHER, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert process.stdout is not None
    lines: list[bytes] = []
    try:
        await asyncio.to_thread(lambda: lines.extend(process.stdout.readline() for _ in range(after)))  # type: ignore[union-attr]
    finally:
        process.kill()
        lines += await asyncio.to_thread(process.stdout.readlines)
        process.stdout.close()
        process.wait()
    told = [int(line) for line in lines if line.endswith(b"\n")]
    return told[-1] if told else int(arguments[2])  # it may have found no database


async def there(url: str, redis: str, spill: str | None = None) -> list[int]:
    async with ortoo.open(url, buffer=redis, spill=spill) as queue:
        return [int(message.value) async for message in queue.read("t")]


async def test_a_queue_that_is_killed_while_it_publishes_finds_all_that_it_confirmed(own_redis: PrivateRedis) -> None:
    url, first = fresh_url(), 0
    for after in (5, 60):
        least = await confirmed_by_one_that_is_killed([url, own_redis.url, str(first), ""], after)
        found = await there(url, own_redis.url)
        assert found == list(range(len(found)))
        assert first < least <= len(found) <= least + 3
        first = len(found)


@pytest.mark.soak
async def test_processes_databases_and_redis_die_at_random(own_redis: PrivateRedis, tmp_path: Path) -> None:
    random, redis, spill = Random(7), own_redis, str(tmp_path / "spill")
    with TemporaryDirectory() as folder, private_postgres(Path(folder)) as postgres:
        url, first = postgres.url, 0
        for _ in range(12):
            trouble = asyncio.create_task(disturb(random, postgres, redis))
            arguments = [url, redis.url, str(first), spill]
            least = await confirmed_by_one_that_is_killed(arguments, random.randrange(20, 2_000))
            await trouble
            found = await there(url, redis.url, spill)
            assert found == list(range(len(found)))
            assert least <= len(found) <= least + 3
            first = len(found)


async def disturb(random: Random, postgres: PrivatePostgres, redis: PrivateRedis) -> None:
    """What is killed comes back with what it had."""
    await asyncio.sleep(1 + random.random())
    servers: list[PrivatePostgres | PrivateRedis] = [postgres, redis]
    for one in random.sample(servers, random.choice([0, 1, 1, 2])):
        await asyncio.to_thread(one.kill)
        await asyncio.sleep(random.random())
        await asyncio.to_thread(one.start)


async def test_a_server_confirms_from_its_redis_and_measures_it(own_redis: PrivateRedis) -> None:
    store = fresh_url()
    async with serving(own_redis.url, store=[store], buffer="redis") as (server, queue):
        await queue.publish("orders", b"1")
        async with AsyncClient(base_url=f"http://localhost:{server.addresses['http'][1]}") as web:
            told = (await web.get("/metrics")).text
        assert '\nortoo_buffer_on{shard="0"} 1.0\n' in told
        assert '\nortoo_buffer_failures_total{shard="0"} 0.0\n' in told
    async with ortoo.open(store) as queue:
        assert [message.value async for message in queue.read("orders")] == [b"1"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(data="memory", buffer="redis", store=["postgres://q@localhost/q"]), "needs a Redis"),
        (Settings(data="memory", buffer="redis", redis="redis://localhost"), "for a store on PostgreSQL"),
    ],
)
def test_a_buffer_needs_a_redis_and_a_database(settings: Settings, words: str) -> None:
    from ortoo.app.server import Server

    with pytest.raises(ConfigError, match=words):
        Server(settings)


def test_an_embedded_queue_without_a_database_has_no_buffer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="for a store on PostgreSQL"):
        ortoo.open(tmp_path, buffer="redis://localhost")
