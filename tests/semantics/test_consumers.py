"""Consumers: joining, falling silent, leaving, and who owns which partition."""

import asyncio

from ortoo import Messages, Queue
from ortoo.testing import ManualClock, open_manual

from .actors import is_stale, poll, publish, take, values, waiters


async def fifo(queue: Queue, partitions: int = 4, each: int = 2) -> None:
    await queue.create_topic("orders", ordering="partition", partitions=partitions, lease=60)
    for number in range(partitions * each):
        await queue.publish("orders", b"%d" % number, partition=number % partitions)


async def owned(queue: Queue) -> dict[str, list[int]]:
    return (await queue.group("orders")).consumers


async def test_a_lease_carries_a_consumer_name(queue: Queue) -> None:
    """`lease(..., consumer=)` and connections carry a consumer name (generated when absent)."""
    await publish(queue, "orders", b"1", b"2")
    await queue.lease("orders", consumer="worker-1")
    await queue.lease("orders")
    assert sorted((await queue.group("orders")).consumers) == sorted(["worker-1", queue.consumer])
    assert queue.consumer


async def test_leasing_joins_the_group(queue: Queue) -> None:
    """Leasing joins the group: also the very first lease, and one that gets nothing."""
    await queue.create_topic("orders")
    await queue.lease("orders", consumer="first")
    assert list(await owned(queue)) == ["first"]


async def leaves_after(seconds: float, queue: Queue, clock: ManualClock) -> None:
    await clock.advance(seconds - 0.1)
    assert list(await owned(queue)) == ["c"]
    await clock.advance(0.1)
    assert await owned(queue) == {}


async def test_a_silent_consumer_leaves(queue: Queue, clock: ManualClock) -> None:
    """A consumer that is silent for its session timeout (default 10 s on connections) leaves."""
    await queue.create_topic("orders")
    await queue.lease("orders", consumer="c")
    await clock.advance(9.9)
    await queue.lease("orders", consumer="c")
    await leaves_after(10, queue, clock)


async def test_a_consumer_may_choose_its_session_timeout(queue: Queue, clock: ManualClock) -> None:
    """A consumer that is silent for its session timeout leaves."""
    await queue.create_topic("orders")
    await queue.create_group("orders", "default")
    await queue.heartbeat("orders", "default", "c", session=60)
    await leaves_after(60, queue, clock)


async def test_a_heartbeat_is_a_sign_of_life(queue: Queue, clock: ManualClock) -> None:
    """Consumer heartbeats; a dead consumer's leases return."""
    await queue.create_topic("orders")
    await queue.lease("orders", consumer="c")
    for _ in range(5):
        await clock.advance(8)
        await queue.heartbeat("orders", "default", "c")
    assert list(await owned(queue)) == ["c"]


async def test_a_lease_held_counts_as_life(queue: Queue, clock: ManualClock) -> None:
    """A lease held counts as life."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", consumer="c", lease=120)
    await clock.advance(100)
    assert list(await owned(queue)) == ["c"]
    await message.ack()
    await clock.advance(20)
    assert await owned(queue) == {}


async def test_a_waiting_consumer_is_alive(queue: Queue, clock: ManualClock) -> None:
    """Leasing joins the group, and who waits is not silent."""
    await queue.create_topic("orders")
    waiting = await poll(queue, consumer="c", wait=60)
    await clock.advance(59)
    assert list(await owned(queue)) == ["c"]
    await clock.advance(1)
    assert await waiting == []


async def test_a_consumer_that_leaves_gives_its_leases_back_uncounted(queue: Queue) -> None:
    """A consumer … leaves and its leases return, uncounted."""
    await publish(queue, "orders", b"1", b"2", key="k")
    messages = await take(queue, "orders", consumer="c")
    await queue.leave("c")
    assert await is_stale(queue, messages[0])
    assert [(m.value, m.attempt) for m in await take(queue, "orders", consumer="d")] == [(b"1", 1), (b"2", 1)]


async def test_a_consumer_may_leave_one_group_only(queue: Queue) -> None:
    """A consumer leaves a group; without a topic, every group it is in."""
    await queue.publish("orders", b"1")
    [a] = await queue.lease("orders", group="a", consumer="c")
    [b] = await queue.lease("orders", group="b", consumer="c")
    await queue.leave("c", "orders", "a")
    assert await is_stale(queue, a)
    assert not await is_stale(queue, b)


async def test_members_own_partitions(queue: Queue) -> None:
    """In `partition` order members own partitions."""
    await fifo(queue)
    for consumer in ("a", "b"):
        await queue.heartbeat("orders", (await _group(queue)), consumer)
    shares = await owned(queue)
    assert sorted(shares["a"] + shares["b"]) == [0, 1, 2, 3]
    assert len(shares["a"]) == len(shares["b"]) == 2
    messages = await take(queue, "orders", consumer="b")
    assert {message.partition for message in messages} == set(shares["b"])


async def _group(queue: Queue) -> str:
    if not await queue.groups("orders"):
        await queue.create_group("orders", "default")
    return "default"


async def test_only_the_partitions_that_move_pause(queue: Queue) -> None:
    """On a join or leave only the partitions that move pause."""
    await fifo(queue)
    held = await take(queue, "orders", 4, consumer="a")
    await queue.lease("orders", consumer="b")
    staying = (await owned(queue))["a"]
    assert len(staying) == 2
    await queue.ack([message for message in held if message.partition in staying])
    more = await take(queue, "orders", consumer="a")
    assert {message.partition for message in more} <= set(staying)


async def test_the_old_owner_may_settle_what_it_holds_for_a_second(queue: Queue, clock: ManualClock) -> None:
    """The old owner may settle what it holds for up to 1 s."""
    await fifo(queue, partitions=2, each=1)
    held = await take(queue, "orders", consumer="a")
    assert await take(queue, "orders", consumer="b") == []
    await clock.advance(0.999)
    await queue.ack(held)


async def test_after_a_second_it_is_revoked(queue: Queue, clock: ManualClock) -> None:
    """… then it is revoked."""
    await fifo(queue, partitions=2, each=1)
    held = await take(queue, "orders", consumer="a")
    await queue.lease("orders", consumer="b")
    [staying] = (await owned(queue))["a"]
    await clock.advance(1)
    assert [await is_stale(queue, message) for message in held] == [m.partition != staying for m in held]
    [moved] = await take(queue, "orders", consumer="b")
    assert (moved.partition, moved.attempt) == (1 - staying, 1)


async def test_a_partition_moves_as_soon_as_it_is_settled(queue: Queue) -> None:
    """On a join only the partitions that move pause, < 1 s: not longer than the old owner needs."""
    await fifo(queue, partitions=2, each=2)
    held = await take(queue, "orders", consumer="a")
    for partition in range(2):
        await queue.publish("orders", b"next", partition=partition)
    waiting = await poll(queue, consumer="b")  # one partition is to be its own, but "a" is not done with it
    await queue.ack(held)
    [moved] = await waiting
    assert (await owned(queue))["b"] == [moved.partition]
    assert moved.value == b"next"


async def wait_for_what_another_owns(queue: Queue) -> asyncio.Task[Messages]:
    """Consumer b waits, and there is a message only where a is the owner."""
    await fifo(queue, partitions=2, each=0)
    for consumer in ("a", "b"):
        await queue.lease("orders", consumer=consumer)
    [gone] = (await owned(queue))["a"]
    await queue.publish("orders", b"1", partition=gone)
    return await poll(queue, consumer="b")


async def test_the_partitions_of_one_who_leaves_go_to_those_who_wait(queue: Queue) -> None:
    """On a leave the partitions that move pause < 1 s: a waiting consumer gets their messages at once."""
    waiting = await wait_for_what_another_owns(queue)
    await queue.leave("a")
    assert values(await waiting) == [b"1"]


async def test_the_partitions_of_one_who_falls_silent_go_to_those_who_wait(queue: Queue, clock: ManualClock) -> None:
    """A consumer that is silent for its session timeout leaves, and its partitions move."""
    waiting = await wait_for_what_another_owns(queue)
    await clock.advance(9)
    assert await waiters(queue) == 1
    await clock.advance(1)
    assert values(await waiting) == [b"1"]


async def test_more_consumers_than_partitions_leaves_some_idle(queue: Queue) -> None:
    """One consumer at a time per partition."""
    await fifo(queue, partitions=2, each=0)
    for consumer in ("a", "b", "c"):
        await queue.lease("orders", consumer=consumer)
    assert sorted(len(partitions) for partitions in (await owned(queue)).values()) == [0, 1, 1]


async def test_a_poll_that_was_served_is_a_sign_of_life_of_that_moment(queue: Queue, clock: ManualClock) -> None:
    """A consumer that is silent for its session timeout leaves, however long its last poll might have waited."""
    await queue.create_topic("orders", partitions=1, ordering="partition")
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", consumer="a", wait=60)
    await queue.ack(message)
    assert await queue.lease("orders", consumer="b") == []
    await queue.publish("orders", b"2")
    await clock.advance(11)
    assert values(await queue.lease("orders", consumer="b")) == [b"2"]


async def test_one_who_waits_and_is_served_later_may_fall_silent_from_then_on(queue: Queue, clock: ManualClock) -> None:
    """A consumer that is silent for its session timeout leaves, though its poll was to wait for longer."""
    await queue.create_topic("orders", partitions=1, ordering="partition")
    polling = await poll(queue, consumer="a", wait=60)
    await clock.advance(5)
    await queue.publish("orders", b"1")
    await queue.ack(await polling)
    assert await queue.lease("orders", consumer="b") == []
    await queue.publish("orders", b"2")
    waiting = await poll(queue, consumer="b")
    await clock.advance(9)
    assert await waiters(queue) == 1
    await clock.advance(1)
    assert values(await waiting) == [b"2"]


async def test_who_waits_is_alive(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, ordering="partition")
    polling = await poll(queue, consumer="a", wait=60)
    await clock.advance(50)
    assert await queue.lease("orders", consumer="b") == []
    await queue.publish("orders", b"1")
    assert values(await polling) == [b"1"]


async def test_a_lease_that_runs_out_is_no_sign_of_its_consumers_life(clock: ManualClock) -> None:
    """Though both are due at the very same instant."""
    async with open_manual(clock) as queue:
        await queue.create_topic("orders", partitions=1, ordering="strict", lease=10.0)
        await queue.publish("orders", b"1")
        assert await queue.lease("orders", consumer="gone")
        seconds = 0
        while not await queue.lease("orders", consumer="here"):
            await clock.advance(1)
            seconds += 1
        assert seconds <= 12
