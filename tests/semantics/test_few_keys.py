"""Leasing of a few keys only: one key after the other."""

from typing import Any

import pytest

from ortoo import InvalidError, Message, Queue
from ortoo.testing import ManualClock

from .actors import publish, take, values


async def publish_keys(queue: Queue, *keyed: str, topic: str = "orders", **config: Any) -> None:
    """Each like "a1": a key and a number; "-1" has no key."""
    await queue.create_topic(topic, partitions=1, **config)
    await queue.publish_many(topic, [Message(text, key=None if text[0] == "-" else text[0]) for text in keyed])


async def lease(queue: Queue, max_messages: int = 100, topic: str | None = "orders", **options: Any) -> list[str]:
    return [m.value.decode() for m in await queue.lease(topic, max_messages=max_messages, **options)]


async def test_a_lease_of_one_key_has_all_of_it_and_nothing_else(queue: Queue) -> None:
    await publish_keys(queue, "a1", "b1", "a2", "b2", "a3")
    assert await lease(queue, max_keys=1) == ["a1", "a2", "a3"]
    assert await lease(queue, max_keys=1) == ["b1", "b2"]
    assert await lease(queue, max_keys=1) == []


async def test_several_keys_are_delivered_one_after_the_other(queue: Queue) -> None:
    await publish_keys(queue, "a1", "b1", "c1", "a2", "b2")
    assert await lease(queue, max_keys=2) == ["a1", "a2", "b1", "b2"]


async def test_a_key_is_taken_no_further_than_messages_are_wanted(queue: Queue) -> None:
    await publish_keys(queue, "a1", "b1", "a2", "a3")
    assert await lease(queue, 2, max_keys=2) == ["a1", "a2"]


async def test_more_of_the_key_is_found_behind_what_others_would_have_taken(queue: Queue) -> None:
    await publish_keys(queue, "a1", *[f"b{number}" for number in range(50)], "a2")
    assert await lease(queue, 2, max_keys=1) == ["a1", "a2"]


async def test_a_message_without_a_key_counts_as_one(queue: Queue) -> None:
    await publish_keys(queue, "-1", "-2", "a1", "-3", "a2")
    assert await lease(queue, max_keys=1) == ["-1"]
    assert await lease(queue, max_keys=2) == ["-2", "a1", "a2"]


async def test_one_key_of_many_partitions(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=8)
    for number in range(40):
        await queue.publish("orders", f"{number % 10}", key=f"k{number % 10}")
    for _ in range(10):
        messages = await queue.lease("orders", max_messages=100, max_keys=1)
        assert len(messages) == 4
        assert len({message.key for message in messages}) == 1


async def test_the_most_urgent_message_says_which_key_comes_first(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", key="calm")
    await publish(queue, "orders", b"2", key="hasty", priority="high")
    assert values(await queue.lease("orders", max_messages=9, max_keys=1)) == [b"2"]


async def test_the_count_goes_on_over_several_topics(queue: Queue) -> None:
    for topic in ("one", "two"):
        await publish_keys(queue, "a1", "b1", "a2", topic=topic, labels={"task": "t"})
    assert await lease(queue, topic=None, labels={"task": "t"}, max_keys=3) == ["a1", "a2", "b1", "a1", "a2"]


async def test_a_key_that_is_held_is_passed_over(queue: Queue, clock: ManualClock) -> None:
    await publish_keys(queue, "a1", "b1", "a2")
    assert await lease(queue, 1) == ["a1"]
    assert await lease(queue, max_keys=2) == ["b1"]
    await clock.advance(40)
    assert await lease(queue, max_keys=1) == ["a1", "a2"]


@pytest.mark.parametrize("ordering", ["none", "partition", "strict"])
async def test_keys_are_counted_only_where_they_order(queue: Queue, ordering: str) -> None:
    await queue.create_topic("orders", ordering=ordering, partitions=1)
    with pytest.raises(InvalidError, match="needs ordering='key'"):
        await queue.lease("orders", max_keys=1)


@pytest.mark.parametrize("max_keys", [0, 10_001])
async def test_as_many_keys_as_messages(queue: Queue, max_keys: int) -> None:
    await queue.publish("orders", b"1")
    with pytest.raises(InvalidError):
        await queue.lease("orders", max_keys=max_keys)
    assert len(await take(queue, "orders", max_keys=10_000)) == 1
