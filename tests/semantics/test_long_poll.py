"""Long polls: fair and cancellable."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import ortoo
from ortoo import ClosedError, NotFoundError, Queue
from ortoo.testing import ManualClock

from .actors import crowd, poll, publish, take, until, values, waiters


@pytest_asyncio.fixture(autouse=True)
async def topic(queue: Queue) -> AsyncIterator[None]:
    await queue.create_topic("orders")
    yield


async def test_a_poll_returns_at_once_when_there_is_something(queue: Queue) -> None:
    """Long poll (wait up to 60 s)."""
    await queue.publish("orders", b"1")
    assert values(await queue.lease("orders", wait=60)) == [b"1"]


async def test_a_poll_is_answered_when_a_message_comes(queue: Queue) -> None:
    """Long poll (wait up to 60 s)."""
    waiting = await poll(queue)
    await queue.publish("orders", b"1")
    assert values(await waiting) == [b"1"]


async def test_a_poll_ends_empty_when_its_time_is_over(queue: Queue, clock: ManualClock) -> None:
    """Waiting up to `wait` seconds for the first; [] when none came."""
    waiting = await poll(queue)
    await clock.advance(29.999)
    assert await waiters(queue) == 1
    await clock.advance(0.001)
    assert await waiting == []
    assert await waiters(queue) == 0


async def test_who_came_first_is_served_first(queue: Queue) -> None:
    """Fair FIFO: first come, first served."""
    waiting = [await poll(queue) for _ in range(10)]
    for number in range(10):
        await queue.publish("orders", b"%d" % number)
        assert values(await waiting[number]) == [b"%d" % number]
        assert await waiters(queue) == 9 - number


async def test_several_messages_serve_several_waiters(queue: Queue) -> None:
    """Fair FIFO: each takes what it asked for, in turn."""
    await queue.update_topic("orders", partitions=6)
    waiting = [await poll(queue, max_messages=count) for count in (2, 1, 5)]
    async with queue.transaction() as tx:
        for number in range(5):
            tx.publish("orders", b"%d" % number, partition=0)
    assert [values(await task) for task in waiting] == [[b"0", b"1"], [b"2"], [b"3", b"4"]]


async def test_a_waiter_with_a_narrow_wish_does_not_stop_the_line(queue: Queue) -> None:
    """Fair FIFO, but one who wants another partition or key holds nobody up."""
    narrow = [await poll(queue, partition=5), await poll(queue, key="other")]
    wide = await poll(queue)
    await queue.publish("orders", b"1", partition=0, key="k")
    assert values(await wide) == [b"1"]
    assert await waiters(queue) == 2
    await queue.publish("orders", b"2", partition=5)
    assert values(await narrow[0]) == [b"2"]
    await queue.publish("orders", b"3", key="other")
    assert values(await narrow[1]) == [b"3"]


async def test_an_ack_that_frees_a_key_serves_a_waiter(queue: Queue) -> None:
    """A key is blocked … until that message is settled, and then a waiter gets the next."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [held] = await queue.lease("orders")
    waiting = await poll(queue)
    await held.ack()
    assert values(await waiting) == [b"2"]


async def test_an_expiry_serves_a_waiter(queue: Queue, clock: ManualClock) -> None:
    """A dead consumer's leases return, also to one who waits already."""
    await queue.update_topic("orders", backoff_initial=0)
    await queue.publish("orders", b"1")
    await queue.lease("orders", lease=5)
    waiting = await poll(queue)
    await clock.advance(5)
    assert [message.attempt for message in await waiting] == [2]


async def test_a_message_that_comes_due_serves_a_waiter(queue: Queue, clock: ManualClock) -> None:
    """Delayed messages take their place when they become due, also for one who waits already."""
    await queue.publish("orders", b"1", delay=5)
    waiting = await poll(queue)
    await clock.advance(5)
    assert values(await waiting) == [b"1"]


async def test_a_cancelled_waiter_leaves_the_line(queue: Queue) -> None:
    """Cancellable: who goes away takes nothing with it."""
    first, second = await poll(queue), await poll(queue)
    first.cancel()

    async def has_left() -> bool:
        return await waiters(queue) == 1

    await until(has_left)
    await queue.publish("orders", b"1")
    assert values(await second) == [b"1"]


async def test_a_consumer_that_is_cancelled_gives_back_what_it_has(queue: Queue) -> None:
    """Leaving the loop releases what was leased and not yet yielded."""
    await publish(queue, "orders", b"1", b"2", b"3")
    entered = asyncio.Event()

    async def consume() -> None:
        async for message in queue.consume("orders"):
            await message.ack()
            entered.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(consume())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    async def is_all_back() -> bool:
        return (await queue.group("orders")).ready == 2

    await until(is_all_back)
    assert sorted(values(await take(queue, "orders"))) == [b"2", b"3"]


async def test_deleting_the_topic_fails_its_waiters_at_once(queue: Queue) -> None:
    """Delete: waiters get an error at once."""
    waiting = await crowd(queue, 100)
    await queue.delete_topic("orders")
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {NotFoundError}
    assert await waiters(queue) == 0


async def test_closing_fails_the_waiters_at_once(queue: Queue) -> None:
    """Refuses new work, … sends waiters home."""
    waiting = await crowd(queue, 100)
    await queue.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {ClosedError}


async def test_a_closed_queue_says_so(queue: Queue) -> None:
    """The queue is closed or closing."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await queue.close()
    await queue.close()
    for call in (
        queue.publish("orders", b"1"),
        queue.lease("orders"),
        queue.lease("orders", wait=5),
        message.ack(),
        queue.topics(),
        queue.topic("orders"),
        queue.stats(),
        queue.message(message.id),
        queue.messages("orders"),
        queue.trace(message.id),
        anext(aiter(queue.read("orders"))),
    ):
        with pytest.raises(ClosedError, match="closed"):
            await call


async def test_a_queue_that_is_not_open_yet_says_so() -> None:
    """The queue is not open yet: async with opens it."""
    queue = ortoo.open()
    with pytest.raises(ClosedError, match="async with"):
        await queue.publish("orders", b"1")
    with pytest.raises(ClosedError, match="async with"):
        await queue.topics()


async def test_opening_twice_is_fine(queue: Queue) -> None:
    """Opening what is open changes nothing."""
    await queue.publish("orders", b"1")
    await queue.open()
    assert values(await take(queue, "orders")) == [b"1"]
