"""Delayed messages and priorities."""

import pytest

from ortoo import Message, Queue
from ortoo.testing import ManualClock

from .actors import publish, take, values
from .stores import LastingStore, queue_on

ORDERINGS = ["none", "key", "partition", "strict"]


@pytest.mark.parametrize("ordering", ORDERINGS)
async def test_a_delayed_message_holds_nobody_up_before_it_is_due(
    queue: Queue, clock: ManualClock, ordering: str
) -> None:
    """Delayed messages take their place when they become due, in every order."""
    await queue.create_topic("orders", ordering=ordering, partitions=1)
    await queue.publish("orders", b"later", key="k", delay=10)
    await queue.publish("orders", b"now", key="k")
    [now] = await take(queue, "orders")
    assert now.value == b"now"
    await now.ack()
    await clock.advance(9.999)
    assert await take(queue, "orders") == []
    await clock.advance(0.001)
    assert values(await take(queue, "orders")) == [b"later"]


@pytest.mark.parametrize("ordering", ["key", "partition", "strict"])
async def test_a_message_that_comes_due_waits_for_one_already_delivered(
    queue: Queue, clock: ManualClock, ordering: str
) -> None:
    """Delayed messages take their place when they become due, in every order."""
    await queue.create_topic("orders", ordering=ordering, partitions=1, lease=60)
    await queue.publish("orders", b"later", key="k", delay=10)
    await publish(queue, "orders", b"1", b"2", key="k")
    [held] = await take(queue, "orders", 1)
    await clock.advance(10)
    assert await take(queue, "orders") == []
    await held.ack()
    assert values(await take(queue, "orders")) == [b"later", b"2"]


async def test_a_message_may_be_due_at_an_instant(queue: Queue, clock: ManualClock) -> None:
    """Delay or deliver-at."""
    await queue.publish("orders", b"1", deliver_at=clock.time() + 30)
    await queue.publish("orders", b"past", deliver_at=clock.time() - 30)
    assert values(await take(queue, "orders")) == [b"past"]
    await clock.advance(30)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_a_topic_may_delay_all_its_messages(queue: Queue, clock: ManualClock) -> None:
    """Topic-level default delay; a message's own delay wins."""
    await queue.create_topic("orders", delay=10)
    await queue.publish("orders", b"default")
    await queue.publish("orders", b"own", delay=5)
    await queue.publish("orders", b"none", delay=0)
    assert values(await take(queue, "orders")) == [b"none"]
    await clock.advance(5)
    assert values(await take(queue, "orders")) == [b"own"]
    await clock.advance(5)
    assert values(await take(queue, "orders")) == [b"default"]


async def test_a_delay_of_a_year_is_kept_to_the_millisecond(queue: Queue, clock: ManualClock) -> None:
    """Delay and schedule up to 7 days and beyond."""
    year = 365 * 86_400
    await queue.create_topic("orders", retention_seconds=1)
    await queue.publish("orders", b"1", delay=year)
    clock.jump(year - 0.001)
    await clock.advance(0)
    assert await take(queue, "orders") == []
    await clock.advance(0.001)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_a_delay_survives_a_restart(clock: ManualClock) -> None:
    """Delay and schedule … surviving restart."""
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("orders", b"1", delay=100)
    await clock.advance(50)
    async with queue_on(store, clock) as queue:
        assert await take(queue, "orders") == []
        await clock.advance(50)
        assert values(await take(queue, "orders")) == [b"1"]


async def test_the_lowest_lane_goes_first_across_all_partitions(queue: Queue) -> None:
    """Priority: a lease takes from the lowest lane across all partitions of the topic."""
    await queue.create_topic("orders", partitions=4)
    for partition, priority in enumerate([7, 3, 9, 1]):
        await queue.publish("orders", b"%d" % priority, partition=partition, priority=priority)
    await queue.publish("orders", b"5", partition=0)
    assert values(await take(queue, "orders")) == [b"1", b"3", b"5", b"7", b"9"]


async def test_a_small_lease_takes_the_most_urgent(queue: Queue) -> None:
    """Priority: a lease takes from the lowest lane across all partitions of the topic."""
    await queue.publish_many("orders", [Message(b"%d" % number, priority=number) for number in range(20, 0, -1)])
    await queue.publish("orders", b"0", priority=0)
    for number in range(21):
        assert values(await take(queue, "orders", 1)) == [b"%d" % number]


async def test_a_lane_is_first_in_first_out_across_partitions(queue: Queue, clock: ManualClock) -> None:
    """FIFO by time within a lane."""
    await queue.create_topic("orders", partitions=3)
    for number, partition in enumerate([2, 0, 1, 1, 0, 2]):
        await queue.publish("orders", b"%d" % number, partition=partition, priority=2)
        await clock.advance(1)
    assert values(await take(queue, "orders", 2)) == [b"0", b"1"]
    assert values(await take(queue, "orders")) == [b"2", b"3", b"4", b"5"]


async def test_priorities_have_names(queue: Queue) -> None:
    """Lower = sooner (names high/normal/low = 0/5/9)."""
    for name in ("low", "normal", "high"):
        await queue.publish("orders", name, priority=name)
    assert [(m.value, m.priority) for m in await take(queue, "orders")] == [(b"high", 0), (b"normal", 5), (b"low", 9)]


async def test_priority_beats_arrival_inside_a_partition(queue: Queue) -> None:
    """Priority beats arrival order inside a partition, never the order of one key."""
    await queue.create_topic("orders", partitions=1)
    await queue.publish("orders", b"first", key="a", priority=9)
    await queue.publish("orders", b"second", key="b", priority=0)
    assert values(await take(queue, "orders")) == [b"second", b"first"]


async def test_after_a_pause_a_message_comes_due_before_it_expires(clock: ManualClock) -> None:
    """Both are due at once; they happen in their order all the same."""
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", partitions=1)
        await queue.create_group("orders", "default")
        await queue.publish("orders", b"0", ttl=6)
        await queue.publish("orders", b"1", delay=40, ttl=1)
    clock.jump(100_000)
    async with queue_on(store, clock):
        await clock.advance(1)
    kinds = [type(record).__name__ for records in store.commits for record in records]
    assert [kind for kind in kinds if kind in ("CameDue", "Expired", "Dropped")] == ["CameDue", "Expired", "Dropped"]
