"""A message that cannot be read any more must not take its neighbours with it."""

from __future__ import annotations

from random import Random

import pytest

from ortoo import CorruptionError
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.names import TopicId
from ortoo.stores.disk import DiskStore
from ortoo.testing import ManualClock
from ortoo.testing.simulated_disk import SimulatedDisk


async def publish_and_flush(disk: SimulatedDisk, clock: ManualClock, *batches: list[bytes]) -> None:
    """Each batch becomes a frame of its own."""
    store = DiskStore(disk, in_threads=False, reserve_bytes=0, flush_bytes=0)
    broker = Broker(store, clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=1, ordering="none", backoff_initial=0.0, lease=10.0)
        for batch in batches:
            await queue.publish_many("orders", batch)
            await store.checkpoint(broker.engine.snapshot(), broker.now())


def damage(disk: SimulatedDisk, text: bytes) -> None:
    [content] = [content for path, content in disk.names.items() if path.startswith("logs/")]
    at = bytes(content.now).index(text)
    content.now[at] ^= 0xFF
    content.durable = bytes(content.now)


async def test_the_readable_ones_of_a_lease_are_delivered_and_the_damaged_one_ends_as_a_dead_letter() -> None:
    disk, clock = SimulatedDisk(Random(1)), ManualClock()
    await publish_and_flush(disk, clock, [b"good-1"], [b"broken"], [b"good-2", b"good-3"])
    damage(disk, b"broken")
    async with Queue(Broker(DiskStore(disk, in_threads=False, reserve_bytes=0, flush_bytes=0), clock)) as queue:
        leased = await queue.lease("orders", max_messages=10)
        assert [message.value for message in leased] == [b"good-1", b"good-2", b"good-3"]
        await queue.ack(leased)
        for _ in range(2):
            await clock.advance(11)
            with pytest.raises(CorruptionError, match="damaged at byte"):
                await queue.lease("orders", max_messages=10)
        await clock.advance(11)
        [letter] = await queue.dead_letters("orders")
        assert "damaged at byte" in letter.headers["ortoo-damaged"]
        assert (await queue.group("orders")).backlog == 0


async def test_a_message_that_is_not_where_it_must_be_is_told_and_its_dead_letter_says_so() -> None:
    disk, clock = SimulatedDisk(Random(1)), ManualClock()
    store = DiskStore(disk, in_threads=False, reserve_bytes=0, flush_bytes=0)
    broker = Broker(store, clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=1, ordering="none", max_attempts=1, lease=10.0)
        for value in (b"good-1", b"gone", b"good-2"):
            await queue.publish("orders", value)
            await store.checkpoint(broker.engine.snapshot(), broker.now())
        log = store._catalog.log(TopicId(1), 0)
        del log.segments[0].bases[1], log.segments[0].positions[1]  # the index has lost it
        log._shared.frames.drop(log)
        log.recent.clear()
        leased = await queue.lease("orders", max_messages=10)
        assert [message.value for message in leased] == [b"good-1", b"good-2"]
        assert any("message 1.0.1 is missing" in problem for problem in (await queue.stats()).problems)
        await queue.ack(leased)
        await clock.advance(11)
        [letter] = await queue.dead_letters("orders")
        assert "message 1.0.1 is not in the log any more" in letter.headers["ortoo-damaged"]
