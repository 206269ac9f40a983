"""Dedup ids are remembered for their time, whatever becomes of the messages: over checkpoints, restarts, purges and trims."""

from __future__ import annotations

from pathlib import Path

import ortoo.testing
from ortoo import Queue

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
