"""Settling by id, where it is much, or something is wrong: long turns, unreadable topics, the bounds of the index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.model.commands import ExtendById, MessageId, Settle, SettleById
from ortoo.model.errors import CorruptionError
from ortoo.model.names import TopicId, parse_message_id
from ortoo.model.replies import Columns
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock


class WatchedStore(MemoryStore):
    """Knows what was read, and fails to read some topics."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []
        self.unreadable: set[TopicId] = set()

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        if topic in self.unreadable:
            raise CorruptionError("damaged")
        self.reads.append(len(offsets))
        return await super().read(topic, partition, offsets)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Queue, Broker, WatchedStore, ManualClock]]:
    """A queue in which dedup ids are forgotten soon."""
    clock, store = ManualClock(), WatchedStore()
    broker = Broker(store, clock)
    async with Queue(broker) as queue:
        yield queue, broker, store, clock


async def fill(queue: Queue, topic: str, count: int, leases: int = 1) -> list[str]:
    """So many messages, leased; their dedup ids."""
    await queue.create_topic(topic, partitions=2, dedup_window=60, lease=36_000.0)
    ids = [f"{topic}-{number}" for number in range(count)]
    await queue.publish_many(topic, [Message(b"x", dedup_id=each) for each in ids])
    for _ in range(leases):
        await queue.lease(topic, max_messages=count // leases)
    return ids


async def test_what_is_leased_is_read_once_and_in_turns() -> None:
    async with opened() as (queue, _, store, clock):
        ids = await fill(queue, "orders", 4_000)
        await clock.advance(600)
        store.reads.clear()
        assert await queue.ack_by_id(dedup_ids=ids[0]) == ["settled"]
        assert sum(store.reads) == 4_000
        assert max(store.reads) <= 500
        assert await queue.ack_by_id(dedup_ids=ids[1:]) == ["settled"] * 3_999
        assert await queue.ack_by_id(dedup_ids=["nobody's"]) == ["unknown"]
        assert sum(store.reads) == 4_000


async def test_nothing_is_read_while_the_topic_remembers() -> None:
    async with opened() as (queue, _, store, _clock):
        ids = await fill(queue, "orders", 100)
        store.reads.clear()
        assert await queue.ack_by_id(dedup_ids=ids) == ["settled"] * 100
        assert store.reads == []


async def test_the_index_forgets_what_is_not_leased_any_more() -> None:
    async with opened() as (queue, broker, _, clock):
        ids = await fill(queue, "orders", 3_000)
        await clock.advance(600)
        assert await queue.ack_by_id(dedup_ids=ids[:2_999]) == ["settled"] * 2_999
        assert await queue.find_messages(ids[2_999], group="default") != [None]
        [index] = broker.by_id._leased_ids._indexes.values()
        assert list(index.ids) == [ids[2_999]]
        assert len(index) == broker.by_id._leased_ids._kept == 1


async def test_more_than_may_be_kept_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASED_IDS_MAX", 1_000)
    async with opened() as (queue, broker, _, clock):
        names = ("a", "b", "c")
        ids = {name: await fill(queue, name, 1_500) for name in names}
        await clock.advance(600)
        for name in (*names, *names):
            assert None not in await queue.find_messages(ids[name], topic=name, group="default")
            kept = sum(map(len, broker.by_id._leased_ids._indexes.values()))
            assert kept == broker.by_id._leased_ids._kept <= 1_000


async def test_a_topic_that_cannot_be_read_does_not_spoil_the_others() -> None:
    async with opened() as (queue, _, store, clock):
        bad, good = await fill(queue, "bad", 10), await fill(queue, "good", 10)
        await clock.advance(600)
        store.unreadable.add((await queue.topic("bad")).id)
        assert await queue.ack_by_id(dedup_ids=[bad[0], good[0]]) == ["unknown", "settled"]
        store.unreadable.clear()
        assert await queue.ack_by_id(dedup_ids=[bad[0], good[0]]) == ["settled", "unknown"]


@pytest.mark.parametrize("is_past", [False, True], ids=["remembered", "past its window"])
async def test_a_topic_in_quarantine_does_not_spoil_the_others(is_past: bool) -> None:
    async with opened() as (queue, broker, _, clock):
        await fill(queue, "bad", 10)
        await fill(queue, "good", 10)
        broker.engine.suspend((await queue.topic("bad")).id, "damaged")
        if is_past:
            await clock.advance(600)
        assert await queue.ack_by_id(dedup_ids=["bad-0", "good-0"]) == ["unknown", "settled"]


@pytest.mark.parametrize("outcome", ["ack", "release", "extend"])
async def test_messages_of_many_leases_are_settled_in_several_turns(outcome: Any) -> None:
    async with opened() as (queue, broker, _, _clock):
        await queue.create_topic("orders", partitions=2, lease=60.0)
        sent = await queue.publish_many("orders", [b"x"] * 1_500)
        for _ in range(1_500):
            await queue.lease("orders")
        submitted: list[Any] = []
        submit = broker.submit
        broker.submit = lambda command: (submitted.append(command), submit(command))[1]  # type: ignore[method-assign, func-returns-value]
        refs: list[MessageId] = [parse_message_id(each.id) for each in sent]
        again = [*refs, refs[0]]
        command = ExtendById(again) if outcome == "extend" else SettleById(outcome, again)
        states = await broker.call(command)
        assert states == ["settled"] * 1_500 + ["done"]
        assert len(submitted) > 3
        assert max(len(each.runs) for each in submitted) < 400
        assert (await queue.group("orders")).leased == (1_500 if outcome == "extend" else 0)


async def test_what_is_lost_between_two_turns_is_told_and_nobody_elses_lease_is_touched() -> None:
    async with opened() as (queue, broker, _, _clock):
        await queue.create_topic("orders", partitions=1, lease=60.0)
        sent = await queue.publish_many("orders", [b"x"] * 1_000)
        leased = [(await queue.lease("orders"))[0] for _ in range(1_000)]
        refs: list[MessageId] = [parse_message_id(each.id) for each in sent]
        settling = asyncio.create_task(broker.call(SettleById("ack", refs)))
        while not (await queue.group("orders")).backlog < 1_000:  # noqa: ASYNC110  # until the first turn is over
            await asyncio.sleep(0)
        await queue.release(leased[-1])
        [mine] = await queue.lease("orders")
        assert await settling == ["settled"] * 999 + ["lost"]
        assert broker.submit(Settle("ack", [])).lost is None
        await mine.ack()
