"""A full disk refuses what needs room, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

import ortoo
from ortoo import FullError, Message, Queue, TooManyError
from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish
from ortoo.model.names import TopicName
from ortoo.model.records import Published, Record
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


async def test_room_that_one_who_waited_for_it_may_not_take_goes_to_the_next() -> None:
    clock = ManualClock()
    async with Queue(Broker(MemoryStore(), clock)) as queue:
        await queue.create_topic("orders", max_depth=1, partitions=1)
        await queue.publish("orders", b"1")
        large = asyncio.create_task(queue.publish("orders", bytes(100), wait=3600))
        await clock.advance(0.1)
        small = asyncio.create_task(queue.publish("orders", b"2", wait=3600))
        await clock.advance(0.1)
        await queue.update_topic("orders", max_message_bytes=10)
        await queue.ack(await queue.lease("orders"))
        await clock.advance(0.1)
        with pytest.raises(ortoo.InvalidError):
            await large
        await clock.advance(0)
        assert small.done()
        await small


class TightStore(MemoryStore):
    """With so much room, of which each message takes twice its size."""

    room_bytes = 1 << 40

    def __init__(self) -> None:
        super().__init__()
        self.largest_append = 0

    def status(self) -> StoreStatus:
        return msgspec.structs.replace(super().status(), room_bytes=self.room_bytes)

    async def append(self, records: Sequence[Record]) -> None:
        size = sum(record.size for record in records if isinstance(record, Published))
        self.largest_append = max(self.largest_append, size)
        self.room_bytes -= 2 * size
        await super().append(records)


@pytest.mark.parametrize("how", ["lease", "ttl"])
async def test_dead_letters_wait_for_room_and_nobody_waits_for_them(how: str) -> None:
    store, clock = TightStore(), ManualClock()
    async with Queue(Broker(store, clock)) as queue:
        await queue.create_topic("t", max_attempts=1, lease=10, on_expire="dlq", ordering="none")
        ttl = 10 if how == "ttl" else None
        await queue.publish_many("t", [Message(bytes(100_000), ttl=ttl) for _ in range(30)])
        await queue.create_group("t", "default")
        if how == "lease":
            assert len(await queue.lease("t", max_messages=30)) == 30
        store.room_bytes = 3_000_000
        await clock.advance(60)
        await queue.publish("other", b"1")
        assert len(await queue.lease("other")) == 1
        dead = (await queue.group("t")).dead
        assert 0 < dead <= 15
        assert (await queue.topic("t.dlq")).messages == dead
        store.room_bytes = 0
        await clock.advance(60)
        assert (await queue.group("t")).dead == dead
        store.room_bytes = 1 << 40
        await clock.advance(60)
        assert (await queue.group("t")).dead == 30
        letters = await queue.lease("t.dlq", max_messages=100)
        assert {len(letter.value) for letter in letters} == {100_000}
        assert len(letters) == 30


async def test_a_reject_that_the_disk_has_no_room_for_is_refused_and_can_be_tried_again() -> None:
    store = TightStore()
    async with Queue(Broker(store, ManualClock())) as queue:
        await queue.publish_many("t", [bytes(100_000)] * 3)
        first, second, third = await queue.lease("t", max_messages=3)
        store.room_bytes = 150_000
        with pytest.raises(FullError, match="acks still work"):
            await queue.reject([first, second])
        with pytest.raises(FullError):
            await queue.dead_letter(first.id)
        await queue.ack(third)
        await queue.nack(second)  # needs no copy
        store.room_bytes = 1 << 40
        await queue.reject(first)
        assert (await queue.group("t")).dead == 1


async def test_one_commit_holds_a_bounded_part_of_the_dead_letters_however_large_they_are() -> None:
    store, clock = TightStore(), ManualClock()
    async with Queue(Broker(store, clock)) as queue:
        await queue.create_topic("t", max_attempts=1, lease=1000, ordering="none")
        for _ in range(12):
            await queue.publish_many("t", [bytes(1_000_000)] * 8)
        while await queue.lease("t", max_messages=32):
            pass
        store.largest_append = 0
        await clock.advance(1100)
        assert (await queue.group("t")).dead == 96
        assert store.largest_append < limits.COPIED_BYTES_MAX + 1_000_000


async def test_too_many_large_rejects_at_once_are_refused() -> None:
    async with Queue(Broker(TightStore(), ManualClock())) as queue:
        await queue.create_topic("t", ordering="none")
        held: list[ortoo.Received] = []
        for _ in range(9):
            await queue.publish_many("t", [bytes(1_000_000)] * 30)
            held += await queue.lease("t", max_messages=30)
        assert len(held) == 270
        with pytest.raises(TooManyError, match="settle fewer at a time"):
            await queue.reject(held)
        await queue.reject(held[:100])
        assert (await queue.group("t")).dead == 100


async def test_what_is_larger_than_all_that_may_be_under_way_becomes_a_dead_letter_all_the_same() -> None:
    store, clock = TightStore(), ManualClock()
    async with Queue(Broker(store, clock)) as queue:
        await queue.create_topic("t", max_attempts=1, max_message_bytes=limits.MESSAGE_BYTES_MAX, on_expire="dlq")
        await queue.create_group("t", "a")
        await queue.create_group("t", "b")
        await queue.publish("t", bytes(limits.COPIED_BYTES_MAX + 1), ttl=5)
        await queue.lease("t", group="a")
        await clock.advance(100)
        assert [(await queue.group("t", group)).dead for group in ("a", "b")] == [1, 1]


async def test_each_group_that_gives_the_same_messages_up_needs_room_for_its_own_copies() -> None:
    store, clock = TightStore(), ManualClock()
    async with Queue(Broker(store, clock)) as queue:
        await queue.create_topic("t", max_attempts=1, lease=10, ordering="none", partitions=1)
        await queue.publish_many("t", [bytes(100_000)] * 5)
        for group in ("a", "b", "c"):
            assert len(await queue.lease("t", group=group, max_messages=5)) == 5
        store.room_bytes = 2_500_000
        await clock.advance(11)
        assert store.room_bytes >= 0
        assert sum([(await queue.group("t", group)).dead for group in ("a", "b", "c")]) in range(5, 13)
