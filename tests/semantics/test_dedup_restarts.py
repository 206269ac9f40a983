"""Dedup ids are remembered for their time, whatever becomes of the messages: over checkpoints, restarts, purges and trims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ortoo.testing
from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk

from .actors import publish


async def test_ids_of_purged_messages_survive_any_number_of_restarts(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path) as queue:
        first = await queue.publish("orders", b"1", dedup_id="a")
        await queue.purge("orders")
    for _ in range(3):
        async with ortoo.open(tmp_path) as queue:
            again = await queue.publish("orders", b"1", dedup_id="a")
            assert (again.duplicate, again.id) == (True, first.id)
            broker = queue._link
            await broker.store.checkpoint(broker.engine.snapshot(), broker.engine.state.now)  # type: ignore[attr-defined]


async def test_a_namespace_remembers_each_id_as_long_as_the_topic_it_was_published_to(
    queue: Queue, clock: ortoo.testing.ManualClock
) -> None:
    await queue.create_topic("long", dedup_scope="namespace", dedup_window=100)
    await queue.create_topic("short", dedup_scope="namespace", dedup_window=1, dedup_count=1)
    first = await queue.publish("long", b"1", dedup_id="a")
    await clock.advance(10)
    await queue.publish("short", b"2", dedup_id="b")
    await queue.publish("short", b"3", dedup_id="c")
    again = await queue.publish("short", b"1", dedup_id="a")
    assert (again.duplicate, again.id) == (True, first.id)
    assert not (await queue.publish("long", b"2", dedup_id="b")).duplicate  # short keeps one only
    await clock.advance(1)
    assert not (await queue.publish("long", b"3", dedup_id="c")).duplicate
    await clock.advance(90)
    assert not (await queue.publish("short", b"1", dedup_id="a")).duplicate


async def test_ids_are_forgotten_after_their_time_also_where_none_comes_any_more(
    clock: ortoo.testing.ManualClock,
) -> None:
    async with ortoo.testing.open_manual(clock) as queue:
        for scope in ("topic", "namespace"):
            await queue.create_topic(scope, dedup_scope=scope, dedup_window=60)
            await publish(queue, scope, b"1", dedup_id=scope)
        await clock.advance(90)
        state = queue._link.engine.state  # type: ignore[attr-defined]
        assert [len(topic.dedup.seen) for topic in state.topics.values()] == [0, 0]
        assert state.dedups == {}


@pytest.mark.parametrize(
    "changes",
    [
        [{"dedup_window": 5.0}, {"dedup_window": 3600.0}],
        [{"dedup_count": 0}, {"dedup_count": 1000}],
        [{"dedup_scope": "namespace"}],
    ],
)
async def test_what_a_change_of_settings_made_forget_stays_forgotten(
    tmp_path: Path, changes: list[dict[str, Any]]
) -> None:
    clock = ortoo.testing.ManualClock()

    async def open_queue() -> Queue:
        store = DiskStore(RealDisk(tmp_path), KeyRing({}), checkpoint_bytes=1, in_threads=False)
        return await Queue(Broker(store, clock)).open()

    queue = await open_queue()
    await queue.publish("orders", b"1", dedup_id="a")
    await clock.advance(30)
    for change in changes:
        await queue.update_topic("orders", **change)
        await queue.publish("orders", b"2")
    await queue.publish("orders", b"3", dedup_id="b")
    await queue.close()
    queue = await open_queue()
    assert not (await queue.publish("orders", b"1", dedup_id="a")).duplicate
    assert (await queue.publish("orders", b"3", dedup_id="b")).duplicate
    await queue.close()


async def test_an_id_published_in_the_instant_its_topic_changed_is_remembered(tmp_path: Path) -> None:
    """What was forgotten has the same instant, and stays forgotten."""
    clock = ortoo.testing.ManualClock()
    for _ in range(2):
        store = DiskStore(RealDisk(tmp_path), KeyRing({}), checkpoint_bytes=1, in_threads=False)
        async with Queue(Broker(store, clock)) as queue:
            if not await queue.topics():
                await queue.create_topic("orders", partitions=1)
                await queue.publish("orders", b"1", dedup_id="before")
                await queue.update_topic("orders", dedup_scope="namespace")
                assert not (await queue.publish("orders", b"2", dedup_id="after")).duplicate
            assert (await queue.publish("orders", b"2", dedup_id="after")).duplicate
    async with Queue(
        Broker(DiskStore(RealDisk(tmp_path), KeyRing({}), checkpoint_bytes=1, in_threads=False), clock)
    ) as queue:
        assert not (await queue.publish("orders", b"1", dedup_id="before")).duplicate


def on_disk(path: Path, clock: ortoo.testing.ManualClock) -> Queue:
    store = DiskStore(RealDisk(path), KeyRing({}), checkpoint_bytes=1, in_threads=False)
    return Queue(Broker(store, clock))


@pytest.mark.parametrize("last", range(6))
async def test_an_id_that_several_keys_have_since_one_instant_means_the_same_message_after_a_restart(
    tmp_path: Path, last: int
) -> None:
    clock, keys = ortoo.testing.ManualClock(), [f"key-{number}" for number in range(6)]
    async with on_disk(tmp_path, clock) as queue:
        await queue.create_topic("orders", partitions=6, dedup_scope="key")
        for key in [*keys[last + 1 :], *keys[: last + 1]]:
            await queue.publish("orders", b"", key=key, dedup_id="x")
        before = await queue.find_messages("x", topic="orders")
    async with on_disk(tmp_path, clock) as queue:
        assert await queue.find_messages("x", topic="orders") == before
        assert (await queue.publish("orders", b"", key=keys[last], dedup_id="x")).duplicate


@pytest.mark.parametrize("scope", ["topic", "key", "namespace"])
@pytest.mark.parametrize("count", range(1, 6))
async def test_of_many_ids_of_one_instant_the_same_are_remembered_after_a_restart(
    tmp_path: Path, scope: str, count: int
) -> None:
    clock, ids = ortoo.testing.ManualClock(), [f"id-{number}" for number in range(12)]
    async with on_disk(tmp_path, clock) as queue:
        await queue.create_topic("orders", partitions=6, dedup_scope=scope, dedup_count=count)
    for some in (ids[:6], ids[6:7], ids[7:9], ids[9:]):
        async with on_disk(tmp_path, clock) as queue:
            for dedup_id in some:
                await queue.publish("orders", b"", key=dedup_id, dedup_id=dedup_id)
            before = await queue.find_messages(ids, topic="orders")
            assert sum(found is not None for found in before) == count
        async with on_disk(tmp_path, clock) as queue:
            assert await queue.find_messages(ids, topic="orders") == before
            await queue.update_topic("orders", dedup_count=100)  # what is forgotten does not come back
        async with on_disk(tmp_path, clock) as queue:
            assert await queue.find_messages(ids, topic="orders") == before
            await queue.update_topic("orders", dedup_count=count)
        await clock.advance(0.001)


async def test_many_ids_that_are_too_many_are_forgotten_in_turns(
    clock: ortoo.testing.ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DEDUP_IDS_AT_ONCE", 100)
    async with ortoo.testing.open_manual(clock) as queue:
        await queue.publish_many("orders", [Message(b"", dedup_id=f"{number}") for number in range(1_000)])
        [topic] = queue._link.engine.state.topics.values()  # type: ignore[attr-defined]
        for count in (0, 10):
            await queue.update_topic("orders", dedup_count=count)
        assert len(topic.dedup.seen) == 900
        await clock.advance(60)
        assert len(topic.dedup.seen) == 10
        await queue.update_topic("orders", dedup_count=1_000)
        assert not (await queue.publish("orders", b"", dedup_id="5")).duplicate
        assert (await queue.publish("orders", b"", dedup_id="999")).duplicate
