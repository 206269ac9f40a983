"""A snapshot is of the instant it was begun, whatever happens while it is made; and it is made in turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import ortoo
from ortoo import Message, Queue, Received
from ortoo.engine import Engine
from ortoo.engine import snapshot as snapshot_module
from ortoo.testing import ManualClock, open_manual
from tests.format.meaning import meaning

Act = Callable[["Full"], Awaitable[Any]]


class Full:
    """A queue with something of everything."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue: Queue = open_manual(self.clock)
        self.held: list[Received] = []  # of partition 0, by two leases
        self.other: Sequence[Received] = []  # by another group
        self.letters: list[Received] = []

    @property
    def engine(self) -> Engine:
        engine: Engine = self.queue._link.engine  # type: ignore[attr-defined]
        return engine

    async def fill(self) -> None:
        queue = self.queue
        await queue.create_topic("t", partitions=3, max_attempts=2, retention_seconds=3600)
        await queue.create_topic("plain", partitions=2, dlq=False)
        await queue.create_topic("windowed", partitions=2, window_seconds=60, window_count=3)
        await queue.create_group("t", "other")
        for partition in range(3):
            await queue.publish_many(
                "t",
                [Message(b"v", key=f"k{n}", partition=partition, dedup_id=f"{partition}.{n}") for n in range(20)],
            )
        await queue.publish_many("t", [Message(b"v", partition=1, delay=50), Message(b"v", partition=1, ttl=70)])
        await queue.publish_many("windowed", [Message(b"v", partition=0), Message(b"v", partition=1)])
        await queue.publish_many("plain", [b"v"] * 4)
        await queue.ack(await queue.lease("t", partition=0, max_messages=4))
        await queue.reject(await queue.lease("t", partition=0, max_messages=2))
        self.letters = await queue.dead_letters("t")
        await queue.nack(await queue.lease("t", partition=0, max_messages=2), delay=100)
        self.held += await queue.lease("t", partition=0, max_messages=2, lease=7200)
        self.held += await queue.lease("t", partition=0, max_messages=2, lease=7200)
        self.other = await queue.lease("t", group="other", partition=0, max_messages=12, lease=7200)
        self.plain = await queue.lease("plain", max_messages=4)

    async def expire(self) -> None:
        await self.clock.advance(75)

    async def trim(self) -> None:
        await self.clock.advance(3700)


ACTS: dict[str, Act] = {
    "publish": lambda full: full.queue.publish("t", b"w", partition=0),
    "publish with an id": lambda full: full.queue.publish("t", b"w", dedup_id="another"),
    "publish into a window": lambda full: full.queue.publish("windowed", b"w"),
    "lease": lambda full: full.queue.lease("t", max_messages=50),
    "ack": lambda full: full.queue.ack(full.held[:1]),
    "ack all": lambda full: full.queue.ack(full.held),
    "nack": lambda full: full.queue.nack(full.held[1:3]),
    "reject": lambda full: full.queue.reject(full.held[1:3]),
    "reject without dead letters": lambda full: full.queue.reject(full.plain),
    "release": lambda full: full.queue.release(full.held[1:2]),
    "extend": lambda full: full.queue.extend(full.held[:1], 900),
    "delete a leased message": lambda full: full.queue.delete_message(full.held[0].id),
    "bury a leased message": lambda full: full.queue.dead_letter(full.held[0].id, group="default"),
    "hasten a leased message": lambda full: full.queue.retry_now(full.held[0].id, group="default"),
    "redrive": lambda full: full.queue.redrive("t"),
    "purge": lambda full: full.queue.purge("t"),
    "mark as archived": lambda full: full.queue.mark_archived("t", {0: 5, 2: 7}),
    "seek": lambda full: full.queue.seek("t", "default", offset=0),
    "seek a range": lambda full: full.queue.seek("t", "default", offset=0, to_offset=15),
    "create a group": lambda full: full.queue.create_group("t", "third"),
    "delete a group": lambda full: full.queue.delete_group("t", "other"),
    "create a topic": lambda full: full.queue.create_topic("u"),
    "delete a topic": lambda full: full.queue.delete_topic("t"),
    "add partitions": lambda full: full.queue.update_topic("t", partitions=5, allow_reorder=True),
    "end a window": lambda full: full.queue.update_topic("windowed", window_seconds=0, window_count=0),
    "leave": lambda full: full.queue.leave(full.queue.consumer),
    "expire and come due": Full.expire,
    "trim": Full.trim,
}


@pytest.mark.parametrize("begun", [0, 1, 3, 7, 30], ids=lambda begun: f"{begun} dumped")
@pytest.mark.parametrize("act", ACTS)
async def test_what_happens_meanwhile_is_no_part_of_it(act: str, begun: int) -> None:
    full = Full()
    async with full.queue:
        await full.fill()
        then = meaning(full.engine.snapshot())
        with full.engine.snapshotting() as snapshot:
            snapshot.go_on(begun)
            await ACTS[act](full)
            assert meaning(snapshot.finish()) == then
        assert meaning(full.engine.snapshot()) != then


async def test_a_group_that_went_before_partitions_came_is_no_obstacle() -> None:
    clock = ManualClock()
    async with open_manual(clock) as queue:
        await queue.create_topic("t", partitions=1, retention_seconds=60)
        await queue.create_group("t", "g")
        engine: Engine = queue._link.engine  # type: ignore[attr-defined]
        then = meaning(engine.snapshot())
        with engine.snapshotting() as snapshot:
            await queue.publish("t", b"x", partition=0)
            await queue.delete_group("t", "g")
            await queue.update_topic("t", partitions=2, allow_reorder=True)
            sent = await queue.publish("t", b"y", partition=1)
            await clock.advance(4000)
            with pytest.raises(ortoo.NotFoundError):
                await queue.message(sent.id)
            assert meaning(snapshot.finish()) == then
        assert (await queue.stats()).problems == []


@pytest.mark.parametrize("begun", range(12))
async def test_ids_that_come_meanwhile_are_no_part_of_it(begun: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_SLICE", 2)
    monkeypatch.setattr(snapshot_module, "_CHEAP", 1)
    async with open_manual(ManualClock()) as queue:
        await queue.create_topic("ids", partitions=1)
        await queue.publish_many("ids", [Message(b"v", dedup_id=str(n)) for n in range(10)])
        await queue.purge("ids")
        engine: Engine = queue._link.engine  # type: ignore[attr-defined]
        whole = engine.snapshot()
        with engine.snapshotting() as snapshot:
            snapshot.go_on(begun)
            await queue.publish("ids", b"v", dedup_id="another")
            assert snapshot.finish() == whole


async def test_it_is_made_in_pieces_however_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_SLICE", 100)
    monkeypatch.setattr(snapshot_module, "_CHEAP", 1)
    async with open_manual(ManualClock()) as queue:
        await queue.create_topic("leases", partitions=1)
        await queue.publish_many("leases", [b"v"] * 1_000)
        for _ in range(1_000):
            await queue.lease("leases")
        await queue.create_topic("failures", partitions=1)
        await queue.publish_many("failures", [b"v"] * 1_000)
        await queue.nack(await queue.lease("failures", max_messages=1_000), delay=60)
        await queue.create_topic("ids", partitions=1)
        await queue.publish_many("ids", [ortoo.Message(b"v", dedup_id=str(n)) for n in range(1_000)])
        await queue.purge("ids")
        engine: Engine = queue._link.engine  # type: ignore[attr-defined]
        whole = engine.snapshot()
        turns = 0
        with engine.snapshotting() as snapshot:
            while not snapshot.go_on(100):
                turns += 1
            assert snapshot.finish() == whole
    assert turns >= 3 * 9


async def test_a_lease_that_finds_nothing_changes_none_of_what_was_asked_for_by_name() -> None:
    """Deciding changes no hard state, whether a message was looked at in its turn or before it."""
    clock = ManualClock()
    async with open_manual(clock) as queue:
        await queue.create_topic("t", partitions=1, window_seconds=60)
        await queue.create_group("t", "default")
        sent = await queue.publish("t", b"x")
        await queue.retry_now(sent.id)
        await queue.ack(await queue.lease("t"))
        await clock.advance(61)
        engine: Engine = queue._link.engine  # type: ignore[attr-defined]
        then = meaning(engine.snapshot())
        assert list(await queue.lease("t")) == []
        assert meaning(engine.snapshot()) == then
