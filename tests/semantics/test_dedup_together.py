"""Dedup ids together with what else makes a publish happen once: named transactions, and numbered commands sent again."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.model import queries as q
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Commit, CreateTopic, Once, Publish, Stage
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.testing import ManualClock
from ortoo.testing.crash import kill

from .actors import take, until
from .stores import queue_on
from .test_sliced_commits import GatedStore

Pair = tuple[str | None, str]  # a key and an id
PAIRS: list[Pair] = [("a", "x"), ("b", "x"), (None, "x"), ("b", "y"), ("c", "x"), (None, "y"), ("d", "x"), ("a", "y")]
ORDERS = TopicName("default", "orders")


def of(pairs: list[Pair]) -> list[Message]:
    return [Message(dedup_id.encode(), key=key, dedup_id=dedup_id) for key, dedup_id in pairs]


async def each_once(queue: Queue, pairs: list[Pair] = PAIRS) -> None:
    """One message of each, and each is known; a key that has several is delivered in turn."""
    found: Counter[Pair] = Counter()
    while messages := await take(queue, "orders"):
        found.update((message.key, message.value.decode()) for message in messages)
        await queue.ack(messages)
    assert found == Counter(pairs)
    again = await queue.publish_many("orders", of(pairs))
    assert all(sent.duplicate for sent in again)
    assert len({sent.id for sent in again}) == len(pairs)
    assert not (await queue.publish("orders", b"", key="e", dedup_id="x")).duplicate


async def make(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=3, dedup_scope="key", ordering="key")


async def test_what_is_staged_counts_once_for_each_key(queue: Queue) -> None:
    await make(queue)
    await queue.publish_many("orders", of(PAIRS[:1]))
    one, two = await queue.begin("job"), await queue.begin("job")
    await one.publish_many("orders", of([*PAIRS[:4], *PAIRS[:4]]))
    await two.publish_many("orders", of(PAIRS[3:]))
    await queue.publish_many("orders", of(PAIRS[4:6]))  # between staging and the commit
    assert await one.commit() > 0
    assert await two.commit() == 0
    await each_once(queue)


@pytest.mark.parametrize("closed_at", range(1, 8))
@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_is_published_while_a_commit_is_half_done_counts_once(
    clock: ManualClock, closed_at: int, is_killed: bool
) -> None:
    store = GatedStore(closed_at)
    async with queue_on(store, clock) as queue:
        await make(queue)
        tx = await queue.begin("job")
        for pair in PAIRS:
            await tx.publish_many("orders", of([pair, pair]))
        committing = asyncio.create_task(tx.commit())
        broker = queue._link
        assert isinstance(broker, Broker)

        async def is_halfway() -> bool:
            commit = broker.engine.state.transactions["default", "job"].commit
            return commit is not None and commit.number == closed_at

        await until(is_halfway)
        sent = await queue.publish_many("orders", of(PAIRS))
        assert [one.duplicate for one in sent] == [True] * closed_at + [False] * (len(PAIRS) - closed_at)
        if is_killed:
            await kill(broker)
            committing.cancel()
        store.gate.set()
        await asyncio.gather(committing, return_exceptions=True)
        if not is_killed:
            await each_once(queue)
    if is_killed:
        async with queue_on(store, clock) as queue:

            async def is_done() -> bool:
                return (await queue.stats()).transactions == 0

            await until(is_done)  # what was begun is finished by itself
            await each_once(queue)


# -- numbered commands


def once(sequence: int, command: Any) -> Once:
    return Once("p", sequence, 0, command)


def publish(*pairs: Pair) -> Publish:
    keys, ids = [key for key, _ in pairs], [dedup_id for _, dedup_id in pairs]
    return Publish(ORDERS, Outgoing([dedup_id.encode() for dedup_id in ids], keys=[*keys], dedup_ids=[*ids]))


async def opened(path: Path, clock: ManualClock) -> Broker:
    broker = Broker(DiskStore(RealDisk(path), KeyRing({}), checkpoint_bytes=1, in_threads=False), clock)
    await broker.open()
    return broker


async def messages(broker: Broker) -> int:
    return (await broker.ask(q.GetTopic(ORDERS))).messages


@pytest.mark.parametrize("scope", ["topic", "key", "namespace"])
async def test_a_number_that_comes_again_is_answered_the_same_whatever_became_of_its_ids(
    tmp_path: Path, clock: ManualClock, scope: Any
) -> None:
    """Forgotten, used again, duplicates then and not now: the answer is that of the first time, and nothing is published."""
    config = TopicConfig(partitions=3, ordering="key", dedup_scope=scope, dedup_window=60, dedup_count=3)
    broker = await opened(tmp_path, clock)
    await broker.call(CreateTopic(ORDERS, config))
    asked: dict[int, Publish] = {
        1: publish(("a", "x"), ("a", "x"), ("b", "y")),
        2: publish(("a", "x"), ("b", "z")),  # one of them a duplicate
        3: publish(("a", "x")),  # nothing but that
    }
    answers: dict[int, Placed] = {}

    async def again() -> None:
        nonlocal broker
        for is_new in (False, True):
            if is_new:
                await broker.close()
                broker = await opened(tmp_path, clock)
            before = await messages(broker)
            for number, answer in answers.items():
                found = await broker.publish(once(number, asked[number]))
                assert (found.partitions, list(found.offsets)) == (answer.partitions, list(answer.offsets))
                assert found.duplicates == answer.duplicates
            assert await messages(broker) == before

    for number in (1, 2, 3):
        answers[number] = await broker.publish(once(number, asked[number]))
        await again()
    assert answers[3].duplicates == [True]
    del answers[3]  # it changed nothing, so that it is not remembered, but decided anew
    await broker.publish(once(4, publish(("c", "1"), ("c", "2"), ("c", "3"))))  # no more than three are remembered
    await again()
    asked[5] = publish(("a", "x"))
    answers[5] = await broker.publish(once(5, asked[5]))
    assert answers[5].duplicates is None
    await again()
    await clock.advance(61)
    asked[6] = publish(("a", "x"), ("b", "y"), ("b", "z"))
    answers[6] = await broker.publish(once(6, asked[6]))
    assert answers[6].duplicates is None
    await again()
    await broker.close()


async def test_a_numbered_stage_that_comes_again_is_staged_once(tmp_path: Path, clock: ManualClock) -> None:
    broker = await opened(tmp_path, clock)
    await broker.call(CreateTopic(ORDERS, TopicConfig(partitions=3, ordering="key", dedup_scope="key")))
    async with Queue(broker) as queue:
        await queue.begin("job")
        for number in (1, 2, 1, 2):
            await broker.call(once(number, Stage("job", "part", publish(*PAIRS))))
        for _ in range(2):
            await broker.call(once(3, Commit("job")))
        await each_once(queue)
