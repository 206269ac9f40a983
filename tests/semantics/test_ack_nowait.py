"""Acks that are not waited for: confirmed all the same, and a lost lease is told later."""

from __future__ import annotations

import asyncio

import pytest

import ortoo
from ortoo import InvalidError, LeaseLostError, Queue
from ortoo.broker import Broker
from ortoo.client import late_acks
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

from .stores import SlowStore


async def test_they_are_confirmed_when_the_loop_is_left(python_queue: Queue) -> None:
    await python_queue.publish_many("orders", [b"%d" % number for number in range(50)])
    async with python_queue.consume("orders", prefetch=10) as messages:
        for _ in range(50):
            (await anext(messages)).ack_nowait()
    info = await python_queue.group("orders")
    assert (info.backlog, info.leased) == (0, 0)


async def test_so_are_those_of_a_lease(python_queue: Queue) -> None:
    await python_queue.publish_many("orders", [b"1", b"2"])
    for message in await python_queue.lease("orders", max_messages=2):
        message.ack_nowait()
    async with asyncio.timeout(60):
        while (await python_queue.group("orders")).backlog:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_lost_lease_is_told_with_the_next_message(python_queue: Queue) -> None:
    await python_queue.publish_many("orders", [b"1", b"2"])
    with pytest.raises(LeaseLostError, match="1 leases were lost") as lost:
        async for message in python_queue.consume("orders", prefetch=1):
            receipt = message.receipt
            await python_queue.seek("orders", "default", "start")
            message.ack_nowait()
            await asyncio.sleep(0)
            while python_queue._acks._tasks or python_queue._acks._in_flight.count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert lost.value.lost == [receipt]


async def test_or_when_the_loop_ends(python_queue: Queue) -> None:
    await python_queue.publish("orders", b"1")
    with pytest.raises(LeaseLostError, match="1 leases were lost"):
        async with python_queue.consume("orders") as messages:
            message = await anext(messages)
            await python_queue.seek("orders", "default", "start")
            message.ack_nowait()
    assert len(await python_queue.lease("orders")) == 1


async def test_or_when_the_queue_is_closed() -> None:
    queue = await Queue(Broker(MemoryStore(), ManualClock())).open()
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await queue.seek("orders", "default", "start")
    message.ack_nowait()
    with pytest.raises(LeaseLostError):
        await queue.close()


async def test_what_was_read_cannot_be_acked(python_queue: Queue) -> None:
    await python_queue.publish("orders", b"1")
    async for message in python_queue.read("orders"):
        with pytest.raises(InvalidError, match="read, not leased"):
            message.ack_nowait()


async def test_the_next_message_waits_when_too_many_are_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_acks, "UNCONFIRMED_MAX", 10)
    store = SlowStore()
    async with Queue(Broker(store, ManualClock())) as queue:
        await queue.publish_many("orders", [b"x"] * 100)
        await queue.create_group("orders", "default")
        got = 0

        async def work() -> None:
            nonlocal got
            async for message in queue.consume("orders", prefetch=5):
                got += 1
                message.ack_nowait()

        store.writing.clear()
        working = asyncio.create_task(work())
        for _ in range(200):
            await asyncio.sleep(0)
        assert got == 10
        store.writing.set()
        async with asyncio.timeout(60):
            while (await queue.group("orders")).backlog:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert got == 100
        working.cancel()


def test_a_blocking_queue_has_them_too() -> None:
    with ortoo.open_sync() as queue:
        queue.publish_many("orders", [b"x"] * 20)
        for count, message in enumerate(queue.consume("orders"), 1):
            message.ack_nowait()
            if count == 20:
                break
        assert queue.group("orders").backlog == 0
