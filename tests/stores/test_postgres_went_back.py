"""A database that went back below a queue that runs: nothing is built on what is gone, and what is gone is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from ortoo import Queue
from ortoo.broker import Broker
from ortoo.broker.showing import projection_of
from ortoo.model import records as r
from ortoo.model.errors import (
    LeaseLostError,
    NotOwnerError,
    OrtooError,
    OutcomeUnknownError,
    StoreFailedError,
    UnavailableError,
)
from ortoo.stores.postgres import PostgresStore, connections
from ortoo.stores.postgres.errors import DatabaseError, WentBackError
from ortoo.testing import ManualClock
from ortoo.testing.store_contract import T1, created, published

from .going_back import HANGS_S, back_up, restore, until
from .postgres_server import fresh_url, server, store_at


def _nothing(arrays: int) -> str:
    return ", ".join(["'{{}}'"] * arrays)


APPEND = f"select append({{term}}, 99, false, 0::smallint, '', {_nothing(14)}, '', {_nothing(2)}, '', {_nothing(10)})"


@pytest.fixture
def url() -> str:
    return fresh_url()


@pytest_asyncio.fixture
async def sql(url: str) -> AsyncIterator[Any]:
    settings = {"search_path": url.partition("schema=")[2], "ortoo.writer": "queue"}
    connection = await asyncpg.connect(server().url, server_settings=settings)
    yield connection
    await connection.close()


async def recovered(store: PostgresStore) -> list[r.Record]:
    return [record async for records in store.recover() for record in records]


async def opened(url: str) -> PostgresStore:
    store = store_at(url)
    await recovered(store)
    return store


async def behind(url: str, sql: Any) -> PostgresStore:
    """A store that has confirmed 5 commits, on a database that has 3."""
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    for base in range(4):
        if base == 2:
            backup = await back_up(sql)
        await store.append([published(base, [b"%d" % base])])
    await restore(sql, backup)
    return store


async def test_a_checkpoint_never_lands_on_a_database_that_went_back(url: str, sql: Any) -> None:
    store = await behind(url, sql)
    await store.checkpoint(b"snapshot", 10_000)
    await store._stop()
    assert await sql.fetchval("select count(*) from checkpoints") == 0
    assert any("went back" in problem for problem in store.status().problems)
    assert not store.status().checkpoint_due
    with pytest.raises(WentBackError):
        await store.append([published(4, [b"next"])])
    await recovered(store)
    assert any("commits 4 to 5, which were confirmed, are lost" in problem for problem in store.status().problems)
    assert any("offsets 2 to 3" in problem for problem in store.status().problems)
    await store.append([published(2, [b"next"])])
    assert (await store.scan(T1, 0, 0, 10)).values == [b"0", b"1", b"next"]
    await store.close()
    store = await opened(url)
    assert store.status().problems == ()
    assert list((await store.scan(T1, 0, 0, 10)).offsets) == [0, 1, 2]
    await store.close()


async def test_the_last_checkpoint_of_a_queue_that_closes_does_not_land_there(url: str, sql: Any) -> None:
    broker = Broker(store_at(url), ManualClock())
    queue = Queue(broker)
    await queue.open()
    await queue.create_topic("t", partitions=1)
    await queue.publish_many("t", [b"old"] * 3)
    backup = await back_up(sql)
    await queue.publish_many("t", [b"new"] * 3)
    await restore(sql, backup)
    await broker.close(checkpoint=True)
    async with Queue(Broker(store_at(url), ManualClock())) as queue:
        assert [one.value for one in await queue.lease("t", max_messages=10)] == [b"old"] * 3


@pytest.mark.parametrize(
    "sql_text",
    [
        "select checkpoint({term}, 99, 1, 0, '')",
        APPEND,
        "select prune_commits({term}, 0, 3, '{{}}')",
        "select fence({term} + 1)",
    ],
)
async def test_the_database_itself_refuses_what_builds_on_what_is_gone(url: str, sql: Any, sql_text: str) -> None:
    store = await opened(url)
    for number in range(3):
        await store.append([r.Opened(1, number)])
    await sql.execute("select set_config('ortoo.token', $1, false)", store.connections.token)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await sql.execute(sql_text.format(term=store.term))
    assert refused.value.sqlstate == "OR002"
    assert await sql.fetchval("select count(*) from commits") == 3
    await store.close()


async def test_nothing_is_read_from_a_database_that_went_back(url: str, sql: Any) -> None:
    """Else messages that were confirmed would silently be left out of what is delivered."""
    store = await behind(url, sql)
    store.catalog.recent._bytes_max = 0
    store.catalog.logs[T1, 0].recent.clear()
    with pytest.raises(DatabaseError):
        await store.read(T1, 0, [0, 3])
    await store.close()


async def test_an_idle_queue_notices_and_tells(url: str, sql: Any) -> None:
    """Nobody publishes: the look of every few seconds finds it, and the queue begins again from what is there."""
    broker = Broker(store_at(url), ManualClock())
    async with Queue(broker) as queue:
        projection = projection_of(broker)
        assert projection is not None
        await queue.create_topic("t", partitions=1)
        backup = await back_up(sql)
        await queue.publish_many("t", [b"new"] * 3)
        await restore(sql, backup)
        projection._rounds = 4
        async with asyncio.timeout(HANGS_S):
            while not broker.meters.recoveries:
                projection._rounds = 4
                try:
                    await projection._look()
                except DatabaseError:  # its connections have just ended
                    continue
                await asyncio.sleep(0)
        await until(lambda: broker.refusal is None)
        assert any("are lost" in problem and "'t'" in problem for problem in broker.problems())
        assert (await queue.publish("t", b"x")).offset == 0


async def test_a_restore_of_before_this_owner_is_no_other_owner(url: str, sql: Any) -> None:
    await (await opened(url)).close()
    backup = await back_up(sql)
    broker = Broker(store_at(url), ManualClock())
    async with Queue(broker) as queue:
        term = broker.store.term  # type: ignore[attr-defined]
        await queue.publish("t", b"lost")
        await restore(sql, backup)
        async with asyncio.timeout(HANGS_S):
            while True:
                try:
                    await queue.publish("t", b"x")
                    break
                except (OutcomeUnknownError, StoreFailedError):
                    await asyncio.sleep(0.01)
        assert broker.store.term > term  # type: ignore[attr-defined]
        assert any("are lost" in problem for problem in broker.problems())


async def test_a_receipt_of_what_is_lost_settles_nothing_that_came_after(url: str, sql: Any) -> None:
    """The database has forgotten this opening, and would number the next one the same, and its leases too."""
    await (await opened(url)).close()
    backup = await back_up(sql)
    async with Queue(Broker(store_at(url), ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        await queue.publish("t", b"lost")
        [before] = await queue.lease("t")
        await restore(sql, backup)
        async with asyncio.timeout(HANGS_S):
            while True:
                try:
                    await queue.publish("t", b"new")
                    break
                except (OutcomeUnknownError, StoreFailedError):
                    await asyncio.sleep(0.01)
        [after] = await queue.lease("t")
        assert after.receipt != before.receipt
        with pytest.raises(OrtooError):
            await before.ack()
        await after.ack()


async def test_a_receipt_of_what_is_lost_settles_nothing_in_another_process_either(url: str, sql: Any) -> None:
    """Nobody knows of the opening that is lost: the next one has its epoch."""
    clock = ManualClock()
    async with Queue(Broker(store_at(url), clock)) as queue:
        await queue.create_topic("t", partitions=1)
        await queue.publish("t", b"there")
    backup = await back_up(sql)
    receipts = []
    for _ in range(2):
        await restore(sql, backup)
        await clock.advance(0.001)
        async with Queue(Broker(store_at(url), clock)) as queue:
            assert (await queue.stats()).epoch == 2
            [message] = await queue.lease("t")
            receipts.append(message.receipt)
            if len(receipts) == 2:
                with pytest.raises(LeaseLostError):
                    await queue.ack(receipts[0])
                await queue.ack(receipts[1])


async def test_the_database_as_it_was_before_it_went_back_is_told_from_what_it_is_now(url: str, sql: Any) -> None:
    """Two servers that were one, and the address leads to one and then to the other: as many commits are not the same commits."""
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    behind = await back_up(sql)
    for base in range(3):
        await store.append([published(base, [b"%d" % base])])
    ahead = await back_up(sql)
    await restore(sql, behind)
    with pytest.raises(WentBackError):
        await store.append([published(3, [b"3"])])
    await recovered(store)
    for base in range(3):
        await store.append([published(base, [b"other"])])
    await restore(sql, ahead)
    with pytest.raises(DatabaseError):
        await store.append([published(3, [b"after other"])])
    assert await sql.fetchval("select max(number) from commits") == 4
    await store.close()


async def test_a_term_that_is_given_twice_is_not_the_same_owner(url: str, sql: Any) -> None:
    await (await opened(url)).close()
    backup = await back_up(sql)
    first = await opened(url)
    await restore(sql, backup)
    await first.connections.close()  # it is paused, say
    second = await opened(url)
    assert first.term == second.term
    await second.append([r.Opened(1, 1)])
    with pytest.raises(NotOwnerError):
        await first.show([], [], None)
    with pytest.raises((NotOwnerError, DatabaseError)):
        await first.append([r.Opened(1, 1)])
    with pytest.raises(NotOwnerError):
        await first.check_owner()
    await second.append([r.Opened(1, 2)])
    for store in (first, second):
        await store.close()


async def test_an_owner_whose_connection_ended_holds_the_shard_again_at_once(
    url: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOCK_WAIT_S", 0.1)
    store = await opened(url)
    writer = store.connections.writer
    await sql.execute("select pg_terminate_backend($1)", writer.get_server_pid())
    await until(
        lambda: store.connections.has_writer and store.connections.writer is not writer and store.shard._keeping is None
    )
    second = store_at(url)
    with pytest.raises(UnavailableError, match="in use by another queue"):
        await recovered(second)
    await store.append([r.Opened(1, 1)])
    for one in (store, second):
        await one.close()
