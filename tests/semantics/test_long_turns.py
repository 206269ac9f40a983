"""What one command, or one instant, asks of a turn of the event loop is bounded in every order. Counted, not timed."""

from typing import Any

import pytest

import ortoo
from ortoo import Queue
from ortoo.engine.partition import Partition
from ortoo.model import limits
from ortoo.testing import ManualClock, open_manual


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
