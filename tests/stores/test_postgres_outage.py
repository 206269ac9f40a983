"""The database is away: commits go to the spill, are read there, and are moved when it is back. Nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.broker.showing import projection_of
from ortoo.model import records as r
from ortoo.model.errors import ConfigError, FullError, NotOwnerError, StoreFailedError, UnavailableError
from ortoo.model.names import LeaseId, TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import TopicConfig
from ortoo.ports import Store
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import PostgresStore, front, open_postgres
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.postgres.spill import Spill, folder_of
from ortoo.testing import ManualClock
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres
from ortoo.testing.store_contract import T1, G, StoreContract, created, published

from .going_back import back_up, restore
from .outages import UnsteadyStore
from .postgres_server import fresh_url, server

KEYS = {"key": bytes(32)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "RETRY_S", 0.005)
    monkeypatch.setattr(front, "RETRY_MAX_S", 0.02)


class _Spilled(StoreContract):
    async def make_store(self) -> Store:
        self.url, self.folder = fresh_url(), Path(mkdtemp())
        return self._make()

    async def reopen(self, store: Store) -> Store:
        return self._make()

    def _make(self) -> UnsteadyStore:
        store = UnsteadyStore(self.url, self.folder)
        store.is_away = self.is_away
        return store

    def is_away(self) -> bool:
        raise NotImplementedError

    def known_topics(self, store: Store) -> set[TopicId]:
        assert isinstance(store, PostgresStore)
        return {topic for topic, _ in [*store.catalog.logs, *store.catalog.histories]}


class TestSpilledStore(_Spilled):
    """All of it is in the spill, as long as the store is open."""

    def is_away(self) -> bool:
        return True


class TestForgetfulSpilledStore(_Spilled):
    """So that what is read comes from the spill."""

    def _make(self) -> UnsteadyStore:
        class Forgetful(UnsteadyStore):
            def _reset(self) -> None:
                super()._reset()
                self.catalog.recent._bytes_max = self.catalog.frames._bytes_max = 0

        store = Forgetful(self.url, self.folder)
        store.is_away = lambda: True
        return store


class TestUnsteadyStore(_Spilled):
    """The breaker opens and closes at random places."""

    def _make(self) -> UnsteadyStore:
        random = Random(len(list(self.folder.iterdir())))
        store = super()._make()
        store.is_away = lambda: random.random() < 0.4
        return store


# -- away, and back


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


class Weather:
    """Whether the database is away."""

    def __init__(self) -> None:
        self.is_away = False

    def __call__(self) -> bool:
        return self.is_away


@pytest.fixture
def weather() -> Weather:
    return Weather()


def make_store(url: str, folder: Path, weather: Weather, **options: Any) -> UnsteadyStore:
    store = UnsteadyStore(url, folder, **options)
    store.is_away = weather
    return store


async def recovered(store: PostgresStore) -> list[r.Record]:
    return [record async for records in store.recover() for record in records]


async def opened(url: str, folder: Path, weather: Weather, **options: Any) -> UnsteadyStore:
    store = make_store(url, folder, weather, **options)
    await recovered(store)
    return store


async def drained(store: PostgresStore) -> None:
    assert store.front is not None
    async with asyncio.timeout(60):
        while not store.front.is_clear:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_commits_go_to_the_spill_and_in_order_to_the_database(
    url: str, sql: Any, tmp_path: Path, weather: Weather
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    weather.is_away = True
    for offset in range(50):
        await store.append([published(offset, [b"%d" % offset])])
        await store.append([r.Leased(1, T1, G, 0, LeaseId(offset), "me", 9, OffsetSet([offset]))])
    health = store.health()
    assert (health.is_healthy, health.spilled_commits, health.drained) == (False, 100, 0)
    assert health.spilled_bytes > 5_000
    [problem] = store.status().problems
    assert "the database is away since" in problem
    assert "100 commits" in problem
    assert not store.status().checkpoint_useful
    assert await sql.fetchval("select max(number) from commits") == 1
    weather.is_away = False
    await drained(store)
    assert await sql.fetchval("select array_agg(number order by made, number) from commits") == list(range(1, 102))
    assert store.health().is_healthy
    assert store.status().problems == ()
    await store.append([published(50, [b"50"])])  # the writer switches back
    assert store.front is not None
    assert not store.front.is_open
    assert await sql.fetchval("select max(number) from commits") == 102
    assert (await store.scan(T1, 0, 0, 99)).values == [b"%d" % offset for offset in range(51)]
    figures = store.figures()
    assert figures.shards["0"].drained == 100
    await store.close()
    assert not any((tmp_path / folder_of(store.address) / "wal").iterdir())


async def test_hostile_values_survive_the_spill(url: str, tmp_path: Path, weather: Weather) -> None:
    values = [b"\0", b"'; drop table commits; --", bytes(range(256)), b"x" * (1 << 20), b""]
    wanted = [
        Message(value, key="k\0'\"", headers={"h\0": "\0\\"}, dedup_id=f"{n}\0") for n, value in enumerate(values)
    ]
    async with Queue(Broker(make_store(url, tmp_path, weather), ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        weather.is_away = True
        await queue.publish_many("t", wanted)
        store = queue._link.store  # type: ignore[attr-defined]
        store.catalog.recent._bytes_max = 0
        store.catalog.log(T1, 0).recent.clear()
        found = await queue.lease("t", max_messages=9)
        assert [(one.value, one.key, one.headers) for one in found] == [(m.value, m.key, m.headers) for m in wanted]
        weather.is_away = False
        await drained(store)
    async with Queue(Broker(make_store(url, tmp_path, weather), ManualClock())) as queue:
        assert (await queue.publish_many("t", wanted))[4].duplicate
        assert [one.value for one in await queue.lease("t", group="another", max_messages=9)] == values


async def test_what_was_staged_is_read_from_the_spill(url: str, tmp_path: Path, weather: Weather) -> None:
    async with Queue(Broker(make_store(url, tmp_path, weather), ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        tx = await queue.begin("tx")
        await tx.publish_many("t", [b"0", b"1"])
        weather.is_away = True
        await tx.publish_many("t", [b"2", b"3"])
        await tx.commit()
        assert [one.value for one in await queue.lease("t", max_messages=9)] == [b"0", b"1", b"2", b"3"]


async def test_new_commits_are_held_back_until_the_drain_has_caught_up(
    url: str, sql: Any, tmp_path: Path, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slowly it moves them."""
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    weather.is_away = True
    for offset in range(30):
        await store.append([published(offset, [b"x"])])
    send = store.shard.send

    async def slowly(commit: Any) -> None:
        await asyncio.sleep(0.02)
        await send(commit)

    monkeypatch.setattr(store.shard, "send", slowly)
    weather.is_away = False
    assert store.front is not None
    async with asyncio.timeout(60):
        while not store.health().drained:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    while store.front.is_open:
        offset += 1
        await store.append([published(offset, [b"x"])])
        assert offset < 1_000
    assert await sql.fetchval("select count(*) from commits") == offset + 2
    await store.close()


async def test_soft_commits_that_a_crash_of_the_database_took_are_made_again(
    url: str, sql: Any, tmp_path: Path, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortoo.stores.postgres.store.SYNC_S", 1e6)
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), r.TopicCreated(1, T1, "default", "t", TopicConfig(durability="none"))])
    await store.append([published(0, [b"a"])])
    weather.is_away = True
    await store.append([published(1, [b"b"]), r.TopicCreated(1, TopicId(9), "default", "u", TopicConfig())])
    await sql.execute("delete from batches; delete from commits where number = 2")
    weather.is_away = False
    await drained(store)
    assert await sql.fetchval("select array_agg(number order by number) from commits") == [1, 2, 3]
    assert await sql.fetchval("select count(*) from batches") == 2
    await store.close()


async def test_a_commit_that_was_made_and_not_confirmed_is_not_made_twice(
    url: str, sql: Any, tmp_path: Path, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    send = store.shard.send

    async def broken(commit: Any) -> None:
        await send(commit)
        weather.is_away = True
        raise DatabaseError("the connection broke behind the commit")

    with monkeypatch.context() as once:
        once.setattr(store.shard, "send", broken)
        await store.append([published(0, [b"a"])])
    await store.append([published(1, [b"b"])])
    weather.is_away = False
    await drained(store)
    assert await sql.fetchval("select array_agg(base order by base) from batches") == [0, 1]
    assert await sql.fetchval("select array_agg(number order by number) from commits") == [1, 2, 3]
    await store.close()


async def test_a_commit_that_takes_too_long_goes_to_the_spill(
    url: str, sql: Any, tmp_path: Path, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs in the database on a lock, and might still be made there: it is ended before the next one is tried."""
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("lock table batches in access exclusive mode")
    monkeypatch.setattr(front, "COMMIT_S", 0.2)
    await store.append([published(0, [b"a"])])
    await store.append([published(1, [b"b"])])
    assert store.health().spilled_commits == 2
    assert "longer than" in str(store.health().reason) or "time" in str(store.health().reason)
    await transaction.rollback()
    await drained(store)
    assert await sql.fetchval("select array_agg(base order by base) from batches") == [0, 1]
    await store.close()


@pytest.mark.parametrize("state", ["53100", "57014", "25006", "57P03"])
async def test_a_database_that_cannot_take_commits_is_away(
    url: str, sql: Any, tmp_path: Path, weather: Weather, state: str
) -> None:
    """Its disk is full, a statement takes longer than it may, it is read-only, it starts."""
    async with Queue(Broker(make_store(url, tmp_path, weather), ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        await sql.execute(
            "create function fail() returns trigger language plpgsql as $$ begin "
            f"raise exception using errcode = '{state}', message = 'no'; end $$;"
            "create trigger fail before insert on commits execute function fail()"
        )
        for number in range(3):
            await queue.publish("t", b"%d" % number)
        assert [one.value for one in await queue.lease("t", max_messages=9)] == [b"0", b"1", b"2"]
        await sql.execute("drop trigger fail on commits")
        await drained(queue._link.store)  # type: ignore[attr-defined]
        assert await sql.fetchval("select sum(messages) from batches") == 3


async def test_a_commit_that_the_database_refuses_as_such_does_not_open_the_breaker(
    url: str, sql: Any, tmp_path: Path, weather: Weather
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    await sql.execute("alter table batches add constraint no check (base < 0)")
    with pytest.raises(DatabaseError, match="violates check constraint"):
        await store.append([published(0, [b"a"])])
    assert store.health().is_healthy
    await store.close()


# -- keys, room


async def test_encrypted_topics_are_encrypted_in_the_spill(url: str, tmp_path: Path, weather: Weather) -> None:
    broker = Broker(make_store(url, tmp_path, weather, ring=KeyRing(KEYS)), ManualClock())
    async with Queue(broker) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        weather.is_away = True
        await queue.publish_many("secret", [Message(b"hidden-value", key="hidden-key", headers={"h": "hidden-header"})])
        await queue.publish("open", b"plain-value")
        written = b"".join(path.read_bytes() for path in tmp_path.rglob("*.wal"))
        assert b"hidden" not in written
        assert b"plain-value" in written
    weather.is_away = False
    async with Queue(Broker(make_store(url, tmp_path, weather, ring=KeyRing(KEYS)), ManualClock())) as queue:
        assert [one.value for one in await queue.lease("secret")] == [b"hidden-value"]


async def test_a_full_spill_refuses_to_publish_and_still_settles(url: str, tmp_path: Path, weather: Weather) -> None:
    broker = Broker(make_store(url, tmp_path, weather, limit=1 << 20), ManualClock())
    async with Queue(broker) as queue:
        await queue.publish("t", b"first")
        weather.is_away = True
        with pytest.raises(FullError, match="settling still works"):
            for _ in range(100):
                await queue.publish("t", b"x" * 50_000)
        assert broker.refusal is None
        while messages := await queue.lease("t", max_messages=1):
            await queue.ack(messages)
        weather.is_away = False
        await drained(broker.store)  # type: ignore[arg-type]
        await queue.publish("t", b"again")
        assert [one.value for one in await queue.lease("t")] == [b"again"]


async def test_no_checkpoint_is_made_while_commits_wait(url: str, sql: Any, tmp_path: Path, weather: Weather) -> None:
    store = make_store(url, tmp_path, weather, checkpoint_commits=3)
    async with Queue(Broker(store, ManualClock())) as queue:
        await queue.create_topic("t", partitions=1)
        weather.is_away = True
        for number in range(20):
            await queue.publish("t", b"%d" % number)
        await store.checkpoint(b"too early", 1)
        assert not await sql.fetchval("select exists (select from checkpoints where number > 3)")
        weather.is_away = False
        await drained(store)
        assert store.status().checkpoint_due
        for number in range(20, 30):
            await queue.publish("t", b"%d" % number)
        await store._stop()
        assert await sql.fetchval("select number from checkpoints") > 20
        assert len(await queue.lease("t", max_messages=99)) == 30


# -- restarts


async def test_what_a_process_left_in_the_spill_is_moved_before_all_else(
    url: str, sql: Any, tmp_path: Path, weather: Weather
) -> None:
    first = await opened(url, tmp_path, weather)
    await first.append([r.Opened(1, 1), created(T1)])
    weather.is_away = True
    for offset in range(300):
        await first.append([published(offset, [b"%d" % offset])])
    await first.close()
    assert await sql.fetchval("select max(number) from commits") == 1
    second = make_store(url, tmp_path, weather)
    records = await recovered(second)
    assert [one.base for one in records if isinstance(one, r.Published)] == list(range(300))
    assert await sql.fetchval("select count(*) from commits") == 301
    assert second.status().problems == ()
    await second.close()


async def test_opening_while_the_database_is_away_says_that_commits_wait(
    url: str, tmp_path: Path, weather: Weather
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    weather.is_away = True
    await store.append([published(0, [b"a"])])
    await store.close()
    store.connections._address = store.address._replace(dsn="postgresql://queue@127.0.0.1:1/none")
    queue = Queue(Broker(store, ManualClock()))
    with pytest.raises(UnavailableError, match=r"cannot be reached.*commits that were confirmed wait in"):
        await queue.open()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_the_spill_is_never_moved_behind_another_owner(
    url: str, sql: Any, tmp_path: Path, weather: Weather, when: str
) -> None:
    """`before`: it has come and gone while this one was not there. `meanwhile`: it took the shard from this one."""
    (tmp_path / "second").mkdir()
    first = await opened(url, tmp_path / "first", weather)
    await first.append([r.Opened(1, 1), created(T1), published(0, [b"a"])])
    weather.is_away = True
    await first.append([published(1, [b"b", b"c"])])
    await first.append([published(3, [b"d"])])
    if when == "before":
        await first.close()
    second = make_store(url, tmp_path / "second", Weather())
    await second.claim(term=50)
    await recovered(second)
    await second.append([published(1, [b"other"])])
    if when == "before":
        await second.close()
        first = await opened(url, tmp_path / "first", weather)
    else:
        weather.is_away = False
        async with asyncio.timeout(60):
            while not first.status().problems or "could not be moved" not in first.status().problems[0]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises(NotOwnerError):
            await first.append([published(4, [b"e"])])
        with pytest.raises(NotOwnerError):
            await first.check_owner()
    [problem] = [one for one in first.status().problems if "could not be moved" in one]
    assert "commits 2 to 3, which were confirmed, could not be moved to PostgreSQL: another owner" in problem
    assert "partition 0: offsets 1 to 3" in problem
    assert await sql.fetchval("select array_agg(until order by base) from batches") == [1, 2]
    [kept] = tmp_path.glob("first/*/aside-2-3")
    assert (kept / "WHY.txt").read_text().startswith("commits 2 to 3")
    assert list(kept.glob("*.wal"))
    await first.close()
    if when == "meanwhile":
        await second.close()
    third = await opened(url, tmp_path / "first", Weather())
    assert "commits 2 to 3" in third.status().problems[0]  # as long as it lies there
    assert (await third.scan(T1, 0, 0, 9)).values == [b"a", b"other"]
    await third.close()


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_database_that_went_back_gets_nothing_that_does_not_follow(
    url: str, sql: Any, tmp_path: Path, weather: Weather, restarts: bool
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    for offset in range(3):
        await store.append([published(offset, [b"%d" % offset])])
    weather.is_away = True
    await store.append([published(3, [b"3"])])
    await sql.execute("delete from commits where number > 2; delete from batches where commit > 2")
    if restarts:
        await store.close()
        weather.is_away = False
        store = await opened(url, tmp_path, weather)
    else:
        weather.is_away = False
        async with asyncio.timeout(60):
            while "went back" not in str(store.health().reason):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises(DatabaseError, match="went back"):
            await store.append([published(4, [b"4"])])
        await recovered(store)
        assert any("commits 3 to 5, which were confirmed, are lost" in one for one in store.status().problems)
        assert any("'orders-1', partition 0: offsets 1 to 3" in one for one in store.status().problems), store.status()
    assert any("commits 5 to 5" in one and "offsets 3 to 3" in one for one in store.status().problems)
    assert (await store.scan(T1, 0, 0, 9)).values == [b"0"]
    await store.append([published(1, [b"new"])])
    assert await sql.fetchval("select max(number) from commits") == 3
    await store.close()


async def test_a_database_that_went_back_behind_its_owner_is_claimed_again(
    url: str, sql: Any, tmp_path: Path, weather: Weather
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    await store.append([published(0, [b"a"])])
    await sql.execute("delete from commits; delete from batches; update owner set term = 0, node = ''")
    await recovered(store)
    assert any("commits 1 to 2, which were confirmed, are lost" in one for one in store.status().problems)
    await store.append([r.Opened(1, 1)])
    await store.close()


async def test_a_spill_is_not_moved_behind_another_owner_with_the_same_term(
    url: str, sql: Any, tmp_path: Path, weather: Weather
) -> None:
    """A database that goes back gives terms a second time."""
    (tmp_path / "second").mkdir()
    first = await opened(url, tmp_path / "first", weather)
    await first.append([r.Opened(1, 1), created(T1), published(0, [b"a"])])
    await first.close()
    backup = await back_up(sql)
    first = await opened(url, tmp_path / "first", weather)
    weather.is_away = True
    await first.append([published(1, [b"b"])])
    term = first.term
    await first.close()
    await restore(sql, backup)
    second = await opened(url, tmp_path / "second", Weather())
    assert second.term == term
    await second.append([published(1, [b"other"])])
    await second.close()
    third = await opened(url, tmp_path / "first", Weather())
    assert any("could not be moved to PostgreSQL: another owner" in one for one in third.status().problems)
    assert (await third.scan(T1, 0, 0, 9)).values == [b"a", b"other"]
    await third.close()


# -- folders


async def test_files_of_the_spill_that_cannot_be_removed_are_removed_later(
    url: str, tmp_path: Path, weather: Weather
) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    weather.is_away = True
    await store.append([published(0, [b"a"])])
    assert store.front is not None
    assert isinstance(store.front.log, Spill)
    disk = store.front.log._disk
    remove, failures = disk.remove, [OSError(5, "EIO")]

    def fail_once(path: str) -> None:
        if failures:
            raise failures.pop()
        remove(path)

    disk.remove = fail_once  # type: ignore[method-assign]
    weather.is_away = False
    await drained(store)
    assert not failures
    weather.is_away = True
    for offset in (1, 2):
        await store.append([published(offset, [b"%d" % offset])])
    weather.is_away = False
    await drained(store)
    assert (await store.scan(T1, 0, 0, 9)).values == [b"a", b"1", b"2"]
    await store.close()
    assert not any((tmp_path / folder_of(store.address) / "wal").iterdir())


async def test_the_spill_of_another_shard_is_refused(tmp_path: Path, weather: Weather) -> None:
    first, second = fresh_url(), fresh_url()
    store = await opened(first, tmp_path, weather)
    await store.close()
    mine = tmp_path / folder_of(store.address)
    other = make_store(second, tmp_path, weather)
    mine.rename(tmp_path / folder_of(other.address))
    with pytest.raises(ConfigError, match="is the spill of another shard"):
        await recovered(other)
    await other.close()


async def test_commits_under_an_older_address_are_not_forgotten(url: str, tmp_path: Path, weather: Weather) -> None:
    store = await opened(url, tmp_path, weather)
    await store.append([r.Opened(1, 1), created(T1)])
    weather.is_away = True
    await store.append([published(0, [b"a"])])
    await store.close()
    mine = tmp_path / folder_of(store.address)
    mine.rename(tmp_path / "localhost_5432_q_ortoo")
    again = make_store(url, tmp_path, Weather())
    with pytest.raises(ConfigError, match=rf"localhost_5432_q_ortoo has commits.*rename that folder to {mine.name}"):
        await recovered(again)
    await again.close()


async def test_one_process_has_a_spill(url: str, tmp_path: Path, weather: Weather) -> None:
    store = await opened(url, tmp_path, weather)
    other = Spill(tmp_path, store.address)
    with pytest.raises(UnavailableError, match="is in use by process"):
        await other.open("whatever")
    await store.close()


async def test_without_a_spill_nothing_is_written(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Queue(Broker(open_postgres(url), ManualClock())) as queue:
        await queue.publish("t", b"a")
    assert not list(tmp_path.iterdir())


async def test_an_owner_that_is_fenced_while_nothing_happens_learns_it(
    url: str, sql: Any, tmp_path: Path, weather: Weather
) -> None:
    clock = ManualClock()
    broker = Broker(make_store(url, tmp_path, weather), clock)
    async with Queue(broker) as queue:
        await queue.publish("t", b"a")
        projection = projection_of(broker)
        assert projection is not None
        projection.start()
        await sql.execute("update owner set term = 99, node = 'other'")
        async with asyncio.timeout(60):
            while broker.refusal is None:
                await clock.advance(1)
                await asyncio.sleep(0.01)
        assert isinstance(broker.refusal, NotOwnerError)
        await projection.stop()


async def test_messages_that_only_the_database_has_are_given_back_while_it_is_away(
    url: str, tmp_path: Path, weather: Weather
) -> None:
    store = make_store(url, tmp_path, weather)
    async with Queue(Broker(store, ManualClock())) as queue:
        await queue.create_topic("t", partitions=1, max_attempts=2)
        await queue.publish("t", b"a")
        store.catalog.log(T1, 0).recent.clear()
        address, weather.is_away = store.connections._address, True
        await queue.publish("other", b"b")
        store.connections._address = store.address._replace(dsn="postgresql://queue@127.0.0.1:1/none")
        for _ in range(5):
            with pytest.raises(UnavailableError, match="cannot be reached"):
                await queue.lease("t")
        store.connections._address, store.connections._readers, weather.is_away = address, None, False
        await drained(store)
        [message] = await queue.lease("t")
        assert (message.value, message.attempt) == (b"a", 1)


async def test_dead_letters_wait_while_what_they_copy_cannot_be_read(
    url: str, tmp_path: Path, weather: Weather
) -> None:
    """A commit whose copies cannot be read would fail, with all that is in it, and the queue would recover from what is away."""
    clock, store = ManualClock(), make_store(url, tmp_path, weather)
    async with Queue(Broker(store, clock)) as queue:
        await queue.create_topic("t", partitions=1, max_attempts=1, lease=5)
        await queue.publish_many("t", [b"a", b"b"])
        rejected, _ = await queue.lease("t", max_messages=2)
        store.catalog.log(T1, 0).recent.clear()
        address, weather.is_away = store.connections._address, True
        await queue.publish("other", b"c")
        store.connections._address = store.address._replace(dsn="postgresql://queue@127.0.0.1:1/none")
        with pytest.raises(StoreFailedError, match="while its database is away"):
            await rejected.reject("no")
        await clock.advance(6)  # the leases run out
        await queue.publish("other", b"d")
        assert (await queue.stats()).counters.dead_lettered == 0
        store.connections._address, store.connections._readers, weather.is_away = address, None, False
        await drained(store)
        found = list[bytes]()
        async with asyncio.timeout(60):
            while len(found) < 2:
                await clock.advance(1)
                await asyncio.sleep(0.01)
                found = [letter.value for letter in await queue.dead_letters("t")]
        assert sorted(found) == [b"a", b"b"]


# -- real outages


@pytest.fixture(scope="module")
def own() -> Any:
    """A server to be stopped. Not in a folder of pytest, which no other user may enter."""
    with TemporaryDirectory() as folder, private_postgres(Path(folder), options={"fsync": "off"}) as found:
        yield found


def everybody(own: PrivatePostgres, number: signal.Signals) -> None:
    """All its processes."""
    children = Path(f"/proc/{own.pid}/task/{own.pid}/children").read_text().split()
    for pid in (own.pid, *map(int, children)):
        os.kill(pid, number)


@pytest.mark.parametrize("how", ["stopped", "killed", "paused"])
async def test_publishing_and_leasing_go_on_while_the_database_is(
    own: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(front, "COMMIT_S", 0.5)
    monkeypatch.setattr(front, "REACH_S", 1.0)
    url = f"{own.url}?schema={how}"
    store = open_postgres(url, spill=tmp_path)
    async with Queue(Broker(store, ManualClock())) as queue:
        await queue.create_topic("t", partitions=1, ordering="strict")
        await queue.publish("t", b"0")
        if how == "stopped":
            own.stop()
        elif how == "killed":
            own.kill()
        else:
            everybody(own, signal.SIGSTOP)
        try:
            for number in range(1, 20):
                await queue.publish("t", b"%d" % number)
            assert not store.health().is_healthy
            found = await queue.lease("t", max_messages=10)
            await queue.ack(found)
        finally:
            if how == "paused":
                everybody(own, signal.SIGCONT)
            else:
                own.start()
        await drained(store)
        await queue.publish("t", b"20")
        assert not store.status().problems
        assert [int(one.value) for one in found] == list(range(10))
    async with Queue(Broker(open_postgres(url), ManualClock())) as queue:
        assert [int(one.value) for one in await queue.lease("t", max_messages=99)] == list(range(10, 21))
