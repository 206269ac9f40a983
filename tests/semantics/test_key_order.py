"""Order by key, by partition, strict, and none."""

from collections.abc import Awaitable, Callable

import pytest

from ortoo import Message, Queue, Received
from ortoo.testing import ManualClock

from .actors import is_stale, publish, take, values


async def test_key_order_is_the_default(queue: Queue) -> None:
    """Order by key (default)."""
    await queue.publish("orders", b"1")
    assert (await queue.topic("orders")).config.ordering == "key"


async def test_messages_of_one_key_are_delivered_in_order(queue: Queue) -> None:
    """For one group, messages of one key are delivered in order."""
    expected: dict[str, list[bytes]] = {}
    for number in range(60):
        key, value = f"user-{number % 7}", b"%d" % number
        expected.setdefault(key, []).append(value)
        await queue.publish("orders", value, key=key)
    got: dict[str, list[bytes]] = {}
    while messages := await take(queue, "orders", 5):
        for message in messages:
            got.setdefault(message.key or "", []).append(message.value)
        await queue.ack(messages)
    assert got == expected


async def test_a_key_is_blocked_until_its_message_is_acked(queue: Queue) -> None:
    """A key is blocked from the delivery of a message until that message is settled (acked, …)."""
    await publish(queue, "orders", b"1", b"2", key="k")
    await publish(queue, "orders", b"other", key="o")
    [first] = await queue.lease("orders", consumer="a")
    assert values(await take(queue, "orders", consumer="b")) == [b"other"]
    assert await take(queue, "orders", consumer="a") == []
    await first.ack()
    assert values(await take(queue, "orders", consumer="b")) == [b"2"]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda queue, message: message.reject(), id="rejected"),
        pytest.param(lambda queue, message: queue.dead_letter(message.id), id="moved to the dead letters"),
        pytest.param(lambda queue, message: queue.delete_message(message.id), id="deleted"),
    ],
)
async def test_a_key_is_free_after_its_message_has_ended(
    queue: Queue, end: Callable[[Queue, Received], Awaitable[None]]
) -> None:
    """… until that message is settled (… rejected, dead-lettered … dropped)."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [first] = await queue.lease("orders")
    await end(queue, first)
    assert values(await take(queue, "orders")) == [b"2"]


async def test_a_key_is_free_after_its_message_was_dropped(queue: Queue) -> None:
    """… until that message is settled (… dropped)."""
    await queue.create_topic("orders", dlq=False, max_attempts=1)
    await publish(queue, "orders", b"1", b"2", key="k")
    [first] = await queue.lease("orders")
    await first.nack()
    assert values(await take(queue, "orders")) == [b"2"]


async def test_a_key_stays_blocked_during_the_backoff(queue: Queue, clock: ManualClock) -> None:
    """A key is blocked from the delivery of a message until that message is settled, retry backoff included."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [first] = await queue.lease("orders")
    await first.nack(delay=10)
    await clock.advance(9)
    assert await take(queue, "orders") == []
    await clock.advance(1)
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_a_lease_may_carry_several_messages_of_a_key(queue: Queue) -> None:
    """A lease may carry several consecutive messages of a key."""
    await publish(queue, "orders", b"1", b"2", b"3", b"4", key="k")
    assert values(await take(queue, "orders", 3)) == [b"1", b"2", b"3"]
    assert await take(queue, "orders") == []


async def test_a_nack_revokes_the_later_messages_of_its_key(queue: Queue) -> None:
    """If one of them is nacked, the later ones of that key in the same lease are revoked, uncounted."""
    for value, key in [(b"1", "k"), (b"2", "k"), (b"o", "o"), (b"3", "k"), (b"free", None)]:
        await queue.publish("orders", value, key=key, partition=0)
    one, two, other, three, free = await take(queue, "orders")
    await two.nack(delay=0)
    assert await is_stale(queue, three)
    assert not await is_stale(queue, other)
    assert not await is_stale(queue, free)
    assert await take(queue, "orders") == []  # "1" still holds the key
    await one.ack()
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"2", 2), (b"3", 1)]


async def test_an_expiry_revokes_the_later_messages_of_its_key(queue: Queue, clock: ManualClock) -> None:
    """If one of them expires, the later ones of that key in the same lease are revoked, uncounted."""
    await publish(queue, "orders", b"1", b"2", key="k")
    await queue.lease("orders", max_messages=2, lease=1)
    await clock.advance(5)
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"1", 2), (b"2", 1)]


async def test_a_nack_of_a_whole_lease_keeps_the_order_of_its_keys(queue: Queue) -> None:
    """If one of them is nacked, the later ones of that key in the same lease are revoked, uncounted."""
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    await queue.nack(await take(queue, "orders"), delay=0)
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"1", 2), (b"2", 1), (b"3", 1)]


async def test_a_release_keeps_the_order_of_its_key(queue: Queue) -> None:
    """For one group, messages of one key are delivered in order."""
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    first, second, _ = await take(queue, "orders")
    await second.release()
    assert await take(queue, "orders") == []
    await first.ack()
    assert values(await take(queue, "orders")) == [b"2", b"3"]


async def test_priority_never_reorders_one_key(queue: Queue) -> None:
    """Priority never reorders one key: a message waits for earlier unsettled ones of its key."""
    await queue.publish("orders", b"low", key="k", priority="low")
    await queue.publish("orders", b"high", key="k", priority="high")
    await queue.publish("orders", b"normal", key="o")
    assert values(await take(queue, "orders", 1)) == [b"normal"]
    [low] = await take(queue, "orders", 1)
    assert low.value == b"low"
    assert await take(queue, "orders") == []
    await low.ack()
    assert values(await take(queue, "orders")) == [b"high"]


async def test_messages_without_a_key_are_free(queue: Queue) -> None:
    """Messages without a key are free."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    assert values(await take(queue, "orders", 1)) == [b"1"]
    assert values(await take(queue, "orders", 1)) == [b"2"]
    assert values(await take(queue, "orders", 1)) == [b"3"]


async def test_keys_are_ordered_in_each_group_by_itself(queue: Queue) -> None:
    """For one group, messages of one key are delivered in order; one group's fate never touches another's."""
    await publish(queue, "orders", b"1", b"2", key="k")
    await queue.lease("orders", group="a")
    assert values(await take(queue, "orders", group="b")) == [b"1", b"2"]


async def test_a_key_always_goes_to_the_same_partition(queue: Queue) -> None:
    """partition = hash(key) mod N; no key = spread; default 6 partitions; an explicit partition may be named."""
    same = {(await queue.publish("orders", b"", key="k")).partition for _ in range(20)}
    many = {(await queue.publish("orders", b"", key=f"k{number}")).partition for number in range(100)}
    none = {(await queue.publish("orders", b"")).partition for _ in range(20)}
    named = {(await queue.publish("orders", b"", key="k", partition=number)).partition for number in range(6)}
    assert len(same) == 1
    assert many == none == named == set(range(6))


async def test_one_key_may_be_leased_alone(queue: Queue) -> None:
    """lease(..., key=) takes only that key's messages."""
    for number in range(6):
        await queue.publish("orders", b"%d" % number, key=f"k{number % 2}")
    assert values(await take(queue, "orders", key="k1")) == [b"1", b"3", b"5"]


async def test_partition_order_blocks_the_partition(queue: Queue, clock: ManualClock) -> None:
    """`partition` and `strict` are the same with the partition (or the topic) in the place of the key."""
    await queue.create_topic("orders", ordering="partition", partitions=2)
    for number in range(6):
        await queue.publish("orders", b"%d" % number, partition=number % 2)
    held = await take(queue, "orders", 1)
    assert values(held) == [b"0"]
    assert values(await take(queue, "orders")) == [b"1", b"3", b"5"]
    assert await take(queue, "orders") == []
    await queue.nack(held, delay=5)
    await clock.advance(4)
    assert await take(queue, "orders") == []
    await clock.advance(1)
    assert values(await take(queue, "orders")) == [b"0", b"2", b"4"]


async def test_a_nack_revokes_the_rest_of_the_partition(queue: Queue) -> None:
    """`partition` and `strict` are the same with the partition (or the topic) in the place of the key."""
    await queue.create_topic("orders", ordering="partition", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    one, two, three = await take(queue, "orders")
    await two.nack(delay=0)
    assert await is_stale(queue, three)
    assert await take(queue, "orders") == []
    await one.ack()
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"2", 2), (b"3", 1)]


async def test_strict_order_is_one_line_for_the_whole_topic(queue: Queue) -> None:
    """`strict`: global FIFO, one partition."""
    await queue.create_topic("orders", ordering="strict", partitions=1)
    await queue.publish("orders", b"1", key="a", priority=9)
    await queue.publish("orders", b"2", key="b", priority=0)
    [first] = await take(queue, "orders", 1)
    assert first.value == b"1"
    assert await take(queue, "orders") == []
    await first.ack()
    assert values(await take(queue, "orders")) == [b"2"]


async def test_without_order_nothing_blocks(queue: Queue) -> None:
    """`none`: no promise."""
    await queue.create_topic("orders", ordering="none", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    one, two, three = [(await take(queue, "orders", 1))[0] for _ in range(3)]
    await one.nack(delay=60)
    await queue.ack([two, three])
    assert (await queue.group("orders")).backlog == 1


@pytest.mark.parametrize("ordering", ["none", "key", "partition", "strict"])
async def test_in_every_order_each_message_is_delivered_once(queue: Queue, ordering: str) -> None:
    """Whatever the order, every message reaches the group, and an acked one never comes again."""
    await queue.create_topic("orders", ordering=ordering, partitions=1 if ordering == "strict" else 3)
    batch = [Message(b"%d" % number, key=f"k{number % 5}", priority=number % 3) for number in range(200)]
    await queue.publish_many("orders", batch)
    got: list[bytes] = []
    while messages := await take(queue, "orders", 7):
        got += values(messages)
        await queue.ack(messages)
    assert sorted(got) == sorted(b"%d" % number for number in range(200))
