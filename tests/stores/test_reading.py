"""Reading takes several turns of the event loop where it has to, and whatever happens between them hurts nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from ortoo import Queue
from ortoo.app.repair import repair_directory
from ortoo.broker import Broker
from ortoo.model.names import TopicId
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.stores.disk.blocks import Blocks, HistoryBlocks
from ortoo.stores.disk.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from ortoo.stores.disk.format import refuse_unknown
from ortoo.stores.disk.history import HistoryEntry
from ortoo.stores.disk.log import LogEntry
from ortoo.testing import ManualClock

NEVER = 1 << 40


class Opened:
    """A queue on a directory, whose messages are in no memory."""

    def __init__(self, path: Path) -> None:
        self.store = DiskStore(
            RealDisk(path), KeyRing({}), checkpoint_bytes=NEVER, flush_bytes=NEVER, reserve_bytes=0, in_threads=False
        )
        self.broker = Broker(self.store, ManualClock())
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
        store._commits.bytes_read = NEVER  # so that it waits for its turn
        reads: dict[str, Callable[[], Coroutine[None, None, object]]] = {
            "scan": lambda: store.scan(TopicId(1), 0, 0, 10),
            "read": lambda: store.read(TopicId(1), 0, [0]),
            "history": lambda: store.history(TopicId(1), 0, 0),
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
