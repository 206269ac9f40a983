"""Whatever happens while a checkpoint is being written beside it, the directory opens again and nothing is amiss."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from ortoo import Message, NotFoundError, Queue
from ortoo.broker import Broker
from ortoo.stores.disk import DiskStore, File, KeyRing, RealDisk
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from ortoo.testing.crash import kill

from .home import NEVER, WatchedFile, take, values


class GatedDisk(RealDisk):
    """A disk on which a checkpoint comes to a halt where it would sync a file of the `folder`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.folder = "logs/"
        self.gate = threading.Event()
        self.waiting = threading.Event()
        self.gate.set()

    def open(self, path: str) -> File:
        return WatchedFile(super().open(path), path, self._halt)

    def _halt(self, path: str) -> None:
        if path.startswith(self.folder) and not self.gate.is_set():
            self.waiting.set()
            assert self.gate.wait(300)


class Site:
    def __init__(self, root: Path, checkpoints: int) -> None:
        self.root = root
        self.checkpoints = checkpoints
        self.clock = ManualClock()
        self.broker: Broker | None = None

    async def open(self) -> Queue:
        """Opens the directory, after a crash of what had it open."""
        await self.crash()
        self.root.mkdir(exist_ok=True)
        self.disk = GatedDisk(self.root)
        self.lock = DirectoryLock(self.root)
        self.store = DiskStore(self.disk, KeyRing({}), checkpoint_bytes=NEVER, flush_bytes=0, lock=self.lock)
        self.broker = Broker(self.store, self.clock)
        return await Queue(self.broker, consumer="tester").open()

    async def crash(self) -> None:
        if self.broker is not None:
            self.disk.gate.set()
            await self.idle()
            await self.broker.flush()
            await kill(self.broker)
            self.lock.release()
            self.broker = None

    async def idle(self) -> None:
        while (task := self.store._checkpointing) is not None:
            await asyncio.gather(task, return_exceptions=True)
            await settle()

    async def begin_checkpoint(self, queue: Queue) -> None:
        self.store._checkpoint_bytes = 1
        await queue.publish("filler", b"this begins a checkpoint")
        self.store._checkpoint_bytes = NEVER

    async def during_a_checkpoint(self, queue: Queue, work: Callable[[], Awaitable[object]], folder: str) -> None:
        """Runs the work while a checkpoint stands still, then lets it finish, and no other one begin."""
        for left in reversed(range(self.checkpoints)):  # the last one stands still
            await queue.publish("filler", b"something to write")
            await queue.ack(await queue.lease("filler"))
            await self.idle()
            if left == 0:
                self.disk.folder = folder
                self.disk.gate.clear()
            await self.begin_checkpoint(queue)
        await asyncio.to_thread(self.disk.waiting.wait, 5)
        assert self.disk.waiting.is_set()
        await work()
        self.disk.gate.set()
        await self.idle()
        assert self.store.problems == []


@pytest_asyncio.fixture(params=[1, 2], ids=["first", "second"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path / "data", request.param)
    yield site
    await site.crash()


@pytest.fixture(params=["logs/", "history/", "checkpoint/"])
def folder(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def fill(queue: Queue) -> list[str]:
    """Messages of keys, some leased, some failed, some done. Returns the receipts of what is leased."""
    await queue.create_topic("t", partitions=2, backoff_initial=1000.0, lease=5000.0, retention_seconds=None)
    for number in range(10):
        await queue.publish("t", b"%d" % number, key=f"k{number % 5}")
    messages = await queue.lease("t", max_messages=6)
    await queue.ack(messages[0])
    await queue.nack(messages[1], "failed")
    return [message.receipt for message in messages[2:]]


async def test_a_topic_is_deleted(site: Site, folder: str) -> None:
    queue = await site.open()
    receipts = await fill(queue)

    async def work() -> None:
        await queue.ack(receipts[0])
        await queue.delete_topic("t")

    await site.during_a_checkpoint(queue, work, folder)
    queue = await site.open()
    with pytest.raises(NotFoundError):
        await queue.topic("t")
    await queue.publish("t", b"new")
    queue = await site.open()
    assert values(await take(queue, "t")) == [b"new"]


@pytest.mark.parametrize("how", ["delete", "purge"])
async def test_a_topic_goes_while_its_own_files_grow(site: Site, folder: str, how: str) -> None:
    queue = await site.open()
    receipts = await fill(queue)
    await site.begin_checkpoint(queue)
    await site.idle()
    await queue.publish_many("t", [Message(b"more %d" % number, key=f"k{number}") for number in range(9)])
    await queue.ack(receipts[0])
    site.checkpoints = 1

    async def work() -> None:
        await (queue.delete_topic("t") if how == "delete" else queue.purge("t"))
        for number in range(20):  # which opens other files, that may get the numbers of those closed
            await queue.publish(f"other {number}", b"1")
            await queue.publish("t", b"%d" % number, key="k1")

    await site.during_a_checkpoint(queue, work, folder)
    for _ in range(2):
        queue = await site.open()
        assert (await queue.stats()).problems == []
        assert [message.value async for message in queue.read("t")] == [b"%d" % number for number in range(20)]
        await site.begin_checkpoint(queue)
        await site.idle()


async def opened_twice(site: Site, expected: list[bytes]) -> Queue:
    """The same messages each time: the first time may have written something."""
    for _ in range(2):
        queue = await site.open()
        assert [message.value async for message in queue.read("t")] == expected
    return queue


async def test_a_topic_is_deleted_and_made_again(site: Site, folder: str) -> None:
    queue = await site.open()
    await fill(queue)

    async def work() -> None:
        await queue.delete_topic("t")
        await queue.publish("t", b"new", key="k1")

    await site.during_a_checkpoint(queue, work, folder)
    await opened_twice(site, [b"new"])


async def test_a_topic_is_purged(site: Site, folder: str) -> None:
    queue = await site.open()
    receipts = await fill(queue)

    async def work() -> None:
        await queue.ack(receipts[0])
        await queue.publish("t", b"between", key="k1")
        await queue.purge("t")
        await queue.publish("t", b"after", key="k1")

    await site.during_a_checkpoint(queue, work, folder)
    queue = await opened_twice(site, [b"after"])
    assert values(await take(queue, "t")) == [b"after"]


async def test_retention_trims(site: Site, folder: str) -> None:
    queue = await site.open()
    receipts = await fill(queue)

    async def work() -> None:
        await queue.update_topic("t", retention_seconds=100.0)
        await site.clock.advance(90)
        await queue.publish("t", b"young", key="k1")
        await site.clock.advance(30)
        await queue.publish("filler", b"1")

    await site.during_a_checkpoint(queue, work, folder)
    assert len(receipts) == 4
    for _ in range(2):
        queue = await site.open()
        assert [message.value async for message in queue.read("t")] == [b"young"]
    assert values(await take(queue, "t")) == [b"young"]


@pytest.mark.parametrize("how", ["purge", "retention"])
async def test_what_is_trimmed_leaves_its_dedup_ids(site: Site, folder: str, how: str) -> None:
    queue = await site.open()
    await queue.create_topic("t", partitions=1, dedup_window=10_000.0, retention_seconds=None)
    first = await queue.publish("t", b"1", dedup_id="once")

    async def work() -> None:
        if how == "purge":
            await queue.purge("t")
            return
        await queue.update_topic("t", retention_seconds=100.0)
        await site.clock.advance(120)
        await queue.publish("filler", b"1")

    await site.during_a_checkpoint(queue, work, folder)
    queue = await site.open()
    again = await queue.publish("t", b"1", dedup_id="once")
    assert (again.id, again.duplicate) == (first.id, True)


async def test_everything_is_settled_and_more_is_published(site: Site, folder: str) -> None:
    queue = await site.open()
    receipts = await fill(queue)

    async def work() -> None:
        await queue.ack(receipts[:2])
        await queue.reject(receipts[2:], "no")
        await queue.publish_many("t", [Message(b"more %d" % number, key=f"k{number}") for number in range(5)])
        await queue.create_group("t", "other")
        staged = await queue.begin("job")
        await staged.publish("out", b"staged")

    await site.during_a_checkpoint(queue, work, folder)
    queue = await site.open()
    assert len(await queue.dead_letters("t")) == 2
    assert (await queue.group("t")).backlog == 10 - 1 - 4 + 5
    assert (await queue.group("t", "other")).backlog == 15
    assert await (await queue.begin("job")).commit() == 1
    await site.clock.advance(2000)
    assert len(await take(queue, "t")) == 10


async def test_partitions_are_added(site: Site, folder: str) -> None:
    queue = await site.open()
    await queue.create_topic("t", partitions=1, ordering="none")
    await queue.publish("t", b"0")

    async def work() -> None:
        await queue.update_topic("t", partitions=3)
        for number in range(3):
            await queue.publish("t", b"in %d" % number, partition=number)

    await site.during_a_checkpoint(queue, work, folder)
    queue = await site.open()
    assert sorted(values(await take(queue, "t"))) == [b"0", b"in 0", b"in 1", b"in 2"]
