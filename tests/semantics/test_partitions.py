"""Partitions: how many, and how there come to be more."""

import pytest

from ortoo import InvalidError, Message, Queue
from ortoo.testing import ManualClock

from .actors import publish, take, values


async def test_partitions_can_be_increased(queue: Queue) -> None:
    """Partitions can be increased."""
    await queue.create_topic("orders", ordering="partition", partitions=2)
    await queue.publish("orders", b"old", partition=1)
    assert values(await take(queue, "orders")) == [b"old"]
    assert len((await queue.update_topic("orders", partitions=4)).partitions) == 4
    await queue.publish("orders", b"new", partition=3)
    assert values(await take(queue, "orders")) == [b"new"]


async def test_partitions_cannot_be_decreased(queue: Queue) -> None:
    """Partitions can be increased."""
    await queue.create_topic("orders", partitions=3)
    with pytest.raises(InvalidError, match="increased only"):
        await queue.update_topic("orders", partitions=2)
    assert len((await queue.topic("orders")).partitions) == 3


async def test_with_keys_more_partitions_need_allow_reorder(queue: Queue) -> None:
    """For topics with keys only with `allow_reorder`."""
    await queue.create_topic("orders", partitions=3)
    with pytest.raises(InvalidError, match="allow_reorder"):
        await queue.update_topic("orders", partitions=4)
    assert len((await queue.topic("orders")).partitions) == 3
    await queue.update_topic("orders", partitions=4, allow_reorder=True)
    await publish(queue, "orders", *[b"%d" % number for number in range(8)])
    assert len(await take(queue, "orders")) == 8


async def test_groups_see_the_new_partitions_from_their_start(queue: Queue) -> None:
    """Partitions can be increased; no group misses anything by it."""
    await queue.create_topic("orders", ordering="none", partitions=1)
    await queue.create_group("orders", "late", "new")
    await queue.update_topic("orders", partitions=2)
    await queue.publish("orders", b"1", partition=1)
    assert values(await take(queue, "orders", group="late")) == [b"1"]


async def test_one_partition_may_be_leased_alone(queue: Queue) -> None:
    """lease(..., partition=)."""
    await queue.create_topic("orders", partitions=3)
    for number in range(6):
        await queue.publish("orders", b"%d" % number, partition=number % 3)
    assert values(await take(queue, "orders", partition=1)) == [b"1", b"4"]
    with pytest.raises(InvalidError, match="partitions 0 to 2"):
        await take(queue, "orders", partition=3)


async def test_what_was_published_at_one_instant_has_one_order(queue: Queue, clock: ManualClock) -> None:
    """By partition; whether anybody has looked at it before makes no difference."""
    await queue.create_topic("orders", partitions=2)
    await queue.publish("orders", b"first", partition=1)
    await clock.advance(1)
    later = [
        Message(b"much later", partition=1, delay=600),
        Message(b"third", partition=1),
        Message(b"second", partition=0),
    ]
    await queue.publish_many("orders", later)
    for _ in range(2):
        messages = await take(queue, "orders", 2)
        assert values(messages) == [b"first", b"second"]
        await queue.release([*messages, *await take(queue, "orders", 2)])
