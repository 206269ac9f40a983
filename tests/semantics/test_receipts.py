"""Receipts: what they name, when they go stale, and that a stale one changes nothing."""

import pytest

from ortoo import LeaseLostError, Queue
from ortoo.model.names import LEASES_PER_EPOCH
from ortoo.testing import ManualClock

from .actors import is_stale, lose_one_of_two, publish, take, values
from .stores import LastingStore, queue_on


async def test_a_receipt_names_incarnation_group_epoch_lease_and_offset(queue: Queue) -> None:
    """Receipts name incarnation, group, owner epoch, lease number and offset."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2")
    one, two = await take(queue, "orders", 1) + await take(queue, "orders", 1)
    [other] = await take(queue, "orders", 1, group="other")
    topic, group, lease, partition, offset = map(int, two.receipt.split("."))
    assert topic == (await queue.topic("orders")).id
    assert (partition, offset) == (0, 1)
    assert lease // LEASES_PER_EPOCH == (await queue.stats()).epoch
    assert int(one.receipt.split(".")[2]) != lease
    assert int(other.receipt.split(".")[1]) != group


async def test_every_opening_has_an_epoch_of_its_own(clock: ManualClock) -> None:
    """The owner epoch is made durable at every open."""
    store, leases = LastingStore(), set()
    for number in range(3):
        async with queue_on(store, clock) as queue:
            assert (await queue.stats()).epoch == number + 1
            await queue.publish("orders", b"%d" % number)
            [message] = await queue.lease("orders")
            leases.add(message.receipt.split(".")[2])
            await message.ack()
    assert len(leases) == 3


async def test_a_receipt_is_stale_after_its_lease_expired(queue: Queue, clock: ManualClock) -> None:
    """A receipt is stale after its lease expired."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", lease=10)
    await clock.advance(9.999)
    assert (await queue.group("orders")).leased == 1
    await clock.advance(0.001)
    assert await is_stale(queue, message)


async def test_a_receipt_is_stale_after_its_lease_was_released(queue: Queue) -> None:
    """A receipt is stale after its lease was released."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await message.release()
    assert await is_stale(queue, message)


async def test_a_receipt_is_stale_after_its_lease_was_revoked(queue: Queue) -> None:
    """A receipt is stale after its lease was revoked."""
    await publish(queue, "orders", b"1", b"2", key="k")
    first, second = await take(queue, "orders")
    await first.nack()
    assert await is_stale(queue, second)


@pytest.mark.parametrize("to_offset", [None, 0])
async def test_a_receipt_is_stale_after_the_group_was_sought(queue: Queue, to_offset: int | None) -> None:
    """A receipt is stale after the group was sought; all receipts of the group go stale."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", group="a")
    [other] = await queue.lease("orders", group="b")
    await queue.seek("orders", "a", "start", to_offset=to_offset)
    assert await is_stale(queue, message)
    assert not await is_stale(queue, other)


async def test_a_receipt_is_stale_after_a_purge(queue: Queue) -> None:
    """A receipt is stale after the group was purged."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await queue.purge("orders")
    assert await is_stale(queue, message)


async def test_a_receipt_is_stale_after_its_group_was_deleted(queue: Queue) -> None:
    """Receipts name the group; one made again under the same name is another."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await queue.delete_group("orders", "default")
    [again] = await queue.lease("orders")
    assert await is_stale(queue, message)
    assert not await is_stale(queue, again)


@pytest.mark.parametrize("how", ["ack", "nack", "reject", "release", "extend", "ack_through"])
async def test_a_stale_receipt_is_answered_lease_lost_and_changes_nothing(
    queue: Queue, clock: ManualClock, how: str
) -> None:
    """A stale ack is answered `lease lost` and changes nothing."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", lease=1)
    await clock.advance(10)
    [again] = await queue.lease("orders")
    before = await queue.group("orders")
    with pytest.raises(LeaseLostError, match="lost") as caught:
        await getattr(queue, how)(message)
    assert caught.value.lost == [message.receipt]
    assert caught.value.code == "lease_lost"
    assert await queue.group("orders") == before
    assert await queue.dead_letters("orders") == []
    await again.ack()


async def test_what_is_not_stale_is_settled_all_the_same(queue: Queue, clock: ManualClock) -> None:
    """Some receipts were stale: what could be settled was settled, `lost` names the others."""
    lost, held = await lose_one_of_two(queue, clock, "orders")
    await clock.advance(4)
    with pytest.raises(LeaseLostError) as caught:
        await queue.ack([lost, held])
    assert caught.value.lost == [lost.receipt]
    assert values(await take(queue, "orders")) == [lost.value]


@pytest.mark.parametrize("count", [1, 3])
async def test_acking_twice_with_the_same_receipt_is_fine(queue: Queue, count: int) -> None:
    """Acking twice with the same receipt is fine."""
    await publish(queue, "orders", b"1", b"2", b"3")
    messages = await take(queue, "orders", count)
    for _ in range(3):
        await queue.ack(messages[0])
    await queue.ack([messages[0], *messages, messages[0]])
    await queue.ack(messages)
    assert (await queue.group("orders")).backlog == 3 - count
    assert (await queue.stats()).counters.acked == count


@pytest.mark.parametrize("how", ["nack", "reject", "release"])
async def test_only_acks_may_be_repeated(queue: Queue, how: str) -> None:
    """A receipt is stale after its lease was released, or failed."""
    await publish(queue, "orders", b"1", b"2")
    [message, _] = await take(queue, "orders")
    await getattr(queue, how)(message)
    with pytest.raises(LeaseLostError):
        await getattr(queue, how)(message)
    assert await is_stale(queue, message)


async def test_a_message_that_was_acked_cannot_be_nacked_later(queue: Queue) -> None:
    """An ack is final: what comes later with the same receipt changes nothing."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await message.ack()
    for settling in (message.nack, message.reject):
        with pytest.raises(LeaseLostError):  # whoever says that it failed must not believe that it comes again
            await settling()
    await message.release()  # there is nothing to give back
    assert (await queue.group("orders")).backlog == 0
    assert await queue.dead_letters("orders") == []


async def test_the_text_of_a_receipt_works_in_the_place_of_the_message(queue: Queue) -> None:
    """Receipts name incarnation, group, owner epoch, lease number and offset: they are all an ack needs."""
    await publish(queue, "orders", b"1", b"2", b"3")
    receipts = [message.receipt for message in await take(queue, "orders")]
    await queue.ack(receipts[0])
    await queue.ack(receipts[1:])
    assert (await queue.group("orders")).backlog == 0
