"""Waiters from within: what thousands of them cost, and the moment in which one is served and goes away.

These look into the broker from the caller's own process, so they go through the doors that Python programs use.
"""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

import ortoo
from ortoo import Queue
from ortoo.broker.waiters import Waiters
from ortoo.engine import Decision, Engine
from ortoo.model import limits
from ortoo.model.commands import Command, Lease
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
    wake = Waiters.wake

    def wake_and_cancel(waiters: Waiters, *args: Any, **options: Any) -> None:
        wake(waiters, *args, **options)
        waiting.cancel()  # served, but its task has not run again yet

    monkeypatch.setattr(Waiters, "wake", wake_and_cancel)
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


def leases(decisions: list[Command]) -> list[Lease]:
    return [command for command in decisions if isinstance(command, Lease)]


async def test_in_partition_order_only_the_owner_of_the_partition_is_tried(
    queue: Queue, decisions: list[Command]
) -> None:
    """One new message costs two tries, however many wait, in every order."""
    await queue.create_topic("lines", ordering="partition", partitions=2)
    waiting = [await poll(queue, "lines", consumer=f"c{number}") for number in range(50)]
    decisions.clear()
    await queue.publish("lines", b"1", partition=0)
    await settle()
    assert [task.result()[0].value for task in waiting if task.done()] == [b"1"]
    assert len(leases(decisions)) <= 2


async def test_a_partition_that_moves_serves_its_new_owner_once_it_is_settled(queue: Queue, clock: ManualClock) -> None:
    """On a join only the partitions that move pause: the old owner may settle what it holds."""
    await queue.create_topic("lines", ordering="partition", partitions=2)
    for partition in (0, 1):
        await queue.publish("lines", b"first", partition=partition)
    held = await take(queue, "lines", consumer="old")
    waiting = await poll(queue, "lines", consumer="new")
    for partition in (0, 1):
        await queue.publish("lines", b"second", partition=partition)
    await settle()
    assert not waiting.done()
    await queue.ack(held)
    assert [message.value for message in await waiting] == [b"second"]


async def test_a_publish_tries_polls_by_label_on_its_own_topic_only(queue: Queue, decisions: list[Command]) -> None:
    """Leasing by labels costs the same, however many topics have them."""
    for number in range(20):
        await queue.create_topic(f"t{number}", labels={"task": "a"})
    await queue.create_topic("other", labels={"task": "b"})
    waiting = [await poll(queue, None, labels={"task": "a"}) for _ in range(5)]
    decisions.clear()
    await queue.publish("other", b"1")
    await settle()
    assert leases(decisions) == []
    await queue.publish("t7", b"2")
    assert [message.value for message in await waiting[0]] == [b"2"]
    await settle()
    assert [command.topic for command in leases(decisions)] == ["t7", "t7"]


async def test_polls_by_other_labels_or_groups_are_tried_each(queue: Queue) -> None:
    """A topic may have more labels than were asked for; every group gets its own."""
    await queue.create_topic("t", labels={"task": "a", "size": "large"})
    waiting = [
        await poll(queue, None, labels={"task": "a"}, group="one"),
        await poll(queue, None, labels={"size": "large"}, group="two"),
        await poll(queue, None, labels={"size": "large", "task": "a"}, group="three"),
        await poll(queue, None, labels={}, group="four"),
    ]
    wrong = await poll(queue, None, labels={"task": "b"}, group="five")
    await queue.publish("t", b"1")
    assert [[m.value for m in await task] for task in waiting] == [[b"1"]] * 4
    assert not wrong.done()
    wrong.cancel()


@pytest.mark.parametrize("where", [{"topic": "orders"}, {"topic": None, "labels": {"task": "a"}}])
@pytest.mark.parametrize("already", [True, False])
async def test_a_poll_looks_on_behind_as_much_as_one_turn_may_see(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, where: dict[str, Any], already: bool
) -> None:
    """A message is found behind any number of blocked ones, by topic and by labels."""
    monkeypatch.setattr(limits, "SCAN_MESSAGES_MAX", 10)
    await queue.update_topic("orders", partitions=6, labels={"task": "a"})
    await queue.publish("orders", b"held", partition=0, key="k")
    await take(queue, "orders")
    waiting = None if already else await poll(queue, **where)
    async with queue.transaction() as tx:
        for _ in range(55):
            tx.publish("orders", b"blocked", partition=0, key="k")
        tx.publish("orders", b"free", partition=0, key="other")
    async with asyncio.timeout(300):
        found = await (waiting or queue.lease(wait=5, **where))
    assert [message.value for message in found] == [b"free"]


async def test_one_turn_makes_a_bounded_number_of_tries_and_nobody_starves(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits is tried; who is not in this turn of the loop is in a later one."""
    monkeypatch.setattr(limits, "TRIES_PER_TURN", 5)
    await queue.create_topic("one", partitions=1)
    waiting = [await poll(queue, "one", key=f"k{number}") for number in range(40)]
    turns: list[int] = []
    turn = 0
    decide = Engine.decide

    def counted(engine: Engine, command: Command, now: int) -> Decision:
        if isinstance(command, Lease):
            turns.append(turn)
        return decide(engine, command, now)

    monkeypatch.setattr(Engine, "decide", counted)
    publishing = asyncio.create_task(queue.publish_many("one", [ortoo.Message(b"1", key=f"k{n}") for n in (3, 39)]))
    while not (waiting[3].done() and waiting[39].done() and publishing.done()):
        turn += 1
        await asyncio.sleep(0)
    assert len(turns) >= 40
    assert max(turns.count(each) for each in turns) <= 5
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
