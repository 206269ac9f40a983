"""Mistakes and failures at awkward moments: everybody is answered, and the queue goes on or is closed."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import Any

import pytest

import ortoo
from ortoo import ClosedError, InvalidError, OutcomeUnknownError, Queue, UnavailableError
from ortoo.broker import Broker
from ortoo.engine import Engine
from ortoo.engine.timeline import Timeline
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import CorruptionError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.records import Leased, Record
from ortoo.model.replies import Columns
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from tests.semantics.actors import crowd, values
from tests.semantics.stores import LastingStore, SlowStore, queue_on


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")


class FailingStore(SlowStore):
    is_failing = False

    async def append(self, records: Sequence[Record]) -> None:
        await self.writing.wait()
        if self.is_failing:
            raise OSError("no more disk")
        await super().append(records)


async def test_a_mistake_while_many_are_served_stops_nobody_who_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with queue_on(LastingStore(), ManualClock()) as queue:
        await queue.create_topic("orders")
        polling = await crowd(queue, 150)
        apply, leases = Engine.apply, 0

        def broken(engine: Engine, record: Record) -> None:
            nonlocal leases
            leases += isinstance(record, Leased)
            if leases == 120:  # in a later turn than the first
                leases += 1
                raise KeyError("a mistake")
            apply(engine, record)

        monkeypatch.setattr(Engine, "apply", broken)
        await queue.publish_many("orders", [b"x"] * 140)
        await asyncio.gather(*polling, return_exceptions=True)
        await settle(100)
        late = asyncio.create_task(queue.lease("orders", group="late", wait=30))
        await settle()
        await queue.publish("orders", b"new")
        assert await late


async def test_a_mistake_while_a_commit_is_confirmed_leaves_nobody_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with queue_on(MemoryStore(), ManualClock()) as queue:
        await queue.create_topic("orders")

        def broken(*_: Any) -> None:
            raise KeyError("a mistake")

        monkeypatch.setattr(Engine, "confirm", broken)
        with pytest.raises((OutcomeUnknownError, UnavailableError)):
            await asyncio.wait_for(queue.publish("orders", b"1"), 60)
        monkeypatch.undo()


async def test_dead_letters_of_gigabytes_within_a_minute_are_counted() -> None:
    """How large a copy is, is known when it is stored: by then others may have come after it."""
    timeline = Timeline()
    timeline.append(0, 1, 0)
    timeline.append(1, 2, 1 << 31)
    timeline.add_bytes(0, 3 << 31)
    assert timeline.bytes_at(1) == 4 << 31


async def test_closing_while_an_append_fails_closes_all_the_same() -> None:
    store = FailingStore()
    broker = Broker(store, ManualClock())
    queue = await Queue(broker).open()
    await queue.create_topic("orders")
    store.writing.clear()
    store.is_failing = True
    publishing = asyncio.create_task(queue.publish("orders", b"1"))
    await settle()
    closing = asyncio.create_task(broker.close())
    await settle()
    store.writing.set()
    await asyncio.wait_for(closing, 60)
    with pytest.raises(OutcomeUnknownError):
        await publishing
    assert not broker.is_working
    with pytest.raises(UnavailableError):
        await broker.publish(Publish(TopicName("default", "orders"), Outgoing([b"2"])))


async def test_polls_by_label_do_not_mind_that_one_topic_goes() -> None:
    async with queue_on(MemoryStore(), ManualClock()) as queue:
        for topic in ("x", "y"):
            await queue.create_topic(topic, labels={"task": "t"})
        polling = [asyncio.create_task(queue.lease(labels={"task": "t"}, wait=30)) for _ in range(250)]
        await settle(300)
        await queue.publish_many("x", [b"x"] * 250)
        await queue.delete_topic("x")
        await settle(100)
        await queue.publish_many("y", [b"y"] * 250)
        got = await asyncio.gather(*polling)
        assert all(got)


class DamagedStore(MemoryStore):
    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        if 1 in offsets:
            raise CorruptionError("message 1 is damaged")
        return await super().read(topic, partition, offsets)


async def test_what_cannot_be_read_is_not_acked_by_itself() -> None:
    async with queue_on(DamagedStore(), ManualClock()) as queue:
        await queue.create_topic("orders", partitions=1, ordering="none")
        await queue.publish_many("orders", [b"0", b"1", b"2"])
        assert values(await queue.lease("orders", max_messages=10, auto_ack=True)) == [b"0", b"2"]
        group = await queue.group("orders")
        assert (group.backlog, group.leased) == (1, 1)


@pytest.mark.parametrize("odd", [1, None, "no", object()])
async def test_what_could_not_be_read_again_is_not_written(odd: Any) -> None:
    async with ortoo.open() as queue:
        await queue.publish("orders", b"1")
        with pytest.raises(InvalidError):
            await queue.create_group("orders", "g", ephemeral=odd)
        await queue.create_group("orders", "g", ephemeral=True)


async def test_what_ended_leaves_nothing_behind() -> None:
    clock = ManualClock()
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=1, dlq=False)
        for how in ("reject", "delete", "retry"):
            for _ in range(20):
                sent = await queue.publish("orders", b"x")
                [message] = await queue.lease("orders", lease=3600)
                if how == "reject":
                    await queue.reject(message)
                elif how == "delete":
                    await queue.delete_message(sent.id)
                else:
                    await queue.retry_now(sent.id)
                    await queue.ack(await queue.lease("orders"))
        assert broker.engine.state.lease_groups == {}


async def test_delays_that_were_purged_and_retries_that_were_hastened_are_forgotten() -> None:
    clock = ManualClock()
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=1, max_attempts=1_000_000)
        for _ in range(4):
            await queue.publish_many("orders", [ortoo.Message(b"x", delay=3600)] * 2_000)
            await queue.purge("orders")
        [topic] = broker.engine.state.topics.values()
        assert len(topic.partitions[0].delays) <= 2_000
        sent = await queue.publish("orders", b"x")
        for _ in range(3_000):
            [message] = await queue.lease("orders")
            await queue.nack(message, delay=3600)
            await queue.retry_now(sent.id)
            clock.jump(0.001)
        [feed] = topic.group_names["default"].feeds
        assert len(feed.retries) <= 2_000


async def test_those_who_are_refused_leave_nothing_behind() -> None:
    """One error tells them all why; what they wanted must not stay with it."""
    broker = Broker(MemoryStore(), ManualClock())
    queue = await Queue(broker).open()
    await broker.close()
    for _ in range(100):
        for refused in (broker.publish(Publish(TopicName("default", "t"), Outgoing([b"x"]))), queue.stats()):
            with pytest.raises(ClosedError):
                await refused
    assert broker.refusal is not None
    assert len(list(traceback.walk_tb(broker.refusal.__traceback__))) < 20
