"""Delivery: ranges, auto-ack, extending, waiting for room, eviction, push."""

import asyncio

import pytest

from ortoo import FullError, InvalidError, LeaseLostError, Queue
from ortoo.model.topic import Ordering
from ortoo.testing import ManualClock

from .actors import is_stale, publish, settle, take, until, values, waiters


async def test_a_range_is_acked_up_to_a_message(queue: Queue) -> None:
    """Ack of a range: everything of the message's lease and partition up to and including it."""
    await queue.create_topic("orders", partitions=2)
    for number in range(8):
        await queue.publish("orders", b"%d" % number, partition=number % 2)
    messages = await take(queue, "orders")
    await queue.ack_through(next(message for message in messages if message.value == b"4"))
    left = await queue.messages("orders", state="leased")
    assert sorted(values(left)) == [b"1", b"3", b"5", b"6", b"7"]


async def test_a_range_leaves_other_leases_alone(queue: Queue) -> None:
    """Ack of a range: of the message's lease."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    [first] = await take(queue, "orders", 1)
    later = await take(queue, "orders", 2)
    await queue.ack_through(later[-1])
    assert not await is_stale(queue, first)


async def test_a_range_may_be_acked_twice(queue: Queue) -> None:
    """Acking twice with the same receipt is fine."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    messages = await take(queue, "orders")
    for _ in range(2):
        await queue.ack_through(messages[1])
    for _ in range(2):
        await queue.ack_through(messages[2].receipt)
    await queue.ack_through(messages[0])
    assert (await queue.group("orders")).backlog == 0
    assert (await queue.stats()).counters.acked == 3


async def test_a_range_that_ends_in_a_lost_message_is_lost(queue: Queue) -> None:
    """A stale ack is answered `lease lost`: also for the end of a range whose lease still holds others."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    first, second, third = await take(queue, "orders")
    await second.release()
    with pytest.raises(LeaseLostError) as caught:
        await queue.ack_through(second)
    assert caught.value.lost == [second.receipt]
    await queue.ack_through(third)
    assert values(await queue.messages("orders", state="ready")) == [b"2"]
    assert not await is_stale(queue, first)


async def test_auto_ack_is_at_most_once(queue: Queue, clock: ManualClock) -> None:
    """Auto-ack (at-most-once)."""
    await publish(queue, "orders", b"1", b"2", key="k")
    assert values(await take(queue, "orders", 1, auto_ack=True)) == [b"1"]
    assert values(await take(queue, "orders", 1, auto_ack=True)) == [b"2"]
    await clock.advance(100)
    assert await take(queue, "orders") == []
    assert (await queue.group("orders")).backlog == 0


async def test_acking_what_was_acked_by_itself_is_fine(queue: Queue) -> None:
    """Acking twice with the same receipt is fine."""
    await queue.publish("orders", b"1")
    [message] = await take(queue, "orders", auto_ack=True)
    await message.ack()


async def test_the_lease_is_thirty_seconds_by_default(queue: Queue, clock: ManualClock) -> None:
    """Lease (visibility timeout, default 30 s)."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await clock.advance(29.999)
    assert (await queue.group("orders")).leased == 1
    await clock.advance(0.001)
    assert await is_stale(queue, message)


async def test_a_lease_can_be_extended(queue: Queue, clock: ManualClock) -> None:
    """Lease with renew/extend: more time, counted from now."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", lease=10)
    for _ in range(5):
        await clock.advance(9)
        await message.extend(10)
    await clock.advance(9.999)
    assert (await queue.group("orders")).leased == 1
    await clock.advance(0.001)
    assert await is_stale(queue, message)


async def test_an_extension_without_a_number_is_the_topics_lease(queue: Queue, clock: ManualClock) -> None:
    """More time …; the topic's lease time when not given."""
    await queue.create_topic("orders", lease=100)
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", lease=10)
    await message.extend()
    await clock.advance(99)
    await message.ack()


async def test_a_lease_can_be_shortened(queue: Queue, clock: ManualClock) -> None:
    """More time, counted from now: or less."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", lease=600)
    await message.extend(5)
    await clock.advance(5)
    assert await is_stale(queue, message)


async def test_extending_one_message_extends_its_lease(queue: Queue, clock: ManualClock) -> None:
    """Messages leased together stay together."""
    await publish(queue, "orders", b"1", b"2")
    first, second = await queue.lease("orders", max_messages=2, lease=10)
    await first.extend(60)
    await clock.advance(50)
    await queue.ack([first, second])


async def test_a_full_topic_makes_the_producer_wait_for_room(queue: Queue) -> None:
    """When hit, the producer gets a clear "full" error and may wait for room."""
    await queue.create_topic("orders", max_depth=1)
    await queue.publish("orders", b"1")
    with pytest.raises(FullError):
        await queue.publish("orders", b"2")
    publishing = asyncio.create_task(queue.publish("orders", b"2", wait=30))
    await settle(100)
    assert not publishing.done()
    [message] = await queue.lease("orders")
    await settle(100)
    assert not publishing.done()
    assert (await queue.topic("orders")).messages == 1
    await message.ack()
    await publishing
    assert values(await take(queue, "orders")) == [b"2"]


async def test_waiting_for_room_ends(queue: Queue, clock: ManualClock) -> None:
    """… may wait for room, and gets the "full" error when none came."""
    await queue.create_topic("orders", max_depth=1)
    await queue.publish("orders", b"1")
    publishing = asyncio.create_task(queue.publish("orders", b"2", wait=30))
    await settle(100)
    await clock.advance(29)
    assert not publishing.done()
    await clock.advance(1)
    with pytest.raises(FullError, match="max_depth"):
        await publishing


async def test_depth_counts_from_the_slowest_group(queue: Queue) -> None:
    """Depth of a topic = the largest backlog of a durable group."""
    await queue.create_topic("orders", max_depth=2)
    await publish(queue, "orders", b"1", b"2")
    await queue.ack(await take(queue, "orders", group="fast"))
    await queue.ack(await take(queue, "orders", 1, group="slow"))
    await queue.publish("orders", b"3")
    with pytest.raises(FullError):
        await queue.publish("orders", b"4")


async def test_a_message_that_waited_too_long_is_evicted(queue: Queue, clock: ManualClock) -> None:
    """Eviction after a maximum wait."""
    await queue.create_topic("orders", max_wait=60, partitions=1)
    await publish(queue, "orders", b"taken", b"left")
    await queue.ack(await take(queue, "orders", 1))
    await clock.advance(59)
    await queue.publish("orders", b"new")
    await clock.advance(1)
    assert values(await take(queue, "orders")) == [b"new"]
    assert (await queue.stats()).counters.dropped == 1


async def test_a_message_that_was_delivered_in_time_is_not_evicted(queue: Queue, clock: ManualClock) -> None:
    """Eviction after a maximum wait: before its first delivery; retries are another matter."""
    await queue.create_topic("orders", max_wait=60)
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await message.nack(delay=100)
    await clock.advance(100)
    assert [m.attempt for m in await take(queue, "orders")] == [2]


@pytest.mark.parametrize("ordering", ["none", "key", "partition"])
@pytest.mark.parametrize("is_bounded", [False, True])
async def test_it_is_not_lost_when_its_group_is_moved_back(
    queue: Queue, clock: ManualClock, ordering: Ordering, is_bounded: bool
) -> None:
    """A seek: attempts reset, and what is not settled is delivered again."""
    await queue.create_topic("orders", max_wait=60, partitions=1, ordering=ordering, lease=10)
    for number in range(4):
        await queue.publish("orders", b"%d" % number, key=f"k{number}")
    leased = await take(queue, "orders", 4)
    await queue.ack(leased[:1])
    await clock.advance(100)
    await queue.publish("orders", b"new", key="k1")
    await queue.seek("orders", "default", offset=0, to_offset=5 if is_bounded else None)
    again = await take(queue, "orders", 10)
    # In the order of a partition, those behind the first go back as if they had never been delivered.
    assert values(again) == ([b"1", b"new"] if ordering == "partition" else [b"1", b"2", b"3", b"new"])
    assert {message.attempt for message in again} == {1}


async def test_the_wait_of_a_delayed_message_begins_when_it_is_due(queue: Queue, clock: ManualClock) -> None:
    """Eviction after a maximum wait."""
    await queue.create_topic("orders", max_wait=10)
    await queue.publish("orders", b"1", delay=100)
    await clock.advance(109)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_consuming_yields_messages_as_they_come(queue: Queue) -> None:
    """Push (stream, with a prefetch window)."""
    await queue.create_topic("orders", partitions=1)
    got: list[bytes] = []

    async def consume() -> None:
        async for message in queue.consume("orders", prefetch=2):
            got.append(message.value)
            await message.ack()

    async def is_all_done() -> bool:
        return await waiters(queue) == 1 and (await queue.group("orders")).backlog == 0

    task = asyncio.create_task(consume())
    await until(is_all_done)  # waiting, for nothing is there
    await publish(queue, "orders", b"1", b"2", b"3")
    await until(is_all_done)
    assert got == [b"1", b"2", b"3"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_consuming_leases_no_more_than_its_prefetch(queue: Queue) -> None:
    """Push (stream, with a prefetch window)."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", *[b"%d" % number for number in range(10)])
    stream = queue.consume("orders", prefetch=3)
    assert (await anext(aiter(stream))).value == b"0"
    assert (await queue.group("orders")).leased == 3
    await stream.aclose()
    group = await queue.group("orders")
    assert (group.leased, group.ready) == (1, 9)  # the one that was yielded is its consumer's to settle


async def test_consuming_ends_when_nothing_came_for_so_long(queue: Queue, clock: ManualClock) -> None:
    """Goes on for ever, or with `wait` until nothing came for so many seconds."""
    await publish(queue, "orders", b"1", b"2")

    async def consume() -> list[bytes]:
        return [message.value async for message in queue.consume("orders", wait=5, auto_ack=True)]

    async def is_waiting() -> bool:
        return await waiters(queue) == 1

    task = asyncio.create_task(consume())
    await until(is_waiting)
    await clock.advance(4)
    assert await waiters(queue) == 1
    await clock.advance(1)
    assert sorted(await task) == [b"1", b"2"]


async def test_a_nacked_message_takes_the_prefetched_ones_of_its_key_along(queue: Queue) -> None:
    """The later ones of that key in the same lease are revoked: consume does not hand them out."""
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    seen: list[tuple[bytes, int]] = []
    async for message in queue.consume("orders", wait=0):
        seen.append((message.value, message.attempt))
        if len(seen) == 1:
            await message.nack(delay=0)
        else:
            await message.ack()
    assert seen == [(b"1", 1), (b"1", 2), (b"2", 1), (b"3", 1)]


async def test_a_lease_by_labels_or_topic_is_settled_alike(queue: Queue) -> None:
    """Per-message and batch ack, across topics."""
    for topic in ("a", "b"):
        await queue.create_topic(topic, labels={"t": "1"})
        await queue.publish(topic, topic.encode())
    messages = await queue.lease(labels={"t": "1"}, max_messages=10)
    assert values(messages) == [b"a", b"b"]
    await queue.ack(messages)
    assert (await queue.stats()).depth == 0


async def test_settling_the_same_message_twice_in_one_call_counts_once(queue: Queue) -> None:
    """Per-message and batch ack, nack (retry): duplicates in a call are one."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await queue.nack([message, message.receipt, message], delay=0)
    assert [m.attempt for m in await take(queue, "orders")] == [2]


async def test_a_read_message_has_no_receipt(queue: Queue) -> None:
    """A message that was read, not leased: there is nothing to settle."""
    await queue.publish("orders", b"1")
    [message] = [message async for message in queue.read("orders")]
    with pytest.raises(InvalidError, match="read, not leased"):
        _ = message.receipt
