"""A buffer whose owner ends, hangs, is cut off or fenced in the middle of a step: nothing confirmed is gone, and it opens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from ortoo.model.errors import NotOwnerError, OrtooError
from ortoo.ports.buffer import BufferAwayError, BufferEra
from ortoo.stores.postgres import abandon, buffer_recovery, buffering, find_mark, flusher, parse_address
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.redis import RedisBuffer, RedisConnection
from ortoo.stores.redis import buffer as redis_buffer
from ortoo.stores.redis import parse_address as parse_redis
from tests.redis.buffered import LONG_S, BufferedStore, recovered
from tests.redis.sharing import until
from tests.redis.test_buffer import killed, numbers, opened, publish, quick, reopened, sql, url, values

__all__ = ["quick", "sql", "url"]


async def away(*_: Any, **__: Any) -> None:
    raise BufferAwayError("the test says so")


async def failing(*_: Any, **__: Any) -> None:
    raise DatabaseError("the test says so")


# -- killed in the middle


async def test_one_that_ends_between_two_eras_is_opened_again(
    url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is of the era before, and Redis has begun the next one."""
    monkeypatch.setattr(buffering, "BEAT_S", LONG_S)
    store = await opened(url, redis_url)
    await store.drained()
    assert store.buffering is not None
    store.buffering._break_off("the test says so")
    store.buffering._next_try = 0.0
    with monkeypatch.context() as patched:
        patched.setattr(buffering, "open_mark", failing)
        await publish(store, 0, 1)
    await store.die()
    assert await reopened(url, redis_url) == numbers(1)


@pytest.mark.parametrize("where", ["in the database", "in Redis"])
async def test_one_that_ends_behind_the_drain_is_opened_again(
    url: str, redis_url: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await killed(url, redis_url)
    store = BufferedStore(url, redis_url)
    with monkeypatch.context() as patched:
        if where == "in Redis":
            patched.setattr(RedisBuffer, "end", away)
            await recovered(store)
            assert await values(store) == numbers(50)
        else:
            patched.setattr(buffer_recovery, "close_mark", failing)
            with pytest.raises(OrtooError, match="the test says so"):
                await recovered(store)
    await store.die()
    assert await reopened(url, redis_url) == numbers(50)


# -- owners


async def test_one_that_lost_the_shard_and_takes_it_again_has_what_the_owner_between_confirmed(
    url: str, redis_url: str
) -> None:
    first = await opened(url, redis_url)
    await publish(first, 0, 10)
    await first.drained()
    second = BufferedStore(url, redis_url)
    await second.claim(100)
    with pytest.raises((NotOwnerError, DatabaseError)):
        await publish(first, 10, 11)
    await recovered(second)
    await publish(second, 10, 12)
    await second.drained()
    second.is_away = lambda: True
    await publish(second, 12, 40)
    await second.die()
    await first.close()
    await recovered(first)
    assert await values(first) == numbers(40)
    await first.close()


async def test_whoever_takes_the_shard_by_force_has_what_the_owner_before_confirms_until_then(
    url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that was idle has no mark; it must not make one behind the look at it."""
    monkeypatch.setattr(buffering, "IDLE_S", 0.1)
    old = await opened(url, redis_url)
    await until(lambda: old.buffering is not None and not old.buffering.is_marked)
    monkeypatch.setattr(buffering, "IDLE_S", LONG_S)
    new = BufferedStore(url, redis_url)
    claim, confirmed = new.shard.claim, 0

    async def late_claim(term: int | None = None) -> None:
        nonlocal confirmed
        assert old.buffering is not None
        old.shard.send_many = failing  # type: ignore[method-assign]
        try:
            await publish(old, 0, 1)
            confirmed = 1
        except OrtooError:
            pass
        await claim(term)

    new.shard.claim = late_claim  # type: ignore[method-assign]
    await new.claim(100)
    await recovered(new)
    assert len(await values(new)) >= confirmed
    await new.close()
    await old.die()


async def test_one_that_is_cut_off_confirms_nothing_more_when_its_buffer_was_given_up(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url)
    await store.drained()
    store.is_away = lambda: True
    store.connections.drop_writer()
    await publish(store, 0, 5)
    assert "commits from 2 on are lost" in await abandon(parse_address(url))
    store.is_away = lambda: False
    with pytest.raises(NotOwnerError):
        async with asyncio.timeout(LONG_S):
            for offset in range(5, 100_000):
                await publish(store, offset, offset + 1)
    await store.die()
    assert await find_mark(parse_address(url)) is None


async def test_an_owner_whose_writer_waits_is_still_there(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url)
    assert store.buffering is not None
    async with store.buffering._changing, Redis.from_url(redis_url) as redis:
        name = f"ortoo:buffer:{store.buffering.era.name}"
        told: set[Any] = set()
        async with asyncio.timeout(LONG_S):
            while len(told) < 4:
                told.add(await redis.hget(name, "at"))
                await asyncio.sleep(0.01)
    await store.close()


# -- what the database has


@pytest.mark.parametrize("table", ["commits", "buffer"])
async def test_what_may_not_be_on_every_standby_stays_held(url: str, sql: Any, redis_url: str, table: str) -> None:
    """A wait for a standby that is cancelled succeeds with a warning."""
    store = await opened(url, redis_url)
    await store.drained()
    assert store.buffering is not None
    if table == "buffer":
        store.buffering._break_off("the test says so")
        store.buffering._next_try = 0.0
    await sql.execute(
        "create function warn() returns trigger language plpgsql as "
        "$$ begin raise warning 'waited in vain'; return null; end $$; "
        f"create trigger warn after insert on {table} for each statement execute function warn()"
    )
    await publish(store, 0, 1)
    if table == "buffer":
        assert not store.is_on
    else:
        await until(lambda: store.buffering is not None and store.buffering.flusher.reason is not None)
    await sql.execute(f"drop trigger warn on {table}")
    await store.drained()
    assert await values(store) == numbers(1)
    await store.close()


async def test_batches_that_take_too_long_become_smaller(
    url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(url, redis_url)
    await store.drained()
    store.is_away = lambda: True
    await publish(store, 0, 100)
    send, sizes = store.shard.send_many, []

    async def slowly(commits: Any) -> None:
        sizes.append(len(commits))
        if len(commits) > 1 and not store.is_away():
            raise TimeoutError
        await send(commits)

    store.shard.send_many = slowly  # type: ignore[method-assign]
    store.is_away = lambda: False
    monkeypatch.setattr(flusher, "DRAINED_TOGETHER", 1)
    await store.drained()
    assert sizes[-1] == 1
    assert await values(store) == numbers(100)
    await store.close()


async def test_whoever_waits_for_what_something_else_has_taken_is_told(url: str, redis_url: str) -> None:
    store = await opened(url, redis_url)
    await store.drained()
    assert store.buffering is not None
    drain, never = store.buffering.flusher, asyncio.Event()

    async def hanging(commits: Any) -> None:
        await never.wait()

    send, store.shard.send_many = store.shard.send_many, hanging  # type: ignore[method-assign]
    await publish(store, 0, 1)
    waiter = asyncio.create_task(drain.reached(2))
    await asyncio.sleep(0)
    commits = dict(drain.held)
    await drain.stop()
    drain.taken()
    async with asyncio.timeout(LONG_S):
        await waiter
    store.shard.send_many = send  # type: ignore[method-assign]
    for commit in commits.values():
        drain.hold(commit)
    await store.close()


# -- what Redis is told late, or by a clone


async def connected(redis_url: str) -> RedisBuffer:
    buffer = RedisBuffer(RedisConnection(parse_redis(redis_url)))
    await buffer.start()
    return buffer


async def test_an_era_that_begins_late_does_not_end_the_one_that_follows(redis_url: str) -> None:
    buffer = await connected(redis_url)
    await buffer.begin(BufferEra("b", 2, "o"), "n", 7, None)
    assert await buffer.append(BufferEra("b", 2, "o"), 7, b"7", 6) is None
    with pytest.raises(BufferAwayError, match="a later era"):
        await buffer.begin(BufferEra("b", 1, "o"), "n", 7, None)
    await buffer.stop()
    buffer = await connected(redis_url)
    assert await buffer.append(BufferEra("b", 2, "o"), 8, b"8", 6) is None
    await buffer.stop()


@pytest.mark.parametrize("waiting", [0, 1])
async def test_a_clone_that_begins_anew_leaves_the_buffer_of_the_original_alone(redis_url: str, waiting: int) -> None:
    buffer, original = await connected(redis_url), BufferEra("original", 1, "o")
    await buffer.begin(original, "n", 1, None)
    assert await buffer.append(original, 1, b"1", 1 - waiting) is None
    await buffer.begin(BufferEra("clone", 1, "c"), "n", 1, "original")
    await buffer.touch(original, 1 - waiting)
    assert await buffer.append(original, 2, b"2", 1) is None
    async with Redis.from_url(redis_url) as redis:
        assert await redis.ttl("ortoo:buffer:original") == -1
        assert await redis.ttl("ortoo:buffer:original:commits") == -1
    await buffer.stop()


async def test_a_clock_of_redis_that_goes_back_does_not_keep_a_dead_owner_alive(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_buffer, "ALIVE_MS", 3_000)
    buffer, old = await connected(redis_url), BufferEra("b", 1, "old")
    await buffer.begin(old, "n", 1, None)
    assert (await buffer.take_over(old._replace(owner="new"), by_force=False)).used_by == "n"
    async with Redis.from_url(redis_url) as redis:
        await redis.hincrby("ortoo:buffer:b", "at", 3_600_000)
    assert not (await buffer.take_over(old._replace(owner="new"), by_force=False)).used_by
    await buffer.stop()


async def test_a_connection_whose_client_swallows_that_it_ends_ends_all_the_same(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = RedisConnection(parse_redis(redis_url))
    await redis.start()
    probe, asked = redis._probe, asyncio.Event()

    async def swallowing() -> None:
        asked.set()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            await probe()

    monkeypatch.setattr(redis, "_probe", swallowing)
    await asyncio.wait_for(asked.wait(), LONG_S)
    async with asyncio.timeout(LONG_S):
        await redis.stop()
