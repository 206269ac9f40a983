"""Waiters from within: what thousands of them cost, and the moment in which one is served and goes away.

These look into the broker from the caller's own process, so they go through the doors that Python programs use.
"""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from ortoo import Queue
from ortoo.broker.waiters import Waiters
from ortoo.engine import Decision, Engine
from ortoo.model.commands import Command
from ortoo.testing import ManualClock

from .actors import crowd, poll, settle, take, waiters
from .stores import SlowStore, queue_on


@pytest_asyncio.fixture
async def queue(python_queue: Queue) -> Queue:
    await python_queue.create_topic("orders")
    return python_queue


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


async def test_five_thousand_idle_waiters_cost_no_work(
    queue: Queue, clock: ManualClock, decisions: list[Command]
) -> None:
    """Thousands of idle waiters are cheap: free while nothing happens, and one message costs two tries."""
    await queue.create_group("orders", "default")
    await queue.create_topic("elsewhere")
    waiting = await crowd(queue, 5000)
    decisions.clear()
    await clock.advance(20)
    assert decisions == []
    await queue.publish("elsewhere", b"1")
    assert len(decisions) == 1
    decisions.clear()
    await queue.publish("orders", b"1")
    assert [message.value for message in await waiting[0]] == [b"1"]
    assert await waiters(queue) == 4999
    assert len(decisions) <= 3  # the publish, the head of the line, and the next, who gets nothing
    decisions.clear()
    await clock.advance(10)
    assert await asyncio.gather(*waiting[1:]) == [[]] * 4999
    assert decisions == []


async def test_thousands_may_be_cancelled_quickly(queue: Queue, decisions: list[Command]) -> None:
    """Thousands of idle waiters are cheap, their leaving too."""
    await queue.create_group("orders", "default")
    waiting = await crowd(queue, 5000)
    decisions.clear()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await waiters(queue) == 0
    assert decisions == []


async def test_a_lease_served_in_the_moment_of_cancellation_returns(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancellation returns a lease served in that very moment."""
    waiting = await poll(queue)
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
