"""Dedup ids of messages that a database lost when it went back: they were published for nobody, and may be published again."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from ortoo import Message, OutcomeUnknownError, Queue, UnavailableError
from ortoo.testing.private_redis import PrivateRedis
from tests.redis.sharing import LONG_S, connection_of, is_up, sharing_queue, until, values
from tests.stores.going_back import Backup, back_up, restore
from tests.stores.postgres_server import fresh_url, server, store_at

SHARED: dict[str, Any] = {"dedup_scope": "namespace", "partitions": 1}


async def sent_again(queue: Queue, name: str) -> Any:
    """As clients do while the queue recovers."""
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await queue.publish("orders", b"again", dedup_id=name)
            except (OutcomeUnknownError, UnavailableError):
                await asyncio.sleep(0.01)


async def lose(url: str, backup: Backup) -> None:
    settings = {"search_path": url.partition("schema=")[2], "ortoo.writer": "queue"}
    sql = await asyncpg.connect(server().url, server_settings=settings)
    await restore(sql, backup)
    await sql.close()


async def never() -> None:
    """It is not tried whether Redis is back."""


async def saved(url: str) -> Backup:
    sql = await asyncpg.connect(server().url, server_settings={"search_path": url.partition("schema=")[2]})
    try:
        return await back_up(sql)
    finally:
        await sql.close()


@pytest.mark.parametrize("is_same", [True, False])
async def test_an_id_whose_message_is_lost_is_no_duplicate(redis_url: str, is_same: bool) -> None:
    """Neither where it was published, nor elsewhere; and what was not lost still is one."""
    url = fresh_url()
    async with sharing_queue(redis_url, store_at(url)) as (one, broker, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        kept = await one.publish("orders", b"kept", dedup_id="kept")
        backup = await saved(url)
        await one.publish_many("orders", [Message(b"lost", dedup_id=name) for name in ("a", "b", "c")])
        await lose(url, backup)
        await sent_again(one, "new")
        assert broker.meters.recoveries
        again = await sent_again(one if is_same else two, "a")
        assert not again.duplicate
        for queue in (one, two):
            assert (await queue.publish("orders", b"x", dedup_id="a")).id == again.id
            assert (await queue.publish("orders", b"x", dedup_id="kept")).id == kept.id
        assert sorted(await values(one, "orders") + await values(two, "orders")) == [b"again", b"again", b"kept"]


async def test_an_id_whose_message_is_lost_while_redis_is_away_is_free_when_it_is_back(own_redis: PrivateRedis) -> None:
    url = fresh_url()
    async with sharing_queue(own_redis.url, store_at(url)) as (one, _, sharing):
        await one.create_topic("orders", **SHARED)
        await one.publish("orders", b"0", dedup_id="0")
        backup = await saved(url)
        await one.publish_many("orders", [Message(b"lost", dedup_id=name) for name in ("a", "b")])
        connection = connection_of(sharing)
        connection.is_up = False  # for the queue; what it has stays
        probe, connection._probe = connection._probe, never  # type: ignore[method-assign]
        await lose(url, backup)
        await sent_again(one, "new")  # from then on it is known that they are gone
        first = await sent_again(one, "b")  # at the place at which another one was
        assert not first.duplicate
        connection._probe = probe  # type: ignore[method-assign]
        await probe()
        await until(lambda: is_up(sharing))
        for name, is_duplicate in (("a", False), ("b", True), ("0", True)):
            assert (await one.publish("orders", b"x", dedup_id=name)).duplicate == is_duplicate
        assert (await one.publish("orders", b"x", dedup_id="b")).id == first.id
