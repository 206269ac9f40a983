"""A full disk refuses what needs room, and nothing else."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import ortoo
from ortoo import FullError, Queue
from ortoo.broker import Broker
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish
from ortoo.model.names import TopicName
from ortoo.ports import StoreStatus
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock


class FillingStore(MemoryStore):
    is_full = False

    def status(self) -> StoreStatus:
        return msgspec.structs.replace(super().status(), full="the disk is full" if self.is_full else None)


async def test_a_commit_of_what_was_staged_is_refused_and_can_be_tried_again() -> None:
    store = FillingStore()
    async with Queue(Broker(store, ManualClock())) as queue:
        transaction = await queue.begin("t")
        await transaction.publish("orders", b"1")
        store.is_full = True
        with pytest.raises(FullError):
            await transaction.commit()
        store.is_full = False
        await transaction.commit()
        assert len(await queue.lease("orders")) == 1


async def test_a_producer_that_waits_for_room_on_the_disk_goes_on_when_there_is_some() -> None:
    """Although nothing happens in its topic, which alone would tell."""
    store, clock = FillingStore(), ManualClock()
    async with Queue(Broker(store, clock)) as queue:
        await queue.publish("orders", b"1")
        store.is_full = True
        publishing = asyncio.create_task(queue.publish("orders", b"2", wait=3600))
        await clock.advance(30)
        assert not publishing.done()
        store.is_full = False
        await clock.advance(30)
        assert publishing.done()
        await publishing


async def test_a_transaction_that_only_acks_goes_through() -> None:
    store = FillingStore()
    async with Queue(Broker(store, ManualClock())) as queue:
        await queue.publish("orders", b"1")
        messages = await queue.lease("orders")
        store.is_full = True
        async with queue.transaction() as transaction:
            transaction.ack(messages[0])
        assert (await queue.group("orders")).backlog == 0
        with pytest.raises(FullError):
            async with queue.transaction() as transaction:
                transaction.publish("orders", b"2")


async def test_what_was_answered_before_the_disk_filled_up_is_answered_again() -> None:
    """Refused, its producer would think that it never happened."""
    store = FillingStore()
    broker = Broker(store, ManualClock())
    async with Queue(broker):
        command = Once("producer", 1, 0, Publish(TopicName("default", "orders"), Outgoing([b"1"])))
        first = await broker.call(command)
        store.is_full = True
        assert await broker.call(command) == first
        with pytest.raises(ortoo.FullError):
            await broker.call(Once("producer", 2, 0, command.command))


async def test_when_the_first_in_line_gives_up_the_next_may_have_the_little_room_there_is() -> None:
    clock = ManualClock()
    async with Queue(Broker(MemoryStore(), clock)) as queue:
        await queue.create_topic("orders", max_depth=5, partitions=1)
        await queue.publish_many("orders", [b"1"] * 5)
        much = asyncio.create_task(queue.publish_many("orders", [b"2"] * 5, wait=0.5))
        await clock.advance(0.1)
        little = asyncio.create_task(queue.publish_many("orders", [b"3"], wait=3600))
        await clock.advance(0.1)
        await queue.ack(await queue.lease("orders", max_messages=1))
        await clock.advance(0.5)
        with pytest.raises(FullError):
            await much
        await clock.advance(0)
        assert little.done()
        await little
