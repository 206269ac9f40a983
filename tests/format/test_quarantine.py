"""What happens to a topic while one of its partitions is quarantined holds for that partition, too, when it can be read again:
because its file is back, or after a repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ortoo.app.repair import repair_directory
from ortoo.model.errors import UnavailableError
from ortoo.model.names import TopicId
from ortoo.stores.disk import KeyRing, RealDisk
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.checkpoint import read_checkpoint
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from tests.format.directory import KEYS, START, Opened, opened, values

SEGMENT = "logs/1/1/00000000000000000000.log"


async def fill(path: Path) -> None:
    """Two partitions: each has three messages in a segment, and three in the write-ahead log only; all were delivered."""
    path.mkdir()
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=2, ordering="none")
        await one.queue.create_group("orders", "workers")
        await publish(one, b"first")
        await one.checkpoint()
        await publish(one, b"later")
        leased = await one.queue.lease("orders", group="workers", max_messages=12, lease=9000.0)
        await one.queue.ack(leased[:10])


async def publish(one: Opened, text: bytes) -> None:
    for partition in (0, 1):
        for number in range(3):
            await one.queue.publish("orders", b"%s %d.%d" % (text, partition, number), partition=partition)
    await one.clock.advance(1)


async def beside_the_quarantine(path: Path, work: Callable[[Opened], Awaitable[object]], openings: int = 3) -> None:
    for number in range(openings):
        async with opened(RealDisk(path), clock=ManualClock(START + 10 * (number + 1))) as one:
            assert "partition 1 of topic 'orders' is quarantined" in one.store.problems[0]
            if number == 0:
                await work(one)
                await one.clock.advance(1)
            await one.queue.publish("orders", b"beside", partition=0)
            await one.checkpoint()


def hurt(path: Path) -> bytes:
    data = (path / SEGMENT).read_bytes()
    (path / SEGMENT).write_bytes(data[:26] + bytes([data[26] ^ 255]) + data[27:])
    return data


async def heal(path: Path, how: str, data: bytes) -> None:
    if how == "the file is back":
        if (path / SEGMENT).exists():
            (path / SEGMENT).write_bytes(data)
        return
    if how == "repaired without the state":
        [checkpoint] = (path / "checkpoint").glob("*.ckpt")
        checkpoint.write_bytes(checkpoint.read_bytes()[:-1] + b"#")
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    assert check_directory(ViewDisk(path), KeyRing(KEYS)).problems == []
    assert all(loss.certain for loss in repair.losses)


HEALED = pytest.mark.parametrize("how", ["the file is back", "repaired", "repaired without the state"])


async def texts(one: Opened, partition: int) -> list[bytes]:
    log = one.broker.engine.state.topics[TopicId(1)].partitions[partition]
    found = values(await one.store.scan(TopicId(1), partition, log.start, 100))
    return [value[0] for offset, value in found.items() if offset not in log.deleted]


@HEALED
async def test_what_was_purged_does_not_come_back(tmp_path: Path, how: str) -> None:
    path = tmp_path / "data"
    await fill(path)
    data = hurt(path)
    await beside_the_quarantine(path, lambda one: one.queue.purge("orders"))
    await heal(path, how, data)
    async with opened(RealDisk(path), clock=ManualClock(START + 60)) as one:
        assert one.store.problems == []
        assert await texts(one, 0) == [b"beside"] * 3
        assert await texts(one, 1) == []
        sent = await one.queue.publish("orders", b"next", partition=1)
        assert sent.offset == 6  # no offset is given twice
        assert await texts(one, 1) == [b"next"]


async def test_a_purge_that_came_before_the_damage_was_found_holds_for_what_was_before_it(tmp_path: Path) -> None:
    """It is in the write-ahead log between what the partition missed."""
    path = tmp_path / "data"
    await fill(path)
    async with opened(RealDisk(path), clock=ManualClock(START + 5)) as one:
        await one.queue.purge("orders")
        await one.clock.advance(1)
        await publish(one, b"new")
    data = hurt(path)
    await beside_the_quarantine(path, lambda one: one.queue.stats())
    await heal(path, "the file is back", data)
    async with opened(RealDisk(path), clock=ManualClock(START + 60)) as one:
        assert one.store.problems == []
        assert await texts(one, 1) == [b"new 1.0", b"new 1.1", b"new 1.2"]


@HEALED
async def test_a_group_that_was_deleted_keeps_nobody_from_opening(tmp_path: Path, how: str) -> None:
    path = tmp_path / "data"
    await fill(path)
    data = hurt(path)
    await beside_the_quarantine(path, lambda one: one.queue.delete_group("orders", "workers"))
    await heal(path, how, data)
    async with opened(RealDisk(path), clock=ManualClock(START + 60)) as one:
        assert one.store.problems == []
        assert (await texts(one, 1))[-3:] == [b"later 1.0", b"later 1.1", b"later 1.2"]
        told = (await one.store.read_history(TopicId(1), 1, 0, 100)).records
        assert [type(record).__name__ for record in told] == ["Leased", "Acked"]  # it happened all the same


@pytest.mark.parametrize("how", ["the file is back", "repaired"])
async def test_a_group_that_went_back_gets_what_it_had_acked_before(tmp_path: Path, how: str) -> None:
    path = tmp_path / "data"
    await fill(path)
    data = hurt(path)
    await beside_the_quarantine(path, lambda one: one.queue.seek("orders", "workers", "start"))
    await heal(path, how, data)
    async with opened(RealDisk(path), clock=ManualClock(START + 60)) as one:
        leased = await one.queue.lease("orders", group="workers", max_messages=100)
        wanted = {b"later 1.0", b"later 1.1", b"later 1.2"}
        assert {message.value for message in leased if message.value.startswith(b"later 1")} == wanted


async def test_many_seeks_beside_a_quarantine_keep_one_old_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    await fill(path)
    hurt(path)
    async with opened(RealDisk(path), clock=ManualClock(START + 10)) as one:
        for _ in range(5):
            await one.queue.seek("orders", "workers", "start")
            await one.queue.purge("orders")
            await one.checkpoint()
        files = len(list((path / "wal").iterdir()))
    checkpoint = read_checkpoint(RealDisk(path))
    assert checkpoint is not None
    assert len(checkpoint.manifest.behind) == 3  # what it missed, the first seek, the first purge
    assert files == 3  # with what it missed, with those two, and the newest


async def test_a_damaged_purge_quarantines_what_it_would_have_swept(tmp_path: Path) -> None:
    path = tmp_path / "data"
    await fill(path)
    data = hurt(path)
    await beside_the_quarantine(path, lambda one: one.queue.purge("orders"))
    checkpoint = read_checkpoint(RealDisk(path))
    assert checkpoint is not None
    number = checkpoint.manifest.behind[-1].first
    file = max(file for file in (path / "wal").iterdir() if int(file.stem) <= number)
    at = file.read_bytes().index(b"TopicPurged")
    file.write_bytes(file.read_bytes()[:at] + b"#" + file.read_bytes()[at + 1 :])
    await heal(path, "the file is back", data)
    async with opened(RealDisk(path), clock=ManualClock(START + 60)) as one:
        assert "partition 1 of topic 'orders' is quarantined" in one.store.problems[0]
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    assert [commit.touched for commit in repair.commits] == [["partition 1 of topic 'orders'"]]


async def test_without_its_key_a_topic_cannot_be_purged_and_with_it_all_is_there(tmp_path: Path) -> None:
    """It is quarantined as a whole, so nothing can overtake what it missed."""
    path = tmp_path / "data"
    path.mkdir()
    old, both = {"old": KEYS["test"]}, {"old": KEYS["test"], "new": b"n" * 32}
    async with opened(RealDisk(path), old, ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=2, ordering="none", encrypted=True)
        await one.queue.create_group("orders", "workers")
        await publish(one, b"first")
        await one.checkpoint()
        await publish(one, b"later")
    for keys in ({"new": b"n" * 32}, {}):
        async with opened(RealDisk(path), keys, ManualClock(START + 10)) as one:
            for work in (
                one.queue.purge("orders"),
                one.queue.delete_group("orders", "workers"),
                one.queue.seek("orders", "workers", "start"),
            ):
                with pytest.raises(UnavailableError, match="quarantined"):
                    await work
            await one.checkpoint()
    async with opened(RealDisk(path), both, ManualClock(START + 20)) as one:
        assert one.store.problems == []
        for partition in (0, 1):
            assert len(await texts(one, partition)) == 6
