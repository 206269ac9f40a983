"""Attempts: what counts as one, and what happens after the last."""

from ortoo import Queue
from ortoo.testing import ManualClock

from .actors import publish, take, values
from .stores import LastingStore, queue_on


async def test_the_first_delivery_is_attempt_one(queue: Queue) -> None:
    """Attempts count deliveries."""
    await queue.publish("orders", b"1")
    assert [message.attempt for message in await take(queue, "orders")] == [1]


async def test_a_nack_counts(queue: Queue) -> None:
    """Expiry and nack count."""
    await queue.publish("orders", b"1")
    for attempt in (1, 2, 3):
        [message] = await queue.lease("orders")
        assert message.attempt == attempt
        await message.nack(delay=0)


async def test_an_expiry_counts(queue: Queue, clock: ManualClock) -> None:
    """Expiry and nack count."""
    await queue.publish("orders", b"1")
    for attempt in (1, 2, 3):
        [message] = await queue.lease("orders", lease=1)
        assert message.attempt == attempt
        await clock.advance(60)


async def test_a_release_does_not_count(queue: Queue) -> None:
    """Release and revocation do not count."""
    await queue.publish("orders", b"1")
    for _ in range(10):
        [message] = await queue.lease("orders")
        assert message.attempt == 1
        await message.release()


async def test_a_consumer_that_leaves_does_not_count(queue: Queue) -> None:
    """A consumer leaves and its leases return, uncounted."""
    await queue.publish("orders", b"1")
    for _ in range(10):
        [message] = await queue.lease("orders", consumer="c")
        assert message.attempt == 1
        await queue.leave("c")


async def test_a_revocation_does_not_count(queue: Queue) -> None:
    """Release and revocation do not count."""
    await publish(queue, "orders", b"1", b"2", key="k")
    for attempt in (1, 2):
        first, second = await take(queue, "orders")
        assert (first.attempt, second.attempt) == (attempt, 1)
        await first.nack(delay=0)


async def test_attempts_are_counted_for_each_group_by_itself(queue: Queue) -> None:
    """One group's fate never touches another's."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", group="a")
    await message.nack(delay=0)
    assert [m.attempt for m in await take(queue, "orders", group="a")] == [2]
    assert [m.attempt for m in await take(queue, "orders", group="b")] == [1]


async def test_durable_attempts_survive_a_restart(clock: ManualClock) -> None:
    """Durable attempts never decrease."""
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("orders", b"1")
        [message] = await queue.lease("orders")
        await message.nack(delay=0)
    async with queue_on(store, clock) as queue:
        [message] = await queue.lease("orders")
        assert message.attempt == 2


async def test_the_last_failed_delivery_makes_a_dead_letter(queue: Queue) -> None:
    """`max_attempts` deliveries that fail → dead letter."""
    await queue.create_topic("orders", max_attempts=4)
    await queue.publish("orders", b"1")
    for _ in range(4):
        assert await queue.dead_letters("orders") == []
        [message] = await queue.lease("orders")
        await message.nack(delay=0)
    assert values(await queue.dead_letters("orders")) == [b"1"]
    assert await take(queue, "orders") == []


async def test_expiries_and_nacks_count_together(queue: Queue, clock: ManualClock) -> None:
    """`max_attempts` deliveries that fail → dead letter."""
    await queue.create_topic("orders", max_attempts=2)
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await message.nack(delay=0)
    await queue.lease("orders", lease=1)
    await clock.advance(1)
    [letter] = await queue.dead_letters("orders")
    assert letter.headers["ortoo-attempts"] == "2"
