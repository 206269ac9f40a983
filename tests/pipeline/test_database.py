"""A queue on PostgreSQL as a source of tables: read from its tables, while it runs, and in nobody's way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import ortoo
from ortoo.model import records as r
from ortoo.model.errors import ConfigError, NotFoundError, StoreFailedError
from ortoo.model.names import TopicId
from ortoo.pipeline.source.database import Database, _State
from ortoo.pipeline.source.origin import Range
from ortoo.stores.disk.key_file import make_key_file
from ortoo.stores.postgres import migrations, parse_address
from tests.stores.postgres_server import fresh_url, server

Read = list[tuple[int, int, bytes, str | None]]


@pytest.fixture
def url() -> str:
    return fresh_url()


def database(url: str, table: str = "messages", keys: str | None = None, *, is_fixed: bool = True) -> Database:
    return Database(url, "default", table, keys, is_fixed=is_fixed)


def read(source: Database, topic: str, start: list[int] | None = None, end: list[int] | None = None) -> Read:
    """Everything of a topic, or what lies between those ends."""
    known = source.topic(topic)
    rows: Read = []
    for partition, (first, upto) in enumerate(zip(start or source.first(topic), end or source.end(topic), strict=True)):
        for part in source.messages(Range(topic, known.id, partition, first, upto)):
            keys = part.keys or [None] * len(part)
            rows += [(partition, *row) for row in zip(part.offsets, part.values, keys, strict=True)]
    return rows


def held(queue: ortoo.SyncQueue, topic: str) -> Read:
    return sorted((one.partition, one.offset, one.value, one.key) for one in queue.read(topic))


def publish(queue: ortoo.SyncQueue, topic: str, count: int = 100) -> None:
    queue.publish_many(topic, [ortoo.Message(b"%d" % at, key=str(at % 7)) for at in range(count)])


def test_everything_that_was_committed_is_read_while_the_queue_runs(url: str) -> None:
    with ortoo.open_sync(url) as queue:
        queue.create_topic("orders", partitions=3)
        publish(queue, "orders")
        source = database(url)
        assert read(source, "orders") == held(queue, "orders")
        publish(queue, "orders")
        sent = queue.publish("orders", b"deleted", key="1")
        queue.delete_message(sent.id)
        assert len(held(queue, "orders")) == 200
        assert read(source, "orders") == held(queue, "orders")
        assert read(database(url), "orders") == held(queue, "orders")  # with no checkpoint, or with one
        queue.purge("orders")
        assert read(source, "orders") == []
        publish(queue, "orders", 5)
        assert read(source, "orders") == held(queue, "orders")
    assert len(read(source, "orders")) == 5


def test_after_a_checkpoint_and_a_restart_it_is_the_same(url: str, tmp_path: Path) -> None:
    from tests.cli.program import call

    with ortoo.open_sync(tmp_path / "data") as queue:
        queue.create_topic("orders", partitions=2)
        queue.create_topic("latest", partitions=1, keep="latest")
        publish(queue, "orders", 5_000)
        publish(queue, "latest", 50)
        queue.ack(queue.lease("orders", max_messages=10))
        for message in list(queue.read("orders"))[:20]:
            queue.delete_message(message.id)
    assert call("migrate", "--from", tmp_path / "data", "--to", url).code == 0  # what is there is in a checkpoint
    source, history = database(url), database(url, "history")
    with ortoo.open_sync(url) as queue:
        assert read(source, "orders") == held(queue, "orders")
        assert {row[2:] for row in read(source, "latest")} == {row[2:] for row in held(queue, "latest")}
        known, ends = history.topic("orders"), history.end("orders")
        parts = [
            part
            for at, end in enumerate(ends)
            for part in history.history(Range("orders", known.id, at, history.first("orders")[at], end))
        ]
        assert sum(len(part.records) for part in parts) == sum(ends) > 20
        publish(queue, "orders", 10)
        assert read(source, "orders") == held(queue, "orders")


def test_a_plan_stays_at_one_commit(url: str) -> None:
    with ortoo.open_sync(url) as queue:
        for topic in ("a", "b"):
            queue.create_topic(topic, partitions=1)
            publish(queue, topic, 10)
        planned, follows = database(url), database(url, is_fixed=False)
        planned.topics()
        follows.topics()
        for topic in ("a", "b"):
            publish(queue, topic, 10)
        assert [planned.end(topic) for topic in ("a", "b")] == [[10], [10]]
        assert [follows.end(topic) for topic in ("a", "b")] == [[20], [20]]
        task = database(url)  # of another process: it reads what was planned, and no more
        assert len(read(task, "a", [0], planned.end("a"))) == 10
        assert [row[1] for row in read(task, "a", [3], [12])] == list(range(3, 12))


def test_by_time(url: str) -> None:
    with ortoo.open_sync(url) as queue:
        queue.create_topic("orders", partitions=1)
        publish(queue, "orders", 10)
        first = next(iter(queue.read("orders"))).timestamp
        source = database(url)
        source.topics()
        assert source.at("orders", first) == [0]
        assert source.at("orders", first + 3600) == [10]
        assert source.at("orders", 0) == [0]


def test_what_a_transaction_has_not_committed_is_not_there(url: str) -> None:
    with ortoo.open_sync(url) as queue:
        queue.create_topic("orders", partitions=1)
        staged = queue.begin("tx")
        staged.publish_many("orders", [b"one", b"two"])
        assert read(database(url), "orders") == []
        staged.commit()
        assert len(read(database(url), "orders")) == 2


def test_an_encrypted_topic_needs_its_key(url: str, tmp_path: Path) -> None:
    keys = _keys(tmp_path)
    with ortoo.open_sync(url, keys=keys) as queue:
        queue.create_topic("secret", partitions=1, encrypted=True)
        publish(queue, "secret", 10)
        assert read(database(url, keys=keys), "secret") == held(queue, "secret")
        assert database(url).topic("secret").is_encrypted
        with pytest.raises(
            ConfigError, match=r"topic 'secret' is encrypted: encryption key .* option 'encryptionKeys'"
        ):
            read(database(url), "secret")


def _keys(tmp_path: Path) -> str:
    path = tmp_path / "keys"
    make_key_file(path, "key")
    return f"file:{path}"


def test_the_owner_is_not_disturbed(url: str) -> None:
    with ortoo.open_sync(url) as queue:
        publish(queue, "orders")
        before = _asked(url, "select term, node, xmin::text from owner")
        read(database(url), "orders")
        assert _asked(url, "select term, node, xmin::text from owner") == before
        publish(queue, "orders")


def test_a_role_that_may_only_read_is_enough(url: str) -> None:
    schema = parse_address(url).schema
    with ortoo.open_sync(url) as queue:
        publish(queue, "orders", 10)
        role = f"spark_{schema}"
        _asked(url, f"create role {role} login")
        _asked(url, f"grant usage on schema {schema} to {role}")
        _asked(url, f"grant select on all tables in schema {schema} to {role}")
        assert len(read(database(url.replace("queue@", f"{role}@")), "orders")) == 10


def test_what_a_commit_under_way_has_published_is_not_seen_before_it_ends() -> None:
    """A large one becomes visible as a whole."""
    state, place = _State(), (TopicId(7), 0)
    state.take(r.CommitAdvanced(1, "default", "tx", 1, 0, {7: 10}, [(TopicId(7), 0, 40)]))
    assert state.visible(place, 50) == 40
    assert state.visible((TopicId(7), 1), 50) == 50
    state.take(r.TransactionEnded(2, "default", "tx", True))
    assert state.visible(place, 50) == 50


def test_nothing_can_be_written_with_its_connections(url: str) -> None:
    from ortoo.stores.postgres.connections import Connections

    async def write() -> None:
        connections = Connections(parse_address(url), is_reader=True)
        try:
            await (await connections.reconnect()).execute("create table x (a int)")
        finally:
            await connections.close()

    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        asyncio.run(write())


def test_clear_errors(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match=r"no queue in the schema 'test.*schema=NAME"):
        database(url).topics()
    with pytest.raises(StoreFailedError, match=r"cannot be reached while connecting to postgres://queue@127.0.0.1:1/q"):
        database("postgres://queue:secret@127.0.0.1:1/q").topics()
    with ortoo.open_sync(url) as queue:
        publish(queue, "orders", 1)
    with pytest.raises(NotFoundError, match="no topic 'ordres'; did you mean 'orders'"):
        database(url).topic("ordres")
    known = migrations.known_versions()
    monkeypatch.setattr(migrations, "known_versions", lambda: [*known, known[-1] + 1])
    with pytest.raises(ConfigError, match="brings it up to date"):
        database(url).topics()
    monkeypatch.setattr(migrations, "known_versions", lambda: known[:-1])
    with pytest.raises(ConfigError, match="written by a newer one"):
        database(url).topics()


def _asked(url: str, statement: str) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(server().url, server_settings={"search_path": parse_address(url).schema})
        found = await connection.fetch(statement)
        await connection.close()
        return found

    return asyncio.run(run())
