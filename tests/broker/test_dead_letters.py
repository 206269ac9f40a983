"""Whoever listens is told of the dead letters of topics with a webhook, once they are durable; and what can be told of them."""

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.errors import CorruptionError
from ortoo.model.names import TopicId, parse_message_id
from ortoo.model.notices import DeadLetterNotice
from ortoo.model.records import Origin
from ortoo.model.replies import Columns
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

HOOK = "https://a.example/hook"


class RottingStore(MemoryStore):
    is_rotten = False

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        if self.is_rotten and offsets:
            raise CorruptionError("damaged")
        return await super().read(topic, partition, offsets)


class World:
    def __init__(self) -> None:
        self.store = RottingStore()
        self.broker = Broker(self.store, ManualClock())
        self.queue = Queue(self.broker)
        self.told: list[DeadLetterNotice] = []
        self.broker.on_dead_letters.append(self.told.extend)

    async def reject(self, topic: str) -> str:
        sent = await self.queue.publish(topic, b"x")
        [message] = await self.queue.lease(topic, group="billing")
        await message.reject("no")
        return sent.id


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with made.queue:
        yield made


async def test_a_dead_letter_is_told_as_plain_values(world: World) -> None:
    await world.queue.create_topic("payments", dlq_webhook=HOOK)
    failed = await world.reject("payments")
    [dead] = await world.queue.dead_letters("payments")
    origin = Origin(parse_message_id(failed), "billing", "rejected", 1, "no")
    now = world.broker.now()
    assert world.told == [
        DeadLetterNotice(HOOK, "payments", "default", "payments.dlq", parse_message_id(dead.id), origin, now)
    ]


async def test_without_a_webhook_and_for_redriven_copies_nothing_is_told(world: World) -> None:
    await world.reject("orders")
    assert world.told == []
    await world.queue.create_topic("payments", dlq_webhook=HOOK)
    await world.reject("payments")
    await world.queue.purge("payments")  # so that a redrive has to copy
    await world.queue.redrive("payments")
    [again] = await world.queue.lease("payments", group="billing")
    assert again.value == b"x"
    assert len(world.told) == 1


async def test_a_listener_that_fails_stops_neither_the_queue_nor_the_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(notices: list[DeadLetterNotice]) -> None:
        raise RuntimeError("a mistake")

    world.broker.on_dead_letters.insert(0, fail)
    await world.queue.create_topic("payments", dlq_webhook=HOOK)
    await world.reject("payments")
    assert len(world.told) == 1
    assert "an observer of commits failed" in caplog.text


async def test_a_message_that_cannot_be_read_still_has_a_trace(world: World) -> None:
    failed = await world.reject("orders")
    fresh = (await world.queue.publish("orders", b"y")).id
    world.store.is_rotten = True
    trace = await world.queue.trace(failed)
    assert [event.what for event in trace.events] == ["delivered", "dead-lettered"]
    with pytest.raises(CorruptionError):  # nothing has happened to it yet
        await world.queue.trace(fresh)
