"""Who published a message is known wherever the message is: the server's word, not the client's.

The broker here is used in a name, as a server uses it for those it has let in.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ortoo import Message, Queue
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from tests.stamping import StampingBroker

from .actors import take
from .conftest import DOORS, entering


@pytest.fixture
def broker(clock: ManualClock) -> StampingBroker:
    return StampingBroker(MemoryStore(), clock)


@pytest_asyncio.fixture(params=DOORS)
async def queue(request: pytest.FixtureRequest, broker: StampingBroker) -> AsyncIterator[Queue]:
    async with Queue(broker, consumer="inside") as inside, entering(request.param, inside) as queue:
        yield queue


async def publish_as(broker: StampingBroker, queue: Queue, *publishers: str | None, topic: str = "orders") -> None:
    """One message each, whose value is the name."""
    for publisher in publishers:
        broker.publisher = publisher
        await queue.publish(topic, str(publisher))


async def test_whoever_leases_reads_or_looks_at_a_message_learns_who_published_it(
    queue: Queue, broker: StampingBroker
) -> None:
    broker.publisher = "billing"
    sent = await queue.publish_many("orders", [b"1", b"2", b"3"])
    assert [message.publisher for message in await take(queue, "orders")] == ["billing"] * 3
    assert [message.publisher async for message in queue.read("orders")] == ["billing"] * 3
    assert (await queue.message(sent[1].id)).message.publisher == "billing"


async def test_without_a_name_nobody_is_known(queue: Queue) -> None:
    await queue.publish_many("orders", [b"1", b"2"])
    assert [message.publisher for message in await take(queue, "orders")] == [None, None]


async def test_messages_of_several_publishers_each_keep_their_own(queue: Queue, broker: StampingBroker) -> None:
    names = ["billing", None, "shop", "shop", None, None, "billing"]
    await queue.create_topic("orders", partitions=1)
    await publish_as(broker, queue, *names)
    await queue.delete_message(f"{(await queue.topic('orders')).id}.0.2")
    del names[2]
    assert [message.publisher async for message in queue.read("orders")] == names
    assert [message.publisher for message in await take(queue, "orders")] == names


async def test_a_batch_over_several_partitions_has_one_publisher(queue: Queue, broker: StampingBroker) -> None:
    await queue.create_topic("orders", partitions=4)
    broker.publisher = "billing"
    await queue.publish_many("orders", [Message(b"x", key=str(number)) for number in range(12)])
    found = await take(queue, "orders")
    assert len({message.partition for message in found}) > 1
    assert [message.publisher for message in found] == ["billing"] * 12


async def test_a_dead_letter_has_the_publisher_of_its_original(queue: Queue, broker: StampingBroker) -> None:
    names = ["billing", None, "shop"]
    await queue.create_topic("orders", partitions=1)
    await publish_as(broker, queue, *names)
    broker.publisher = "the one who rejects"
    await queue.reject(await take(queue, "orders"), "bad")
    assert [letter.publisher for letter in await queue.dead_letters("orders")] == names


async def test_a_redriven_copy_has_the_publisher_of_the_original_that_is_gone(
    queue: Queue, broker: StampingBroker, clock: ManualClock
) -> None:
    await queue.create_topic("orders", partitions=1, retention_seconds=60.0)
    await queue.create_topic("orders.dlq", dlq=False, partitions=1)  # which has no retention
    await publish_as(broker, queue, "billing")
    await queue.reject(await take(queue, "orders"), "bad")
    await clock.advance(61)
    [partition] = (await queue.topic("orders")).partitions
    assert partition.start == 1
    broker.publisher = "the one who redrives"
    assert await queue.redrive("orders") == 1
    assert [message.publisher for message in await take(queue, "orders")] == ["billing"]


async def test_of_a_duplicate_the_publisher_of_the_first_counts(queue: Queue, broker: StampingBroker) -> None:
    for name in ("billing", "shop"):
        broker.publisher = name
        await queue.publish("orders", b"1", dedup_id="d")
    assert [message.publisher for message in await take(queue, "orders")] == ["billing"]


async def test_a_transaction_publishes_in_the_name_of_who_made_it(queue: Queue, broker: StampingBroker) -> None:
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    broker.publisher = "billing"
    async with queue.transaction() as transaction:
        transaction.ack(message)
        transaction.publish("done", b"2")
        transaction.publish("done", b"3")
    assert [message.publisher for message in await take(queue, "done")] == ["billing"] * 2


async def test_what_was_staged_has_the_publisher_who_staged_it(queue: Queue, broker: StampingBroker) -> None:
    await queue.create_topic("orders", partitions=3)
    for name in ("billing", "shop"):
        broker.publisher = name
        part = await queue.begin("job", part=name)
        await part.publish_many("orders", [Message(name, key=str(number)) for number in range(6)])
    broker.publisher = "the one who commits"
    await (await queue.begin("job")).commit()
    found = await take(queue, "orders")
    assert sorted((message.value, message.publisher) for message in found) == [
        *[(b"billing", "billing")] * 6,
        *[(b"shop", "shop")] * 6,
    ]
    assert len({message.partition for message in found}) > 1


async def test_a_trace_begins_with_who_published(queue: Queue, broker: StampingBroker) -> None:
    broker.publisher = "billing"
    sent = await queue.publish("orders", b"1")
    await take(queue, "orders")
    events = (await queue.trace(sent.id)).events
    assert [(event.what, event.publisher) for event in events] == [("published", "billing"), ("delivered", None)]


async def test_a_subscription_tells_it_too(queue: Queue, broker: StampingBroker) -> None:
    await publish_as(broker, queue, "billing")
    async for message in queue.consume("orders"):
        assert message.publisher == "billing"
        await message.ack()
        break
