"""Time: one clock that never runs backwards, one instant per command."""

import asyncio

import pytest

from ortoo import FullError, Message, Queue
from ortoo.broker import Broker
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

from .actors import is_stale, poll, publish, settle, take, until, values
from .stores import LastingStore, queue_on

YEAR = 366 * 86_400.0


class RestlessClock(ManualClock):
    """Every look at it is a millisecond later."""

    def now_ms(self) -> int:
        self._now_ms += 1
        return self._now_ms


async def test_a_step_back_holds_still(queue: Queue, clock: ManualClock) -> None:
    """The broker's clock never runs backwards for decisions (a step back holds still)."""
    await queue.create_topic("orders", partitions=1)
    await queue.publish("orders", b"1")
    clock.jump(-3600)
    await publish(queue, "orders", b"2", b"3")
    times = [message.timestamp async for message in queue.read("orders")]
    assert times[0] == times[1] == times[2]


async def test_a_step_back_ends_no_lease_early_and_revives_none(queue: Queue, clock: ManualClock) -> None:
    """The broker's clock never runs backwards for decisions."""
    await publish(queue, "orders", b"1", b"2")
    [gone] = await queue.lease("orders", lease=5)
    await clock.advance(5)
    [held] = await queue.lease("orders", lease=10)
    clock.jump(-3600)
    await clock.advance(9.999)
    await queue.ack(held)
    assert await is_stale(queue, gone)


async def test_leases_run_out_although_the_clock_was_set_back(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", backoff_initial=0)
    await queue.publish("orders", b"1")
    await queue.lease("orders", lease=10)
    clock.jump(-3600)
    await clock.advance(12)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_delays_come_due_although_the_clock_was_years_ahead_once(queue: Queue, clock: ManualClock) -> None:
    clock.jump(10 * YEAR)
    await queue.publish("orders", b"ahead")
    clock.jump(-10 * YEAR)
    await queue.publish("orders", b"later", delay=10)
    await clock.advance(12)
    assert sorted(values(await take(queue, "orders"))) == [b"ahead", b"later"]


async def test_time_goes_on_after_a_restart_too() -> None:
    """What was ahead is remembered by the store."""
    clock, store = ManualClock(), LastingStore()
    async with queue_on(store, clock) as queue:
        clock.jump(10 * YEAR)
        await queue.publish("orders", b"ahead")
    clock.jump(-10 * YEAR)
    async with queue_on(store, clock) as queue:
        await queue.publish("orders", b"later", delay=10)
        await clock.advance(12)
        assert sorted(values(await take(queue, "orders"))) == [b"ahead", b"later"]


async def test_the_clocks_meet_again(queue: Queue, clock: ManualClock) -> None:
    await queue.publish("orders", b"1")
    clock.jump(-100)
    await clock.advance(2000)
    sent = await queue.publish("orders", b"2")
    assert (await queue.message(sent.id)).message.timestamp == clock.time()
    assert (await queue.stats()).problems == []


async def test_a_long_poll_waits_as_long_as_it_said_whatever_the_clock_does(queue: Queue, clock: ManualClock) -> None:
    await queue.publish("orders", b"1")
    await take(queue, "orders")
    polling = await poll(queue, wait=5)
    clock.jump(-3600)
    await clock.advance(5)
    assert await polling == []


async def test_a_long_poll_is_not_cut_short_by_a_clock_set_ahead(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders")
    polling = await poll(queue, wait=30)
    clock.jump(3600)
    await clock.advance(1)
    await queue.publish("orders", b"1")
    assert values(await polling) == [b"1"]


async def test_a_producer_waits_for_room_as_long_as_it_said(python_queue: Queue, clock: ManualClock) -> None:
    await python_queue.create_topic("orders", max_depth=1)
    await python_queue.publish("orders", b"1")
    waiting = asyncio.create_task(python_queue.publish("orders", b"2", wait=5))
    await settle()
    clock.jump(-3600)

    async def is_over() -> bool:
        await clock.advance(1)
        return waiting.done()

    await until(is_over)
    with pytest.raises(FullError):
        await waiting


async def test_a_clock_that_was_set_is_told(queue: Queue, clock: ManualClock) -> None:
    await queue.publish("orders", b"1")
    clock.jump(-60)
    [problem] = (await queue.stats()).problems
    assert "60 s behind" in problem
    clock.jump(3660)
    [problem] = (await queue.stats()).problems
    assert "jumped ahead by 3660 s" in problem
    await clock.advance(3600)
    assert (await queue.stats()).problems == []


async def test_a_delayed_message_is_due_although_the_clock_was_set_back(queue: Queue, clock: ManualClock) -> None:
    """A step back holds still: what was due stays due."""
    await queue.publish("orders", b"1", delay=10)
    await clock.advance(10)
    clock.jump(-100)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_a_command_has_one_instant() -> None:
    """One instant per command."""
    async with Queue(Broker(MemoryStore(), RestlessClock())) as queue:
        await queue.publish_many("orders", [Message(b"%d" % number, key=f"k{number}") for number in range(100)])
        messages = await take(queue, "orders")
        assert len({message.partition for message in messages}) > 1
        assert len({message.timestamp for message in messages}) == 1
        traces = [await queue.trace(message.id) for message in messages]
        assert len({trace.events[-1].until for trace in traces}) == 1


async def test_a_transaction_has_one_instant() -> None:
    """One instant per command."""
    async with Queue(Broker(MemoryStore(), RestlessClock())) as queue:
        async with queue.transaction() as tx:
            for topic in ("a", "b", "c"):
                tx.publish(topic, b"1")
        times = {(await queue.message(one.id)).message.timestamp for one in tx.sent}
        assert len(times) == 1


async def test_a_forward_jump_rings_everything_that_became_due(queue: Queue, clock: ManualClock) -> None:
    """The clock may jump; what became due is due."""
    await queue.publish("orders", b"1", delay=10)
    await queue.publish("orders", b"2", delay=1000)
    clock.jump(5000)
    assert sorted(values(await take(queue, "orders"))) == [b"1", b"2"]
