"""What runs by itself cannot raise: one topic's trouble stays its own, and a mistake of ours is told and survived."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Never

import pytest

import ortoo
from ortoo import LeaseLostError, Queue, UnavailableError
from ortoo.broker import Broker
from ortoo.engine import alarms, due, replay, settle
from ortoo.model import limits
from ortoo.model.names import TopicName
from ortoo.model.records import CameDue, Record
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from tests.semantics.actors import poll
from tests.semantics.stores import LastingStore, queue_on

KEY = {"k1": bytes(32)}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def make_a_mistake(*_: Any) -> Never:
    raise KeyError("a mistake")


def fail_for(monkeypatch: pytest.MonkeyPatch, kind: type, topic: str) -> None:
    """What is due of that kind goes wrong, for one topic."""
    whole = due._OF_TOPIC[kind]

    def broken(draft: Any, found: Any, alarm: Any, budget: Any) -> None:
        if found.name.name == topic:
            raise KeyError("a mistake")
        whole(draft, found, alarm, budget)

    monkeypatch.setitem(due._OF_TOPIC, kind, broken)


async def test_one_topic_whose_due_work_fails_is_suspended_and_the_others_go_on(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for(monkeypatch, alarms.DelaysDue, "bad")
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("bad", b"1", delay=5)
        await queue.publish("good", b"1", delay=5)
        await clock.advance(6)
        assert len(await queue.lease("good")) == 1
        with pytest.raises(UnavailableError, match="a mistake"):
            await queue.lease("bad")
        [problem] = (await queue.stats()).problems
        assert "'bad' is suspended" in problem
    monkeypatch.undo()
    async with queue_on(store, clock) as queue:  # nothing was lost
        assert len(await queue.lease("bad")) == 1
        assert (await queue.stats()).problems == []


async def test_leases_of_other_topics_still_run_out(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = settle.expire_lease

    def broken(draft: Any, topic: Any, *rest: Any) -> Any:
        if topic.name.name == "bad":
            raise KeyError("a mistake")
        return whole(draft, topic, *rest)

    monkeypatch.setattr(due, "expire_lease", broken)
    async with queue_on(MemoryStore(), clock) as queue:
        for topic in ("a", "bad", "c"):
            await queue.create_topic(topic, backoff_initial=0)
            await queue.publish(topic, b"1")
            await queue.lease(topic, lease=5)
        await clock.advance(6)
        for topic in ("a", "c"):
            [again] = await queue.lease(topic)
            assert again.attempt == 2


async def test_what_cannot_be_applied_is_not_written_and_the_queue_recovers(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")
    monkeypatch.setitem(replay._APPLY, CameDue, make_a_mistake)
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("bad", b"1", delay=5)
        await queue.publish("good", b"1")
        await clock.advance(6)
        assert len(await queue.lease("good")) == 1
        await queue.publish("good", b"2")
        assert "'bad' is suspended" in (await queue.stats()).problems[0]
    monkeypatch.undo()
    async with queue_on(store, clock) as queue:
        assert len(await queue.lease("bad")) == 1


async def test_a_queue_opens_although_what_is_due_cannot_be_done(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("bad", b"1", delay=5)
        await queue.publish("good", b"1")
    await clock.advance(6)
    monkeypatch.setitem(replay._APPLY, CameDue, make_a_mistake)
    async with queue_on(store, clock) as queue:
        assert len(await queue.lease("good")) == 1
        with pytest.raises(UnavailableError):
            await queue.lease("bad")


async def test_a_queue_in_memory_begins_empty_after_a_mistake_and_says_so(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")
    async with Queue(Broker(MemoryStore(), clock)) as queue:
        lost = await queue.publish("orders", b"old")
        [old] = await queue.lease("orders")
        await queue.publish("orders", b"late", delay=5)
        monkeypatch.setitem(replay._APPLY, CameDue, make_a_mistake)
        await clock.advance(6)
        monkeypatch.undo()
        assert "everything that it held in memory is lost" in (await queue.stats()).problems[0]
        assert await queue.topics() == []
        await queue.publish("orders", b"new", partition=lost.partition)
        [new] = await queue.lease("orders")
        assert new.value == b"new"
        assert new.id != lost.id
        with pytest.raises(LeaseLostError):
            await queue.ack(old)
        await queue.ack(new)


async def test_a_cancelled_lease_is_cancelled_even_if_what_it_got_cannot_go_back(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.publish("orders", b"1")
        reading, never = asyncio.Event(), asyncio.Event()

        async def read(*_: Any) -> Never:
            reading.set()
            await never.wait()
            raise AssertionError

        def refuse(*_: Any) -> Never:
            raise UnavailableError("a mistake")

        monkeypatch.setattr(broker._leasing, "_read", read)
        leasing = asyncio.create_task(queue.lease("orders"))
        await reading.wait()
        monkeypatch.setattr(broker._leasing, "_settle", refuse)
        leasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leasing


async def test_a_mistake_while_a_waiter_is_served_is_told_to_it_alone(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders")
        polling = await poll(queue, wait=30)
        monkeypatch.setattr(broker._leasing, "_try", make_a_mistake)
        await queue.publish("orders", b"1")
        with pytest.raises(UnavailableError, match="a mistake"):
            await polling
        monkeypatch.undo()
        assert len(await queue.lease("orders")) == 1


async def test_a_plain_and_an_encrypted_topic_share_a_dead_letter_topic_that_is_not_there_yet(tmp_path: Path) -> None:
    """Whoever comes first, it is made encrypted; and a lease that runs out harms nobody."""
    async with ortoo.open(tmp_path, keys=KEY) as queue:
        await queue.create_topic("secret", encrypted=True, dlq_topic="graves")
        await queue.create_topic("plain", dlq_topic="graves", max_attempts=1)
        await queue.publish("plain", b"1")
        await queue.lease("plain", lease=0.001)
        while (await queue.topics(namespace="default"))[0].name != "graves":
            await queue.lease("plain", wait=0.01)
        assert (await queue.topic("graves")).config.encrypted
        await queue.publish("other", b"1")
    async with ortoo.open(tmp_path, keys=KEY) as queue:
        [letter] = await queue.lease("graves")
        assert letter.value == b"1"


async def test_dead_letters_are_kept_although_there_are_as_many_topics_as_may_be(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TOPICS_MAX", 1)
    async with queue_on(MemoryStore(), clock) as queue:
        await queue.create_topic("orders", max_attempts=1)
        await queue.publish("orders", b"1")
        await queue.lease("orders", lease=5)
        await clock.advance(6)
        assert len(await queue.lease("orders.dlq")) == 1
        assert (await queue.stats()).problems == []


async def test_a_name_of_a_suspended_topic_is_told_in_full(clock: ManualClock) -> None:
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", namespace="shop")
        topic = broker.engine.state.names[TopicName("shop", "orders")]
        broker.engine.suspend(topic.id, "for a test")
        assert (await queue.stats()).problems == [
            "topic 'shop/orders' is suspended until the queue is opened again: for a test"
        ]


async def test_a_shared_dead_letter_topic_that_nobody_can_encrypt_keeps_its_messages_where_they_are(
    tmp_path: Path,
) -> None:
    """Without the key of an encrypted topic the others go on, also those that share its dead-letter topic."""
    async with ortoo.open(tmp_path, keys=KEY) as queue:
        await queue.create_topic("secret", encrypted=True, dlq_topic="graves")
        await queue.create_topic("plain", dlq_topic="graves", max_attempts=1)
        await queue.publish("secret", b"s")
        await queue.publish_many("plain", [b"1", b"2"])
        await queue.lease("plain", lease=0.01)
    async with ortoo.open(tmp_path) as queue:
        await asyncio.sleep(0.05)
        await queue.publish("other", b"x")
        assert len(await queue.lease("other")) == 1
        [second] = await queue.lease("plain")
        with pytest.raises(UnavailableError, match="encrypted, and there is no key"):
            await queue.reject(second)
        await queue.ack(second)
        assert (await queue.group("plain")).leased == 1
    async with ortoo.open(tmp_path, keys=KEY) as queue:
        [letter] = await queue.lease("graves", wait=60)
        assert letter.value == b"1"


async def test_due_work_that_the_store_refuses_again_and_again_suspends_its_topic(clock: ManualClock) -> None:
    class Refusing(LastingStore):
        async def append(self, records: Sequence[Record]) -> None:
            if any(isinstance(record, CameDue) for record in records):
                raise ortoo.ConfigError("this cannot be written")
            await super().append(records)

    async with queue_on(Refusing(), clock) as queue:
        await queue.publish("bad", b"1", delay=5)
        await queue.publish("good", b"1")
        await clock.advance(60)
        assert len(await queue.lease("good")) == 1
        [problem] = (await queue.stats()).problems
        assert "'bad' is suspended" in problem
        assert "this cannot be written" in problem


async def test_due_work_of_no_topic_that_fails_is_told(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with queue_on(MemoryStore(), clock) as queue:
        await queue.begin("job", timeout=5)
        with monkeypatch.context() as broken:
            broken.setitem(due._GLOBAL, alarms.TransactionsTimeOut, make_a_mistake)
            await clock.advance(10)
            [problem] = (await queue.stats()).problems
            assert "a mistake" in problem
        await clock.advance(10)
        assert (await queue.stats()).problems == []
        assert (await queue.stats()).transactions == 0
