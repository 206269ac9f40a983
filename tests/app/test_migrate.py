"""`ortoo migrate`: everything moves, between directories and databases, and what is left behind is said."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from msgspec.structs import replace

from ortoo import Message
from ortoo.app import republished
from ortoo.app.migrate import migrate
from ortoo.app.stores import open_store
from ortoo.model import records as r
from ortoo.model.errors import ConfigError, ExistsError, NotFoundError, UnavailableError
from ortoo.model.replies import Columns
from ortoo.stores.disk.moving import DirectoryTarget
from ortoo.stores.postgres import PostgresTarget, connections, parse_address
from ortoo.testing import ManualClock
from tests.cli.program import environment
from tests.stores.postgres_server import fresh_url, server

from .everything import HOSTILE, KEYS, START, aftermath, fill, opened, picture, wander


@pytest.fixture
def url() -> str:
    return fresh_url()


async def populate(where: str, checkpoint: bool = True) -> tuple[float, dict[str, Any]]:
    clock = ManualClock(START)
    queue, broker = await opened(open_store(where, KEYS), clock)
    kept = await fill(queue, clock)
    await broker.close(checkpoint=checkpoint)
    return clock.time(), kept


async def seen(where: str, now: float) -> dict[tuple[str, ...], Any]:
    queue, broker = await opened(open_store(where, KEYS), ManualClock(now))
    found = await picture(queue)
    await broker.close()
    return found


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_everything_moves_there_and_back(tmp_path: Path, url: str, checkpoint: bool) -> None:
    old, back = str(tmp_path / "old"), str(tmp_path / "back")
    now, kept = await populate(old, checkpoint)
    moved = await migrate(old, url, KEYS)
    assert moved.differences == []
    assert moved.verified
    moved = await migrate(url, back, KEYS)
    assert moved.differences == []
    pictures = [await seen(where, now) for where in (old, url, back)]
    assert pictures[1] == pictures[0]
    assert pictures[2] == pictures[0]
    after = []
    for where in (old, url, back):
        clock = ManualClock(now)
        queue, broker = await opened(open_store(where, KEYS), clock)
        after.append(await aftermath(queue, clock, kept))
        await broker.close()
    assert after[1] == after[0]
    assert after[2] == after[0]


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 60))])
async def test_whatever_happened_before(tmp_path: Path, url: str, seed: int) -> None:
    old, back, random, clock = str(tmp_path / "old"), str(tmp_path / "back"), Random(seed), ManualClock(START)
    for steps in (60, 20):  # there is a checkpoint, and commits behind it
        queue, broker = await opened(open_store(old, KEYS), clock)
        await wander(queue, clock, random, steps)
        await broker.close(checkpoint=steps == 60)
    for source, target in ((old, url), (url, back)):
        assert (await migrate(source, target, KEYS)).differences == []
    found = [await seen(where, clock.time()) for where in (old, url, back)]
    assert found[1] == found[0]
    assert found[2] == found[0]


async def test_between_databases_and_between_directories(tmp_path: Path, url: str) -> None:
    old, now_url = str(tmp_path / "old"), fresh_url()
    now, _ = await populate(url)
    before = await owner(url)
    for source, target in ((url, now_url), (now_url, old), (old, str(tmp_path / "new"))):
        moved = await migrate(source, target, KEYS, KEYS)
        assert moved.differences == []
    assert await owner(url) == before  # it was only read
    assert await seen(str(tmp_path / "new"), now) == await seen(url, now)


async def test_values_are_encrypted_anew_with_the_keys_of_the_target(tmp_path: Path, url: str) -> None:
    old, back = str(tmp_path / "old"), str(tmp_path / "back")
    now, _ = await populate(old)
    others = {"other": b"o" * 32}
    assert (await migrate(old, url, KEYS, others)).differences == []
    with pytest.raises(UnavailableError, match=r"topic 'secret'.*'other' is missing"):
        await migrate(url, back, KEYS)
    assert not Path(back).exists()
    assert (await migrate(url, back, others)).differences == []
    queue, broker = await opened(open_store(back, others), ManualClock(now))
    assert {message.value async for message in queue.read("secret")} == {b"hidden"}
    await broker.close()


async def test_without_a_key_nothing_moves_and_the_topics_are_named(tmp_path: Path, url: str) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    await populate(old)
    with pytest.raises(UnavailableError, match="topic 'secret' is quarantined: encryption key 'key' is missing"):
        await migrate(old, url, {})
    for target in (url, new):
        with pytest.raises(ConfigError, match=r"no key.*secret"):
            await migrate(old, target, KEYS, {})
    assert not Path(new).exists()
    for target in (url, new):
        assert (await migrate(old, target, KEYS)).differences == []


@pytest.mark.parametrize("kind", ["directory", "database"])
async def test_what_was_killed_in_the_middle_is_no_queue_and_is_begun_anew(
    tmp_path: Path, url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, target = str(tmp_path / "old"), url if kind == "database" else str(tmp_path / "new")
    now, _ = await populate(old)
    before = contents(tmp_path / "old")
    place = PostgresTarget if kind == "database" else DirectoryTarget
    for method in ("create", "publish", "tell", "finish", "reopen", "release"):
        with monkeypatch.context() as patch:
            patch.setattr(place, method, _killed)
            with pytest.raises(KilledError):
                await migrate(old, target, KEYS)
        with pytest.raises(UnavailableError, match="half a copy"):
            await seen(target, now)
        with pytest.raises(UnavailableError, match="half a copy"):
            await migrate(target, str(tmp_path / "elsewhere"), KEYS)
    assert contents(tmp_path / "old") == before
    assert (await migrate(old, target, KEYS)).differences == []
    assert await seen(target, now) == await seen(old, now)


async def test_a_process_that_is_killed_leaves_the_source_as_it_was(tmp_path: Path, url: str) -> None:
    old = str(tmp_path / "old")
    now, _ = await populate(old)
    before = contents(tmp_path / "old")
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, old, url, env=environment())
    assert await child.wait() == -signal.SIGKILL
    assert contents(tmp_path / "old") == before
    with pytest.raises(UnavailableError, match="half a copy"):
        await seen(url, now)
    assert (await migrate(old, url, KEYS)).differences == []


async def test_a_disk_without_room_is_named_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    queue, broker = await opened(open_store(old), ManualClock(START))
    await queue.publish_many("t", [Random(at).randbytes(10_000) for at in range(100)])
    await broker.close()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LIMITED,
        "migrate",
        "--from",
        old,
        "--to",
        new,
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await child.communicate()
    assert child.returncode == 4
    assert f"{new} cannot be written: File too large; see to that, and run this again" in " ".join(
        told.decode().split()
    )
    moved = await migrate(old, new)
    assert (moved.messages, moved.differences) == (100, [])


async def test_a_target_that_has_something_is_refused(tmp_path: Path, url: str) -> None:
    old, other = str(tmp_path / "old"), str(tmp_path / "other")
    await populate(old)
    await populate(other)
    await populate(url)
    with pytest.raises(ExistsError, match=r"not empty, there is FORMAT, .*checkpoint"):
        await migrate(old, other, KEYS)
    with pytest.raises(ExistsError, match=r"has a queue in the schema 'test.*already"):
        await migrate(old, url, KEYS)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExistsError, match="is a file"):
        await migrate(old, str(tmp_path / "file"), KEYS)
    with pytest.raises(ExistsError, match=r"x cannot be made, for .*file is a file; name a new directory"):
        await migrate(old, str(tmp_path / "file" / "x"), KEYS)
    with pytest.raises(ConfigError, match="cannot be a data directory: File name too long"):
        await migrate(old, str(tmp_path / ("x" * 300)), KEYS)
    for wrong in ("", "a\0b"):
        with pytest.raises(ConfigError, match="is no name for a store"):
            await migrate(old, wrong, KEYS)
    with pytest.raises(ConfigError, match="both where to move from and where to"):
        await migrate(old, old, KEYS)
    with pytest.raises(ConfigError, match="no store for mysql://"):
        await migrate(old, "mysql://somewhere/else", KEYS)
    with pytest.raises(ConfigError, match="is a server"):
        await migrate(old, "ortoo://somewhere", KEYS)
    for missing in (str(tmp_path / "nowhere"), fresh_url(), str(tmp_path)):
        with pytest.raises(NotFoundError):
            await migrate(missing, str(tmp_path / "new"), KEYS)
    assert not (tmp_path / "new").exists()


async def test_a_queue_that_runs_is_refused(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOCK_WAIT_S", 0.1)
    for running in (str(tmp_path / "old"), url):
        _, broker = await opened(open_store(running), ManualClock(START))
        with pytest.raises(UnavailableError, match="in use by"):
            await migrate(running, str(tmp_path / "new"))
        await broker.close()
    _, broker = await opened(open_store(url), ManualClock(START))
    with pytest.raises(UnavailableError, match="in use by"):
        await migrate(str(tmp_path / "old"), url)
    await broker.close()


async def test_what_is_not_the_same_afterwards_is_told_and_not_opened_up(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = str(tmp_path / "old")
    await populate(old)
    publish = PostgresTarget.publish

    async def forgetful(self: PostgresTarget, records: Sequence[r.Published]) -> None:
        others = [replace(one, batch=replace(one.batch, values=[b"other"] * one.count)) for one in records]
        await publish(self, others)

    monkeypatch.setattr(PostgresTarget, "publish", forgetful)
    monkeypatch.setattr(PostgresTarget, "tell", _nothing)
    moved = await migrate(old, url, KEYS)
    assert any("'plain'" in one and "is not the same" in one for one in moved.differences)
    assert any("history goes from 0 to 0" in one for one in moved.differences)
    with pytest.raises(UnavailableError, match="half a copy"):
        await seen(url, START)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("update history set commit = 999", r"record 0 of its history is not of commit 999"),
        ("update history set commit = 0", r"record 0 of its history is not of commit 0"),
        ("update batches set size = 7 where size > 7", r"they count \d+ bytes, not \d+"),
    ],
)
async def test_a_target_whose_columns_are_wrong_is_not_the_same(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, changed: str, told: str
) -> None:
    old, real = str(tmp_path / "old"), PostgresTarget.finish
    await populate(old)

    async def finish(self: PostgresTarget, *arguments: Any) -> None:
        await real(self, *arguments)
        connection = await asyncpg.connect(
            server().url, server_settings={"search_path": parse_address(url).schema, "ortoo.writer": "queue"}
        )
        await connection.execute(changed)
        await connection.close()

    monkeypatch.setattr(PostgresTarget, "finish", finish)
    moved = await migrate(old, url, KEYS)
    assert any(re.search(told, difference) for difference in moved.differences), moved.differences
    with pytest.raises(UnavailableError, match="half a copy"):
        await seen(url, START)


async def test_hostile_names_and_a_schema_that_has_quotes(tmp_path: Path) -> None:
    old, url = str(tmp_path / 'it\'s "old" $1'), fresh_url() + quote("'\"; drop schema --%s ключ")
    clock = ManualClock(START)
    queue, broker = await opened(open_store(old), clock)
    await queue.create_topic("a.b-c", namespace="spaß")
    await queue.create_group("a.b-c", HOSTILE.replace("\x00", ""), namespace="spaß")
    await queue.publish("a.b-c", "x" * (1 << 20), key=HOSTILE, headers={"'": HOSTILE}, namespace="spaß")
    await queue.begin("'; --", namespace="spaß")
    await broker.close()
    assert (await migrate(old, url)).differences == []
    assert (await migrate(url, str(tmp_path / "back"))).differences == []


async def test_a_large_partition_moves_piece_by_piece(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every instant has the bytes that it had, for retention."""
    monkeypatch.setattr(republished, "READ_MESSAGES", 70)
    old = str(tmp_path / "old")
    clock = ManualClock(START)
    queue, broker = await opened(open_store(old), clock)
    await queue.create_topic("t", partitions=1, keep="latest", retention_bytes=1 << 20)
    for number in range(10):
        await queue.publish_many("t", [Message(b"x" * at, key=str(at % (40 + number))) for at in range(100)])
        await clock.advance(1)
    await clock.advance(30)
    size = (await queue.topic("t")).bytes
    await broker.close()
    assert (await migrate(old, url)).differences == []
    queue, broker = await opened(open_store(url), clock)
    assert abs((await queue.topic("t")).bytes - size) < size / 10
    await broker.close()


@pytest.mark.parametrize("kind", ["one by one", "together"])
async def test_no_more_is_held_at_once_than_fits_also_behind_small_messages(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(republished, "READ_BYTES", 10_000)
    old, clock = str(tmp_path / "old"), ManualClock(START)
    queue, broker = await opened(open_store(old), clock)
    await queue.create_topic("t", partitions=1)
    for size in [1, 1, *[6_000] * 10, *[10] * 30, 15_000, 15_000]:
        await queue.publish("t", bytes(size))
        await clock.advance(0 if kind == "together" and size < 100 else 0.01)
    await broker.close()
    held: list[int] = []
    take = republished.Republished.take

    def counting(self: republished.Republished, found: Columns, until: int) -> list[r.Published]:
        held.append(sum(map(len, found.values)))
        return take(self, found, until)

    monkeypatch.setattr(republished.Republished, "take", counting)
    for source, target in ((old, url), (url, str(tmp_path / "back"))):
        assert (await migrate(source, target)).differences == []
    assert max(held) < 10_000 + 15_000  # one that is larger comes, and what is of the same instant
    assert len(held) < 2 * 15


async def owner(url: str) -> list[Any]:
    """Who was the last to have the schema, and what it has."""
    connection = await asyncpg.connect(server().url, server_settings={"search_path": parse_address(url).schema})
    try:
        return [
            await connection.fetch("select term, node, xmin::text from owner"),
            await connection.fetch("select number, xmin::text from commits order by number"),
            await connection.fetch("select topic, partition, base, xmin::text from batches order by 1, 2, 3"),
            await connection.fetch("select number, xmin::text from checkpoints"),
        ]
    finally:
        await connection.close()


class KilledError(Exception):
    pass


def _killed(*_: object) -> Any:
    raise KilledError


async def _nothing(*_: object) -> None:
    pass


KILLED = """
import asyncio, os, signal, sys
from ortoo.app.migrate import migrate
from ortoo.stores.postgres import PostgresTarget
async def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
PostgresTarget.finish = kill
asyncio.run(migrate(sys.argv[1], sys.argv[2], {"key": bytes(32)}))
"""


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from ortoo.cli import main
main()
"""


def contents(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in path.rglob("*") if one.is_file() and one.name != "LOCK"}
