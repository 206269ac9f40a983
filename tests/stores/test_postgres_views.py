"""The queue in SQL: what the views show, that nobody writes by hand, and that every table and column is explained."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

import ortoo
from ortoo import Message, Queue
from ortoo.broker import Broker, showing
from ortoo.broker.showing import Ranges, projection_of
from ortoo.model.offsets import OffsetSet
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import PostgresStore
from ortoo.stores.postgres.rows import Row, encode_row, of_records
from ortoo.testing import ManualClock
from ortoo.testing.store_contract import published

from .postgres_server import fresh_url, server, store_at

VIEWS = {
    "groups_lag": "namespace topic grp ready leased delayed blocked dead lag oldest_at is_paused as_of",
    "messages": "namespace topic partition offset id published_at key value headers priority due_at expires_at dedup_id "
    "publisher encrypted_with",
    "message_states": "namespace topic grp partition offset id published_at key state as_of",
    "dead_letters": "namespace dlq offset id topic grp reason error attempts origin died_at key value",
    "leases": "namespace topic grp lease consumer partition since until messages offsets as_of",
}


class Looker:
    """Somebody with psql."""

    def __init__(self, queue: Queue, broker: Broker, connection: Any) -> None:
        self.queue = queue
        self.broker = broker
        self.connection = connection
        projection = projection_of(broker)
        assert projection is not None
        self._projection = projection

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        await self._projection.show()
        return [tuple(row) for row in await self.connection.fetch(sql)]


@pytest_asyncio.fixture
async def looker() -> AsyncIterator[Looker]:
    url = fresh_url()
    broker = Broker(store_at(url, KeyRing({"key": bytes(32)})), ManualClock())
    async with Queue(broker, consumer="me") as queue:
        schema = url.partition("schema=")[2]
        connection = await asyncpg.connect(server().url, server_settings={"search_path": schema})
        yield Looker(queue, broker, connection)
        await connection.close()


async def test_the_columns_of_the_views_stay(looker: Looker) -> None:
    """They are an interface: columns may be added at the end, and none goes."""
    for view, columns in VIEWS.items():
        found = await looker.rows(
            "select attname from pg_attribute where attrelid = to_regclass('"
            + view
            + "') and attnum > 0 order by attnum"
        )
        wanted = columns.split()
        assert [name for (name,) in found][: len(wanted)] == wanted


async def test_every_table_view_and_column_is_explained(looker: Looker) -> None:
    missing = await looker.rows(
        "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid "
        "where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'v') and not a.attisdropped "
        "and ((a.attnum > 0 and col_description(c.oid, a.attnum) is null) "
        "or (a.attnum = 1 and obj_description(c.oid, 'pg_class') is null))"
    )
    assert missing == []


async def test_messages_are_shown_as_they_were_published(looker: Looker) -> None:
    queue = looker.queue
    await queue.create_topic("o'r\"ders; drop", partitions=1, ordering="none")
    hostile = [
        Message(b"\xff\x00\xfe", key="a\0b", headers={"x'": '"; --'}, priority=0, dedup_id="d\0"),
        Message(b"", key=None, delay=60),
        Message(b"\\u0000", key="\\u0000", ttl=60),
        Message(b"v" * (1 << 20), key='q"k'),
    ]
    await queue.publish_many("o'r\"ders; drop", hostile)
    await queue.publish("o'r\"ders; drop", b"next")
    rows = await looker.rows('select "offset", topic, key, value, headers::text, priority from messages order by 1')
    assert [row[0] for row in rows] == [0, 1, 2, 3, 4]
    assert {row[1] for row in rows} == {"o'r\"ders; drop"}
    assert [row[2] for row in rows] == ["a\ufffdb", None, "\\u0000", 'q"k', None]
    assert [row[3] for row in rows] == [b"\xff\x00\xfe", b"", b"\\u0000", b"v" * (1 << 20), b"next"]
    assert rows[0][4:] == ('{"x\'":"\\"; --"}', 0)
    assert rows[1][4:] == (None, 5)
    [(due, expiry)] = await looker.rows(
        'select (select due_at - published_at from messages where "offset" = 1), '
        '(select expires_at - published_at from messages where "offset" = 2)'
    )
    assert (due.total_seconds(), expiry.total_seconds()) == (60, 60)


async def test_groups_states_leases_and_dead_letters(looker: Looker) -> None:
    queue = looker.queue
    await queue.create_topic("orders", partitions=1, ordering="none", max_attempts=1)
    await queue.publish_many("orders", [b"%d" % number for number in range(10)])
    held = await queue.lease("orders", max_messages=4)
    await queue.ack(held[:2])
    await queue.reject(held[2:3], error="no tea")
    lag = await looker.rows(
        "select topic, grp, ready, leased, delayed, dead, lag from groups_lag where topic = 'orders'"
    )
    assert lag == [("orders", "default", 6, 1, 0, 1, 7)]
    states = await looker.rows("select \"offset\", state from message_states where topic = 'orders' order by 1")
    assert [state for _, state in states] == ["done", "done", "dead", "leased", *["ready"] * 6]
    assert await looker.rows("select topic, grp, consumer, messages, offsets::text from leases") == [
        ("orders", "default", "me", 1, "{[3,4)}")
    ]
    dead = await looker.rows("select dlq, topic, grp, reason, error, attempts, value from dead_letters")
    assert dead == [("orders.dlq", "orders", "default", "rejected", "no tea", 1, b"2")]
    await queue.delete_topic("orders")
    assert await looker.rows("select topic from groups_lag where topic = 'orders'") == []
    assert await looker.rows("select * from messages where topic = 'orders'") == []


async def test_what_is_encrypted_is_not_shown(looker: Looker) -> None:
    await looker.queue.create_topic("secrets", partitions=1, encrypted=True)
    await looker.queue.publish_many("secrets", [Message(b"hidden tea", key="hidden key", headers={"a": "hidden"})])
    await looker.queue.nack(await looker.queue.lease("secrets"), error="hidden error")
    [row] = await looker.rows("select key, value, headers, encrypted_with from messages")
    assert row == (None, None, None, "key")
    for table in ("commits", "batches", "history", "topics", "groups", "feeds"):
        [(found,)] = await looker.rows(
            f"select count(*) from {table} t where position('hidden'::bytea in convert_to(t::text, 'UTF8')) > 0 "
            f"or t::text like '%' || encode('hidden', 'hex') || '%'"
        )
        assert found == 0, table


@pytest.mark.parametrize(
    "sql",
    ["delete from batches", "update owner set term = 9", "truncate commits", "insert into history default values"],
)
async def test_nobody_writes_by_hand(looker: Looker, sql: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="not to be written by hand"):
        await looker.connection.execute(sql)


async def test_who_reads_blocks_nobody(looker: Looker) -> None:
    """A transaction that has read everything, and stays open."""
    await looker.queue.publish("orders", b"tea")
    async with looker.connection.transaction(isolation="repeatable_read"):
        for view in VIEWS:
            await looker.connection.fetch(f"select * from {view}")
        for _ in range(20):
            await looker.queue.publish("orders", b"more")
        await looker.queue.ack(await looker.queue.lease("orders", max_messages=21))
        await looker.broker.store.checkpoint(*await looker.broker._snapshot())
        await looker.queue.delete_topic("orders")


async def test_the_queries_of_the_documents_run(looker: Looker) -> None:
    text = Path("docs/postgres.md").read_text().partition("### Ten useful queries")[2]
    queries = text.partition("```sql")[2].partition("```")[0].split(";")[:-1]
    assert len(queries) == 10
    await looker.queue.create_topic("orders", partitions=1, max_attempts=1)
    await looker.queue.publish_many("orders", [Message(b'{"total": 7}', key="customer-7")] * 5)
    await looker.queue.publish_many("orders", [Message(b"{}", delay=60)])
    held = await looker.queue.lease("orders", max_messages=2)
    await looker.queue.reject(held[:1], error="no tea")
    schema = await looker.connection.fetchval("select current_schema()")
    await looker.connection.execute("set search_path to public")  # as somebody has who has just connected
    empty = [at for at, sql in enumerate(queries, 1) if not await looker.rows(sql.replace("ortoo.", f"{schema}."))]
    assert set(empty) <= {2, 9}  # the clock of the queue stands still, somewhere in 2023


async def test_sets_of_offsets_become_ranges() -> None:
    ranges = Ranges(10_000)
    assert await ranges.of(OffsetSet()) == ("{}", None)
    assert await ranges.of(OffsetSet([3, 4, 5, 9])) == ("{[3,6),[9,10)}", None)
    assert await ranges.of(OffsetSet.span(7, 1_000_007)) == ("{[7,1000007)}", None)
    text, end = await ranges.of(OffsetSet(range(0, 10_000, 2)))
    assert text.count("[") == 1000
    assert end == 1999
    assert ranges.left == 10_000 - 1_003


# -- what an attack found


@pytest.mark.parametrize(
    "headers",
    [
        {"ortoo-origin": "zzz"},
        {"ortoo-origin": "1.0.0", "ortoo-attempts": "many"},
        {"ortoo-origin": "9" * 40 + ".0.0", "ortoo-attempts": "9" * 18},
    ],
)
async def test_no_publisher_breaks_the_dead_letters(looker: Looker, headers: dict[str, str]) -> None:
    await looker.queue.create_topic("orders", partitions=1, max_attempts=1, dlq_topic="graves")
    await looker.queue.publish("orders", b"bad")
    await looker.queue.reject(await looker.queue.lease("orders"), error="no tea")
    for topic in ("any", "any.dlq", "graves"):
        await looker.queue.publish(topic, b"x", headers=headers)
    rows = await looker.rows("select dlq, topic, error, attempts from dead_letters where error is not null")
    assert rows == [("graves", "orders", "no tea", 1)]
    assert await looker.rows("select count(*) from dead_letters where dlq = 'any'") == [(0,)]


async def test_messages_that_came_one_by_one_have_their_instants_and_are_found_quickly(looker: Looker) -> None:
    store = looker.broker.store
    assert isinstance(store, PostgresStore)
    await looker.queue.create_topic("slow", partitions=1)
    [topic] = looker.broker.engine.state.topics
    parts = [published(at, [b"%d" % at], at=1_000 + 2 * at, topic=topic) for at in range(4_096)]
    row = encode_row(topic, 0, of_records(parts, 1), None)
    await looker.rows("select 1")
    columns = ", ".join(Row._fields)
    await looker.connection.execute("select set_config('ortoo.writer', 'queue', false)")
    await looker.connection.execute(
        f"insert into batches ({columns}) values ({', '.join(f'${at}' for at in range(1, len(row) + 1))})", *row
    )
    found = await looker.connection.fetch(
        "select \"offset\", published_at, value from messages where topic = 'slow' order by published_at desc limit 20",
        timeout=120,
    )
    assert [one["offset"] for one in found] == list(range(4_095, 4_075, -1))
    assert [round(one["published_at"].timestamp() * 1000) for one in found] == [1_000 + 2 * one[0] for one in found]
    assert [one["value"] for one in found] == [b"%d" % one[0] for one in found]
    assert await looker.connection.fetchval("select count(distinct published_at) from messages", timeout=120) == 4_096


async def test_states_that_are_not_shown_are_not_told(looker: Looker) -> None:
    """A thousand ranges are shown; what lies behind them may be anything."""
    await looker.queue.create_topic("gaps", partitions=1, ordering="none")
    await looker.queue.publish_many("gaps", [b"%d" % number for number in range(4_000)])
    held = await looker.queue.lease("gaps", max_messages=3_900)
    await looker.queue.ack([one for one in held if one.offset % 2])
    states = await looker.rows(
        "select state, count(*), min(\"offset\") from message_states where topic = 'gaps' group by 1 order by 3"
    )
    assert states == [("leased", 1_000, 0), ("done", 999, 1), (None, 1_901, 1_999), ("ready", 100, 3_900)]
    assert await looker.rows("select leased, ready from groups_lag where topic = 'gaps'") == [(1_950, 100)]
    assert await looker.rows("select messages from leases where topic = 'gaps'") == [(1_950,)]


async def test_what_was_deleted_is_not_shown(looker: Looker) -> None:
    await looker.queue.create_topic("del", partitions=1)
    sent = await looker.queue.publish_many("del", [Message(b"%d" % n, dedup_id=str(n)) for n in range(20)])
    for one in sent[:15]:
        await looker.queue.delete_message(one.id)
    for _ in range(2):  # also when a checkpoint has left nothing but their dedup ids
        rows = await looker.rows("select value from messages where topic = 'del' order by \"offset\"")
        assert rows == [(b"%d" % number,) for number in range(15, 20)]
        await looker.broker.store.checkpoint(*await looker.broker._snapshot())
        await looker.broker.store._stop()  # type: ignore[attr-defined]


async def test_a_name_with_a_backslash_is_shown_as_it_is(looker: Looker) -> None:
    await looker.queue.publish("orders", b"x")
    await looker.queue.lease("orders", consumer="a\\u0000b")
    assert await looker.rows("select consumer from leases") == [("a\\u0000b",)]


async def test_what_has_changed_last_is_shown_when_a_queue_closes() -> None:
    url = fresh_url()
    async with ortoo.open(url) as queue:
        for number in range(3):
            await queue.publish("orders", b"%d" % number)
            await queue.lease("orders")
    schema = url.partition("schema=")[2]
    connection = await asyncpg.connect(server().url, server_settings={"search_path": schema})
    assert await connection.fetchval("select count(*) from messages") == 3
    assert tuple(await connection.fetchrow("select leased, ready from groups_lag")) == (3, 0)
    await connection.close()


async def test_topics_that_went_while_nothing_was_shown_go_also_where_there_are_many(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "TOPICS_TOGETHER", 3)
    for number in range(8):
        await looker.queue.create_topic(f"t{number}", partitions=1)
    for _ in range(3):
        await looker.rows("select 1")
    await looker.queue.delete_topic("t7")
    again = projection_of(looker.broker)  # as after a crash: it was told of nothing
    assert again is not None
    for _ in range(3):
        await again.show()
    found = await looker.connection.fetch("select name from topics order by 1")
    assert [name for (name,) in found] == [f"t{number}" for number in range(7)]


async def test_what_could_not_be_shown_is_shown_the_next_time(looker: Looker, monkeypatch: pytest.MonkeyPatch) -> None:
    await looker.rows("select 1")
    await looker.queue.publish("orders", b"x")
    show = looker.broker.store.show  # type: ignore[attr-defined]

    async def fail(*_: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(looker.broker.store, "show", fail)
    with pytest.raises(OSError, match="no"):
        await looker.rows("select 1")
    monkeypatch.setattr(looker.broker.store, "show", show)
    assert await looker.rows("select count(*) from messages") == [(1,)]


async def test_others_have_turns_while_a_large_group_is_shown(looker: Looker) -> None:
    await looker.queue.create_topic("gaps", partitions=4, ordering="none")
    for _ in range(8):
        await looker.queue.publish_many("gaps", [b"x"] * 1_000)
    while held := await looker.queue.lease("gaps", max_messages=4_000):
        await looker.queue.ack([one for one in held if one.offset % 2])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    [topic] = looker.broker.engine.state.topics.values()
    ranges = Ranges(showing.RANGES_TOGETHER)
    counting = asyncio.create_task(count())
    await showing._topic(topic, 0, ranges)
    counting.cancel()
    shown = showing.RANGES_TOGETHER - ranges.left
    assert 4_000 <= shown <= showing.RANGES_OF_GROUP + 10
    assert turns >= shown // 400
