"""What topics with durability interval and none were promised, when the database crashes: with a spill nothing of it is lost,
whoever finds the database back first; without one, what is lost is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from ortoo.model import records as r
from ortoo.model.topic import TopicConfig
from ortoo.stores.postgres import PostgresStore, front
from ortoo.stores.postgres.errors import WentBackError
from ortoo.testing.store_contract import T1, published

from .going_back import until
from .outages import UnsteadyStore
from .postgres_server import fresh_url, server, store_at

CRASH = "delete from batches where commit > {0}; delete from commits where number > {0}"


@pytest.fixture(autouse=True)
def never_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the clock."""
    monkeypatch.setattr("ortoo.stores.postgres.store.SYNC_S", 1e6)
    monkeypatch.setattr(front, "RETRY_S", 0.005)


@pytest.fixture
def url() -> str:
    return fresh_url()


@pytest_asyncio.fixture
async def sql(url: str) -> AsyncIterator[Any]:
    settings = {"search_path": url.partition("schema=")[2], "ortoo.writer": "queue"}
    connection = await asyncpg.connect(server().url, server_settings=settings)
    yield connection
    await connection.close()


async def softly(store: PostgresStore) -> None:
    """Commits 1 to 4, of which the first is durable."""
    async for _ in store.recover():
        pass
    await store.append([r.Opened(1, 1)])
    await store.append([r.TopicCreated(1, T1, "default", "t", TopicConfig(durability="none"))])
    for offset in range(3):
        await store.append([published(offset, [b"%d" % offset])])


async def crash(sql: Any, store: PostgresStore, last: int) -> None:
    """The database has restarted, without what followed that commit."""
    writer = store.connections.writer
    await sql.execute(CRASH.format(last))
    await sql.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ortoo'")
    await until(
        lambda: store.connections.has_writer and store.connections.writer is not writer and store.shard._keeping is None
    )


@pytest.mark.parametrize("who", ["a commit", "a look", "a sync", "the end"])
@pytest.mark.parametrize("last", [2, 4])
async def test_what_a_crash_took_is_made_again_though_the_queue_found_the_database_back_by_itself(
    url: str, sql: Any, tmp_path: Path, who: str, last: int
) -> None:
    store = UnsteadyStore(url, tmp_path)
    await softly(store)
    assert store.front is not None
    await crash(sql, store, last)
    wanted = [b"0", b"1", b"2"]
    if who == "a commit":
        await store.append([published(3, [b"3"])])
        wanted.append(b"3")
    elif who == "a look":
        assert await store.check_owner()
    elif who == "a sync":
        await store._sync()
    if who == "the end":
        await store.close()
    else:
        async with asyncio.timeout(120):
            while await sql.fetchval("select max(number) from commits") < len(wanted) + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await store.scan(T1, 0, 0, 9)).values == wanted
        await store.append([published(len(wanted), [b"next"])])
        wanted.append(b"next")
        await store.close()
    again = UnsteadyStore(url, tmp_path)
    async for _ in again.recover():
        pass
    assert (await again.scan(T1, 0, 0, 9)).values == wanted
    assert again.status().problems == ()
    await again.close()


async def test_a_sync_on_a_database_that_lost_them_does_not_make_them_forgotten(
    url: str, sql: Any, tmp_path: Path
) -> None:
    """The writer has come back to it already, so it is the same server for all that the connections tell."""
    store = UnsteadyStore(url, tmp_path)
    await softly(store)
    assert store.front is not None
    await crash(sql, store, 3)
    store.is_away = lambda: True
    await store._sync()
    assert store.health().spilled_commits
    store.is_away = lambda: False
    await until(lambda: store.front is not None and store.front.is_clear)
    assert (await sql.fetchval("select array_agg(number order by number) from commits")) == [1, 2, 3, 4, 5]
    await store.close()


async def test_without_a_spill_what_a_crash_took_is_told(url: str, sql: Any) -> None:
    store = store_at(url)
    await softly(store)
    await crash(sql, store, 3)
    with pytest.raises(WentBackError):
        await store.append([published(3, [b"3"])])
    async for _ in store.recover():
        pass
    [problem] = store.status().problems
    assert "commits 4 to 5, which were confirmed, are lost" in problem
    assert "'t', partition 0: offsets 1 to 2" in problem
    assert "durability interval and none" in problem
    await store.append([published(1, [b"new"])])
    assert (await store.scan(T1, 0, 0, 9)).values == [b"0", b"new"]
    await store.close()
