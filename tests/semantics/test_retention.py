"""Retention: what the log keeps, and what slow groups lose."""

import asyncio
from random import Random

import pytest

from ortoo import InvalidError, NotFoundError, Queue
from ortoo.broker import Broker
from ortoo.stores.disk import DiskStore
from ortoo.testing import ManualClock
from ortoo.testing.simulated_disk import SimulatedDisk

from .actors import publish, take, values
from .stores import LastingStore, SlowStore, queue_on


async def kept(queue: Queue) -> list[bytes]:
    return values([message async for message in queue.read("orders")])


async def test_age_counts_from_publication(queue: Queue, clock: ManualClock) -> None:
    """Age counts from publication or due time, whichever is later."""
    await queue.create_topic("orders", partitions=1, retention_seconds=60)
    await queue.publish("orders", b"old")
    await clock.advance(30)
    await queue.publish("orders", b"young")
    await clock.advance(29)
    assert await kept(queue) == [b"old", b"young"]
    await clock.advance(11)
    assert await kept(queue) == [b"young"]


async def test_age_counts_from_the_due_time_when_that_is_later(queue: Queue, clock: ManualClock) -> None:
    """Age counts from publication or due time, whichever is later."""
    await queue.create_topic("orders", retention_seconds=60)
    await queue.publish("orders", b"1", delay=100)
    await clock.advance(150)
    assert await kept(queue) == [b"1"]
    await clock.advance(20)
    assert await kept(queue) == []


@pytest.mark.parametrize("setting", ["retention_seconds", "retention_bytes", "retention_done_seconds"])
async def test_a_message_that_is_not_due_is_never_trimmed(queue: Queue, clock: ManualClock, setting: str) -> None:
    """A message that is not due is never trimmed."""
    await queue.create_topic("orders", partitions=1)
    await queue.update_topic("orders", **{setting: 1})  # type: ignore[arg-type]
    await publish(queue, "orders", b"due", delay=0)
    await clock.advance(1)
    await publish(queue, "orders", b"not due", delay=995)
    await clock.advance(1)
    await publish(queue, "orders", b"late")
    await queue.ack(await take(queue, "orders"))
    await clock.advance(990)
    assert (await kept(queue))[0] == b"not due"
    await clock.advance(4)
    assert values(await take(queue, "orders")) == [b"not due"]


async def test_trimmed_messages_count_as_skipped_for_slow_groups(queue: Queue, clock: ManualClock) -> None:
    """Trimmed messages count as skipped for slow groups, with a metric and a trace entry."""
    await queue.create_topic("orders", partitions=1, retention_seconds=60)
    _, second = await publish(queue, "orders", b"1", b"2")
    await queue.ack(await take(queue, "orders", 2, group="fast"))
    await queue.ack(await take(queue, "orders", 1, group="slow"))
    await clock.advance(70)
    assert {group.name: group.skipped for group in await queue.groups("orders")} == {"fast": 0, "slow": 1}
    assert (await queue.group("orders", "slow")).backlog == 0
    assert (await queue.stats()).counters.skipped == 1
    events = (await queue.trace(second.id)).events
    assert [(event.what, event.group) for event in events][-1] == ("skipped", "slow")
    assert await take(queue, "orders", group="slow") == []


async def test_retention_by_bytes_drops_the_oldest(queue: Queue, clock: ManualClock) -> None:
    """Retention by age, bytes, and "done by all groups for N seconds"."""
    await queue.create_topic("orders", partitions=1, retention_bytes=300)
    for number in range(10):
        await queue.publish("orders", b"%d" % number * 100)
        await clock.advance(1)
    await clock.advance(10)
    assert await kept(queue) == [b"%d" % number * 100 for number in (7, 8, 9)]
    assert (await queue.topic("orders")).bytes == 300


async def test_messages_done_by_all_groups_go_after_a_while(queue: Queue, clock: ManualClock) -> None:
    """Retention by age, bytes, and "done by all groups for N seconds"."""
    await queue.create_topic("orders", partitions=1, retention_done_seconds=60)
    await publish(queue, "orders", b"1", b"2")
    await queue.ack(await take(queue, "orders", 2, group="fast"))
    await queue.ack(await take(queue, "orders", 1, group="slow"))
    await clock.advance(59)
    assert await kept(queue) == [b"1", b"2"]
    await clock.advance(30)
    assert await kept(queue) == [b"2"]
    assert (await queue.stats()).counters.skipped == 0


async def test_without_groups_nothing_is_done(queue: Queue, clock: ManualClock) -> None:
    """ "done by all groups for N seconds": where there is no group, nobody is done."""
    await queue.create_topic("orders", retention_done_seconds=1)
    await queue.publish("orders", b"1")
    await clock.advance(100)
    assert await kept(queue) == [b"1"]


async def test_retention_is_seven_days_by_default(queue: Queue, clock: ManualClock) -> None:
    """Retention default 7 days."""
    await queue.publish("orders", b"1")
    clock.jump(7 * 86_400 - 1)
    await clock.advance(0)
    assert await kept(queue) == [b"1"]
    await clock.advance(11)
    assert await kept(queue) == []


async def test_a_lease_of_a_trimmed_message_is_lost(queue: Queue, clock: ManualClock) -> None:
    """Trimmed messages count as skipped for slow groups, leased ones included."""
    await queue.create_topic("orders", retention_seconds=20)
    await publish(queue, "orders", b"1", b"2", key="k")
    await queue.lease("orders", lease=600)
    await clock.advance(40)
    group = await queue.group("orders")
    assert (group.leased, group.backlog, group.skipped) == (0, 0, 2)
    await queue.publish("orders", b"3", key="k")
    assert values(await take(queue, "orders")) == [b"3"]


async def test_retention_may_wait_for_the_archive(queue: Queue, clock: ManualClock) -> None:
    """Retention may wait for it (the archive)."""
    await queue.create_topic("orders", partitions=1, retention_seconds=10, retention_waits_for_archive=True)
    await publish(queue, "orders", b"1", b"2", b"3")
    await clock.advance(100)
    assert await kept(queue) == [b"1", b"2", b"3"]
    assert await queue.mark_archived("orders", {0: 2}) == [2]
    await clock.advance(10)
    assert await kept(queue) == [b"3"]
    await queue.update_topic("orders", retention_waits_for_archive=False)
    await clock.advance(10)
    assert await kept(queue) == []


@pytest.mark.parametrize("setting", ["retention_seconds", "retention_bytes", "retention_done_seconds"])
async def test_whatever_removes_waits_for_the_archive(queue: Queue, clock: ManualClock, setting: str) -> None:
    await queue.create_topic("orders", partitions=2, retention_waits_for_archive=True)
    await queue.update_topic("orders", **{setting: 1})  # type: ignore[arg-type]
    for _ in range(3):
        await publish(queue, "orders", b"old", partition=0)
        await publish(queue, "orders", b"old", partition=1)
        await clock.advance(1)
    await queue.ack(await take(queue, "orders"))
    await clock.advance(60)
    assert await queue.offsets("orders", at="start") == [0, 0]
    await queue.mark_archived("orders", {1: 2})
    await clock.advance(60)
    assert await queue.offsets("orders", at="start") == [0, 2]


async def test_what_is_archived_and_young_stays(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, retention_seconds=60, retention_waits_for_archive=True)
    await publish(queue, "orders", b"1")
    await queue.mark_archived("orders", {0: 1})
    await clock.advance(30)
    assert await kept(queue) == [b"1"]


async def test_a_mark_never_goes_back(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=2)
    await publish(queue, "orders", b"1", b"2", partition=0)
    await publish(queue, "orders", b"3", partition=1)
    assert await queue.mark_archived("orders", {0: 2}) == [2, 0]
    assert await queue.mark_archived("orders", {0: 1, 1: 1}) == [2, 1]
    assert await queue.mark_archived("orders", {}) == [2, 1]
    assert [partition.archived for partition in (await queue.topic("orders")).partitions] == [2, 1]


@pytest.mark.parametrize("ends", [{0: 3}, {1: 1}, {2: 0}, {0: -1}, {-1: 0}, {0: 1, 5: 0}])
async def test_what_cannot_be_archived_is_refused(queue: Queue, ends: dict[int, int]) -> None:
    await queue.create_topic("orders", partitions=2)
    await publish(queue, "orders", b"1", b"2", partition=0)
    with pytest.raises(InvalidError):
        await queue.mark_archived("orders", ends)
    assert await queue.mark_archived("orders", {}) == [0, 0]
    with pytest.raises(NotFoundError):
        await queue.mark_archived("nothing", {0: 0})


async def test_what_is_not_durable_yet_cannot_be_archived(clock: ManualClock) -> None:
    store = SlowStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", partitions=1)
        store.writing.clear()
        publishing = asyncio.create_task(queue.publish("orders", b"1"))
        await clock.advance(0)
        marking = asyncio.create_task(queue.mark_archived("orders", {0: 1}))
        await clock.advance(0)
        store.writing.set()
        await publishing
        with pytest.raises(InvalidError, match="up to offset 0"):
            await marking
        assert await queue.mark_archived("orders", {0: 1}) == [1]


async def test_marks_outlast_a_restart(clock: ManualClock) -> None:
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", partitions=1)
        await publish(queue, "orders", b"1", b"2")
        await queue.mark_archived("orders", {0: 1})
    async with queue_on(store, clock) as queue:
        assert (await queue.topic("orders")).partitions[0].archived == 1


async def test_marks_outlast_a_checkpoint(clock: ManualClock) -> None:
    disk = SimulatedDisk(Random(1))
    store = DiskStore(disk, in_threads=False, reserve_bytes=0)
    broker = Broker(store, clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=2)
        await publish(queue, "orders", b"1", b"2", partition=1)
        await queue.mark_archived("orders", {1: 2})
        await store.checkpoint(broker.engine.snapshot(), broker.now())
    async with queue_on(DiskStore(disk, in_threads=False, reserve_bytes=0), clock) as queue:
        assert [partition.archived for partition in (await queue.topic("orders")).partitions] == [0, 2]


async def test_a_purge_does_not_wait_for_the_archive(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1, retention_waits_for_archive=True)
    await publish(queue, "orders", b"1")
    assert await queue.purge("orders") == 1
    assert await kept(queue) == []
    assert await queue.mark_archived("orders", {0: 1}) == [1]
