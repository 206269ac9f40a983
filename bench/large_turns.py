"""Cases of turns.py in which one command asks for much, or many end together."""

from __future__ import annotations

import asyncio
from typing import Any

import ortoo

from .turning import BATCH, LATER, Case, Turns, hold, snapshot

_LABELS = {"task": "t"}


async def _fail(turns: Turns, count: int) -> None:
    held = await hold(turns, count)
    for start in range(0, count, 10_000):
        await turns.queue.nack(held[start : start + 10_000], delay=3600)


async def _seek_retrying(turns: Turns, count: int) -> None:
    await _fail(turns, count)
    await turns.watch()
    await turns.queue.seek("t", "default", offset=0, to_offset=count)
    for _ in range(3):
        assert len(await turns.queue.lease("t", max_messages=10_000)) == 10_000


async def _told(turns: Turns, count: int) -> None:
    await _fail(turns, count)
    await turns.watch()
    assert (await turns.queue.topic("t")).groups[0].delayed == count


async def _grouped(turns: Turns, count: int) -> None:
    await turns.queue.create_topic("p", partitions=1_000)
    for number in range(count):
        await turns.queue.create_group("p", f"g{number}")


async def _groups_told(turns: Turns, count: int) -> None:
    await _grouped(turns, count)
    await turns.watch()
    assert len((await turns.queue.topic("p")).groups) == count


async def _groups_snapshot(turns: Turns, count: int) -> None:
    await _grouped(turns, count)
    await snapshot(turns)


async def _leases_snapshot(turns: Turns, count: int) -> None:
    await hold(turns, count, together=1)
    await snapshot(turns)


async def _ids_snapshot(turns: Turns, count: int) -> None:
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", dedup_id=f"id{n}"))
    await turns.queue.purge("t")
    await snapshot(turns)


def _ending(how: str, topics: int) -> Case:
    async def case(turns: Turns, count: int) -> None:
        for number in range(topics):
            await turns.queue.create_topic(f"t{number}", labels=_LABELS)
        await turns.queue.lease(labels=_LABELS)
        options: dict[str, Any] = {"labels": _LABELS} if topics else {}
        polls = await turns.crowd(count, None if topics else "t", **options)
        await turns.watch()
        if how == "cancel":
            for poll in polls:
                poll.cancel()
        else:
            await turns.clock.advance(LATER)
        await asyncio.gather(*polls, return_exceptions=True)
        await turns.rest()

    return case


async def _idle(turns: Turns, count: int) -> None:
    for number in range(count):
        await turns.queue.create_topic(f"t{number}", labels=_LABELS)
    for _ in range(2):
        await turns.queue.lease(labels=_LABELS)
    await turns.watch()
    await turns.queue.lease(labels=_LABELS)


def _strict(priorities: int) -> Case:
    async def case(turns: Turns, count: int) -> None:
        await turns.fill("t", count, lambda n: ortoo.Message(b"v", priority=n % priorities))
        await turns.watch()
        assert len(await turns.queue.lease("t", max_messages=10_000)) == 10_000

    return case


async def _alternating(turns: Turns, count: int) -> None:
    await turns.queue.create_topic("p", partitions=200)
    for number in range(count):
        await turns.queue.publish("p", b"v", partition=number % 200)
        turns.clock.jump(0.001)
    await turns.watch()
    assert await turns.queue.lease("p", max_messages=10_000)


async def _one_of_each(turns: Turns, count: int) -> None:
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n // 2}"))
    firsts = []
    while messages := await turns.queue.lease("t", max_messages=10_000, lease=3600):
        firsts.append(messages[0])
    await turns.watch()
    await turns.queue.nack(firsts)


async def _owners(turns: Turns, count: int) -> None:
    await turns.queue.create_group("t", "default")
    for number in range(count):
        await turns.queue.heartbeat("t", "default", f"c{number}", session=3600)
    await turns.watch()
    await turns.queue.leave("c0")


def _letters(what: str) -> Case:
    async def case(turns: Turns, count: int) -> None:
        for _ in range(0, count, BATCH):
            await turns.queue.publish_many("t", [b"v"] * BATCH)
            await turns.queue.reject(await turns.queue.lease("t", max_messages=BATCH))
        await turns.watch()
        assert await getattr(turns.queue, what)("t") == count

    return case


LARGE: dict[str, tuple[Case, int, dict[str, Any]]] = {
    "200,000 retrying, some again": (_seek_retrying, 200_000, {}),
    "200,000 retrying, told": (_told, 200_000, {}),
    "1,000 partitions in 100 groups, told": (_groups_told, 100, {}),
    "1,000 partitions in 100 groups, snapshot": (_groups_snapshot, 100, {}),
    "50,000 leases, snapshot": (_leases_snapshot, 50_000, {}),
    "300,000 dedup ids, purged, snapshot": (_ids_snapshot, 300_000, {"dedup_window": 3600, "dedup_count": 1_000_000}),
    "300 polls by label, 1,000 topics, time out": (_ending("time out", 1_000), 300, {}),
    "300 polls by label, 1,000 topics, cancelled": (_ending("cancel", 1_000), 300, {}),
    "10,000 long polls time out": (_ending("time out", 0), 9_999, {}),
    "5,000 topics, lease by label": (_idle, 5_000, {}),
    "250 priorities, strict order": (_strict(250), 20_000, {"ordering": "strict"}),
    "2 priorities, strict order": (_strict(2), 20_000, {"ordering": "strict"}),
    "200 partitions that alternate": (_alternating, 10_000, {}),
    "50 leases of 10,000, nack one of each": (_one_of_each, 500_000, {}),
    "10,000 consumers, an owner leaves": (_owners, 10_000, {"ordering": "partition"}),
    "50,000 dead letters, redrive": (_letters("redrive"), 50_000, {"max_attempts": 1}),
    "50,000 dead letters, purge": (_letters("purge_dead_letters"), 50_000, {"max_attempts": 1}),
}
