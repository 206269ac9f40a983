"""Reading takes several turns of the event loop where it has to, and whatever happens between them hurts nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from ortoo import Message, Queue
from ortoo.app.repair import repair_directory
from ortoo.broker import Broker
from ortoo.model.names import TopicId
from ortoo.ports import StoredHistory
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.stores.disk.blocks import Blocks, HistoryBlocks
from ortoo.stores.disk.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from ortoo.stores.disk.format import refuse_unknown
from ortoo.stores.disk.history import HistoryEntry
from ortoo.stores.disk.log import LogEntry
from ortoo.stores.disk.outside import Outside
from ortoo.testing import ManualClock
from ortoo.testing.pieces import in_one
from tests.turns import counting_turns

NEVER = 1 << 40


class Opened:
    """A queue on a directory, whose messages are in no memory."""

    def __init__(self, path: Path, keys: dict[str, bytes] | None = None) -> None:
        self.store = DiskStore(
            RealDisk(path),
            KeyRing(keys or {}),
            checkpoint_bytes=NEVER,
            flush_bytes=NEVER,
            reserve_bytes=0,
            in_threads=False,
        )
        self.clock = ManualClock()
        self.broker = Broker(self.store, self.clock)
        self.queue = Queue(self.broker, consumer="tester")

    async def __aenter__(self) -> Opened:
        await self.queue.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.queue.close()

    async def checkpoint(self, flush: bool = False) -> Checkpoint:
        await self.broker.flush()
        self.store._flush_bytes = 0 if flush else NEVER
        await self.store.checkpoint(self.broker.engine.snapshot(), self.broker.now())
        assert self.store.problems == []
        found = read_checkpoint(self.store.disk)
        assert found is not None
        return found

    def forget(self) -> None:
        """What is in memory."""
        for log in self.store._catalog.logs.values():
            log.recent.clear()
            log._shared.frames.drop(log)
        self.store._commits._cached.clear()

    async def groups(self) -> dict[str, list[str]]:
        return {topic.name: [group.name for group in topic.groups] for topic in await self.queue.topics()}


# -- topics that are deleted meanwhile


@pytest.mark.parametrize("what", ["scan", "read", "history", "read_history"])
async def test_a_topic_that_is_deleted_while_it_is_read_leaves_nothing_in_a_checkpoint(
    tmp_path: Path, what: str
) -> None:
    async with Opened(tmp_path) as one:
        queue, store = one.queue, one.store
        await queue.create_topic("doomed", partitions=1)
        await queue.publish("doomed", b"x")
        await queue.ack(await queue.lease("doomed", group="g"))
        await queue.publish("other", b"y")
        await queue.ack(await queue.lease("other", group="keep"))
        await one.broker.flush()
        one.forget()
        store._commits.spent = NEVER  # so that it waits for its turn
        reads: dict[str, Callable[[], Coroutine[None, None, object]]] = {
            "scan": lambda: store.scan(TopicId(1), 0, 0, 10),
            "read": lambda: store.read(TopicId(1), 0, [0]),
            "history": lambda: in_one(store.history(TopicId(1), 0, 0)),
            "read_history": lambda: store.read_history(TopicId(1), 0, 0, 10),
        }
        reading = asyncio.create_task(reads[what]())
        await queue.delete_topic("doomed")
        await one.broker.flush()
        await asyncio.gather(reading, return_exceptions=True)
        await reads[what]()
        manifest = (await one.checkpoint()).manifest
        named = {topic.id for topic in manifest.topics}
        assert {entry.topic for entry in manifest.logs} == {entry.topic for entry in manifest.histories} == named
        assert {topic for topic, _ in [*store._catalog.logs, *store._catalog.histories]} == named


async def test_what_a_checkpoint_tells_of_a_topic_that_it_does_not_name_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    async with Opened(path) as one:
        await one.queue.publish("orders", b"y")
        await one.queue.ack(await one.queue.lease("orders", group="keep"))
        known = await one.checkpoint()
    ghost = TopicId(77)
    known.manifest.logs.append(LogEntry(ghost, 0, 0, 0, [], Blocks().part(0, 0)))
    known.manifest.histories.append(HistoryEntry(ghost, 0, [], 0, 0, HistoryBlocks().part(0), 0))
    write_checkpoint(_salted(path), known)
    async with Opened(path) as one:
        assert one.store.problems == []
        assert await one.groups() == {"orders": ["keep"]}
        assert ghost not in {topic for topic, _ in [*one.store._catalog.logs, *one.store._catalog.histories]}
    known = read_checkpoint(_salted(path)) or known
    known.manifest.logs.append(LogEntry(ghost, 0, 0, 0, [], Blocks().part(0, 0)))
    write_checkpoint(_salted(path), known)
    repair = await asyncio.to_thread(repair_directory, path, {})
    assert (repair.state_kept, repair.complaints) == (True, [])
    async with Opened(path) as one:
        assert await one.groups() == {"orders": ["keep"]}


def _salted(path: Path) -> RealDisk:
    disk = RealDisk(path)
    refuse_unknown(disk)  # learns its salt
    return disk


# -- turns

PARTITIONS = 4


async def fill(one: Opened, encrypted: bool = False) -> list[bytes]:
    """Large commits, each with messages of all partitions, in the write-ahead log alone. Returns the values of partition 0."""
    await one.queue.create_topic("t", partitions=PARTITIONS, ordering="none", encrypted=encrypted)
    values = [b"%03d" % number + bytes(20_000) for number in range(30)]
    for value in values:
        await one.queue.publish_many("t", [Message(value, partition=at) for at in range(PARTITIONS)])
    await one.checkpoint()
    one.forget()
    one.store._reader.per_turn = 300_000  # that is two commits or three, whose records are 80 kB and 4 objects
    return values


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_read_of_many_commits_takes_many_turns(tmp_path: Path, encrypted: bool) -> None:
    async with Opened(tmp_path, {"k": bytes(32)}) as one:
        values = await fill(one, encrypted)
        async with counting_turns() as turns:
            assert (await one.store.scan(TopicId(1), 0, 0, 100)).values == values
            assert turns.count >= 8
        one.forget()
        async with counting_turns() as turns:
            wanted = list(range(0, 30, 3))
            assert (await one.store.read(TopicId(1), 0, wanted)).values == values[::3]
            assert turns.count >= 3


async def test_many_who_read_share_the_turns(tmp_path: Path) -> None:
    async with Opened(tmp_path, {"k": bytes(32)}) as one:
        values = await fill(one)
        one.store._commits._bytes_max = 0  # so that each reads all of it
        highest = [0]

        async def watch() -> None:
            while True:
                highest[0] = max(highest[0], one.store._commits.spent)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        reads = [one.store.scan(TopicId(1), partition, 0, 100) for partition in range(PARTITIONS)]
        async with counting_turns() as turns:
            assert [found.values for found in await asyncio.gather(*reads)] == [values] * PARTITIONS
        watching.cancel()
        assert turns.count >= 30
        assert highest[0] < 3 * one.store._reader.per_turn


async def test_who_stops_reading_leaves_the_others_their_turn(tmp_path: Path) -> None:
    async with Opened(tmp_path, {"k": bytes(32)}) as one:
        values = await fill(one)
        first, second = (asyncio.create_task(one.store.scan(TopicId(1), 0, 0, 100)) for _ in range(2))
        for _ in range(3):
            await asyncio.sleep(0)
        first.cancel()
        assert (await second).values == values
        assert first.cancelled()


@pytest.mark.parametrize("what", ["flushed", "purged", "deleted"])
async def test_what_happens_to_messages_while_they_are_read(tmp_path: Path, what: str) -> None:
    async with Opened(tmp_path, {"k": bytes(32)}) as one:
        values = await fill(one)
        reading = asyncio.create_task(one.store.scan(TopicId(1), 0, 0, 100))
        await asyncio.sleep(0)
        assert not reading.done()
        if what == "flushed":
            await one.checkpoint(flush=True)
        elif what == "purged":
            await one.queue.purge("t")
        else:
            await one.queue.delete_topic("t")
        found = (await reading).values
        assert found == values[: len(found)]
        assert len(found) == 30 or what != "flushed"


async def work(one: Opened, rounds: int) -> None:
    """Two messages fail again and again, with one between them to which nothing happens but at the end."""
    await one.queue.create_topic("t", partitions=1, ordering="none", max_attempts=1_000)
    await one.queue.create_group("t", "g")
    await one.queue.publish_many("t", [b"a", b"b", b"c"])
    for _ in range(rounds):
        leased = await one.queue.lease("t", group="g", max_messages=3)
        await one.queue.release(leased[1:2])
        await one.queue.nack([leased[0], leased[2]], delay=0)
        await one.broker.flush()
    await one.checkpoint()
    one.forget()
    one.store._reader.per_turn = 100_000


async def test_the_history_of_one_message_takes_as_many_turns_as_it_needs(tmp_path: Path) -> None:
    async with Opened(tmp_path) as one:
        await work(one, 60)
        wanted = await in_one(one.store.history(TopicId(1), 0, 1))
        assert len(wanted) == 120
        one.forget()
        async with counting_turns() as turns:
            assert await in_one(one.store.history(TopicId(1), 0, 1)) == wanted
            assert turns.count >= 5
        one.forget()
        reading = asyncio.create_task(in_one(one.store.history(TopicId(1), 0, 1)))
        await asyncio.sleep(0)
        assert not reading.done()
        await one.checkpoint(flush=True)  # what it has read, and what it has not, lie in one place now
        assert await reading == wanted


async def test_history_by_number_takes_as_many_turns_as_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Opened(tmp_path) as one:
        await work(one, 60)
        wanted = await one.store.read_history(TopicId(1), 0, 0, 1_000)
        assert len(wanted.records) == wanted.end == 180
        monkeypatch.setattr("ortoo.stores.disk.reader.HISTORY_PER_TURN", 10)
        for start, count in ((0, 1_000), (7, 100), (0, 10), (wanted.end, 5), (0, 0)):
            one.forget()
            async with counting_turns() as turns:
                found = await one.store.read_history(TopicId(1), 0, start, count)
                assert found == StoredHistory(wanted.records[start : start + count], start, 0, wanted.end)
                assert turns.count >= len(found.records) // 30


# -- from outside


async def test_a_time_is_found_from_outside_though_messages_were_flushed_meanwhile(tmp_path: Path) -> None:
    async with Opened(tmp_path) as one:
        await one.queue.create_topic("t", partitions=1)
        for number in range(20):
            await one.queue.publish("t", b"%d" % number)
            await one.clock.advance(1)
        begun = one.broker.now() - 20_000
        await one.checkpoint()
        outside = Outside(tmp_path, {})
        assert outside.first_at(TopicId(1), 0, begun + 10_000) == 10
        for wanted in (0, 7, 19, 20):
            outside = Outside(tmp_path, {})
            await one.queue.publish("t", b"more")
            await one.checkpoint()
            late = Outside(tmp_path, {})
            await one.checkpoint(flush=True)
            assert outside.first_at(TopicId(1), 0, begun + 1_000 * wanted) == wanted
            assert late.first_at(TopicId(1), 0, begun + 1_000 * wanted) == wanted
