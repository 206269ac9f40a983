"""Long polls: fair, cancellable, and free while nothing happens."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import ortoo
from ortoo import ClosedError, NotFoundError, Queue, Received
from ortoo.broker.waiters import Waiters
from ortoo.engine import Decision, Engine
from ortoo.model.commands import Command
from ortoo.testing import ManualClock

from .actors import publish, settle, take, values
from .stores import SlowStore, queue_on


def poll(queue: Queue, **options: object) -> asyncio.Task[list[Received]]:
    return asyncio.create_task(queue.lease("orders", wait=30, **options))  # type: ignore[arg-type]


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Every command the engine decides from now on."""
    decided: list[Command] = []
    decide = Engine.decide

    def counted(engine: Engine, command: Command, now: int) -> Decision:
        decided.append(command)
        return decide(engine, command, now)

    monkeypatch.setattr(Engine, "decide", counted)
    return decided


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
    waiting = poll(queue)
    await settle()
    assert not waiting.done()
    await queue.publish("orders", b"1")
    assert values(await waiting) == [b"1"]


async def test_a_poll_ends_empty_when_its_time_is_over(queue: Queue, clock: ManualClock) -> None:
    """Waiting up to `wait` seconds for the first; [] when none came."""
    waiting = poll(queue)
    await clock.advance(29.999)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()
    assert await waiting == []
    assert (await queue.stats()).waiters == 0


async def test_who_came_first_is_served_first(queue: Queue) -> None:
    """Fair FIFO: first come, first served."""
    waiting = []
    for _ in range(10):
        waiting.append(poll(queue))
        await settle(2)
    for number in range(10):
        await queue.publish("orders", b"%d" % number)
        await settle()
        assert [task.done() for task in waiting] == [True] * (number + 1) + [False] * (9 - number)
    assert [values(await task) for task in waiting] == [[b"%d" % number] for number in range(10)]


async def test_several_messages_serve_several_waiters(queue: Queue) -> None:
    """Fair FIFO: each takes what it asked for, in turn."""
    await queue.update_topic("orders", partitions=6)
    waiting = []
    for count in (2, 1, 5):
        waiting.append(poll(queue, max_messages=count))
        await settle(2)
    async with queue.transaction() as tx:
        for number in range(5):
            tx.publish("orders", b"%d" % number, partition=0)
    assert [values(await task) for task in waiting] == [[b"0", b"1"], [b"2"], [b"3", b"4"]]


async def test_a_waiter_with_a_narrow_wish_does_not_stop_the_line(queue: Queue) -> None:
    """Fair FIFO, but one who wants another partition or key holds nobody up."""
    narrow = [poll(queue, partition=5), poll(queue, key="other")]
    await settle()
    wide = poll(queue)
    await settle()
    await queue.publish("orders", b"1", partition=0, key="k")
    assert values(await wide) == [b"1"]
    assert not any(task.done() for task in narrow)
    await queue.publish("orders", b"2", partition=5)
    assert values(await narrow[0]) == [b"2"]
    await queue.publish("orders", b"3", key="other")
    assert values(await narrow[1]) == [b"3"]


async def test_an_ack_that_frees_a_key_serves_a_waiter(queue: Queue) -> None:
    """A key is blocked … until that message is settled, and then a waiter gets the next."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [held] = await queue.lease("orders")
    waiting = poll(queue)
    await settle()
    assert not waiting.done()
    await held.ack()
    assert values(await waiting) == [b"2"]


async def test_an_expiry_serves_a_waiter(queue: Queue, clock: ManualClock) -> None:
    """A dead consumer's leases return, also to one who waits already."""
    await queue.update_topic("orders", backoff_initial=0)
    await queue.publish("orders", b"1")
    await queue.lease("orders", lease=5)
    waiting = poll(queue)
    await clock.advance(5)
    assert waiting.done()
    assert [message.attempt for message in await waiting] == [2]


async def test_a_message_that_comes_due_serves_a_waiter(queue: Queue, clock: ManualClock) -> None:
    """Delayed messages take their place when they become due, also for one who waits already."""
    await queue.publish("orders", b"1", delay=5)
    waiting = poll(queue)
    await clock.advance(5)
    assert waiting.done()
    assert values(await waiting) == [b"1"]


async def test_a_cancelled_waiter_leaves_the_line(queue: Queue) -> None:
    """Cancellable: who goes away takes nothing with it."""
    first, second = poll(queue), poll(queue)
    await settle()
    first.cancel()
    await settle()
    assert (await queue.stats()).waiters == 1
    await queue.publish("orders", b"1")
    assert values(await second) == [b"1"]


async def test_a_lease_served_in_the_moment_of_cancellation_returns(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancellation returns a lease served in that very moment."""
    waiting = poll(queue)
    await settle()
    stir = Waiters.stir

    def stir_and_cancel(waiters: Waiters, *args: Any, **options: Any) -> None:
        stir(waiters, *args, **options)
        waiting.cancel()  # served, but its task has not run again yet

    monkeypatch.setattr(Waiters, "stir", stir_and_cancel)
    await queue.publish("orders", b"1")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    group = await queue.group("orders")
    assert (group.leased, group.ready) == (0, 1)
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"1", 1)]


@pytest.mark.parametrize("wait", [0, 30])
async def test_a_lease_cancelled_while_its_messages_are_read_returns(clock: ManualClock, wait: float) -> None:
    """Cancellation returns a lease served in that very moment, also while the store reads its values."""
    store = SlowStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("orders", b"1")
        store.reading.clear()
        leasing = asyncio.create_task(queue.lease("orders", wait=wait))
        await settle()
        assert not leasing.done()
        leasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leasing
        store.reading.set()
        assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"1", 1)]


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
    await settle()
    assert sorted(values(await take(queue, "orders"))) == [b"2", b"3"]


async def test_five_thousand_idle_waiters_cost_no_work(
    queue: Queue, clock: ManualClock, decisions: list[Command]
) -> None:
    """Thousands of idle waiters are cheap: free while nothing happens, and one message costs two tries."""
    await queue.create_group("orders", "default")
    await queue.create_topic("elsewhere")
    waiting = [poll(queue) for _ in range(5000)]
    while (await queue.stats()).waiters < 5000:
        await settle()
    decisions.clear()
    await clock.advance(20)
    assert decisions == []
    await queue.publish("elsewhere", b"1")
    assert len(decisions) == 1
    decisions.clear()
    await queue.publish("orders", b"1")
    await settle()
    assert len(decisions) <= 3  # the publish, the head of the line, and the next, who gets nothing
    assert [task.done() for task in waiting[:2]] == [True, False]
    decisions.clear()
    await clock.advance(10)
    assert decisions == []
    assert all(task.done() for task in waiting)


async def test_thousands_may_be_cancelled_quickly(queue: Queue, decisions: list[Command]) -> None:
    """Thousands of idle waiters are cheap, their leaving too."""
    await queue.create_group("orders", "default")
    waiting = [poll(queue) for _ in range(5000)]
    await settle()
    decisions.clear()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert decisions == []
    assert (await queue.stats()).waiters == 0


async def test_deleting_the_topic_fails_its_waiters_at_once(queue: Queue) -> None:
    """Delete: waiters get an error at once."""
    waiting = [poll(queue) for _ in range(100)]
    await settle()
    await queue.delete_topic("orders")
    await settle()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {NotFoundError}
    assert (await queue.stats()).waiters == 0


async def test_closing_fails_the_waiters_at_once(queue: Queue) -> None:
    """Refuses new work, … sends waiters home."""
    waiting = [poll(queue) for _ in range(100)]
    await settle()
    await queue.close()
    assert all(task.done() for task in waiting)
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
