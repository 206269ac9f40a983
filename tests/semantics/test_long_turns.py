"""What one command, or one instant, asks of a turn of the event loop is bounded in every order. Counted, not timed."""

from typing import Any

import pytest

import ortoo
from ortoo import Queue
from ortoo.engine import Engine
from ortoo.engine.keys import KeyOrder
from ortoo.engine.partition import Partition
from ortoo.model import limits
from ortoo.testing import ManualClock, open_manual

from .actors import take


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    return open_manual(clock)


async def test_a_lease_in_strict_order_looks_up_few_priorities(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one partition there is nothing to choose between."""
    looked: list[int] = []
    lane_of = Partition.lane_of

    def counted(partition: Partition, offset: int) -> int:
        looked.append(offset)
        return lane_of(partition, offset)

    async with queue:
        await queue.create_topic("orders", partitions=1, ordering="strict")
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, priority=n % 7) for n in range(500)])
        monkeypatch.setattr(Partition, "lane_of", counted)
        messages = await queue.lease("orders", max_messages=500)
        assert [int(message.value) for message in messages] == list(range(500))
        assert len(looked) <= 2


async def test_partitions_in_order_take_turns_by_priority(queue: Queue) -> None:
    """The most urgent of what each of them has next goes first, the oldest first of those."""
    async with queue:
        await queue.create_topic("orders", partitions=2, ordering="partition")
        for partition, priorities in ((0, [5, 5, 1, 9, 9]), (1, [3, 3, 9, 2, 2, 2])):
            for number, priority in enumerate(priorities):
                await queue.publish("orders", b"%d" % number, partition=partition, priority=priority)
        messages = await queue.lease("orders", max_messages=20)
    assert [(message.partition, int(message.value)) for message in messages] == [
        *((1, number) for number in (0, 1)),
        *((0, number) for number in (0, 1, 2, 3, 4)),
        *((1, number) for number in (2, 3, 4, 5)),
    ]


async def test_a_lease_takes_a_bounded_number_of_stretches_and_the_next_goes_on(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where partitions alternate, each message is read by itself."""
    monkeypatch.setattr(limits, "LEASE_RUNS_MAX", 10)
    async with queue:
        await queue.create_topic("orders", partitions=3)
        for number in range(25):
            await queue.publish("orders", b"%d" % number, partition=number % 3)
            await clock.advance(0.001)
        leased = [await queue.lease("orders", max_messages=100) for _ in range(4)]
    assert [len(messages) for messages in leased] == [10, 10, 5, 0]
    assert [int(message.value) for messages in leased for message in messages] == list(range(25))


async def test_what_one_partition_gives_in_order_is_one_stretch(queue: Queue) -> None:
    async with queue:
        await queue.create_topic("orders", partitions=2, ordering="partition")
        for number in range(100):
            await queue.publish("orders", b"%d" % number, partition=0, priority=number % 7)
        await queue.publish("orders", b"last", partition=1, priority=9)
        broker: Any = queue._link
        reads: list[int] = []
        read = broker.store.read

        async def counted(topic: Any, partition: int, offsets: list[int]) -> Any:
            reads.append(len(offsets))
            return await read(topic, partition, offsets)

        broker.store.read = counted
        messages = await queue.lease("orders", max_messages=200)
    assert reads == [100, 1]
    assert [message.value for message in messages] == [*(b"%d" % n for n in range(100)), b"last"]


async def test_a_bounded_seek_changes_sets_and_sorts_when_messages_are_leased(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many were done or wait for a retry; they come in the order of their keys all the same."""
    monkeypatch.setattr(limits, "SORTED_AT_ONCE", 10)
    sorted_now: list[int] = []
    offer, give_back, decide = KeyOrder.offer, KeyOrder.give_back, Engine.decide

    def decided(engine: Engine, *args: Any) -> Any:
        sorted_now.append(0)
        return decide(engine, *args)

    def offered(order: KeyOrder, offsets: Any, keys: Any) -> Any:
        sorted_now[-1] += len(offsets)
        return offer(order, offsets, keys)

    def given_back(order: KeyOrder, offsets: Any, keys: Any) -> Any:
        sorted_now[-1] += len(offsets)
        return give_back(order, offsets, keys)

    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n % 200}") for n in range(400)])
        await queue.ack(await take(queue, "orders", 200))
        await queue.nack(await take(queue, "orders", 100), delay=3600)
        await take(queue, "orders", 20)
        monkeypatch.setattr(KeyOrder, "offer", offered)
        monkeypatch.setattr(KeyOrder, "give_back", given_back)
        monkeypatch.setattr(Engine, "decide", decided)
        await queue.seek("orders", "default", offset=0, to_offset=400)
        assert sum(sorted_now) <= 10
        group = await queue.group("orders")
        assert (group.ready, group.leased, group.delayed) == (400, 0, 0)
        monkeypatch.setattr(limits, "SCAN_MESSAGES_MAX", 50)
        again: list[ortoo.Received] = []
        while messages := await take(queue, "orders", 400):
            again += messages
            await queue.ack(messages)
        assert max(sorted_now) <= 50
        assert [int(message.value) for message in again] == list(range(400))
        assert {message.attempt for message in again} == {1}
