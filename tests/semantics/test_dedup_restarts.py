"""Dedup ids are remembered for their time, whatever becomes of the messages: over checkpoints, restarts, purges and trims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ortoo.testing
from ortoo import Queue
from ortoo.broker import Broker
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
