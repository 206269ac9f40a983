"""Merging: the room of what was superseded is had back, and nothing else is lost, wherever it ends."""

from __future__ import annotations

import copy
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import ortoo
from ortoo import Message, OrtooError, Queue
from ortoo.app.repair import repair_directory
from ortoo.broker import Broker
from ortoo.model.names import TopicId
from ortoo.stores.disk import DiskStore, merging, new_frames
from ortoo.stores.disk import log as logs
from ortoo.stores.disk.outside import Outside
from ortoo.testing.simulated_disk import DiskFault, SimulatedCrash
from tests.stores.test_checkpoints import KEY, Site

COLD = 7  # keys that are published once, among all the others


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SEGMENT_BYTES", 3_000)
    monkeypatch.setattr(new_frames, "FRAME_MESSAGES", 20)
    monkeypatch.setattr(merging, "FEW", 2)


@pytest.fixture
def site() -> Site:
    return Site()


def number_of(number: int) -> bytes:
    return b"%06d" % number + Random(number).randbytes(60)


async def fill(queue: Queue, rounds: int = 7, start: int = 0) -> None:
    """Of each round one key stays, and all others are published again and again."""
    for number in range(start, start + rounds):
        await queue.publish("state", b"cold %d" % number, key=f"cold {number}", headers={"round": str(number)})
        rows = [Message(number_of(100 * number + row), key=f"hot {row % 5}") for row in range(100)]
        await queue.publish_many("state", rows)


async def kept(queue: Queue) -> dict[str | None, bytes]:
    found = [(message.key, message.value) async for message in queue.read("state")]
    assert len(dict(found)) == len(found)
    return dict(found)


def expected(rounds: int) -> dict[str, bytes]:
    hot = {f"hot {row % 5}": number_of(100 * (rounds - 1) + row) for row in range(95, 100)}
    return hot | {f"cold {number}": b"cold %d" % number for number in range(rounds)}


def size(site: Site, folder: str = "logs/") -> int:
    return sum(len(content.now) for path, content in site.disk.names.items() if path.startswith(folder))


async def make(site: Site, **settings: object) -> Queue:
    queue = await site.open()
    await queue.create_topic(
        "state",
        **({"partitions": 1, "keep": "latest", "retention_seconds": None} | settings),  # type: ignore[arg-type]
    )
    return queue


@pytest.mark.parametrize("encrypted", [False, True])
async def test_the_room_of_what_was_superseded_is_had_back(site: Site, encrypted: bool) -> None:
    site.keys = KEY
    queue = await make(site, encrypted=encrypted)
    sizes = []
    for number in range(COLD):
        await fill(queue, 1, number)
        await site.checkpoint()
        sizes.append(size(site))
    assert max(sizes) < 4 * 3_000 + 100 * 100, sizes  # what one round brings, and not what seven do
    assert len(site.files("logs/")) <= 6
    assert await kept(queue) == expected(COLD)
    queue = await site.open()
    assert await kept(queue) == expected(COLD)
    assert site.store.problems == []
    [message] = [one async for one in queue.read("state") if one.key == "cold 0"]
    assert message.headers == {"round": "0"}
    assert len(await queue.lease("state", max_messages=100)) == len(expected(COLD))


async def test_what_is_left_is_not_written_again_and_again(site: Site) -> None:
    queue = await make(site)
    await fill(queue)
    for _ in range(2):
        await queue.publish("state", b"x", key="hot 0")
        await site.checkpoint()
    queue = await site.open()
    before = {path: bytes(content.now) for path, content in site.disk.names.items() if path.startswith("logs/")}
    await queue.publish("state", b"y", key="hot 0")
    await site.checkpoint()
    after = {path: bytes(content.now) for path, content in site.disk.names.items() if path.startswith("logs/")}
    assert all(after.get(path) == content for path, content in before.items() if path.endswith(".seg"))


@pytest.mark.parametrize("when", ["crash before", "crash after"])
async def test_a_crash_at_any_step_loses_nothing_and_it_goes_on_from_there(site: Site, when: DiskFault) -> None:
    queue = await make(site)
    await fill(queue, COLD)
    site.store._flush_bytes = 1 << 40
    await site.checkpoint()
    await queue.close()
    base, site.broker = site.disk, None
    at = crashes = 0
    while True:
        site.disk = copy.deepcopy(base)
        site.disk.random = Random(at)
        await site.open()
        last = site.disk.operations + at
        site.disk.plan = lambda operation, _, last=last: when if operation == last else "none"  # type: ignore[misc]
        with suppress(SimulatedCrash, OSError, OrtooError):
            await site.checkpoint()
        if not site.disk.is_off:
            break
        crashes += 1
        site.disk.power_off()
        site.disk.plan = lambda *_: "none"
        queue = await site.open()
        assert site.store.problems == [], at
        assert await kept(queue) == expected(COLD), at
        await queue.publish("state", b"x", key="hot 0")
        await site.checkpoint()
        assert await kept(queue) == expected(COLD) | {"hot 0": b"x"}, at
        assert size(site) < 9_000, at
        site.broker = None
        at += 3
    assert crashes > 8


async def test_a_merge_that_came_after_the_checkpoint_counts_for_all_its_segments(site: Site) -> None:
    """Those whose files are still there, and those that are gone."""
    queue = await make(site)
    await fill(queue, COLD)
    removed: list[str] = []
    remove = site.disk.remove

    def forgetful(path: str) -> None:
        if path.startswith("logs/") and path.endswith(".seg"):
            removed.append(path)
            if len(removed) % 2:  # the others stay, as if the power had gone before that
                return
        remove(path)

    site.disk.remove = forgetful  # type: ignore[method-assign]
    await site.checkpoint()
    site.disk.remove = remove  # type: ignore[method-assign]
    assert len(removed) > 2
    queue = await site.open()
    assert site.store.problems == []
    assert await kept(queue) == expected(COLD)
    assert not set(removed) & set(site.files("logs/"))


async def test_who_holds_what_was_superseded_may_reject_it_after_a_merge(site: Site) -> None:
    queue = await make(site)
    await queue.publish("state", b"held", key="hot 0", headers={"h": "v"})
    [held] = await queue.lease("state", lease=3600)
    site.store._catalog._shared.recent._bytes_max = 0
    await fill(queue, COLD)
    await site.checkpoint()
    await held.reject("bad")
    [letter] = await queue.dead_letters("state")
    assert (letter.value, letter.key) == (b"held", "hot 0")


async def test_dedup_ids_outlive_what_was_superseded(site: Site) -> None:
    queue = await make(site)
    first = await queue.publish("state", b"first", key="hot 0", dedup_id="once")
    await fill(queue, COLD)
    for _ in range(2):
        await site.checkpoint()
        queue = await site.open()
        assert (await queue.publish("state", b"again", key="hot 0", dedup_id="once")).id == first.id
        await queue.publish("state", b"more", key="hot 1")
    assert (await kept(queue))["hot 0"] == expected(COLD)["hot 0"]


@pytest.mark.parametrize("has_checkpoint", [False, True])
async def test_which_message_is_the_latest_is_known_after_a_restart(site: Site, has_checkpoint: bool) -> None:
    queue = await make(site, partitions=3)
    await fill(queue, 2)
    if has_checkpoint:
        await site.checkpoint()
    queue = await site.open()
    broker = site.broker
    assert broker is not None
    [topic] = [one for one in broker.state.topics.values() if one.latest is not None]
    assert topic.latest is not None
    assert len(topic.latest.places) == len(expected(2))
    await queue.publish("state", b"new", key="cold 0")
    await queue.publish("state", b"newer", key="hot 3")
    assert await kept(queue) == expected(2) | {"cold 0": b"new", "hot 3": b"newer"}
    queue = await site.open()
    assert await kept(queue) == expected(2) | {"cold 0": b"new", "hot 3": b"newer"}


async def test_a_crash_between_a_message_and_what_it_supersedes_is_made_good(site: Site) -> None:
    queue = await make(site)
    await queue.publish("state", b"1", key="k")
    await queue.publish("state", b"2", key="k")
    site.disk.plan = lambda *_: "crash before"  # what it superseded is not written any more
    assert site.broker is not None
    site.broker._commits.pending.records.clear()
    site.disk.power_off()
    site.disk.plan = lambda *_: "none"
    queue = await site.open()
    assert await kept(queue) == {"k": b"2"}


async def test_a_deleted_message_is_removed_from_the_disk_in_any_topic(site: Site) -> None:
    queue = await site.open()
    await queue.create_topic("orders", partitions=1)
    sent = await queue.publish_many("orders", [b"secret %d" % number + bytes(60) for number in range(200)])
    for one in sent[:190]:
        await queue.delete_message(one.id)
    await site.checkpoint()
    await queue.publish("orders", b"x")
    await site.checkpoint()
    stored = b"".join(bytes(site.disk.names[path].now) for path in site.files("logs/"))
    assert b"secret 100" not in stored


async def test_a_reader_from_outside_finds_what_was_merged(tmp_path: Path) -> None:
    """Spark reads files as the last checkpoint names them, while their owner merges them."""
    async with ortoo.open(tmp_path / "data") as queue:
        await queue.create_topic("state", partitions=1, keep="latest", retention_seconds=None)
        await fill(queue, COLD)
        broker = queue._link
        assert isinstance(broker, Broker)
        store = broker.store
        assert isinstance(store, DiskStore)
        names = {message.offset: message.value async for message in queue.read("state")}
        topic = TopicId((await queue.topic("state")).id)
        store._flush_bytes = 0
        await store.checkpoint(broker.engine.snapshot(), broker.now())
        assert store._checkpointing is not None
        await store._checkpointing
        outside = Outside(tmp_path / "data")
        assert outside.checkpoint is not None
        assert len(outside.checkpoint.manifest.logs[0].segments) > len(list(tmp_path.glob("data/logs/*/0/*"))) > 0
        for start in [0, *names]:
            found: dict[int, bytes] = {}
            for columns in outside.scan(topic, 0, start, 10_000):
                found.update(zip(columns.offsets, columns.values, strict=True))
            assert {o: v for o, v in names.items() if o >= start}.items() <= found.items()
            assert min(found) >= start
        assert outside.first_at(topic, 0, 1 << 50) == 7 * 101


async def test_a_repair_brings_nothing_back_and_calls_nothing_lost(tmp_path: Path) -> None:
    """Neither with the state, nor without it: history tells what was superseded, too."""
    async with ortoo.open(tmp_path / "data") as queue:
        await queue.create_topic("state", partitions=1, keep="latest", retention_seconds=None)
        await fill(queue, COLD)
        broker = queue._link
        assert isinstance(broker, Broker)
        store = broker.store
        assert isinstance(store, DiskStore)
        store._flush_bytes = 0
        await store.checkpoint(broker.engine.snapshot(), broker.now())
        assert store._checkpointing is not None
        await store._checkpointing
    for name, damage in (("with", False), ("without", True)):
        shutil.copytree(tmp_path / "data", tmp_path / name)
        if damage:
            for path in (tmp_path / name).glob("checkpoint/*"):
                path.unlink()
        done = repair_directory(tmp_path / name, None)
        assert [loss for loss in done.losses if loss.certain] == []
        async with ortoo.open(tmp_path / name) as queue:
            found = {
                message.offset: message.value
                async for message in queue.read("state" if not damage else await only(queue))
            }
            assert sorted(found.values()) == sorted(expected(COLD).values())


async def only(queue: Queue) -> str:
    [topic] = await queue.topics()
    return topic.name
