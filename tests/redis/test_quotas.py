"""Quotas of messages and bytes a minute that several servers share."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from ortoo import Queue, RateLimitedError
from ortoo.app.server import Server
from ortoo.broker.throttle import Bucket
from ortoo.model.errors import ConfigError
from ortoo.model.names import TopicName
from ortoo.model.settings import Settings
from ortoo.model.shards import shard_of
from ortoo.ports.rates import RateUse
from ortoo.stores.redis import RedisConnection, RedisRates, connection, parse_address
from ortoo.testing.private_redis import PrivateRedis
from tests.redis.sharing import LONG_S, is_up, serving, until


def used(server: Server, rate: str = "messages_per_minute") -> int:
    throttle = server.broker.meters.throttle
    assert throttle is not None
    return throttle.used("tenant")[rate]


async def test_what_one_server_lets_through_the_other_does_not(redis_url: str) -> None:
    async with serving(redis_url) as (first, one), serving(redis_url) as (second, two):
        for queue in (one, two):
            await queue.set_namespace("tenant", messages_per_minute=6_000)
        await publish(one, 5_000)
        await until(lambda: used(second) > 4_000)
        with pytest.raises(RateLimitedError, match="may publish 6000 messages a minute") as told:
            await publish(two, 5_000)
        assert told.value.retry_after is not None
        await publish(two, 500)
        await until(lambda: used(first) > 4_500)


async def test_bytes_are_shared_as_well(redis_url: str) -> None:
    async with serving(redis_url) as (_, one), serving(redis_url) as (second, two):
        for queue in (one, two):
            await queue.set_namespace("tenant", bytes_per_minute=1_000_000)
        await one.publish("orders", bytes(800_000), namespace="tenant")
        await until(lambda: used(second, "bytes_per_minute") > 700_000)
        with pytest.raises(RateLimitedError):
            await two.publish("orders", bytes(900_000), namespace="tenant")


async def test_both_at_once_exceed_a_quota_by_a_minutes_worth_at_most_and_owe_it(redis_url: str) -> None:
    async with serving(redis_url) as (first, one), serving(redis_url) as (second, two):
        for queue in (one, two):
            await queue.set_namespace("tenant", messages_per_minute=1_000)

        async def publish_all(queue: Queue) -> int:
            sent = 0
            try:
                while True:
                    await publish(queue, 100)
                    sent += 100
            except RateLimitedError:
                return sent

        sent = sum(await asyncio.gather(publish_all(one), publish_all(two)))
        assert 900 <= sent <= 2 * 1_000 + 200  # and what time has brought back meanwhile
        await until(lambda: used(first) > 700 and used(second) > 700)
        for queue in (one, two):
            with pytest.raises(RateLimitedError):
                await publish(queue, 500)


async def test_without_redis_each_server_counts_for_itself(
    own_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_S", 0.05)
    async with serving(own_redis.url) as (first, one), serving(own_redis.url) as (second, two):
        for queue in (one, two):
            await queue.set_namespace("tenant", messages_per_minute=6_000)
        await publish(one, 5_000)
        await until(lambda: used(second) > 4_000)
        own_redis.kill()
        await until(lambda: not is_up(second.sharing) and not is_up(first.sharing))
        with pytest.raises(RateLimitedError):  # what was known stays known
            await publish(two, 5_000)
        await publish(two, 500)
        own_redis.empty()
        own_redis.start()
        await until(lambda: is_up(second.sharing) and is_up(first.sharing))
        await until(lambda: used(first) > 4_000 and used(second) > 4_000)


async def test_a_redis_that_was_away_for_long_is_not_told_what_time_has_paid_back(redis_url: str) -> None:
    bucket = Bucket(1_000, 0)
    for minute in range(10):
        assert bucket.wait_ms(900, 60_000 * minute) == 0
        bucket.take(900)
        bucket.unheard(60_000 * minute + 1)
    assert bucket.unreported == 900
    bucket.unheard(20 * 60_000)
    assert bucket.unreported == 0


async def test_what_a_bucket_holds_is_right_to_a_token_however_large_it_is(redis_url: str) -> None:
    link = RedisConnection(parse_address(redis_url))
    await link.start()
    rates = RedisRates(link)
    use = RateUse("tenant\u00fc {x}", "bytes_per_minute", 10**15, 1, 10**15 - 1.0)
    assert await rates.report([use]) == [10**15 - 1]
    [left] = await rates.report([use._replace(used=10**14)]) or []
    assert abs(left - 9 * 10**14) < 10**13  # a few milliseconds have brought some back
    assert await rates.report([RateUse("other", "messages_per_minute", 5, 0, 5.0)]) == [5.0]
    await link.stop()


async def publish(queue: Queue, count: int) -> None:
    await queue.publish_many("orders", [b"x"] * count, namespace="tenant")


# -- shards


async def test_the_shards_of_one_server_share_ids_and_quotas(redis_url: str, tmp_path: Path) -> None:
    stores = [str(tmp_path / "one"), str(tmp_path / "two")]
    async with serving(redis_url, store=stores) as (_, queue):
        await queue.set_namespace("tenant", messages_per_minute=1_000)
        names = [f"orders-{number}" for number in range(8)]
        for name in names:
            await queue.create_topic(name, namespace="tenant", dedup_scope="namespace")
        sent = [await queue.publish(name, b"1", namespace="tenant", dedup_id="a") for name in names]
        assert [one.duplicate for one in sent] == [False] + [True] * 7
        assert len({one.id for one in sent}) == 1
        assert len({shard_of(TopicName("tenant", name), 2) for name in names}) == 2


# -- the setting


def test_an_address_that_is_not_understood_stops_the_server() -> None:
    with pytest.raises(ConfigError, match="knows no memcached:// addresses"):
        Server(Settings(data="memory", redis="memcached://cache"))


async def test_metrics_and_problems_tell_how_redis_is(own_redis: PrivateRedis) -> None:
    async with serving(own_redis.url) as (server, _):
        port = server.addresses["http"][1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=LONG_S) as web:
            assert "\nortoo_redis_up 1.0\n" in (await web.get("/metrics")).text
            own_redis.kill()
            await until(lambda: not is_up(server.sharing))
            told = (await web.get("/metrics")).text
            assert "\nortoo_redis_up 0.0\n" in told
            assert "\nortoo_redis_failures_total 1.0\n" in told
            assert 'ortoo_redis_fallbacks_total{use="quota"}' in told
            problems = (await web.get("/v1/stats")).text
            assert own_redis.url in problems
