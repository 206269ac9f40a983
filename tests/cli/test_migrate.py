"""migrate, and what check, backup, restore and repair do with a database, as an operator runs them."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import ortoo
from ortoo.stores.postgres import parse_address
from ortoo.stores.postgres.shard import identity_of
from ortoo.stores.postgres.spill import Spill
from ortoo.testing.private_postgres import programs
from tests.stores.postgres_server import fresh_url, server

from .program import call


@pytest.fixture
def url() -> str:
    return fresh_url()


def fill(where: str, count: int = 500) -> None:
    with ortoo.open_sync(where) as queue:
        queue.create_topic("orders", partitions=2)
        for at in range(0, count, 50):
            queue.publish_many(
                "orders", [ortoo.Message(b"%d" % number, key=str(number % 9)) for number in range(at, at + 50)]
            )
        messages = queue.lease("orders", max_messages=20)
        queue.ack(messages[:10])
        queue.nack(messages[10:], error="later", delay=0)


def values(where: str) -> list[bytes]:
    with ortoo.open_sync(where) as queue:
        return sorted(message.value for message in queue.read("orders"))


def write(url: str, statement: str, *arguments: object) -> None:
    """As no one should."""

    async def run() -> None:
        settings = {"search_path": parse_address(url).schema, "ortoo.writer": "queue"}
        connection = await asyncpg.connect(server().url, server_settings=settings)
        await connection.execute(statement, *arguments)
        await connection.close()

    asyncio.run(run())


def test_migrate_says_what_it_moved(tmp_path: Path, url: str) -> None:
    fill(str(tmp_path / "data"))
    done = call("migrate", "--from", tmp_path / "data", "--to", url)
    assert done.code == 0
    assert "500 messages in 1 topics, 1 groups, 0 leases" in done.out
    assert "all the same" in done.out
    done = call("migrate", "--from", url, "--to", tmp_path / "back", "--no-verify", "--json")
    assert (done.code, done.json["messages"], done.json["verified"]) == (0, 500, False)
    assert values(str(tmp_path / "back")) == values(url) == values(str(tmp_path / "data"))


def test_migrate_refuses_with_the_right_exit_code(tmp_path: Path, url: str) -> None:
    fill(str(tmp_path / "data"), 50)
    assert call("migrate", "--from", tmp_path / "data").code == 2
    assert call("migrate", "--from", tmp_path / "nothing", "--to", url).code == 3
    assert call("migrate", "--from", tmp_path / "data", "--to", tmp_path).code == 1
    assert call("migrate", "--from", tmp_path / "data", "--to", "postgres://queue@127.0.0.1:1/q").code == 4
    secret = call("migrate", "--from", tmp_path / "data", "--to", "postgres://queue:pa55word@127.0.0.1:1/q")
    assert "pa55word" not in secret.out + secret.err


def test_check_of_a_database(url: str) -> None:
    fill(url)
    done = call("check", url)
    assert done.code == 0
    assert "no problems" in done.out
    assert "500 messages" in done.out
    report = call("check", url, "--json").json
    assert report["commit"] > 0
    assert report["read_bytes"] > 1000
    assert call("check", url, "--limit", "10", "--json").json["read_bytes"] < 1000
    assert call("check", fresh_url()).code == 3
    assert call("check", "postgres://queue@127.0.0.1:1/q").code == 4


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("delete from batches where base = (select max(base) from batches)", "are missing"),
        ("update batches set ends = 'x' where base = 0", "does not tell where its messages end"),
        ("delete from snapshots", "piece 0 of snapshot"),
        ("update history set records = 'x'", "partition 0 of topic 'orders'"),
        ("delete from history", "its history ends at record 0, not at"),
        ("update history set commit = 999", "belong to commit 999, which is missing"),
        ("update batches set commit = 999", "belong to commit 999, which is missing"),
    ],
)
def test_check_finds_damage(tmp_path: Path, url: str, damage: str, told: str) -> None:
    fill(str(tmp_path / "data"))
    assert call("migrate", "--from", tmp_path / "data", "--to", url, "--no-verify").code == 0  # that makes a checkpoint
    write(url, damage)
    done = call("check", url)
    assert done.code == 1, done
    assert told in done.out


def test_check_finds_a_commit_that_is_missing(url: str) -> None:
    with ortoo.open_sync(url) as queue:
        for number in range(5):
            queue.publish("orders", b"%d" % number)
    write(url, "update commits set number = number + 1000 where number = (select max(number) from commits)")
    write(
        url, "insert into commits (number, term, flags, records) select max(number) + 5, max(term), 0, '' from commits"
    )
    done = call("check", url)
    assert done.code == 1
    assert "is missing" in done.out


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("backup {url} {path}", "pg_dump"),
        ("backup {path} {url}", "pg_dump"),
        ("restore {url} {path}", "pg_restore"),
        ("restore {path} {url}", "pg_restore"),
        ("repair {url}", "pg_restore"),
    ],
)
def test_what_is_for_directories_says_what_is_for_databases(tmp_path: Path, command: str, instead: str) -> None:
    done = call(*shlex.split(command.format(url="postgres://queue@db1/q", path=tmp_path / "new")))
    assert done.code == 2
    assert instead in done.err
    assert not (tmp_path / "new").exists()


def test_a_dump_of_a_running_queue_is_restored_into_another_database(tmp_path: Path, url: str) -> None:
    """As docs/postgres.md has it."""
    schema, dump = parse_address(url).schema, str(tmp_path / "queue.dump")
    with ortoo.open_sync(url) as queue:
        queue.create_topic("orders", partitions=2)
        queue.publish_many("orders", [ortoo.Message(b"%d" % number, key=str(number)) for number in range(300)])
        held = queue.lease("orders", max_messages=10, lease=3600)
        tool("pg_dump", "--format=custom", f"--schema={schema}", f"--dbname={server().url}", f"--file={dump}")
        queue.publish("orders", b"too late")
        queue.ack(held[5:])
        wanted = {message.id: message.value for message in queue.read("orders") if message.value != b"too late"}
    other = server().url.replace("/postgres", "/restored")
    tool("createdb", f"--maintenance-db={server().url}", "--encoding=UTF8", "--template=template0", "restored")
    tool("pg_restore", f"--dbname={other}", dump)
    there = f"{other}?schema={schema}"
    assert call("check", there).code == 0
    with ortoo.open_sync(there) as queue:
        assert {message.id: message.value for message in queue.read("orders")} == wanted
        assert queue.group("orders").leased == 10
        queue.ack(held)  # a receipt is as good as it was when the dump was made
        assert queue.group("orders").leased == 0
    done = call("migrate", "--from", there, "--to", tmp_path / "moved")
    assert done.code == 0, done.err


def tool(name: str, *arguments: str) -> Any:
    return subprocess.run([programs() / name, *arguments], check=True, capture_output=True)


def test_shards_move_says_what_it_moved_and_what_is_in_the_way(tmp_path: Path) -> None:
    fill(str(tmp_path / "data"))
    new = [tmp_path / "a", tmp_path / "b"]
    done = call("shards", "move", "--from", tmp_path / "data", "--to", new[0], "--to", new[1])
    assert done.code == 0
    assert f"{new[0]}, {new[1]}: 500 messages in 1 topics, 1 groups, 0 leases" in done.out
    assert "all the same" in done.out
    checked = call("shards", "check", "--store", new[0], "--store", new[1])
    assert (checked.code, "2 shards belong together" in checked.out) == (0, True)
    again = call("shards", "move", "--from", tmp_path / "data", "--to", new[0], "--to", new[1])
    assert again.code != 0
    assert "these are the 2 shards of a queue already" in again.err
    again = call("shards", "move", "--from", tmp_path / "data", "--to", new[1], "--to", tmp_path / "d")
    assert "is not empty" in again.err
    assert "no name for a store" in call("shards", "move", "--from", tmp_path / "data", "--to", "").err
    alone = call("migrate", "--from", new[0], "--to", tmp_path / "c")
    assert alone.code == 0  # a shard may change its place
    assert "shard 0 of 2" in call("topics", "list", "--data", tmp_path / "c").err


def test_what_waits_in_a_spill_is_not_left_behind(tmp_path: Path, url: str) -> None:
    fill(url, 50)
    address, spill = parse_address(url), tmp_path / "spill"
    folder = Spill(spill, address)

    async def leave() -> None:
        connection = await asyncpg.connect(server().url, server_settings={"search_path": address.schema})
        await folder.open(await identity_of(connection, address))
        await connection.close()
        await folder.append(1_000, 1, "token", b"commit", "now")
        await folder.close()

    asyncio.run(leave())
    for move in (("migrate",), ("shards", "move")):
        done = call(*move, "--from", url, "--to", tmp_path / "new", "--spill", spill)
        assert done.code != 0
        assert "has commits that" in done.err
        assert not (tmp_path / "new").exists()
    done = call("check", url, "--spill", spill)
    assert (done.code, "has commits that the database does not have yet" in done.out) == (1, True)
    assert call("check", url, "--spill", tmp_path / "none").code == 0


@pytest.mark.parametrize(
    "damage",
    [
        "update batches set until = until + 1",
        "update batches set last_at = last_at + 1",
        "update batches set size = -1",
        "update batches set times = 'x'",
        "update batches set gaps = 'xxxxx'",
        "update batches set columns = '[]'",
        """update batches set columns = '{"keys": 5}'""",
        "update batches set key_hashes = 'x'",
        "update history set first_offset = first_offset + 1",
        "update history set last_offset = last_offset + 1",
        "update checkpoints set manifest = 'x'",
        "update snapshots set data = 'x'",
    ],
)
def test_what_was_tampered_with_is_told_as_corruption_and_not_moved(tmp_path: Path, url: str, damage: str) -> None:
    fill(str(tmp_path / "data"), 50)
    assert call("migrate", "--from", tmp_path / "data", "--to", url).code == 0
    write(url, damage)
    assert call("check", url).code == ("snapshots" not in damage)  # what the engine has of them, only the engine reads
    done = call("migrate", "--from", url, "--to", tmp_path / "new")
    assert done.code != 0
    assert "Traceback" not in done.err
    assert "corruption" in done.err or "quarantined" in done.err
    assert not (tmp_path / "new" / "FORMAT").exists()
