"""Directories that earlier versions wrote, kept for good: whatever the current code writes, it reads these. The newest has
everything in it that is ever written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.engine.dumps import peek
from ortoo.model.errors import UnavailableError
from ortoo.model.namespaces import Quota
from ortoo.model.records import Published, Record, Staged
from ortoo.stores.disk import KeyRing, RealDisk, open_directory
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.checkpoint import read_checkpoint
from ortoo.stores.disk.format import NEWEST
from ortoo.stores.disk.legible import legible_records
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from tests.format.directory import KEYS, START, Opened, opened, quarantine_reasons, values
from tests.format.make_golden import DATA, EXPECTED, GOLDEN, Expected, describe, ref_of
from tests.format.test_documented import TOLD_ONLY
from tests.format.whole import whole_messages

FORMATS = sorted(path for path in GOLDEN.parent.iterdir() if path.is_dir())


@pytest.fixture(params=FORMATS, ids=lambda path: path.name)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Expected]:
    """A copy of the directory, and what it must be read as."""
    folder: Path = request.param
    shutil.copytree(folder / DATA, tmp_path / "data")
    return tmp_path / "data", msgspec.json.decode((folder / EXPECTED).read_bytes(), type=Expected)


def as_written(found: Expected) -> Expected:
    """After a round through JSON: tuples are lists, keys are text."""
    return msgspec.json.decode(msgspec.json.encode(found), type=Expected)


async def read_all(one: Opened, expected: Expected) -> Expected:
    refs = [ref_of(message_id) for message_id in expected.messages]
    truth = {ref: values(await one.store.read(*ref[:2], [ref.offset]))[ref.offset] for ref in refs}
    return as_written(await describe(one, truth))


async def test_everything_in_it_is_read(golden: tuple[Path, Expected]) -> None:
    path, expected = golden
    async with opened(RealDisk(path)) as one:
        assert one.store.problems == []
        assert await read_all(one, expected) == expected
        topics = {topic.name: topic.config for topic in await one.queue.topics()}
        assert topics.keys() >= {"orders", "loose", "line", "secret", "orders.dlq", "loose.dlq", "secret.dlq"}
        assert topics.keys() == {place.rpartition("/")[0] for place in expected.states}
        assert topics["orders"].labels == {"team": "shop"}
        assert topics["secret"].encrypted
        assert topics["line"].ordering == "strict"


async def test_opening_it_writes_the_newest_version_and_changes_no_salt(golden: tuple[Path, Expected]) -> None:
    """So that an older program, which would lose what it does not know, refuses it from then on."""
    path, _ = golden
    before = (path / "FORMAT").read_text()
    async with opened(RealDisk(path)):
        after = (path / "FORMAT").read_text()
    assert after.startswith(f"ortoo data directory, format {NEWEST}\nsalt ")
    if "salt" in before:
        assert after.splitlines()[1:-1] == before.splitlines()[1:-1]
    async with opened(RealDisk(path)):
        assert (path / "FORMAT").read_text() == after


async def test_it_has_a_file_of_every_kind_and_no_problems(golden: tuple[Path, Expected]) -> None:
    path, expected = golden
    suffixes = {file.suffix for file in path.rglob("*") if file.is_file()}
    assert suffixes == {"", ".wal", ".ckpt", ".seg", ".log", ".hist"}
    report = check_directory(ViewDisk(path), KeyRing(KEYS))
    assert report.problems == []
    assert report.messages >= len(expected.messages) // 2
    assert sum(file.stat().st_size for file in GOLDEN.rglob("*") if file.is_file()) < 200_000


def test_the_newest_has_every_kind_of_record_that_is_ever_written() -> None:
    disk, ring = ViewDisk(GOLDEN / DATA), KeyRing(KEYS)
    assert {type(record) for _, record in legible_records(disk, ring)} == set(get_args(Record)) - TOLD_ONLY


def test_the_newest_has_every_form_of_publishers() -> None:
    """In the write-ahead log one for all, one for each, or none; in segments, sealed or not, and encrypted ones, runs."""
    disk, ring = ViewDisk(GOLDEN / DATA), KeyRing(KEYS)
    records = [record for _, record in legible_records(disk, ring)]
    assert {type(one.publishers) for one in records if isinstance(one, Published)} == {str, list, type(None)}
    assert {one.publish.publisher for one in records if isinstance(one, Staged)} >= {"stager", "another stager", None}
    files = {str(path.relative_to(GOLDEN / DATA)): path.read_bytes() for path in (GOLDEN / DATA).rglob("*.*")}
    for suffix in (".log", ".seg"):
        found = whole_messages({name: data for name, data in files.items() if name.endswith(suffix)})
        named = {ref.topic: value[-1] for ref, value in found.items() if value[-1] is not None}
        assert named.keys() >= {1, 4}  # orders, secret


def test_the_newest_has_every_field_that_was_added_to_checkpoints() -> None:
    checkpoint = read_checkpoint(ViewDisk(GOLDEN / DATA))
    assert checkpoint is not None
    assert checkpoint.manifest.staged
    assert checkpoint.manifest.logged
    assert any(entry.blocks for entry in checkpoint.manifest.logs)
    assert any(entry.blocks for entry in checkpoint.manifest.histories)
    assert checkpoint.manifest.secrets == []  # ids of an encrypted topic are there only when their messages are gone
    assert len(msgspec.to_builtins(checkpoint.manifest)) == len(checkpoint.manifest.__struct_fields__)
    dumped = peek(checkpoint.snapshot)
    assert dumped.producers
    assert dumped.namespaces == [("shop", Quota(messages_per_minute=600, stored_bytes=1 << 20))]
    assert any(topic.dedup_forgotten and any(topic.dedup_ends) for topic in dumped.topics)


async def test_what_is_forgotten_in_the_newest_stays_so(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / DATA, tmp_path / "data")
    async with opened(RealDisk(tmp_path / "data")) as one:
        assert (await one.queue.publish("forgetful", b"again", dedup_id="d0")).duplicate  # was published again since
        assert not (await one.queue.publish("forgetful", b"again", dedup_id="d1")).duplicate


async def test_work_goes_on_where_it_was_left(golden: tuple[Path, Expected]) -> None:
    path, expected = golden
    clock = ManualClock(START + 70)
    queue = Queue(Broker(open_directory(path, KEYS), clock), consumer="tester")
    async with queue:
        assert (await queue.publish("orders", b"again", dedup_id="orders-4")).duplicate
        assert (await queue.publish("secret", b"again", dedup_id="secret-4")).duplicate
        staged = await queue.begin("staged")
        assert await staged.commit() == 3
        await clock.advance(20_000)  # leases run out, retries come due
        seen: dict[str, bytes] = {}
        stagers: set[str | None] = set()
        for topic in ("orders", "loose", "line", "secret"):
            while leased := await queue.lease(topic, group="workers", max_messages=50):
                seen |= {message.id: message.value for message in leased}
                stagers |= {message.publisher for message in leased if message.value.startswith(b"staged")}
                await queue.ack(leased)
        letters = [letter for topic in ("loose", "orders") for letter in await queue.dead_letters(topic)]
    dead = {letter.headers["ortoo-origin"] for letter in letters}
    new = {value for message_id, value in seen.items() if message_id not in expected.messages}
    assert new == {b"staged before the checkpoint", b"staged in secret", b"staged in secret, again"}
    assert stagers == ({"stager", "another stager"} if expected.publishers else {None})
    names = {"orders": 1, "loose": 2, "line": 3, "secret": 4}
    wanted = {
        f"{names[topic]}.{partition}.{offset}"
        for topic, _, partition in (place.partition("/") for place in expected.states)
        if topic in names
        for state in ("ready", "delayed", "leased", "blocked")
        for offset in expected.states[f"{topic}/{partition}"][-1]["workers"][0][state]
    }
    assert seen.keys() & expected.messages.keys() == wanted - dead
    for message_id in wanted - dead:
        assert seen[message_id] == expected.messages[message_id][0]


async def test_without_the_key_only_what_is_encrypted_is_away(golden: tuple[Path, Expected]) -> None:
    path, expected = golden
    async with opened(RealDisk(path), keys={}) as one:
        assert {topic for topic, _ in quarantine_reasons(one)} == {"secret", "secret.dlq"}
        for message_id, value in expected.messages.items():
            ref = ref_of(message_id)
            if not one.broker.engine.state.topics[ref.topic].config.encrypted:
                wanted = (*value, expected.publishers.get(message_id))
                assert values(await one.store.read(*ref[:2], [ref.offset])) == {ref.offset: wanted}
        with pytest.raises(UnavailableError, match="'test' is missing"):
            await one.queue.publish("secret", b"no")
        await one.queue.publish("orders", b"yes")
    async with opened(RealDisk(path)) as one:  # nothing is lost by that
        assert quarantine_reasons(one) == {}
        found = await read_all(one, expected)
        assert found.messages == expected.messages
        assert found.states["secret/0"] == expected.states["secret/0"]
        assert found.histories == expected.histories
