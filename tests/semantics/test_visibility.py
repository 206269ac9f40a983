"""Visibility: nothing is delivered that a crash could take back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ortoo import NotFoundError, Queue
from ortoo.model.names import parse_message_id
from ortoo.testing import ManualClock

from .actors import settle, take, values
from .stores import SlowStore, queue_on


@pytest.fixture
async def store() -> SlowStore:
    return SlowStore()


@pytest_asyncio.fixture
async def slow(store: SlowStore, clock: ManualClock) -> AsyncIterator[Queue]:
    async with queue_on(store, clock) as queue:
        yield queue
        store.writing.set()


async def test_a_message_is_leased_only_once_it_is_durable(slow: Queue, store: SlowStore) -> None:
    """A message can be leased only once it is durable (high-water mark)."""
    await slow.create_topic("orders")
    store.writing.clear()
    publishing = asyncio.create_task(slow.publish("orders", b"1"))
    await settle()
    assert await take(slow, "orders") == []
    assert not publishing.done()
    store.writing.set()
    await publishing
    assert values(await take(slow, "orders")) == [b"1"]


async def test_a_message_is_read_only_once_it_is_durable(slow: Queue, store: SlowStore) -> None:
    """A message can be leased only once it is durable (high-water mark)."""
    await slow.create_topic("orders")
    store.writing.clear()
    publishing = asyncio.create_task(slow.publish("orders", b"1"))
    await settle()
    assert [message async for message in slow.read("orders")] == []
    store.writing.set()
    await publishing
    assert values([message async for message in slow.read("orders")]) == [b"1"]


async def test_a_waiting_consumer_is_served_when_the_message_is_durable(slow: Queue, store: SlowStore) -> None:
    """A message can be leased only once it is durable (high-water mark)."""
    await slow.create_topic("orders")
    leasing = asyncio.create_task(slow.lease("orders", wait=30))
    await settle()
    store.writing.clear()
    publishing = asyncio.create_task(slow.publish("orders", b"1"))
    await settle()
    assert not leasing.done()
    store.writing.set()
    assert values(await leasing) == [b"1"]
    await publishing


async def test_a_lease_does_not_wait_for_the_disk(slow: Queue, store: SlowStore) -> None:
    """A message can be leased only once it is durable, so a lease reply need not wait for the disk."""
    await slow.publish("orders", b"1")
    store.writing.clear()
    assert values(await asyncio.wait_for(take(slow, "orders"), 60)) == [b"1"]


async def test_with_auto_ack_the_ack_is_durable_before_the_message_leaves(slow: Queue, store: SlowStore) -> None:
    """With auto-ack (at most once) the ack is durable before the message leaves."""
    await slow.publish("orders", b"1")
    store.writing.clear()
    leasing = asyncio.create_task(take(slow, "orders", auto_ack=True))
    await settle()
    assert not leasing.done()
    store.writing.set()
    assert values(await leasing) == [b"1"]
    assert (await slow.group("orders")).backlog == 0


async def test_an_ack_returns_once_it_is_durable(slow: Queue, store: SlowStore) -> None:
    """Replies that promise something wait until it is durable."""
    await slow.publish("orders", b"1")
    [message] = await take(slow, "orders")
    store.writing.clear()
    acking = asyncio.create_task(slow.ack(message))
    await settle()
    assert not acking.done()
    store.writing.set()
    await acking


async def test_a_message_on_its_way_to_the_disk_cannot_be_asked_for_by_name(clock: ManualClock) -> None:
    """A message can be leased only once it is durable."""
    store = SlowStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", partitions=1)
        first = await queue.publish("orders", b"1")
        assert len(await take(queue, "orders")) == 1
        store.writing.clear()
        writing = asyncio.create_task(queue.publish("orders", b"2"))
        await settle()
        ahead = str(parse_message_id(first.id)._replace(offset=1))
        with pytest.raises(NotFoundError, match="not durable"):
            await queue.retry_now(ahead)
        assert await take(queue, "orders") == []
        store.writing.set()
        assert (await writing).id == ahead
        assert values(await take(queue, "orders")) == [b"2"]
