"""A repair keeps what happened, and what only history tells: numbers, what was deleted, which groups and leases there were."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ortoo.app.repair import repair_directory
from ortoo.model.errors import LeaseLostError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord
from ortoo.stores.disk import KeyRing, RealDisk
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.frame import Frame, scan_frames
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from tests.format.directory import KEYS, START, Opened, opened
from tests.format.test_repair_gaps import lose_checkpoint, lose_state, repaired, texts

Lose = Callable[[Path], None]


async def work(one: Opened, count: int) -> None:
    """Each ack is in a commit of its own."""
    for _ in range(count):
        await one.queue.ack(await one.queue.lease("orders", group="workers"))
        await one.broker.flush()


async def numbered(path: Path) -> tuple[dict[int, HistoryRecord], int]:
    """What can be read, and the number that comes next."""
    found: dict[int, HistoryRecord] = {}
    async with opened(RealDisk(path), clock=ManualClock(START + 1)) as one:
        at, end = 0, 1
        while at < end:
            some = await one.store.read_history(TopicId(1), 0, at, 100)
            found |= dict(enumerate(some.records, some.start))
            at, end = some.start + max(1, len(some.records)), some.end
    return found, end


def damage_commit(path: Path, text: bytes, which: int) -> None:
    """The body of one of those in the write-ahead log that have it."""
    frames = [
        (file, frame)
        for file in sorted((path / "wal").iterdir())
        for frame in scan_frames(file.read_bytes())
        if isinstance(frame, Frame) and text in (frame.body or b"")
    ]
    file, frame = frames[which]
    data = bytearray(file.read_bytes())
    data[frame.position + frame.fixed.size - 3] ^= 0x40
    file.write_bytes(data)


async def fill(path: Path, flush: bool) -> None:
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await one.queue.create_group("orders", "workers")
        await one.queue.publish_many("orders", [b"%d" % number for number in range(8)])
        await work(one, 2)
        await one.checkpoint()
        await work(one, 3)
        await one.queue.delete_message("1.0.7")
        await one.checkpoint(flush)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty directory."""
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.mark.parametrize("later", [False, True], ids=["nothing later", "more later"])
@pytest.mark.parametrize("which", [0, 1, 2])
async def test_history_keeps_its_numbers_where_some_of_it_is_damaged(path: Path, which: int, later: bool) -> None:
    await fill(path, flush=False)
    if later:
        async with opened(RealDisk(path), clock=ManualClock(START)) as one:
            await work(one, 1)
    wanted, end = await numbered(path)
    damage_commit(path, b"Acked", which)
    left, _ = await numbered(path)
    assert left == {number: record for number, record in wanted.items() if number not in (4 + 2 * which, 5 + 2 * which)}
    await asyncio.to_thread(repaired, path)
    assert await numbered(path) == (left, end)


@pytest.mark.parametrize("flush", [False, True], ids=["in the write-ahead log", "flushed"])
@pytest.mark.parametrize("lose", [lose_state, lose_checkpoint])
async def test_what_was_deleted_stays_so_and_receipts_are_not_given_again(path: Path, lose: Lose, flush: bool) -> None:
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await one.queue.create_group("orders", "workers")
        await one.queue.publish_many("orders", [b"%d" % number for number in range(5)])
        old = await one.queue.lease("orders", group="workers", max_messages=2, lease=3600.0)
        await one.queue.delete_message("1.0.4")
        await one.checkpoint(flush)
    lose(path)
    await asyncio.to_thread(repaired, path)
    assert await texts(path, after=1) == [b"0", b"1", b"2", b"3"]
    async with opened(RealDisk(path), clock=ManualClock(START + 2)) as one:
        [topic] = [topic.name for topic in await one.queue.topics()]
        await one.queue.create_group(topic, "others")
        new = await one.queue.lease(topic, group="others", max_messages=2, lease=3600.0)
        assert len(new) == 2
        if lose is lose_state:
            with pytest.raises(LeaseLostError):
                await one.queue.ack(old)
        await one.queue.ack(new)


async def test_leases_after_a_checkpoint_whose_state_is_lost_are_not_given_again(path: Path) -> None:
    """Their groups are not known any more, so they cannot be applied; but they were given."""
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        await one.queue.create_group("orders", "workers")
        await one.queue.publish_many("orders", [b"0", b"1"])
        await one.checkpoint()
        [old] = await one.queue.lease("orders", group="workers", lease=3600.0)
    lose_state(path)
    await asyncio.to_thread(repaired, path)
    async with opened(RealDisk(path), clock=ManualClock(START + 2)) as one:
        await one.queue.create_group("orders", "others")
        [new] = await one.queue.lease("orders", group="others", lease=3600.0)
        assert new.receipt != old.receipt
        with pytest.raises(LeaseLostError):
            await one.queue.ack([old])


@pytest.mark.parametrize("lose", [None, lose_checkpoint])
async def test_history_is_found_without_a_folder_of_messages(path: Path, lose: Lose | None) -> None:
    """All messages may be gone, or their folder alone may be lost."""
    await fill(path, flush=True)
    wanted, end = await numbered(path)
    shutil.rmtree(path / "logs")
    if lose is not None:
        lose(path)
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    assert repair.losses or lose
    assert check_directory(ViewDisk(path), KeyRing(KEYS)).problems == []
    assert await numbered(path) == (wanted, end)
