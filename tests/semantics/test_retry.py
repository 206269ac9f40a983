"""Retry: when a failed message comes back."""

from ortoo import Queue
from ortoo.testing import ManualClock, open_manual

from .actors import poll, publish, take, values, waiters


async def expect_retry(queue: Queue, clock: ManualClock, after: float, by: float) -> None:
    """The message is ready again between so many seconds from now and so many."""
    await clock.advance(after)
    assert (await queue.group("orders")).ready == 0
    await clock.advance(by - after)
    assert (await queue.group("orders")).ready == 1


async def test_a_nack_may_name_its_delay(queue: Queue, clock: ManualClock) -> None:
    """nack(delay=) or the policy's backoff."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await message.nack(delay=7)
    await clock.advance(6.999)
    assert await take(queue, "orders") == []
    await clock.advance(0.001)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_without_a_delay_the_policy_says_how_long(queue: Queue, clock: ManualClock) -> None:
    """Exponential backoff (initial 1 s, ×2, cap 5 min, a little jitter)."""
    await queue.create_topic("orders", max_attempts=20)
    await queue.publish("orders", b"1")
    for attempt in range(1, 12):
        [message] = await queue.lease("orders")
        await message.nack()
        expected = min(2 ** (attempt - 1), 300)
        await expect_retry(queue, clock, after=0.9 * expected - 0.001, by=expected)


async def test_the_backoff_of_an_expired_lease_is_the_same(queue: Queue, clock: ManualClock) -> None:
    """nack(delay=) or the policy's backoff."""
    await queue.create_topic("orders", backoff_initial=100)
    await queue.publish("orders", b"1")
    await queue.lease("orders", lease=1)
    await clock.advance(1)
    await expect_retry(queue, clock, after=89.999, by=100)


async def test_the_jitter_is_the_same_every_time() -> None:
    """Jitter derived from message and attempt, no randomness."""
    waits: list[list[float]] = []
    for _ in range(2):
        clock = ManualClock()
        async with open_manual(clock) as queue:
            await queue.create_topic("orders", partitions=1, backoff_initial=100)
            await publish(queue, "orders", *[b"%d" % number for number in range(10)])
            messages = await take(queue, "orders")
            await queue.nack(messages)
            traces = [await queue.trace(message.id) for message in messages]
            waits.append([trace.events[-1].until or 0 for trace in traces])
    assert waits[0] == waits[1]
    assert len(set(waits[0])) > 5  # they do not all come back together
    assert max(waits[0]) - min(waits[0]) <= 10


async def test_the_total_timeout_counts_from_the_first_delivery(queue: Queue, clock: ManualClock) -> None:
    """Total timeout counted from first delivery."""
    await queue.create_topic("orders", max_attempts=100, total_timeout=60)
    await queue.publish("orders", b"1")
    await clock.advance(1000)
    [message] = await queue.lease("orders")
    await message.nack(delay=59)
    await clock.advance(59.5)
    [message] = await queue.lease("orders")
    await message.nack(delay=0)
    [message] = await queue.lease("orders")
    await clock.advance(0.5)
    await message.nack("too slow")
    [letter] = await queue.dead_letters("orders")
    assert letter.headers["ortoo-reason"] == "timeout"
    assert letter.headers["ortoo-attempts"] == "3"


async def test_a_retry_wakes_who_waits(queue: Queue, clock: ManualClock) -> None:
    """A failed message is delivered again when its backoff is over, to a parked long poll too."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await message.nack(delay=5)
    waiting = await poll(queue)
    await clock.advance(4)
    assert await waiters(queue) == 1
    await clock.advance(1)
    assert [message.attempt for message in await waiting] == [2]
