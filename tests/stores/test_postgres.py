"""What the store on PostgreSQL promises beside the contract of all stores: owners, migrations, checkpoints, faults, keys."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
import pytest_asyncio

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.model import records as r
from ortoo.model.batch import Batch, Outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import ConfigError, NotOwnerError, OutcomeUnknownError, UnavailableError
from ortoo.model.names import LeaseId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import KeyRing, open_ring
from ortoo.stores.disk.key_file import make_key_file
from ortoo.stores.postgres import PostgresStore, checkpoints, connections, migrations, recovery
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.postgres.shard import Shard
from ortoo.testing import ManualClock
from ortoo.testing.private_postgres import versions
from ortoo.testing.store_contract import T1, T2, G, created, published

from .postgres_server import fresh_url, server, store_at

KEYS = {"key": bytes(32)}


@pytest.fixture
def url() -> str:
    return fresh_url()


@pytest_asyncio.fixture
async def sql(url: str) -> AsyncIterator[Any]:
    """Somebody who may do everything there."""
    settings = {"search_path": url.partition("schema=")[2], "ortoo.writer": "queue"}
    connection = await asyncpg.connect(server().url, server_settings=settings)
    yield connection
    await connection.close()


async def opened(url: str, **options: Any) -> PostgresStore:
    store = store_at(url, **options)
    await recovered(store)
    return store


async def refused(url: str, why: str) -> None:
    store = store_at(url)
    with pytest.raises(ConfigError, match=why):
        await recovered(store)
    await store.close()


async def recovered(store: PostgresStore) -> list[r.Record]:
    return [record async for records in store.recover() for record in records]


async def checkpoint(store: PostgresStore, at: int = 10_000) -> None:
    await store.checkpoint(b"snapshot", at)
    await store._stop()
    assert store.status().problems == ()


async def cut_off(sql: Any, store: PostgresStore) -> None:
    """Its writer's connection ends, without a word."""
    await sql.execute("select pg_terminate_backend($1)", store.connections.writer.get_server_pid())


# -- owners


async def test_a_second_queue_is_refused_while_the_first_one_is_there(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOCK_WAIT_S", 0.1)
    first, second = await opened(url), store_at(url)
    with pytest.raises(UnavailableError, match="in use by another queue"):
        await recovered(second)
    await first.append([r.Opened(1, 1)])
    await first.close()
    assert await recovered(second) == [r.Opened(1, 1)]
    await second.close()


async def test_an_owner_that_another_has_followed_is_refused_for_good(url: str) -> None:
    first = await opened(url)
    await first.append([r.Opened(1, 1), created(T1)])
    second = store_at(url)
    await second.claim(term=50)
    assert second.term == 50
    with pytest.raises((NotOwnerError, DatabaseError)):  # its connection was ended: whether this was made, nobody knows
        await first.append([published(0, [b"a"])])
    for _ in range(2):
        with pytest.raises(NotOwnerError):
            await first.append([published(0, [b"a"])])
        with pytest.raises(NotOwnerError):
            await recovered(first)
    assert [type(one) for one in await recovered(second)] == [r.Opened, r.TopicCreated]
    await second.append([published(0, [b"b"])])
    third = store_at(url)
    with pytest.raises(NotOwnerError, match="not above 50"):
        await third.claim(term=50)
    for store in (first, second, third):
        await store.close()


async def test_the_fence_alone_refuses_also_with_a_connection(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    await sql.execute("update owner set term = 99, node = 'other'")
    with pytest.raises(NotOwnerError, match="other owns this shard with term 99"):
        await store.append([published(0, [b"a"])])
    assert await sql.fetchval("select count(*) from commits") == 1
    await store.close()


async def test_a_broker_whose_store_has_another_owner_stops_for_good(url: str, sql: Any) -> None:
    broker = Broker(store_at(url), ManualClock())
    queue = Queue(broker)
    await queue.open()
    await queue.publish("t", b"a")
    await sql.execute("update owner set term = 99, node = 'other'")
    for _ in range(3):
        with pytest.raises(NotOwnerError):
            await queue.publish("t", b"b")
    assert isinstance(broker.refusal, NotOwnerError)
    assert await sql.fetchval("select term from owner") == 99
    await queue.close()


# -- migrations


async def test_a_schema_of_a_newer_queue_is_refused(url: str, sql: Any) -> None:
    await (await opened(url)).close()
    await sql.execute("insert into migrations (version, by_version) values (999, '9.9')")
    await refused(url, r"version 999.*update this one")


async def test_an_older_schema_is_brought_up_to_date_with_what_it_holds(
    url: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as old:
        old.setattr(migrations, "known_versions", lambda: [1])
        store = await opened(url)
        await store.append([r.Opened(1, 1), created(T1), published(0, [b"a"])])
        await store.close()
    assert await sql.fetchval("select to_regclass('messages') is null")
    store = await opened(url)
    assert (await store.read(T1, 0, [0])).values == [b"a"]
    assert await sql.fetchval("select array_agg(version order by version) from migrations") == [1, 2, 3]
    await store.close()


async def test_a_schema_with_tables_of_others_is_left_alone(url: str, sql: Any) -> None:
    schema = url.partition("schema=")[2]
    await sql.execute(f"create schema {schema}")
    await sql.execute("create table mine (a int)")
    await refused(url, "not a queue's")


@pytest.mark.parametrize("version", versions())
async def test_it_works_on_every_version_at_hand(version: int) -> None:
    url = fresh_url(version)
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1), published(0, [b"a", b"b"])])
    await store.append([r.Leased(1, T1, G, 0, LeaseId(1), "me", 9, OffsetSet([0]))])
    await checkpoint(store)
    await store.close()
    store = await opened(url)
    assert (await store.read(T1, 0, [0, 1])).values == [b"a", b"b"]
    assert (await store.read_history(T1, 0, 0, 10)).end == 1
    await store.close()


async def test_an_old_database_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "VERSION_MIN", 99)
    await refused(url, "needs 99 or newer")


# -- checkpoints


async def test_small_batches_are_merged_and_read_as_before(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    for offset in range(100):
        await store.append([published(offset, [b"%d" % offset], at=1000 + offset // 3)])
        await store.append([r.Leased(1, T1, G, 0, LeaseId(offset), "me", 9, OffsetSet([offset]))])
    before = await store.scan(T1, 0, 0, 1000), (await store.read_history(T1, 0, 0, 1000)).records
    assert await sql.fetchval("select count(*) from batches") == 100
    await checkpoint(store)
    assert await sql.fetchval("select count(*) from batches") == 1
    assert await sql.fetchval("select count(*) from history") == 1
    assert await sql.fetchval("select count(*) from commits") == 0
    await store.close()
    store = await opened(url)
    after = await store.scan(T1, 0, 0, 1000), (await store.read_history(T1, 0, 0, 1000)).records
    assert after == before
    assert (await store.read(T1, 0, [7, 55, 99])).values == [b"7", b"55", b"99"]
    await store.append([published(100, [b"next"])])
    assert await sql.fetchval("select max(number) from commits") == 202
    await store.close()


async def test_recovery_tells_what_the_rows_tell(url: str) -> None:
    """After a checkpoint: instants, sizes and key hashes come from the heads, whatever was merged."""
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    for offset in range(20):
        record = published(offset, [b"%d" % offset], at=1000 + offset // 5)
        await store.append([msgspec.structs.replace(record, key_hashes=bytes([offset] * 8))])
    await checkpoint(store)
    await store.close()
    store = store_at(url)
    [restored] = await recovered(store)
    assert isinstance(restored, r.Restored)
    assert restored.snapshot == b"snapshot"
    [index] = restored.logs
    assert array("Q", index.offsets).tolist() == [0, 5, 10, 15]
    assert array("Q", index.times).tolist() == [1000, 1001, 1002, 1003]
    assert sum(index.sizes) == 30
    assert b"".join(hashes or b"" for _, _, hashes in index.keys) == b"".join(bytes([n] * 8) for n in range(20))
    await store.close()


async def test_recovery_holds_no_more_at_once_than_fits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "READ_BYTES", 10_000)
    store = await opened(url)
    await store.append([created(T1, "t")])
    for number in range(20):
        batch = Batch([bytes(3_000)])
        await store.append([r.Published(0, T1, 0, number, 1, 3_000, batch)])
        staged = Publish(TopicName("default", "t"), Outgoing(batch.values))
        await store.append([r.Staged(0, "default", "tx", "part", staged)])
    await store.close()
    held, connection = list[int](), asyncpg.Connection
    fetch = connection.fetch

    async def counting(self: Any, query: str, *arguments: Any) -> Any:
        rows = await fetch(self, query, *arguments)
        held.append(sum(len(field) for row in rows for field in row if isinstance(field, bytes)))
        return rows

    monkeypatch.setattr(connection, "fetch", counting)
    again = await opened(url)
    found = await again.scan(T1, 0, 0, 20)
    await again.close()
    assert len(found) == 20
    assert max(held) < 10_000 + 3_000 + 2_000


async def test_what_was_trimmed_or_deleted_goes_with_a_checkpoint(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1), created(T2)])
    for base in range(0, 50, 10):
        await store.append([published(base, [b"x"] * 10), published(base, [b"y"] * 10, topic=T2)])
    await store.append([r.Trimmed(1, T1, 0, 25), r.TopicDeleted(1, T2)])
    assert await sql.fetchval("select count(*) from batches") == 10  # what a recovery may need is there until then
    await checkpoint(store)
    assert await sql.fetchval("select array_agg(base order by base) from batches") in ([20, 30, 40], [20])
    assert list((await store.scan(T1, 0, 0, 100)).offsets) == list(range(25, 50))
    await store.close()


async def test_the_rows_of_a_topic_go_in_chunks_also_after_a_restart(
    url: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PRUNED_TOGETHER", 3)
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1), created(T2)])
    for base in range(0, 40_000, 4_000):
        await store.append([published(base, [b"x"] * 4_000)])
    await checkpoint(store)
    await store.append([r.TopicDeleted(1, T1)])
    await store.close()
    store = await opened(url)
    assert await sql.fetchval("select count(*) from batches") == 10
    await checkpoint(store)
    assert await sql.fetchval("select count(*) from batches") == 0
    await store.close()


async def test_what_was_discarded_leaves_the_database(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    await store.append([published(0, [b"%d" % offset for offset in range(3_000)])])
    kept = OffsetSet(range(0, 3_000, 100))
    store.discard(T1, 0, OffsetSet.span(0, 3_000) - kept)
    await checkpoint(store)
    assert await sql.fetchval("select sum(messages) from batches") == 30
    store.catalog.recent._bytes_max = 0
    await store.append([published(3_000, [b"next"])])
    await store.close()
    store = await opened(url)
    assert store.status().problems == ()
    found = await store.scan(T1, 0, 0, 10_000)
    assert list(found.offsets) == [*kept, 3_000]
    assert found.values == [*(b"%d" % offset for offset in kept), b"next"]
    await store.close()


async def test_commits_with_what_is_staged_outlast_checkpoints(url: str, sql: Any) -> None:
    async with Queue(Broker(store_at(url, checkpoint_commits=5), ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        tx = await queue.begin("tx")
        await tx.publish_many("t", [b"%d" % number for number in range(10)])
        for _ in range(20):
            await queue.publish("other", b"x")
    async with Queue(Broker(store_at(url), ManualClock())) as queue:
        await (await queue.begin("tx")).commit()
        assert [one.value for one in await queue.lease("t", max_messages=20)] == [b"%d" % n for n in range(10)]


async def test_a_gap_in_the_batches_is_found_and_never_served(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    for base in range(0, 6_000, 2_000):
        await store.append([published(base, [b"x"] * 2_000)])
    await checkpoint(store)
    await store.close()
    await sql.execute("delete from batches where base = 2000")
    store = store_at(url)
    records = await recovered(store)
    assert [(one.topic, one.partition) for one in records if isinstance(one, r.Quarantined)] == [(T1, 0)]
    assert "messages 2000 to 3999 are missing" in store.status().problems[0]
    await store.close()


# -- faults


async def test_a_connection_that_is_cut_between_commits_is_replaced(url: str, sql: Any) -> None:
    async with Queue(Broker(store_at(url), ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        for number in range(10):
            await cut_off(sql, queue._link.store)  # type: ignore[attr-defined]
            await queue.publish("t", b"%d" % number)
        assert [one.value for one in await queue.lease("t", max_messages=20)] == [b"%d" % n for n in range(10)]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_that_breaks_in_a_commit_neither_loses_nor_doubles_it(
    url: str, sql: Any, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    send = Shard.send
    fails = [True]

    async def broken(self: Shard, commit: Any) -> None:
        if fails and fails.pop():
            if when == "after":
                await send(self, commit)
            await cut_off(sql, store)
            raise DatabaseError("the connection broke")
        await send(self, commit)

    monkeypatch.setattr(Shard, "send", broken)
    await store.append([published(0, [b"a"])])
    await store.append([published(1, [b"b"])])
    assert (await store.scan(T1, 0, 0, 10)).values == [b"a", b"b"]
    assert await sql.fetchval("select array_agg(number order by number) from commits") == [1, 2, 3]
    await store.close()


async def test_a_commit_that_hangs_on_a_lock_is_not_made_twice(url: str, sql: Any) -> None:
    """The owner is paused inside of the database: its statement is cancelled, as a statement timeout would."""
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("lock table batches in access exclusive mode")
    appending = asyncio.ensure_future(store.append([published(0, [b"a"])]))
    pid = store.connections.writer.get_server_pid()
    while not await sql.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await sql.execute("select pg_cancel_backend($1)", pid)
    await asyncio.sleep(0)
    await transaction.rollback()
    await appending
    assert await sql.fetchval("select count(*) from batches") == 1
    await store.close()


async def test_a_database_that_went_back_is_reported(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1)])
    await store.append([published(0, [b"a"])])
    await sql.execute("delete from batches; delete from commits where number = 2")
    await recovered(store)
    assert any("the database went back: commits 2 to 2" in problem for problem in store.status().problems)
    await store.close()


async def test_what_is_read_while_the_database_is_away_says_so(url: str, sql: Any) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), created(T1), published(0, [b"a"])])
    store.catalog.recent._bytes_max = 0
    store.catalog.log(T1, 0).recent.clear()
    store.connections._address = store.address._replace(dsn="postgresql://queue@127.0.0.1:1/none")
    with pytest.raises(DatabaseError, match="cannot be reached"):
        await store.read(T1, 0, [0])
    await store.close()


@pytest.mark.parametrize(("durability", "setting"), [("commit", "on"), ("interval", "off"), ("none", "off")])
async def test_durability_is_synchronous_commit(url: str, sql: Any, durability: Any, setting: str) -> None:
    store = await opened(url)
    await store.append([r.Opened(1, 1), r.TopicCreated(1, T1, "default", "t", TopicConfig(durability=durability))])
    await sql.execute(
        "create table seen (setting text);"
        "create function note() returns trigger language plpgsql as $$ begin "
        "insert into seen values (current_setting('synchronous_commit')); return null; end $$;"
        "create trigger note after insert on batches for each statement execute function note()"
    )
    await store.append([published(0, [b"a"])])
    assert await sql.fetchval("select setting from seen") == setting
    await store.close()


# -- keys


async def test_without_its_key_a_topic_is_unavailable_and_nothing_is_lost(url: str) -> None:
    clock = ManualClock()
    async with Queue(Broker(store_at(url, KeyRing(KEYS)), clock)) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        await queue.publish_many("secret", [Message(b"hidden", key="k", dedup_id="d")])
        await queue.publish("open", b"plain")
    broker = Broker(store_at(url, checkpoint_commits=2), clock)
    async with Queue(broker) as queue:
        with pytest.raises(UnavailableError, match="encryption key"):
            await queue.publish("secret", b"more")
        for _ in range(10):
            await queue.publish("open", b"plain")
        assert any("quarantined" in problem for problem in broker.problems())
    async with Queue(Broker(store_at(url, KeyRing(KEYS), checkpoint_commits=2), clock)) as queue:
        assert [one.value for one in await queue.lease("secret", max_messages=9)] == [b"hidden"]
        [again] = await queue.publish_many("secret", [Message(b"hidden", key="k", dedup_id="d")])
        assert again.duplicate
        assert len(await queue.lease("open", max_messages=99)) == 11


async def test_another_key_under_an_old_name_is_refused(url: str) -> None:
    async with Queue(Broker(store_at(url, KeyRing(KEYS)), ManualClock())) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        await queue.publish("secret", b"hidden")
    async with Queue(Broker(store_at(url, KeyRing({"key": b"\1" * 32})), ManualClock())) as queue:
        with pytest.raises(UnavailableError, match="is not the one"):
            await queue.publish("secret", b"more")


async def test_a_commit_whose_outcome_nobody_knows_is_told_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database goes away in the middle of a commit, and does not come back at once."""
    broker = Broker(store_at(url), ManualClock())
    async with Queue(broker) as queue:
        await queue.publish("t", b"a")

        async def away(*_: Any) -> None:
            raise DatabaseError("the database is away")

        with monkeypatch.context() as outage:
            outage.setattr(Shard, "send", away)
            outage.setattr(Shard, "come_back", away)
            with pytest.raises(OutcomeUnknownError, match="is away"):
                await queue.publish("t", b"b")
            with pytest.raises(UnavailableError, match="recovering, try again"):
                await queue.publish("t", b"c")
        while broker.refusal is not None:
            await broker.clock.advance(5)  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        await queue.publish("t", b"d")
        assert sorted(one.value for one in await queue.lease("t", max_messages=9)) == [b"a", b"d"]


async def test_keys_are_counted_rotated_and_done_without(url: str, tmp_path: Path) -> None:
    """After a re-encryption and its checkpoint, the old key is not needed any more."""
    file = tmp_path / "keys"
    make_key_file(file, "old")
    clock, source = ManualClock(), f"file:{file}"
    broker = Broker(store_at(url, open_ring(source)), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        await queue.publish_many("secret", [Message(b"hidden", key="k", dedup_id="d")])
        await queue.ack(await queue.lease("secret"))
        assert (await queue.rotate_key("new")).current == "new"
        await queue.publish("secret", b"more")
        assert {use.key for use in (await queue.keys()).uses or ()} == {"old", "new"}
        await queue.reencrypt()
        while {use.key for use in (await queue.keys()).uses or ()} != {"new"}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        done = (await queue.keys()).reencryption
        assert done is not None
        assert (done.is_running, done.left_bytes, done.problems) == (False, 0, [])
    lines = file.read_text().splitlines()
    file.write_text(lines[1] + "\n")
    async with Queue(Broker(store_at(url, open_ring(source)), clock)) as queue:
        assert [one.value for one in await queue.lease("secret", max_messages=9)] == [b"more"]
        assert len((await queue.topic("secret")).groups) == 1
