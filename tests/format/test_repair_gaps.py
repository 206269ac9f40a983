"""A repair takes from the logs what the write-ahead log lacks, and the other way round, whichever of their files are left."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ortoo import Message
from ortoo.app.losses import Repair
from ortoo.app.repair import repair_directory
from ortoo.model.names import TopicId
from ortoo.stores.disk import KeyRing, RealDisk, new_frames
from ortoo.stores.disk import draft as draft_module
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.frame import SIZE, Frame, scan_frames
from ortoo.stores.disk.saved_log import SavedLog
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from tests.format.directory import KEYS, START, Opened, opened, values


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty directory."""
    path = tmp_path / "data"
    path.mkdir()
    return path


async def publish(one: Opened, topic: str, *texts: bytes) -> None:
    await one.queue.publish_many(topic, list(texts))
    await one.clock.advance(1)


def numbered(what: bytes, count: int) -> list[bytes]:
    return [b"%s %d" % (what, number) for number in range(count)]


def lose_checkpoint(path: Path) -> None:
    [checkpoint] = (path / "checkpoint").glob("*.ckpt")
    checkpoint.write_bytes(b"")


def lose_state(path: Path) -> None:
    """But not what the checkpoint says of the files."""
    [checkpoint] = (path / "checkpoint").glob("*.ckpt")
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def damage(file: Path, text: bytes) -> None:
    data = file.read_bytes()
    at = data.index(text)
    file.write_bytes(data[:at] + b"#" + data[at + 1 :])


def repaired(path: Path) -> Repair:
    repair = repair_directory(path, KEYS)
    assert check_directory(ViewDisk(path), KeyRing(KEYS)).problems == []
    return repair


async def texts(path: Path, topic: int = 1, after: float = 500.0) -> list[bytes]:
    async with opened(RealDisk(path), clock=ManualClock(START + after)) as one:
        log = one.broker.engine.state.topics[TopicId(topic)].partitions[0]
        columns = await one.store.scan(TopicId(topic), 0, log.start, 1000)
        return [value[0] for offset, value in values(columns).items() if offset not in log.deleted]


@pytest.mark.parametrize("late", [False, True], ids=["nothing later", "more later"])
@pytest.mark.parametrize("first", ["the topic", "its messages", "nothing of it"])
async def test_an_open_transaction_keeps_an_old_file_and_what_came_after_is_in_the_logs(
    path: Path, first: str, late: bool
) -> None:
    early, rest, last = numbered(b"early", 10), numbered(b"m", 50), numbered(b"late", 3 if late else 0)
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        if first != "the topic":
            await one.queue.create_topic("orders", partitions=1, ordering="none")
            await one.checkpoint()
        transaction = await one.queue.begin("job", timeout=86_400.0)
        await transaction.publish("orders", b"staged")
        if first == "the topic":
            await one.queue.create_topic("orders", partitions=1, ordering="none")
        if first != "nothing of it":
            await publish(one, "orders", *early)
        await one.checkpoint()
        await publish(one, "orders", *rest)
        await one.checkpoint()
        if late:
            await publish(one, "orders", *last)
    lose_checkpoint(path)
    repair = await asyncio.to_thread(repaired, path)
    assert repair.losses == []
    assert not repair.state_kept
    assert await texts(path) == (early if first != "nothing of it" else []) + rest + last


async def test_what_is_damaged_in_a_segment_is_taken_from_a_file_that_was_kept(path: Path) -> None:
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await one.queue.create_group("orders", "workers")
        await publish(one, "orders", b"zero")
        await one.checkpoint()
        transaction = await one.queue.begin("job", timeout=86_400.0)
        await transaction.publish("orders", b"staged")
        await publish(one, "orders", b"one", b"two")
        await one.checkpoint()
        await publish(one, "orders", b"three")
        await one.queue.ack(await one.queue.lease("orders", group="workers", max_messages=2))
        await one.checkpoint()
    damage(path / "logs/1/0/00000000000000000000.log", b"two")
    repair = await asyncio.to_thread(repaired, path)
    assert (repair.losses, repair.state_kept, repair.transactions) == ([], True, [])
    assert await texts(path) == [b"zero", b"one", b"two", b"three"]
    async with opened(RealDisk(path), clock=ManualClock(START + 500)) as one:
        leased = await one.queue.lease("orders", group="workers", max_messages=10)
        assert [message.value for message in leased] == [b"two", b"three"]


@pytest.mark.parametrize("state", ["whole", "lost"])
async def test_what_is_damaged_in_the_write_ahead_log_is_taken_from_a_checkpoint_that_was_never_finished(
    path: Path, state: str
) -> None:
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await publish(one, "orders", b"zero")
        await one.checkpoint()
        await publish(one, "orders", b"one")
        await one.queue.create_topic("new", partitions=1)
        await publish(one, "new", b"only")
        await publish(one, "orders", b"two")
        [before] = (path / "checkpoint").glob("*.ckpt")
        kept = {file: file.read_bytes() for file in [before, *(path / "wal").iterdir()]}
        await one.checkpoint()
    for file in [*(path / "checkpoint").iterdir(), *(path / "wal").iterdir()]:
        file.unlink()
    for file, data in kept.items():
        file.write_bytes(data)
    wal = max(kept, key=lambda file: file.name if file.suffix == ".wal" else "")
    for frame in scan_frames(wal.read_bytes())[:-1]:  # the last one vouches for them, and only it can be read
        assert isinstance(frame, Frame)
        data = wal.read_bytes()
        at = frame.position + SIZE
        wal.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    if state == "lost":
        lose_state(path)
    repair = await asyncio.to_thread(repaired, path)
    assert repair.losses == []
    assert await texts(path) == [b"zero", b"one", b"two"]
    assert await texts(path, 2) == [b"only"]


async def test_what_was_purged_in_a_file_that_is_left_does_not_come_back(path: Path) -> None:
    """And what came later, and is only in the logs, stays."""
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await publish(one, "orders", *numbered(b"old", 5))
        await one.checkpoint()
        segment = path / "logs/1/0/00000000000000000000.log"
        old = segment.read_bytes()
        transaction = await one.queue.begin("job", timeout=86_400.0)
        await transaction.publish("orders", b"staged")
        await one.queue.purge("orders")
        await one.clock.advance(1)
        await one.checkpoint()
        await publish(one, "orders", *numbered(b"new", 5))
        await one.checkpoint()
    lose_checkpoint(path)
    segment.write_bytes(old)  # as if it had not been removed yet
    repair = await asyncio.to_thread(repaired, path)
    assert [loss for loss in repair.losses if loss.certain] == []
    assert await texts(path) == numbered(b"new", 5)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_what_was_trimmed_does_not_come_back_without_the_state(path: Path, encrypted: bool) -> None:
    """A segment that was trimmed in part stays whole."""
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1, retention_seconds=60.0, encrypted=encrypted)
        await publish(one, "orders", *numbered(b"old", 5))
        await one.clock.advance(40)
        await publish(one, "orders", *numbered(b"new", 5))
        await one.checkpoint()
        await one.clock.advance(40)
        await one.checkpoint()
        assert one.broker.engine.state.topics[TopicId(1)].partitions[0].start == 5
    assert (path / "logs/1/0/00000000000000000000.log").exists()
    lose_state(path)
    repair = await asyncio.to_thread(repaired, path)
    assert (repair.messages, repair.losses) == (5, [])
    assert await texts(path, after=90) == numbered(b"new", 5)
    async with opened(RealDisk(path), clock=ManualClock(START + 90)) as one:
        log = one.broker.engine.state.topics[TopicId(1)].partitions[0]
        assert (log.start, log.end) == (5, 10)
        leased = await one.queue.lease("orders", max_messages=100)
        assert [message.value for message in leased] == numbered(b"new", 5)


@pytest.mark.parametrize("which", [b"victim", b"staged 1", b"staged 2", b"begin"])
@pytest.mark.parametrize("how", ["head", "body"])
async def test_an_open_transaction_is_kept_unless_something_is_lost_that_it_staged(
    path: Path, which: bytes, how: str
) -> None:
    """Its own commits are whole; that of somebody else between or behind them is not, and the checkpoint has it."""
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        transaction = await one.queue.begin("job", part="0", timeout=86_400.0)
        await one.broker.flush()
        for staged in (b"staged 1", b"staged 2"):
            await transaction.publish("orders", staged)
            await one.broker.flush()
        for value in (b"victim", b"other"):
            await publish(one, "orders", value)
        await one.checkpoint(flush=False)
    [file] = [file for file in (path / "wal").iterdir() if b"victim" in file.read_bytes()]
    text = b"TransactionBegan" if which == b"begin" else which
    frames = [frame for frame in scan_frames(file.read_bytes()) if isinstance(frame, Frame)]
    hurt = next(frame for frame in frames if text in (frame.body or b""))
    data = bytearray(file.read_bytes())
    data[hurt.position + (SIZE + 2 if how == "head" else hurt.fixed.size - 2)] ^= 1
    file.write_bytes(data)
    repair = await asyncio.to_thread(repaired, path)
    is_staged = which.startswith(b"staged")
    assert repair.transactions == (["default/job"] if is_staged else [])
    async with opened(RealDisk(path), clock=ManualClock(START + 1)) as one:
        if not is_staged:
            assert await one.queue.named("job").commit() == 2


@pytest.mark.parametrize("encrypted", [False, True])
async def test_what_lies_in_the_write_ahead_log_is_not_held_in_memory_all_at_once(
    path: Path, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [Message(b"%d" % number, key="k", headers={"a": str(number)}) for number in range(500)]
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1, encrypted=encrypted)
        for _ in range(60):
            await one.queue.publish_many("orders", messages)
        await one.checkpoint(flush=False)
        wanted = values(await one.store.scan(TopicId(1), 0, 0, 100_000))
    assert len(wanted) == 30_000
    monkeypatch.setattr(draft_module, "FLUSH_BYTES", 10_000)
    held: list[int] = []
    whole = SavedLog.patch

    def patch(self: SavedLog, *found: Any) -> None:
        whole(self, *found)
        held.append(tracemalloc.get_traced_memory()[0])

    monkeypatch.setattr(SavedLog, "patch", patch)
    tracemalloc.start()
    try:
        repair = await asyncio.to_thread(repaired, path)
    finally:
        tracemalloc.stop()
    assert max(held) < 2 << 20  # as objects they take five times that
    assert (repair.losses, repair.messages) == ([], 30_000)
    async with opened(RealDisk(path), clock=ManualClock(START + 1)) as one:
        assert values(await one.store.scan(TopicId(1), 0, 0, 100_000)) == wanted


async def test_history_is_told_once_though_files_and_write_ahead_log_have_it(path: Path) -> None:
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await one.queue.create_group("orders", "workers")
        await publish(one, "orders", b"zero", b"one", b"two", b"three")
        transaction = await one.queue.begin("job", timeout=86_400.0)
        await transaction.publish("orders", b"staged")
        await one.queue.ack(await one.queue.lease("orders", group="workers"))
        await one.checkpoint()
        await one.queue.ack(await one.queue.lease("orders", group="workers"))
        await one.queue.delete_message("1.0.2")
        await one.checkpoint()
        await one.queue.ack(await one.queue.lease("orders", group="workers"))
        told = (await one.store.read_history(TopicId(1), 0, 0, 100)).records
    lose_checkpoint(path)
    repair = await asyncio.to_thread(repaired, path)
    assert repair.losses == []
    assert await texts(path) == [b"zero", b"one", b"three"]
    async with opened(RealDisk(path), clock=ManualClock(START + 1)) as one:
        found = (await one.store.read_history(TopicId(1), 0, 0, 100)).records
        assert found == told


async def test_a_frame_is_taken_in_part_where_the_write_ahead_log_has_the_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have messages in larger frames than the commits that are left."""
    messages = [
        Message(b"%d" % number, key=f"k{number}", headers={"n": str(number)}, priority=number, dedup_id=f"d{number}")
        for number in range(9)
    ]
    monkeypatch.setattr(new_frames, "FRAME_MESSAGES", 100)
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1, encrypted=True)
        await one.queue.publish_many("orders", messages[:3])
    async with opened(RealDisk(path), clock=ManualClock(START + 1)) as one:
        transaction = await one.queue.begin("job", timeout=86_400.0)
        await transaction.publish("orders", b"staged")
        await one.queue.publish_many("orders", messages[3:6])
    async with opened(RealDisk(path), clock=ManualClock(START + 2)) as one:
        await one.queue.publish_many("orders", messages[6:])
        await one.checkpoint()
        wanted = values(await one.store.scan(TopicId(1), 0, 0, 100))
    assert len(scan_frames((path / "logs/1/0/00000000000000000000.log").read_bytes())) == 1
    lose_checkpoint(path)
    repair = await asyncio.to_thread(repaired, path)
    assert repair.losses == []
    async with opened(RealDisk(path), clock=ManualClock(START + 3)) as one:
        assert values(await one.store.scan(TopicId(1), 0, 0, 100)) == wanted
        assert (await one.queue.publish("recovered-1", b"again", dedup_id="d7")).duplicate
