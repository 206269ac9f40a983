"""Are latencies told of the last minutes, by group and by topic, of what may be seen, and from next to no memory?"""

from __future__ import annotations

import sys

from ortoo.broker.rights import Rights
from ortoo.broker.view import View
from ortoo.model.access import Grant, Principal
from ortoo.model.latency import BOUNDS_MS, WINDOW_MS, Latency, Recent, Sum, slowest
from ortoo.model.queries import GetOverview
from tests.broker.test_sampler import World, sampling


def told(*observed: Recent, at: int = 0) -> Latency | None:
    found = Sum(at)
    for one in observed:
        found.add(one)
    return found.latency()


async def consume(here: World, topic: str, group: str, waited: float, worked: float) -> None:
    """One message, delivered so long after it was published and acked so long after that."""
    await here.queue.create_topic(topic)
    await here.queue.create_group(topic, group)
    await here.queue.publish(topic, b"x")
    await here.clock.advance(waited)
    [message] = await here.queue.lease(topic, group=group)
    await here.clock.advance(worked)
    await message.ack()


def test_percentiles_are_the_bounds_that_so_many_do_not_exceed() -> None:
    recent = Recent()
    for took in range(100):
        recent.observe(took, 0)
    assert told(recent) == Latency(100, 50, 100, 100)
    assert told(Recent()) is None


def test_what_is_older_than_two_minutes_is_forgotten() -> None:
    recent = Recent()
    recent.observe(1_000, 0)
    recent.observe(1, WINDOW_MS)
    assert told(recent, at=WINDOW_MS) == Latency(2, 1, 1_000, 1_000)
    assert told(recent, at=2 * WINDOW_MS) == Latency(1, 1, 1, 1)
    assert told(recent, at=3 * WINDOW_MS) is None
    recent.observe(5, 9 * WINDOW_MS)
    assert told(recent, at=9 * WINDOW_MS) == Latency(1, 5, 5, 5)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    recent = Recent()
    recent.observe(7, 5 * WINDOW_MS)
    recent.observe(3, WINDOW_MS)
    assert told(recent, at=WINDOW_MS) == Latency(1, 3, 3, 3)


def test_what_took_longer_than_a_day_counts_and_little_is_kept() -> None:
    recent = Recent()
    recent.observe(10**12, 0)
    assert told(recent) == Latency(1, BOUNDS_MS[-1], BOUNDS_MS[-1], BOUNDS_MS[-1])
    assert sys.getsizeof(recent._now) < 400


def test_of_several_of_which_no_more_is_known_the_slowest_counts() -> None:
    assert slowest([None, Latency(3, 1, 9, 9), Latency(2, 5, 5, 20)]) == Latency(5, 5, 9, 20)
    assert slowest([None, None]) is None


def test_several_are_summed_up() -> None:
    fast, slow = Recent(), Recent()
    for _ in range(9):
        fast.observe(1, 0)
    slow.observe(3_000, 0)
    assert told(fast, slow) == Latency(10, 1, 3_000, 3_000)


async def test_a_group_tells_how_long_deliveries_and_acks_took() -> None:
    async with sampling() as here:
        await consume(here, "jobs", "g", waited=2, worked=0.5)
        found = await here.queue.group("jobs", "g")
        await here.queue.create_group("jobs", "idle")
        idle = await here.queue.group("jobs", "idle")
        await here.clock.advance(2 * WINDOW_MS / 1_000)
        later = await here.queue.group("jobs", "g")
    assert found.delivery_latency == Latency(1, 2_000, 2_000, 2_000)
    assert found.ack_latency == Latency(1, 500, 500, 500)
    assert (idle.delivery_latency, idle.ack_latency) == (None, None)
    assert (later.delivery_latency, later.ack_latency) == (None, None)


async def test_a_retry_is_no_first_delivery() -> None:
    async with sampling() as here:
        await here.queue.publish("jobs", b"x")
        [message] = await here.queue.lease("jobs", group="g")
        await message.nack("no", delay=0)
        await here.clock.advance(10)
        [message] = await here.queue.lease("jobs", group="g")
        await message.ack()
        found = await here.queue.group("jobs", "g")
    assert found.delivery_latency == Latency(1, 0, 0, 0)
    assert found.ack_latency == Latency(1, 0, 0, 0)


async def test_an_overview_has_the_latencies_of_topics_and_of_all() -> None:
    async with sampling() as here:
        await consume(here, "fast", "g", waited=0, worked=0)
        await consume(here, "slow", "g", waited=1, worked=3)
        await here.queue.publish("still", b"x")
        await here.second()
        shown = await here.queue.overview(sort="name")
    fast, slow, still = shown.topics
    assert fast.delivery_latency == fast.ack_latency == Latency(1, 0, 0, 0)
    assert (slow.delivery_latency, slow.ack_latency) == (
        Latency(1, 1_000, 1_000, 1_000),
        Latency(1, 3_000, 3_000, 3_000),
    )
    assert (still.delivery_latency, still.ack_latency) == (None, None)
    assert shown.totals.delivery_latency == Latency(2, 0, 1_000, 1_000)
    assert shown.totals.ack_latency == Latency(2, 0, 3_000, 3_000)


async def test_latencies_of_others_and_the_memory_are_not_told() -> None:
    grants = (Grant(("read",), topics=("fast",)),)
    async with sampling() as here:
        await consume(here, "fast", "g", waited=0, worked=0)
        await consume(here, "slow", "g", waited=1, worked=3)
        await here.second()
        principal = Principal("ann", grants)
        rights = Rights(principal, lambda _: None, lambda _: None)
        view = View("ann", grants, rights.may_see, rights.may_enter, principal.realm)
        seen = await here.broker.ask(GetOverview(), view)
        everything = await here.queue.overview()
    assert [row.name for row in seen.topics] == ["fast"]
    assert seen.totals.delivery_latency == seen.totals.ack_latency == Latency(1, 0, 0, 0)
    assert seen.memory is None
    assert everything.memory is not None
    assert everything.memory.resident_bytes > 1_000_000
