"""A named transaction is published in slices, while others run; nobody sees any of it before all of it is there."""

import asyncio
from collections.abc import AsyncIterator
from itertools import chain
from typing import NamedTuple

import pytest
import pytest_asyncio

from ortoo import ExistsError, FullError, Message, NotFoundError, OutcomeUnknownError, Queue
from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.commands import END
from ortoo.model.errors import CorruptionError
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.records import CommitAdvanced, Record, Staged, TransactionEnded
from ortoo.testing import ManualClock

from .actors import publish, take, until, values
from .stores import LastingStore, queue_on

STAGED = [b"%d" % number for number in range(8)]


class GatedStore(LastingStore):
    """What was staged can be read, a batch at a time, while the gate is open; it is closed before a batch of that number."""

    def __init__(self, closed_at: int) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.closed_at = closed_at
        self.damage: str | None = None

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        if self.damage is not None:
            raise CorruptionError(self.damage)
        if start >= self.closed_at:
            await self.gate.wait()
        return (await super().staged(namespace, transaction, start, bytes_max))[:1]


class Halfway(NamedTuple):
    """A queue with a transaction of which half is published: four messages in each of two topics, of one key."""

    queue: Queue
    store: GatedStore
    committing: asyncio.Task[int]

    @property
    def broker(self) -> Broker:
        broker = self.queue._link
        assert isinstance(broker, Broker)
        return broker

    async def go_on(self) -> int:
        self.store.gate.set()
        return await self.committing


async def begin_commit(queue: Queue, store: GatedStore) -> Halfway:
    tx = await queue.begin("job")
    for topic in ("one", "two"):
        for at in range(0, 4, 2):
            await tx.publish_many(topic, [Message(value, key="k") for value in STAGED[at : at + 2]])
    committing = asyncio.create_task(tx.commit())
    halfway = Halfway(queue, store, committing)

    async def is_halfway() -> bool:
        transaction = halfway.broker.engine.state.transactions["default", "job"]
        return transaction.commit is not None and transaction.commit.number == store.closed_at

    await until(is_halfway)
    return halfway


@pytest_asyncio.fixture
async def halfway(clock: ManualClock) -> AsyncIterator[Halfway]:
    store = GatedStore(closed_at=3)
    async with queue_on(store, clock) as queue:
        await queue.create_topic("one", partitions=1)
        await queue.create_topic("two", partitions=1)
        halfway = await begin_commit(queue, store)
        yield halfway
        halfway.committing.cancel()


async def test_nothing_of_it_can_be_leased_before_all_of_it_is_published(halfway: Halfway) -> None:
    queue = halfway.queue
    assert await take(queue, "one") == await take(queue, "two") == []
    assert await halfway.go_on() == 8
    assert values(await take(queue, "one")) == values(await take(queue, "two")) == STAGED[:4]


async def test_nothing_of_it_can_be_read_listed_or_found(halfway: Halfway) -> None:
    queue, broker = halfway.queue, halfway.broker
    name = TopicName("default", "one")
    topic = await queue.topic("one")
    assert (topic.messages, topic.depth, topic.partitions[0].end) == (0, 0, 0)
    page = await broker.ask(q.Scan(name, 0, END))
    assert (len(page.columns), page.end) == (0, 0)
    assert await broker.ask(q.GetOffsets(name, END)) == [0]
    ref = MessageRef(topic.id, 0, 0)
    for looking in (broker.ask(q.GetMessage(ref)), broker.ask(q.GetTrace(ref))):
        with pytest.raises(NotFoundError):
            await looking
    await halfway.go_on()
    assert (await queue.topic("one")).messages == 4
    assert (await broker.ask(q.GetMessage(ref))).to_info().message.value == STAGED[0]


async def test_what_others_publish_behind_it_waits_for_it(halfway: Halfway) -> None:
    queue = halfway.queue
    await queue.publish("one", b"behind", key="k")
    assert await take(queue, "one") == []
    await halfway.go_on()
    assert values(await take(queue, "one")) == [*STAGED[:4], b"behind"]


async def test_other_partitions_and_topics_go_on(halfway: Halfway) -> None:
    queue = halfway.queue
    await queue.publish("other", b"free")
    assert values(await take(queue, "other")) == [b"free"]


async def test_a_long_poll_is_served_when_it_ends(halfway: Halfway) -> None:
    poll = asyncio.create_task(halfway.queue.lease("one", max_messages=100, wait=30))
    await halfway.go_on()
    assert values(await poll) == STAGED[:4]


async def test_a_group_that_begins_at_the_end_gets_all_of_it(halfway: Halfway) -> None:
    """In the middle, what is at the end is not there yet."""
    await halfway.queue.create_group("one", "late", at="end")
    await halfway.go_on()
    assert values(await take(halfway.queue, "one", group="late")) == STAGED[:4]


async def test_a_purge_in_the_middle_takes_all_of_it(halfway: Halfway) -> None:
    """As if it came just after the commit: not half of it stays."""
    await halfway.queue.purge("one")
    await halfway.queue.publish("one", b"later", key="k")
    assert await halfway.go_on() == 8
    assert values(await take(halfway.queue, "one")) == [b"later"]
    assert values(await take(halfway.queue, "two")) == STAGED[:4]


@pytest.mark.parametrize("topic", ["one", "two"])
async def test_a_topic_deleted_in_the_middle_loses_its_part(halfway: Halfway, topic: str) -> None:
    await halfway.queue.delete_topic(topic)
    await halfway.queue.publish(topic, b"of another topic with that name")
    assert await halfway.go_on() == 8
    assert values(await take(halfway.queue, topic)) == [b"of another topic with that name"]
    assert values(await take(halfway.queue, "one" if topic == "two" else "two")) == STAGED[:4]


async def test_it_is_as_good_as_committed(halfway: Halfway, clock: ManualClock) -> None:
    """It cannot be begun, added to, aborted, or time out any more; committing again waits, and changes nothing."""
    queue = halfway.queue
    tx = queue.named("job")
    with pytest.raises(ExistsError, match="committed"):
        await queue.begin("job")
    with pytest.raises(NotFoundError, match="committed"):
        await tx.publish("one", b"more")
    with pytest.raises(NotFoundError, match="committed"):
        await tx.abort()
    await clock.advance(2 * 3600)
    again = asyncio.create_task(tx.commit())
    await until(lambda: is_settled(halfway))
    assert not again.done()
    assert await halfway.go_on() == 8
    assert await again == 0
    assert values(await take(queue, "one")) == STAGED[:4]


async def is_settled(halfway: Halfway) -> bool:
    return len(halfway.broker._coordinator._waiting["default", "job"]) == 2


async def test_two_transactions_into_one_partition_are_seen_one_after_the_other(halfway: Halfway) -> None:
    other = await halfway.queue.begin("other")
    await other.publish("one", b"second", key="k")
    second = asyncio.create_task(other.commit())
    await halfway.go_on()
    assert await second == 1
    assert values(await take(halfway.queue, "one")) == [*STAGED[:4], b"second"]


async def test_room_is_kept_for_what_is_to_come(clock: ManualClock) -> None:
    """Nothing refuses after a commit has begun, so others are refused what it needs."""
    store = GatedStore(closed_at=0)
    async with queue_on(store, clock) as queue:
        await queue.create_topic("one", partitions=1, max_depth=5)
        await queue.create_topic("two", partitions=1)
        halfway = await begin_commit(queue, store)
        await queue.publish("one", b"fits")
        with pytest.raises(FullError):
            await queue.publish("one", b"does not")
        await halfway.go_on()
        assert (await queue.topic("one")).depth == 5
        with pytest.raises(FullError):
            await queue.publish("one", b"does not")


async def test_closing_in_the_middle_puts_it_off(clock: ManualClock) -> None:
    """Who waits is told that it goes on; the next opening finishes it, and nothing comes twice."""
    store = GatedStore(closed_at=3)
    async with queue_on(store, clock) as queue:
        await queue.create_topic("one", partitions=1)
        await queue.create_topic("two", partitions=1)
        halfway = await begin_commit(queue, store)
    with pytest.raises(OutcomeUnknownError, match="commit it again"):
        await halfway.committing
    store.gate.set()
    async with queue_on(store, clock) as queue:
        assert await queue.named("job").commit() == 0
        assert values(await take(queue, "one")) == values(await take(queue, "two")) == STAGED[:4]


async def test_one_that_cannot_be_read_is_told_and_lets_others_go_on(clock: ManualClock) -> None:
    store = GatedStore(closed_at=9)
    async with queue_on(store, clock) as queue:
        tx, other = await queue.begin("job"), await queue.begin("other")
        await publish(queue, "one", b"before")
        await tx.publish("one", b"lost")
        await other.publish("two", b"fine")
        store.damage = "bits have rotted"
        stuck = asyncio.create_task(tx.commit())

        async def is_told() -> bool:
            return any("bits have rotted" in problem for problem in (await queue.stats()).problems)

        await until(is_told)
        store.damage = None
        assert await other.commit() == 1
        stuck.cancel()
    async with queue_on(store, clock) as queue:
        assert await queue.named("job").commit() == 0
        assert sorted(values(await take(queue, "one"))) == [b"before", b"lost"]


async def test_slices_are_bounded_in_messages_and_in_bytes(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE_MESSAGES", 10)
    monkeypatch.setattr(limits, "SLICE_BYTES", 1_000)
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        tx = await queue.begin("job")
        await tx.publish_many("out", [Message(b"v", key="k")] * 35)
        await tx.publish_many("out", [Message(b"v" * 400, key="k")] * 5)
        assert await tx.commit() == 40
    slices: list[list[Record]] = []
    for record in chain.from_iterable(store.commits):
        if isinstance(record, CommitAdvanced):
            slices.append([])
        if slices:
            slices[-1].append(record)
    sizes = [sum(getattr(record, "count", 0) for record in records) for records in slices]
    assert sum(sizes) == 40
    assert max(sizes) == 10
    assert len(slices) == 4 + 3
    assert [isinstance(records[-1], TransactionEnded) for records in slices] == [False] * 6 + [True]


async def test_ids_are_told_apart_across_slices(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate within a transaction is one, whichever slice it is in."""
    monkeypatch.setattr(limits, "SLICE_MESSAGES", 2)
    async with queue_on(LastingStore(), clock) as queue:
        tx = await queue.begin("job")
        await tx.publish_many("out", [Message(b"%d" % at, key="k", dedup_id=str(at % 3)) for at in range(9)])
        assert await tx.commit() == 9
        assert values(await take(queue, "out")) == [b"0", b"1", b"2"]
