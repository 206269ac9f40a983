"""The store on PostgreSQL where things are not as they should be: full disks, checkpoints that fail, lost keys, odd settings."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from ortoo import Queue
from ortoo.broker import Broker
from ortoo.model import records as r
from ortoo.model.errors import ConfigError, FullError, StoreFailedError
from ortoo.model.names import LeaseId
from ortoo.model.offsets import OffsetSet
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import PostgresStore
from ortoo.testing import ManualClock
from ortoo.testing.store_contract import T1, G, created, published

from .going_back import until
from .postgres_server import fresh_url, server, store_at

FULL = """
    create function refuse() returns trigger language plpgsql as $$
    begin raise exception using errcode = '{state}', message = 'no'; end $$;
    create trigger refuse before insert on {table} for each statement execute function refuse()
"""


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


async def opened(url: str, **options: Any) -> PostgresStore:
    store = store_at(url, **options)
    await recovered(store)
    return store


async def checkpoint(store: PostgresStore) -> None:
    await store.checkpoint(b"snapshot", 10_000)
    await store._stop()


async def test_a_full_disk_stops_publishing_and_nothing_else(url: str, sql: Any) -> None:
    seconds = [0.0]
    broker = Broker(store_at(url, now=lambda: seconds[0]), ManualClock())
    async with Queue(broker) as queue:
        await queue.create_topic("t", partitions=1)
        await queue.publish_many("t", [b"x"] * 10)
        held = await queue.lease("t", max_messages=10)
        await broker.flush()
        await sql.execute(FULL.format(state="53100", table="batches"))
        with pytest.raises(StoreFailedError, match="nothing was written"):
            await queue.publish("t", b"y")
        await until(lambda: broker.refusal is None)
        for one in held:
            await queue.ack([one])
            with pytest.raises(FullError):
                await queue.publish("t", b"y")
        assert broker.meters.recoveries == 1
        await sql.execute("drop trigger refuse on batches")
        seconds[0] += 6
        assert (await queue.publish("t", b"z")).offset == 10


async def test_bytes_that_wait_for_a_checkpoint_are_bounded_while_checkpoints_fail(url: str, sql: Any) -> None:
    store = await opened(url, checkpoint_bytes=1_000)
    await sql.execute(FULL.format(state="P0001", table="checkpoints"))
    await store.append([r.Opened(1, 1), created(T1)])
    base = 0
    while store.status().full is None:
        assert base < 100
        await store.append([published(base, [b"x" * 1_000])])
        await checkpoint(store)
        base += 1
    assert "a checkpoint failed" in (store.status().full or "")
    await sql.execute("drop trigger refuse on checkpoints")
    await checkpoint(store)
    assert store.status().full is None
    await store.close()


async def test_a_topic_whose_key_is_lost_can_be_deleted_and_checkpoints_go_on(url: str, sql: Any) -> None:
    async with Queue(Broker(store_at(url, KeyRing({"key": bytes(32)})), ManualClock())) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        await queue.publish("secret", b"v")
        await queue.publish("open", b"x")
    for turn in range(2):
        broker = Broker(store_at(url), ManualClock())
        async with Queue(broker) as queue:
            if turn == 0:
                assert any("quarantined" in problem for problem in broker.problems())
                await queue.delete_topic("secret")
            assert not any("quarantined" in problem for problem in broker.problems())
            if turn == 1:
                await broker.store.checkpoint(*await broker._snapshot())
                await broker.store._stop()  # type: ignore[attr-defined]
    assert await sql.fetchval("select count(*) from checkpoints") == 1
    async with Queue(Broker(store_at(url), ManualClock())) as queue:
        assert [one.value for one in await queue.lease("open")] == [b"x"]


async def test_a_topic_without_its_key_that_is_deleted_locks_nothing_any_more(url: str, sql: Any) -> None:
    """At once, not after the next opening."""
    async with Queue(Broker(store_at(url, KeyRing({"key": bytes(32)})), ManualClock())) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        await queue.publish("secret", b"v")
    broker = Broker(store_at(url), ManualClock())
    async with Queue(broker) as queue:
        await broker.store.checkpoint(*await broker._snapshot())
        await broker.store._stop()  # type: ignore[attr-defined]
        assert await sql.fetchval("select count(*) from checkpoints") == 0
        await queue.delete_topic("secret")
        await broker.store.checkpoint(*await broker._snapshot())
        await broker.store._stop()  # type: ignore[attr-defined]
        assert await sql.fetchval("select count(*) from checkpoints") == 1


async def test_commits_that_were_kept_for_a_transaction_go_after_it(url: str, sql: Any) -> None:
    broker = Broker(store_at(url), ManualClock())
    async with Queue(broker) as queue:
        await queue.create_topic("t", partitions=1)
        tx = await queue.begin("tx")
        await tx.publish_many("t", [b"x"] * 5)
        for _ in range(2):
            await broker.store.checkpoint(*await broker._snapshot())
            await broker.store._stop()  # type: ignore[attr-defined]
        assert await sql.fetchval("select count(*) from commits") > 0
        await tx.commit()
        await broker.store.checkpoint(*await broker._snapshot())
        await broker.store._stop()  # type: ignore[attr-defined]
        assert await sql.fetchval("select count(*) from commits") == 0


async def test_many_offsets_that_begin_close_together_and_go_on_far_apart_are_all_read(url: str) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    for base in range(0, 100_000, 4_000):
        await store.append([published(base, [b"%d" % offset for offset in range(base, base + 4_000)])])
    await checkpoint(store)
    await store.close()
    store = await opened(url)
    wanted = [*range(1_000), *range(5_000, 100_000, 300)]
    found = await store.read(T1, 0, wanted)
    assert list(found.offsets) == wanted
    assert found.values == [b"%d" % offset for offset in wanted]
    await store.close()


async def test_history_that_is_merged_while_it_is_read_is_told_once(url: str) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1), published(0, [b"x"])])
    for number in range(200):
        await store.append([r.Leased(1, T1, G, 0, LeaseId(number), "me", 9, OffsetSet([0]))])
    found: list[Any] = []
    async for records in store.history(T1, 0, 0):
        if not found:
            await checkpoint(store)
        found += records
    assert [one.lease for one in found] == list(range(200))
    await store.close()


# -- settings and schemas of others


@pytest_asyncio.fixture
async def odd_url(url: str, sql: Any, request: pytest.FixtureRequest) -> str:
    """For a role with settings of its own."""
    role = url.partition("schema=")[2] + "_role"
    await sql.execute(f"create role {role} login superuser")
    for setting in request.param:
        if "transaction_timeout" not in setting or sql.get_server_version().major >= 17:
            await sql.execute(f"alter role {role} set {setting}")
    return url.replace("queue@", f"{role}@")


ODD = [
    "standard_conforming_strings = off",
    "idle_session_timeout = '1s'",
    "transaction_timeout = '5s'",
    "default_transaction_deferrable = on",
    "default_transaction_isolation = serializable",
    "bytea_output = escape",
]


@pytest.mark.parametrize("odd_url", [ODD], indirect=True)
async def test_what_a_role_is_set_to_changes_nothing(odd_url: str, sql: Any) -> None:
    store = await opened(odd_url)
    await store.append([r.Opened(1, 1), created(T1), published(0, [b"\\x00'"])])
    for connection in (store.connections.writer,):
        assert await connection.fetchval("show idle_session_timeout") == "0"
        if connection.get_server_version().major >= 17:
            assert await connection.fetchval("show transaction_timeout") == "0"
    await checkpoint(store)
    assert store.status().problems == ()
    await store.close()


@pytest.mark.parametrize("odd_url", [["synchronous_commit = off"]], indirect=True)
async def test_a_role_that_does_not_wait_for_commits_is_a_problem(odd_url: str) -> None:
    store = await opened(odd_url)
    assert "synchronous_commit is off" in store.status().problems[0]
    await store.close()


@pytest.mark.parametrize(
    "strange",
    [
        "create function {0}.claim(a bigint, b text) returns bigint language sql as 'select 1::bigint'",
        "create table {0}.migrations (version int)",
        "create view {0}.migrations as select 1 as version, 2 as at, 3 as by_version",
        "create type {0}.mood as enum ('fine')",
    ],
)
async def test_a_schema_of_others_is_left_alone(url: str, sql: Any, strange: str) -> None:
    schema = url.partition("schema=")[2]
    await sql.execute(f"create schema {schema}")
    await sql.execute(strange.format(schema))
    store = store_at(url)
    with pytest.raises(ConfigError, match="not a queue's; name another"):
        await recovered(store)
    await store.close()
    assert await sql.fetchval("select to_regclass('commits') is null")


# -- a PostgreSQL of one's own


def test_one_whose_starter_was_killed_does_not_stand_in_the_way() -> None:
    folder = Path(server().folder) / "left over"
    start = [sys.executable, "-m", "ortoo.testing.private_postgres", str(folder)]
    wait = [sys.executable, "-c", "import sys, time; print('up', flush=True); time.sleep(600)"]
    with subprocess.Popen([*start, *wait], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"up\n"
        children = subprocess.run(
            ["pgrep", "-P", str(first.pid)], check=False, capture_output=True, text=True
        ).stdout.split()
        postmaster = (folder / "postgres" / "postmaster.pid").read_text().split()[0]
        first.send_signal(signal.SIGKILL)
        for child in children:
            if child != postmaster:
                subprocess.run(["kill", child], check=False)
    second = subprocess.run([*start, "echo", "again"], check=False, capture_output=True, text=True, timeout=120)
    assert second.stdout == "again\n", second.stderr
