"""Latest per key, where much is due at once: what happens is what would have happened, had nobody slept.

A queue that was closed for a while finds publications to look at, delays, expiries and retention due together when it is opened.
"""

from __future__ import annotations

import random

import pytest

from ortoo import Queue
from ortoo.testing import ManualClock

from .actors import values
from .stores import LastingStore, queue_on

Step = tuple[float, bytes, dict[str, float | int]]  # how many seconds later, the value, how it is published


async def after_a_pause(clock: ManualClock, steps: list[Step]) -> Queue:
    """A queue that is opened again long after these were published, and was opened anew for each."""
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("state", partitions=2, keep="latest", retention_seconds=None)
        await queue.create_group("state", "g")
    for seconds, value, how in steps:
        clock.jump(seconds)
        async with queue_on(store, clock) as queue:
            await queue.publish("state", value, key="k", **({"partition": 0} | how))  # type: ignore[arg-type]
    clock.jump(100_000)
    return queue_on(store, clock)


async def kept(queue: Queue) -> list[bytes]:
    return values([message async for message in queue.read("state")])


async def test_what_came_due_meanwhile_supersedes_what_was_published_before_that(clock: ManualClock) -> None:
    """A delayed message supersedes when it becomes due, in order."""
    async with await after_a_pause(clock, [(1, b"delayed", {"delay": 100}), (1, b"published", {})]) as queue:
        assert await kept(queue) == [b"delayed"]
        assert values(list(await queue.lease("state", group="g", max_messages=10))) == [b"delayed"]


async def test_of_several_that_came_due_the_last_counts(clock: ManualClock) -> None:
    steps: list[Step] = [(1, b"100", {"delay": 100}), (1, b"60", {"delay": 60}), (1, b"80", {"delay": 80})]
    async with await after_a_pause(clock, steps) as queue:
        assert await kept(queue) == [b"100"]


async def test_that_holds_across_partitions(clock: ManualClock) -> None:
    steps: list[Step] = [(1, b"100", {"delay": 100}), (1, b"60", {"delay": 60, "partition": 1})]
    async with await after_a_pause(clock, steps) as queue:
        assert await kept(queue) == [b"100"]


async def test_one_that_expired_meanwhile_leaves_nothing_behind_it(clock: ManualClock) -> None:
    """It came due, superseded what was there, and expired; what came due before it does not come back."""
    steps: list[Step] = [(1, b"1", {}), (1, b"expires", {"delay": 100, "ttl": 5}), (1, b"60", {"delay": 60})]
    async with await after_a_pause(clock, steps) as queue:
        assert list(await queue.lease("state", group="g", max_messages=10)) == []
        assert (await queue.stats()).counters.superseded == 2


@pytest.mark.parametrize("seed", range(40))
async def test_the_last_instant_counts_whatever_was_due_together(clock: ManualClock, seed: int) -> None:
    """Published, delayed, with a time to live, in two partitions, with pauses of any length."""
    chance = random.Random(seed)
    steps: list[Step] = []
    now, last = 0.0, (-1.0, b"")
    for number in range(7):
        how: dict[str, float | int] = {"partition": chance.choice([0, 0, 1])}
        if delay := chance.choice([0, 0, 2, 60, 100]):
            how["delay"] = delay
        if chance.random() < 0.2:
            how["ttl"] = 1_000_000
        seconds = chance.choice([0.001, 0.05, 3, 70])
        now += seconds
        last = max(last, (round(now + delay, 3), b"%d" % number))
        steps.append((seconds, b"%d" % number, how))
    async with await after_a_pause(clock, steps) as queue:
        assert await kept(queue) == [last[1]]
