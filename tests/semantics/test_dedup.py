"""Dedup: a publish that is repeated happens once."""

import asyncio

import pytest
from xxhash import xxh3_64_hexdigest

from ortoo import ConfigError, Message, Queue
from ortoo.testing import ManualClock

from .actors import take, values
from .stores import LastingStore, queue_on


async def test_a_duplicate_answers_the_first_ones_id(queue: Queue) -> None:
    """A duplicate publish answers the first one's id."""
    first = await queue.publish("orders", b"1", dedup_id="a")
    second = await queue.publish("orders", b"2", dedup_id="a")
    assert (first.duplicate, second.duplicate) == (False, True)
    assert second.id == first.id
    assert values(await take(queue, "orders")) == [b"1"]
    assert (await queue.stats()).counters.published == 1


async def test_duplicates_in_one_batch(queue: Queue) -> None:
    """A duplicate publish answers the first one's id, also within one batch."""
    await queue.publish("orders", b"0", dedup_id="a")
    batch = [Message(b"%d" % number, dedup_id=name) for number, name in enumerate("abbcb", 1)]
    sent = await queue.publish_many("orders", [*batch, Message(b"free"), Message(b"free")])
    assert [one.duplicate for one in sent] == [True, False, True, False, True, False, False]
    assert sent[1].id == sent[2].id == sent[4].id
    for one, value in zip(sent, [b"0", b"2", b"2", b"4", b"2", b"free", b"free"], strict=True):
        assert (await queue.message(one.id)).message.value == value


async def test_concurrent_duplicates_are_one(queue: Queue) -> None:
    """A duplicate publish answers the first one's id."""
    sent = await asyncio.gather(*[queue.publish("orders", b"1", dedup_id="a") for _ in range(10)])
    assert len({one.id for one in sent}) == 1
    assert sum(not one.duplicate for one in sent) == 1


async def test_dedup_is_per_topic(queue: Queue) -> None:
    """Per topic (or per namespace by setting)."""
    for topic in ("a", "b"):
        assert not (await queue.publish(topic, b"1", dedup_id="x")).duplicate


async def test_dedup_may_be_per_key(queue: Queue) -> None:
    """An id counts once for each key; a key that is not there is one, too."""
    await queue.create_topic("orders", ordering="key", dedup_scope="key", partitions=1)
    keys = ["a", "b", None, "a", "b", None]
    sent = await queue.publish_many("orders", [Message(b"", key=key, dedup_id="x") for key in keys])
    assert [one.duplicate for one in sent] == [False, False, False, True, True, True]
    assert len({one.id for one in sent}) == 3
    for one, key in zip(sent, keys, strict=True):
        again = await queue.publish("orders", b"", key=key, dedup_id="x")
        assert (again.duplicate, again.id) == (True, one.id)
    assert await queue.find_messages("x", topic="orders") == [sent[2].id]
    names = [f"x\x1f{xxh3_64_hexdigest(key)}" for key in (b"a", b"b")]
    assert await queue.find_messages([*names, "x\x1f" + "0" * 15 + "1"], topic="orders") == [
        sent[0].id,
        sent[1].id,
        None,
    ]
    await take(queue, "orders")
    assert await queue.ack_by_id(dedup_ids=[names[1]]) == ["settled"]
    assert (await queue.message(sent[1].id)).states == {"default": "done"}
    assert await queue.ack_by_id(dedup_ids=["x", "x"]) == ["settled", "done"]
    await queue.publish("plain", b"", key="a", dedup_id="y")
    [found, same] = await queue.find_messages(["y\x1f" + names[0][-16:], "y"], topic="plain")
    assert found == same is not None, "an id is one message where keys have none of their own"
    with pytest.raises(ConfigError, match='needs ordering="key"'):
        await queue.create_topic("others", ordering="none", dedup_scope="key")


async def test_dedup_per_key_survives_a_restart(clock: ManualClock) -> None:
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", ordering="key", dedup_scope="key")
        sent = [await queue.publish("orders", b"", key=key, dedup_id="x") for key in ("a", "b")]
    async with queue_on(store, clock) as queue:
        for key, one in zip(("a", "b"), sent, strict=True):
            again = await queue.publish("orders", b"", key=key, dedup_id="x")
            assert (again.duplicate, again.id) == (True, one.id)
        assert not (await queue.publish("orders", b"", key="c", dedup_id="x")).duplicate


async def test_dedup_may_be_per_namespace(queue: Queue) -> None:
    """Per topic (or per namespace by setting); a duplicate publish answers the first one's id."""
    await queue.create_topic("a", dedup_scope="namespace")
    await queue.create_topic("b", dedup_scope="namespace")
    await queue.create_topic("a", dedup_scope="namespace", namespace="other")
    await queue.publish("b", b"before")
    first = await queue.publish("a", b"1", dedup_id="x")
    second = await queue.publish("b", b"1", dedup_id="x")
    assert second.duplicate
    assert second.id == first.id
    assert not (await queue.publish("a", b"1", dedup_id="x", namespace="other")).duplicate


async def test_a_transaction_across_topics_keeps_the_dedup_of_a_namespace(queue: Queue) -> None:
    """Per namespace by setting: also between the topics of one transaction."""
    for topic in ("a", "b"):
        await queue.create_topic(topic, dedup_scope="namespace")
    async with queue.transaction() as tx:
        tx.publish("a", b"1", dedup_id="x")
        tx.publish("b", b"1", dedup_id="x")
    assert [one.duplicate for one in tx.sent] == [False, True]
    assert tx.sent[0].id == tx.sent[1].id


async def test_an_id_is_remembered_for_an_hour(queue: Queue, clock: ManualClock) -> None:
    """Remembered for a time (default 1 h)."""
    await queue.publish("orders", b"1", dedup_id="a")
    await clock.advance(3599)
    assert (await queue.publish("orders", b"2", dedup_id="a")).duplicate
    await clock.advance(1)
    assert not (await queue.publish("orders", b"3", dedup_id="a")).duplicate


async def test_so_many_ids_are_remembered(queue: Queue) -> None:
    """Remembered … for a count (default 1,000,000)."""
    await queue.create_topic("orders", dedup_count=3)
    for name in "abcd":
        await queue.publish("orders", b"", dedup_id=name)
    assert not (await queue.publish("orders", b"", dedup_id="a")).duplicate
    assert (await queue.publish("orders", b"", dedup_id="d")).duplicate
    assert (await queue.topic("orders")).config.dedup_count == 3


async def test_ids_are_remembered_across_restarts(clock: ManualClock) -> None:
    """Remembered … across restarts."""
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        first = await queue.publish("orders", b"1", dedup_id="a")
    async with queue_on(store, clock) as queue:
        second = await queue.publish("orders", b"1", dedup_id="a")
        assert (second.duplicate, second.id) == (True, first.id)


async def test_a_duplicate_is_one_even_after_the_first_was_consumed(queue: Queue) -> None:
    """A duplicate publish answers the first one's id, whatever became of that."""
    await queue.publish("orders", b"1", dedup_id="a")
    await queue.ack(await take(queue, "orders"))
    await queue.purge("orders")
    assert (await queue.publish("orders", b"1", dedup_id="a")).duplicate


async def test_a_duplicate_needs_no_room(queue: Queue) -> None:
    """A duplicate publish answers the first one's id, also in a full topic."""
    await queue.create_topic("orders", max_depth=1)
    first = await queue.publish("orders", b"1", dedup_id="a")
    assert (await queue.publish("orders", b"1", dedup_id="a")).id == first.id
