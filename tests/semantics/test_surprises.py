"""What users did not expect once, and what holds now, or is said where it is met."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from ortoo import ConfigError, FullError, InvalidError, LeaseLostError, Message, NotFoundError, Queue
from ortoo.testing import ManualClock, open_manual

from .actors import take, values


@pytest_asyncio.fixture
async def embedded(clock: ManualClock) -> AsyncIterator[Queue]:
    async with open_manual(clock) as queue:
        yield queue


async def test_a_group_that_is_deleted_under_a_poll_is_not_made_again(embedded: Queue) -> None:
    """Groups live until deleted; waiters get an error at once."""
    queue = embedded
    await queue.create_topic("orders", partitions=1)
    await queue.publish_many("orders", [b"1", b"2"])
    await queue.ack(await queue.lease("orders", group="billing", max_messages=2))
    waiting = asyncio.create_task(queue.lease("orders", group="billing", wait=60))
    await asyncio.sleep(0)
    await queue.delete_group("orders", "billing")
    await queue.publish("orders", b"3")
    with pytest.raises(NotFoundError, match="has no group 'billing' any more"):
        await waiting
    assert (await queue.topic("orders")).groups == []


async def test_what_is_acked_cannot_fail_any_more(queue: Queue) -> None:
    """A nack or reject after an ack is told; a second ack, a release and an extend change nothing."""
    await queue.publish("orders", b"1")
    [message] = await take(queue, "orders")
    await message.ack()
    await message.ack()
    await message.release()
    await message.extend(5)
    with pytest.raises(LeaseLostError):
        await message.nack()
    with pytest.raises(LeaseLostError):
        await message.reject()
    assert (await queue.group("orders")).backlog == 0


async def test_an_extension_counts_from_now_and_may_shorten(queue: Queue, clock: ManualClock) -> None:
    await queue.publish("orders", b"1")
    [message] = await take(queue, "orders")
    await message.extend(1)
    await clock.advance(2)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_the_longest_wait_ends_with_the_first_delivery(queue: Queue, clock: ManualClock) -> None:
    """`max_wait`: until the first delivery, so that a released one is delivered again. A seek brings nothing back."""
    await queue.create_topic("orders", partitions=1, max_wait=10)
    await queue.publish("orders", b"1")
    [message] = await take(queue, "orders")
    await clock.advance(12)
    await message.release()
    [again] = await take(queue, "orders")
    await again.ack()
    await queue.seek("orders", "default", "start")
    assert await take(queue, "orders") == []


async def test_a_transaction_makes_the_room_that_it_needs(queue: Queue) -> None:
    """Acks and publishes are one step: what is acked has left the depth when what is published counts."""
    await queue.create_topic("steps", partitions=1, max_depth=2)
    await queue.publish_many("steps", [b"1", b"2"])
    first, second = await take(queue, "steps", max_messages=2)
    async with queue.transaction() as tx:
        tx.ack(first)
        tx.publish("steps", b"3")
    with pytest.raises(FullError):
        async with queue.transaction() as tx:
            tx.ack(second)
            tx.publish_many("steps", [b"4", b"5"])
    with pytest.raises(FullError):
        await queue.publish("steps", b"6")
    assert (await queue.group("steps")).backlog == 2


async def test_room_is_made_for_the_slowest_group_only_by_itself(queue: Queue) -> None:
    await queue.create_topic("steps", partitions=1, max_depth=1)
    await queue.create_group("steps", "slow")
    await queue.publish("steps", b"1")
    [message] = await take(queue, "steps")
    with pytest.raises(FullError):
        async with queue.transaction() as tx:
            tx.ack(message)
            tx.publish("steps", b"2")
    assert (await queue.group("steps")).leased == 1


async def test_a_redriven_message_that_expired_is_delivered_once(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, ttl=5, on_expire="dlq")
    await queue.create_group("orders", "default")
    await queue.publish("orders", b"1")
    await clock.advance(10)
    await queue.redrive("orders")
    [message] = await take(queue, "orders")
    await message.nack(delay=0)
    assert await take(queue, "orders") == []
    assert values(await queue.dead_letters("orders")) == [b"1"]


async def test_who_consumes_dead_letters_settles_them_for_himself(queue: Queue) -> None:
    """A DLQ never dead-letters further: after its attempts the group has it no more, and it stays listed."""
    await queue.create_topic("orders", partitions=1, max_attempts=1)
    await queue.publish("orders", b"1")
    [message] = await take(queue, "orders")
    await message.nack()
    for _ in range(3):
        [letter] = await take(queue, "orders.dlq", group="operators")
        await letter.nack(delay=0)
    assert await take(queue, "orders.dlq", group="operators") == []
    assert values(await queue.dead_letters("orders")) == [b"1"]


async def test_priorities_in_use_are_bounded_and_the_error_helps(embedded: Queue) -> None:
    await embedded.create_topic("orders", partitions=1)
    await embedded.publish_many("orders", [Message(b"", priority=level) for level in range(250)])
    with pytest.raises(InvalidError, match="use fewer, or wait until retention has removed"):
        await embedded.publish_many("orders", [Message(b"", priority=level) for level in range(250, 260)])


async def test_what_a_key_blocks_is_not_called_ready(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    await queue.publish_many("orders", [Message(b"", key="k")] * 10)
    await take(queue, "orders", max_messages=1)
    info = await queue.group("orders")
    assert (info.leased, info.ready, info.blocked) == (1, 0, 9)


async def test_spans_and_instants_are_taken_as_they_come(python_queue: Queue, clock: ManualClock) -> None:
    """delay, ttl, deliver_at, lease and settings: seconds, or what Python has for them."""
    queue = python_queue
    await queue.create_topic("orders", partitions=1, lease=timedelta(minutes=1), retention_seconds=timedelta(days=7))
    config = (await queue.topic("orders")).config
    assert (config.lease, config.retention_seconds) == (60, 604_800)
    at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC) + timedelta(hours=2)
    await queue.publish("orders", b"delayed", delay=timedelta(hours=1))
    await queue.publish_many("orders", [Message(b"at", deliver_at=at), Message(b"brief", ttl=timedelta(seconds=5))])
    await clock.advance(6)
    assert await take(queue, "orders") == []
    await clock.advance(3600)
    [message] = await take(queue, "orders")
    await message.nack(delay=timedelta(hours=5))
    await clock.advance(3600)
    [message] = await queue.lease("orders", lease=timedelta(seconds=2))
    assert message.value == b"at"
    await message.extend(timedelta(seconds=1))
    with pytest.raises(InvalidError, match="has no time zone"):
        await queue.publish("orders", b"", deliver_at=datetime(2030, 1, 1))
    with pytest.raises(InvalidError, match="delay must be a number of seconds"):
        await queue.publish("orders", b"", delay=at)  # type: ignore[arg-type]
    assert (await queue.update_topic("orders", retention_seconds="7d")).config.retention_seconds == 7 * 86_400
    with pytest.raises(
        ConfigError, match="retention_seconds must be a number of seconds, a timedelta, or a text like 7d or None"
    ):
        await queue.update_topic("orders", retention_seconds=[7])
