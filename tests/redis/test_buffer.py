"""Commits confirmed from Redis: whatever dies, is emptied or cut off, none is lost, doubled, or out of order; or the queue does
not open, and says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from ortoo.app.migrate import open_source
from ortoo.model import records as r
from ortoo.model.errors import ConfigError, NotOwnerError, OrtooError, UnavailableError
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import (
    PostgresStore,
    abandon,
    buffer_recovery,
    buffering,
    check_schema,
    find_mark,
    flusher,
    front,
    mark,
    parse_address,
)
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.redis import buffer as redis_buffer
from ortoo.stores.redis import connection
from ortoo.testing.private_redis import PrivateRedis
from ortoo.testing.store_contract import T1, created, published
from tests.redis.buffered import LONG_S, BufferedStore, recovered
from tests.redis.sharing import until
from tests.stores.postgres_server import fresh_url, server, store_at

_databases = count(1)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (front, flusher):
        monkeypatch.setattr(module, "RETRY_S", 0.005)
        monkeypatch.setattr(module, "RETRY_MAX_S", 0.02)
    monkeypatch.setattr(connection, "PROBE_S", 0.05)
    monkeypatch.setattr(buffering, "BEAT_S", 0.05)
    monkeypatch.setattr(redis_buffer, "ALIVE_MS", 300)


@pytest.fixture
def url() -> str:
    return fresh_url()


@pytest_asyncio.fixture
async def sql(url: str) -> AsyncIterator[Any]:
    settings = {"search_path": url.partition("schema=")[2], "ortoo.writer": "queue"}
    found = await asyncpg.connect(server().url, server_settings=settings)
    yield found
    await found.close()


async def opened(url: str, redis: str, spill: Path | None = None, **options: Any) -> BufferedStore:
    store = BufferedStore(url, redis, spill, **options)
    found = await recovered(store)
    await store.append([r.Opened(1, 1)] if found else [r.Opened(1, 1), created(T1)])
    return store


async def values(store: PostgresStore) -> list[bytes]:
    return (await store.scan(T1, 0, 0, 100_000)).values


async def publish(store: PostgresStore, first: int, until: int) -> None:
    for offset in range(first, until):
        await store.append([published(offset, [b"%d" % offset])])


def numbers(until: int) -> list[bytes]:
    return [b"%d" % offset for offset in range(until)]


async def reopened(url: str, redis: str, **options: Any) -> list[bytes]:
    """What a queue finds that is opened there, without anything in memory."""
    store = BufferedStore(url, redis, **options)
    await recovered(store)
    found = await values(store)
    await store.close()
    return found


async def refused(store: PostgresStore, kind: type[OrtooError], words: str) -> None:
    with pytest.raises(kind, match=words):
        await recovered(store)
    await store.close()


async def killed(url: str, redis: str) -> None:
    """Its database was away: fifty commits are in Redis alone."""
    store = await opened(url, redis)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 50)
    await store.die()


# -- on and off


async def test_commits_are_confirmed_from_redis_and_drained_in_order(url: str, sql: Any, redis_url: str) -> None:
    store = await opened(url, redis_url)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 50)
    health = store.health()
    assert health.buffer is not None
    assert (health.is_healthy, health.buffer.is_on, health.buffer.commits) == (False, True, 50)
    assert await sql.fetchval("select max(number) from commits") == 1
    assert await values(store) == numbers(50)
    assert any("50 commits" in problem for problem in store.status().problems)
    assert not store.status().can_copy
    store.is_away = lambda: False
    await store.drained()
    assert await sql.fetchval("select array_agg(number order by number) from commits") == list(range(1, 52))
    assert await sql.fetchval("select count(distinct xmin::text) from commits where number > 1") < 5  # in batches
    assert store.health().is_healthy
    assert [one for one in store.status().problems if "away" in one] == []
    await store.close()


async def test_a_batch_that_was_made_and_not_confirmed_is_not_made_twice(url: str, sql: Any, redis_url: str) -> None:
    store = await opened(url, redis_url)
    await store.drained()
    send, breaks = store.shard.send_many, 3

    async def broken(commits: Any) -> None:
        nonlocal breaks
        await send(commits)
        if breaks:
            breaks -= 1
            raise DatabaseError("the connection broke behind the batch")

    store.shard.send_many = broken  # type: ignore[method-assign]
    await publish(store, 0, 50)
    await store.drained()
    assert await sql.fetchval("select array_agg(number order by number) from commits") == list(range(1, 52))
    assert await sql.fetchval("select sum(messages) from batches") == 50
    await store.close()


async def test_a_queue_that_is_stopped_leaves_nothing_in_redis_and_opens_without_it(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url)
    await publish(store, 0, 50)
    await store.close()
    async with Redis.from_url(redis_url) as redis:
        assert await redis.keys("ortoo:buffer:*") == []
    assert await find_mark(parse_address(url)) is None
    plain = store_at(url)
    await recovered(plain)
    assert await values(plain) == numbers(50)
    await plain.close()


async def test_an_idle_queue_needs_no_buffer_to_be_opened(
    url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffering, "IDLE_S", 0.1)
    store = await opened(url, redis_url)
    await publish(store, 0, 3)
    await until(lambda: not store.is_on)
    await publish(store, 3, 4)
    assert store.is_on
    await until(lambda: not store.is_on)
    assert await find_mark(parse_address(url)) is None
    await store.die()
    plain = store_at(url)
    await recovered(plain)
    assert await values(plain) == numbers(4)
    await plain.close()


async def test_whoever_is_faster_than_the_database_waits_for_it(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url, buffer_bytes=2_000)
    send, most = store.shard.send_many, 0

    async def slowly(commits: Any) -> None:
        nonlocal most
        most = max(most, sum(commit.size for commit in store.held.values()))
        await asyncio.sleep(0.01)
        await send(commits)

    store.shard.send_many = slowly  # type: ignore[method-assign]
    await publish(store, 0, 200)
    assert 0 < most <= 2_000
    assert store.is_on
    await store.close()
    assert await reopened(url, redis_url) == numbers(200)


async def test_a_full_buffer_takes_no_more_messages_while_the_database_is_away(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url, buffer_bytes=8_000)
    await store.drained()
    store.is_away = lambda: True
    offset = 0
    while store.status().full is None:
        await publish(store, offset, offset + 1)
        offset += 1
    assert "the buffer has" in str(store.status().full)
    await store.append([published(offset, [b"%d" % offset])])  # there is still room, for what settles
    store.is_away = lambda: False
    await store.drained()
    assert store.status().full is None
    assert await values(store) == numbers(offset + 1)
    await store.close()


async def test_a_full_buffer_goes_to_the_spill_and_comes_back(url: str, redis_url: str, tmp_path: Path) -> None:
    store = await opened(url, redis_url, tmp_path, buffer_bytes=2_000)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 100)
    assert not store.is_on
    assert store.health().spilled_commits > 50
    assert await values(store) == numbers(100)
    store.is_away = lambda: False
    offset = 100
    async with asyncio.timeout(LONG_S):
        while not store.is_on:
            await publish(store, offset, offset + 1)
            offset += 1
    await store.die()
    assert await reopened(url, redis_url, spill=tmp_path) == numbers(offset)


# -- Redis goes


@pytest.mark.parametrize("how", ["killed", "paused", "emptied", "restarted", "restarted empty", "full"])
async def test_a_redis_that_goes_loses_nothing(
    url: str, own_redis: PrivateRedis, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is used again when it is back."""
    if how == "paused":
        monkeypatch.setattr(connection, "CALL_S", 0.3)
        monkeypatch.setattr(connection, "CONNECT_S", 0.3)
    store = await opened(url, own_redis.url)
    await store.drained()
    store.is_away = lambda: len(store.held) < 20  # so that some are only in memory and in Redis then
    await publish(store, 0, 20)
    async with Redis.from_url(own_redis.url) as redis:
        if how == "killed":
            own_redis.kill()
        elif how == "paused":
            own_redis.pause()
        elif how == "emptied":
            await redis.flushall()
        elif how == "full":
            await redis.config_set("maxmemory", 1)
        else:
            own_redis.kill()
            if how == "restarted empty":
                own_redis.empty()
            own_redis.start()
        store.is_away = lambda: False
        await publish(store, 20, 40)
        if how in ("killed", "paused", "full"):
            assert not store.is_on
            assert any("without the buffer" in problem for problem in store.status().problems)
        if how == "killed":
            own_redis.start()
        elif how == "paused":
            own_redis.resume()
        elif how == "full":
            await redis.config_set("maxmemory", 0)
    offset = 40
    async with asyncio.timeout(LONG_S):
        while not store.is_on:
            await publish(store, offset, offset + 1)
            offset += 1
    assert await values(store) == numbers(offset)
    assert not any("without the buffer" in problem for problem in store.status().problems)
    await store.die()
    assert await reopened(url, own_redis.url) == numbers(offset)


async def test_redis_and_the_database_gone_at_once_go_to_the_spill(
    url: str, own_redis: PrivateRedis, tmp_path: Path
) -> None:
    store = await opened(url, own_redis.url, tmp_path)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 20)
    own_redis.kill()
    await publish(store, 20, 40)
    assert store.health().spilled_commits == 40
    assert await values(store) == numbers(40)
    own_redis.start()
    await store.die()
    assert await reopened(url, own_redis.url, spill=tmp_path) == numbers(40)


async def test_what_was_confirmed_survives_in_memory_when_both_are_gone_and_there_is_no_spill(
    url: str, own_redis: PrivateRedis
) -> None:
    store = await opened(url, own_redis.url)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 20)
    own_redis.kill()
    with pytest.raises(DatabaseError, match="held in memory"):
        await publish(store, 20, 21)
    store.is_away = lambda: False
    await recovered(store)  # as the broker does then
    assert await values(store) == numbers(21)  # nobody knew what came of the last one
    await store.close()


# -- the process is killed


async def test_what_a_killed_queue_left_in_redis_is_drained_before_anything_else(
    url: str, sql: Any, redis_url: str
) -> None:
    await killed(url, redis_url)
    assert await sql.fetchval("select max(number) from commits") == 1
    assert await reopened(url, redis_url) == numbers(50)
    async with Redis.from_url(redis_url) as redis:
        assert await redis.keys("ortoo:buffer:*") == []


async def test_a_buffer_that_is_switched_off_while_commits_wait_is_refused(url: str, redis_url: str) -> None:
    await killed(url, redis_url)
    for _ in range(2):
        await refused(store_at(url), ConfigError, "commits from 1 on may wait.*buffer = redis.*ortoo buffer abandon")
    assert await reopened(url, redis_url) == numbers(50)


async def test_a_redis_that_cannot_be_reached_is_waited_for(url: str, own_redis: PrivateRedis) -> None:
    await killed(url, own_redis.url)
    own_redis.kill()
    await refused(BufferedStore(url, own_redis.url), UnavailableError, "cannot be reached.*Start that Redis")
    own_redis.start()
    assert await reopened(url, own_redis.url) == numbers(50)


@pytest.mark.parametrize("how", ["emptied", "another one", "list gone", "shorter"])
async def test_a_redis_that_lost_what_it_had_is_refused_until_that_is_given_up(
    url: str, own_redis: PrivateRedis, redis_url: str, how: str, sql: Any
) -> None:
    await killed(url, own_redis.url)
    async with Redis.from_url(own_redis.url, decode_responses=True) as redis:
        [names] = [key for key in map(str, await redis.keys("ortoo:buffer:*")) if not key.endswith(":commits")]
        if how == "emptied":
            await redis.flushall()
        elif how == "list gone":
            await redis.delete(f"{names}:commits")
        elif how == "shorter":
            await sql.execute("update buffer set known = 51")
            await redis.ltrim(f"{names}:commits", 0, -11)
            await redis.hset(names, "last", "41")
    where = redis_url if how == "another one" else own_redis.url
    for _ in range(2):
        await refused(
            BufferedStore(url, where), UnavailableError, "does not have that buffer|has lost commits: 51 was confirmed"
        )
    told = await abandon(parse_address(url))
    assert "commits from 2 on are lost" in told
    assert ("2 to 51 for certain" in told) == (how == "shorter")
    assert await reopened(url, where) == []


async def test_a_redis_that_was_restarted_meanwhile_is_reported(url: str, own_redis: PrivateRedis) -> None:
    await killed(url, own_redis.url)
    own_redis.kill()
    own_redis.start()
    store = BufferedStore(url, own_redis.url)
    await recovered(store)
    assert await values(store) == numbers(50)
    assert any("was restarted, or failed over" in problem for problem in store.status().problems)
    await store.close()


async def test_nothing_is_given_up_while_the_queue_runs_or_when_nothing_waits(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url)
    with pytest.raises(UnavailableError, match="in use"):
        await abandon(parse_address(url))
    await store.close()
    with pytest.raises(OrtooError, match="nothing of"):
        await abandon(parse_address(url))


async def test_what_reads_the_database_alone_says_that_it_does_not_have_all(url: str, redis_url: str) -> None:
    await killed(url, redis_url)
    source = open_source(url)
    with pytest.raises(UnavailableError, match="commits from 1 on may wait"):
        _ = [one async for one in source.records()]
    await source.close()
    report = await check_schema(parse_address(url), KeyRing({}))
    assert any("these were not looked at" in problem for problem in report.problems)


# -- copies, and two owners


async def copied(url: str, name: str) -> str:
    """By createdb; the original must not be connected."""
    there = await asyncpg.connect(server().url)
    await there.execute(f"create database {name} template {url.rpartition('/')[2].partition('?')[0]}")
    await there.close()
    return url.replace(url.rpartition("/")[2].partition("?")[0], name)


@pytest_asyncio.fixture
async def own_database() -> str:
    name = f"original{next(_databases)}"
    there = await asyncpg.connect(server().url)
    await there.execute(f"create database {name}")
    await there.close()
    return server().url.replace("/postgres", f"/{name}")


async def pretend_promoted(copy: str) -> None:
    """As a clone made of files is, or a standby: it has the identity of the original, and another timeline."""
    there = await asyncpg.connect(copy, server_settings={"search_path": "ortoo", "ortoo.writer": "queue"})
    here = await mark.look_here(there)
    await there.execute("update buffer set identity = $1, timeline = 'before'", here.identity)
    await there.close()


async def test_a_copy_of_the_database_leaves_the_buffer_alone(own_database: str, redis_url: str) -> None:
    await killed(own_database, redis_url)
    copy = await copied(own_database, f"copy{next(_databases)}")
    await refused(BufferedStore(copy, redis_url), ConfigError, "is a copy.*they belong there")
    await refused(store_at(copy), ConfigError, "is a copy")
    assert "copy of another database" in await abandon(parse_address(copy))
    theirs = await opened(copy, redis_url)
    await publish(theirs, 0, 1) if not await values(theirs) else None
    assert await reopened(own_database, redis_url) == numbers(50)
    await theirs.close()


async def test_a_clone_does_not_take_the_buffer_of_a_queue_that_runs(
    own_database: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer_recovery, "USED_WAIT_S", 0.2)
    monkeypatch.setattr(redis_buffer, "ALIVE_MS", 60_000)
    await killed(own_database, redis_url)
    clone = await copied(own_database, f"clone{next(_databases)}")
    await pretend_promoted(clone)
    await refused(BufferedStore(clone, redis_url), UnavailableError, "is in use by.*copy")
    monkeypatch.setattr(redis_buffer, "ALIVE_MS", 0)
    assert await reopened(own_database, redis_url) == numbers(50)


async def test_what_a_promoted_database_has_drained_is_still_there_for_the_one_before(
    own_database: str, redis_url: str
) -> None:
    await killed(own_database, redis_url)
    clone = await copied(own_database, f"clone{next(_databases)}")
    await pretend_promoted(clone)
    assert await reopened(clone, redis_url) == numbers(50)
    assert await reopened(own_database, redis_url) == numbers(50)


async def test_an_owner_that_is_alive_survives_a_clone_that_takes_its_buffer(
    own_database: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all in memory, and the database says who the owner is."""
    store = await opened(own_database, redis_url)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 20)
    assert store.buffering is not None
    thief = store.buffering.era._replace(owner="thief")
    assert (await store.buffering.buffer.take_over(thief, by_force=True)).last == 21
    store.is_away = lambda: False
    await publish(store, 20, 40)
    async with asyncio.timeout(LONG_S):
        offset = 40
        while not store.is_on:
            await publish(store, offset, offset + 1)
            offset += 1
    assert store.buffering.era.name != thief.name
    await store.close()
    assert await reopened(own_database, redis_url) == numbers(offset)


async def test_whoever_takes_the_shard_by_force_has_all_and_the_owner_before_confirms_nothing_more(
    url: str, redis_url: str
) -> None:
    old = await opened(url, redis_url)
    await old.drained()
    old.is_away = lambda: True
    await publish(old, 0, 30)
    old.is_away = lambda: False
    assert old.buffering is not None
    await old.buffering.flusher.stop()  # it hangs
    new = BufferedStore(url, redis_url)
    await new.claim(100)
    with pytest.raises((NotOwnerError, DatabaseError)):
        await publish(old, 30, 31)
    await recovered(new)
    assert await values(new) == numbers(30)
    await publish(new, 30, 31)
    await new.close()
    await old.die()
    assert await reopened(url, redis_url) == numbers(31)


async def test_a_database_that_went_back_is_never_given_what_does_not_follow(
    url: str, sql: Any, redis_url: str
) -> None:
    store = await opened(url, redis_url)
    await publish(store, 0, 10)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 10, 20)
    await sql.execute("delete from commits where number > 6; delete from batches where commit > 6")
    store.is_away = lambda: False
    with pytest.raises(DatabaseError, match="went back"):
        async with asyncio.timeout(LONG_S):
            while True:
                await publish(store, 20, 21)
    await recovered(store)
    assert await values(store) == numbers(5)
    told = " ".join(store.status().problems)
    assert "offsets 10 to 20" in told
    assert "kept there in ortoo:buffer:" in told
    await store.close()
    assert await reopened(url, redis_url) == numbers(5)
