"""Does the sampler tell exactly what happened, whatever is deleted, recovered or set back, and hold nobody up?"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo.broker import Broker, Sampler, SeriesReader
from ortoo.broker import sampler as module
from ortoo.broker.rights import Rights
from ortoo.broker.sampler import Sample, TopicSample, TopicSeries
from ortoo.broker.turns import TimedTurns
from ortoo.broker.view import View
from ortoo.client import Queue
from ortoo.model import limits
from ortoo.model.access import Grant, Principal
from ortoo.model.commands import CreateGroup, CreateTopic
from ortoo.model.errors import (
    ConfigError,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    TooManyError,
    UnavailableError,
)
from ortoo.model.names import TopicName
from ortoo.model.queries import GetSeries
from ortoo.model.series import GAUGES, RATES, Series
from ortoo.model.topic import TopicConfig
from ortoo.ports import Store
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from ortoo.testing.faulty_store import FaultyStore

TURN_SECONDS_MAX = 0.05


class World:
    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.clock = clock
        self.broker = Broker(store, clock)
        self.queue = Queue(self.broker)
        self.sampler = Sampler(self.broker)
        self.broker.meters.series = SeriesReader(self.sampler)
        self.broker.problem_sources.append(self.sampler.problems)

    async def second(self) -> None:
        """Passes, and is sampled."""
        before = self.sampler.newest
        await self.clock.advance(1)
        for _ in range(10_000):
            if self.sampler.newest > before:
                return
            await asyncio.sleep(0)

    async def series(self, topic: str | None = None, **more: Any) -> Series:
        return await self.queue.series(topic, **more)

    async def told(self, topic: str | None = None, *names: str, **more: Any) -> list[tuple[int, ...]]:
        figures = (await self.series(topic, **more)).figures
        return list(zip(*(figures[name] for name in names), strict=True))


@asynccontextmanager
async def sampling(store: Store | None = None, clock: ManualClock | None = None) -> AsyncIterator[World]:
    world = World(store or MemoryStore(), clock or ManualClock())
    await world.broker.open()
    world.sampler.start()
    await settle()
    yield world
    await world.sampler.stop()
    await world.broker.close()


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else open_directory(tmp_path)


async def test_each_second_has_what_happened_in_it(store: Store) -> None:
    async with sampling(store) as here:
        await here.queue.create_topic("jobs", max_attempts=2, backoff_initial=0.1, backoff_max=0.1)
        await here.queue.create_group("jobs", "g")
        await here.second()
        await here.queue.publish_many("jobs", [b"12345"] * 5)
        await here.queue.publish("jobs", b"later", delay=3600)
        await here.second()
        first, second, _ = await here.queue.lease("jobs", group="g", max_messages=3, lease=0.5)
        await first.ack()
        await second.nack("no")
        await here.second()  # and the third runs out
        for message in await here.queue.lease("jobs", group="g", max_messages=2):
            await message.reject("never")
        await here.second()
        series = await here.series("jobs", count=4)
    figures = series.figures
    assert figures["published"] == [0, 6, 0, 0]
    assert figures["delivered"] == [0, 0, 3, 2]
    assert figures["acked"] == [0, 0, 1, 0]
    assert figures["failed"] == [0, 0, 2, 2]
    assert figures["dead_lettered"] == [0, 0, 0, 2]
    assert figures["depth"] == [0, 6, 5, 3]
    assert figures["delayed"] == [0, 1, 1, 1]
    assert figures["bytes"][0] == figures["bytes"][2] == 0
    assert figures["bytes"][1] >= 30
    assert figures["oldest_pending_seconds"] == [0, 1, 2, 3]
    assert series.timestamps == [int(here.clock.time()) - ago for ago in (4, 3, 2, 1)]
    assert (series.topics, series.left_out) == (1, 0)
    assert list(figures) == [*RATES, *GAUGES]


async def test_a_group_has_its_backlog_and_its_lag(store: Store) -> None:
    async with sampling(store) as here:
        await here.queue.publish_many("jobs", [b"x"] * 3)
        await here.queue.create_group("jobs", "late")
        [one] = await here.queue.lease("jobs", group="early")
        await here.second()
        await one.ack()
        await here.second()
        early = await here.told("jobs", "backlog", "leased", "oldest_pending_seconds", group="early", count=2)
        late = await here.told("jobs", "backlog", "leased", "oldest_pending_seconds", group="late", count=2)
        with pytest.raises(NotFoundError):
            await here.series("jobs", group="nobody")
        with pytest.raises(InvalidError, match="topic"):
            await here.series(group="late")
    assert early == [(3, 1, 1), (2, 0, 2)]
    assert late == [(3, 0, 1), (3, 0, 2)]


async def test_minutes_are_the_sums_of_their_seconds() -> None:
    async with sampling(clock=ManualClock(1_700_000_040 - 30)) as here:  # half a minute before a full one
        for number in range(95):
            if number % 10 == 0:
                await here.queue.publish_many("jobs", [b"x"] * (number + 1))
            await here.second()
        by_second = await here.series("jobs", count=95)
        by_minute = await here.series("jobs", resolution="minute", count=60)
        total = await here.series(resolution="minute")
    published = by_second.figures["published"]
    assert by_minute.timestamps == [1_700_000_040 - 60, 1_700_000_040, 1_700_000_040 + 60]
    assert by_minute.figures["published"] == [sum(published[:30]), sum(published[30:90]), sum(published[90:])]
    assert by_minute.figures["depth"] == [by_second.figures["depth"][at] for at in (29, 89, 94)]
    assert total.figures == by_minute.figures
    assert by_minute.figures["oldest_pending_seconds"] == [30, 90, 95]


async def test_the_clock_may_jump_and_the_series_goes_on() -> None:
    async with sampling() as here:
        for jump in (0, 3600, -7200, 0):
            here.clock.jump(jump)
            await here.queue.publish("jobs", b"x")
            await here.second()
        series = await here.series("jobs")
    assert series.figures["published"] == [1, 1, 1, 1]
    assert series.timestamps == [int(here.clock.time()) - ago for ago in (4, 3, 2, 1)], (
        "as the machine's clock has it now"
    )


async def test_seconds_in_which_it_did_not_come_to_look_are_in_the_next() -> None:
    async with sampling() as here:
        await here.second()
        await here.sampler.stop()
        await here.queue.publish_many("jobs", [b"x"] * 7)
        await here.clock.advance(5)
        here.sampler.start()
        await here.second()
        assert (await here.series("jobs", count=7)).figures["published"] == [0] * 6 + [7]


async def test_a_topic_made_again_begins_anew(store: Store) -> None:
    async with sampling(store) as here:
        await here.queue.publish_many("jobs", [b"x"] * 5)
        await here.second()
        await here.queue.delete_topic("jobs")
        await here.queue.publish_many("jobs", [b"x"] * 2)
        await here.second()
        assert (await here.series("jobs")).figures["published"] == [0, 2]
        assert (await here.series()).figures["published"] == [5, 2]
        await here.queue.delete_topic("jobs")
        await here.second()
        assert not here.sampler.topics
        assert here.sampler.groups == 0
        with pytest.raises(NotFoundError):
            await here.series("jobs")


async def test_groups_that_are_deleted_are_forgotten() -> None:
    async with sampling() as here:
        for name in "abc":
            await here.queue.create_topic("jobs")
            await here.queue.create_group("jobs", name)
        await here.second()
        assert here.sampler.groups == 3
        await here.queue.delete_group("jobs", "a")
        await here.queue.create_group("jobs", "d", ephemeral=True)
        await here.second()
        assert here.sampler.groups == 2
        [series] = here.sampler.topics.values()
        assert len(series.groups) == 2


async def test_topics_may_be_deleted_in_the_middle_of_a_sample() -> None:
    async with sampling() as here:
        for number in range(300):
            await here.queue.publish(f"t{number}", b"x")
        await here.sampler.stop()
        looking = asyncio.create_task(here.sampler.sample())
        await asyncio.sleep(0)
        for number in (0, 1, 150, 299):
            await here.queue.delete_topic(f"t{number}")
        await looking
        assert len(here.sampler.topics) == 296
        assert here.sampler.problems() == []


async def test_counters_that_begin_anew_are_no_rate() -> None:
    faulty = FaultyStore()
    async with sampling(faulty) as here:
        await here.queue.publish_many("jobs", [b"x"] * 5)
        await here.second()
        engine = here.broker.engine
        await fail_once(here, faulty)
        assert here.broker.engine is not engine
        await here.second()
        await here.queue.publish_many("jobs", [b"x"] * 3)
        await here.second()
        await fail_once(here, faulty)
        await here.queue.publish_many("jobs", [b"x"] * 7)  # more than were counted before
        await here.second()
        figures = (await here.series("jobs")).figures
    assert figures["published"] == figures["bytes"] == [5, 0, 3, 7]


def test_what_was_counted_and_lost_is_no_rate() -> None:
    """A commit that failed may have been counted already."""
    series = TopicSeries(TopicName("default", "jobs"), (5, 5, 5, 5, 5, 500))
    assert series.passed((5, 6, 4, 5, 5, 400)) == (0, 1, 0, 0, 0, 0)
    assert series.passed((5, 6, 5, 5, 5, 450)) == (0, 0, 1, 0, 0, 50)


async def fail_once(here: World, store: FaultyStore) -> None:
    store.plan = lambda _: "fail before"
    with pytest.raises(OutcomeUnknownError):
        await here.queue.publish("jobs", b"lost")
    store.plan = lambda _: "none"
    while here.broker.refusal is not None:  # it recovers on a manual clock
        await here.clock.advance(0.01)


async def test_after_a_restart_it_begins_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    async with sampling(open_directory(tmp_path), clock) as here:
        await here.queue.publish_many("jobs", [b"x"] * 5)
        await here.second()
    async with sampling(open_directory(tmp_path), clock) as here:
        await here.second()
        await here.queue.publish("jobs", b"x")
        await here.second()
        series = await here.series("jobs")
    assert series.figures["published"] == [0, 1]
    assert series.figures["bytes"][0] == 0
    assert series.figures["depth"] == [5, 6]


async def test_the_oldest_topics_are_sampled_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERIES_TOPICS_MAX", 3)
    monkeypatch.setattr(limits, "SERIES_GROUPS_MAX", 2)
    async with sampling() as here:
        for number in range(5):
            await here.queue.publish_many(f"t{number}", [b"x"] * 10)
            await here.queue.create_group(f"t{number}", "g")
        await here.second()
        everything, beyond = await here.series(), await here.series("t4")
        assert (everything.topics, everything.left_out, everything.figures["published"]) == (3, 2, [30])
        assert (beyond.topics, beyond.left_out, beyond.timestamps, beyond.figures["depth"]) == (0, 1, [], [])
        assert here.sampler.groups == 2
        assert (await here.series("t2", group="g")).left_out == 1
        await here.queue.delete_topic("t0")
        await here.second()
        assert (await here.series("t3")).figures["published"] == [0, 0], "what it had before is no rate"
        assert (await here.series("t3")).figures["depth"] == [0, 10]
        await here.second()
        assert (await here.series("t2", group="g")).left_out == 0, "the other one has made room"


async def test_one_topic_that_cannot_be_looked_at_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    count = module._count

    def fail(topic: Any) -> Any:
        if topic.name.name == "bad":
            raise RuntimeError("broken")
        return count(topic)

    async with sampling() as here:
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
            patched.setattr(module, "_count", fail)
            for name in ("one", "bad", "two"):
                await here.queue.publish(name, b"x")
            await here.second()
            await here.second()
            assert [(await here.series(name)).figures["published"] for name in ("one", "two")] == [[1, 0], [1, 0]]
            assert (await here.series()).figures["published"] == [2, 0]
            [problem] = (await here.queue.stats()).problems
            assert "1 topics cannot be sampled" in problem
            assert "'bad'" in problem
            assert len(caplog.records) == 1, "it is told once"
        await here.second()
        assert (await here.queue.stats()).problems == []


async def test_a_sample_that_fails_as_a_whole_is_told_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with sampling() as here:
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
            patched.setattr(here.sampler, "_set_clock", lambda: 1 / 0)
            await here.clock.advance(3)
            [problem] = here.sampler.problems()
            assert "ZeroDivisionError" in problem
            assert len(caplog.records) == 1
        await here.second()
        assert here.sampler.problems() == []


async def test_listeners_are_told_what_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    async with sampling() as here:
        told: list[Sample] = []
        stop = here.sampler.subscribe(told.append)
        broken = here.sampler.subscribe(lambda sample: 1 / 0)  # type: ignore[arg-type]
        await here.queue.create_topic("quiet")
        await here.queue.publish_many("jobs", [b"x"] * 3)
        with caplog.at_level(logging.ERROR):
            await here.second()
            await here.second()
        await here.queue.delete_topic("jobs")
        await here.second()
        assert len(caplog.records) == 1
        name = TopicName("default", "jobs")
        assert [sample.topics for sample in told] == [{name: TopicSample(3, 0, 0, 0, 0, 3)}, {}, {}]
        assert [sample.gone for sample in told] == [[], [], [name]]
        assert [sample.timestamp for sample in told] == (await here.series()).timestamps
        stop()
        stop()
        broken()
        await here.second()
        assert len(told) == 3
        for _ in range(limits.SERIES_LISTENERS_MAX):
            here.sampler.subscribe(told.append)
        with pytest.raises(TooManyError):
            here.sampler.subscribe(told.append)


async def test_who_may_see_little_gets_sums_of_that() -> None:
    async with sampling() as here:
        for namespace, topic, count in (("shop", "orders", 1), ("shop", "secret", 10), ("other", "orders", 100)):
            await here.queue.publish_many(topic, [b"x"] * count, namespace=namespace)
            await here.second()
        principal = Principal("p", (Grant(("read",), "shop", ("orders",)),))
        rights = Rights(principal, lambda _: None, lambda _: None)
        view = View(principal.name, principal.grants, rights.may_see, rights.may_enter, principal.realm)
        mine = await here.broker.ask(GetSeries(), view)
        again = await here.broker.ask(GetSeries(count=1), view)
        theirs = await here.series(namespace="shop")
        everything = await here.series()
    assert (mine.topics, mine.figures["published"], mine.figures["depth"]) == (1, [1, 0, 0], [1, 1, 1])
    assert mine.figures["oldest_pending_seconds"] == [1, 2, 3]
    assert again.figures["depth"] == [1]
    assert (theirs.topics, theirs.figures["published"], theirs.figures["depth"]) == (2, [1, 10, 0], [1, 11, 11])
    assert theirs.figures["oldest_pending_seconds"] == [1, 2, 3]
    assert (everything.topics, everything.figures["published"]) == (3, [1, 10, 100])
    assert everything.figures["oldest_pending_seconds"] == [1, 2, 3]


async def test_what_is_summed_up_is_kept_until_the_next_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sampling() as here:
        await here.queue.publish("jobs", b"x")
        await here.second()
        reader = here.broker.meters.series
        assert reader is not None
        summed, sums = reader._sum, []

        async def count(*arguments: Any) -> Any:
            sums.append(arguments)
            return await summed(*arguments)

        monkeypatch.setattr(reader, "_sum", count)
        await asyncio.gather(*(here.series(namespace="default", count=number + 1) for number in range(50)))
        assert len(sums) == 1
        await here.second()
        await here.series(namespace="default")
        assert len(sums) == 2
        for number in range(200):
            await here.series(namespace=f"n{number}")
        assert len(reader._sums) <= 100


async def test_a_queue_without_a_server_keeps_no_series() -> None:
    broker = Broker(MemoryStore(), ManualClock())
    async with Queue(broker) as queue:
        with pytest.raises(ConfigError, match="a server does"):
            await queue.series()


@pytest.mark.parametrize("count", [0, -1, limits.SERIES_MINUTES + 1])
async def test_a_count_has_bounds(count: int) -> None:
    async with sampling() as here:
        with pytest.raises(InvalidError, match="count"):
            await here.broker.ask(GetSeries(count=count))
        assert (await here.series(count=1)).timestamps == [], "nothing was sampled yet"


async def test_a_thousand_topics_hold_nobody_up() -> None:
    """Measured in time of the processor that a turn of the event loop takes, so that others on the machine do not count."""
    async with sampling() as here:
        await here.sampler.stop()
        for number in range(1_000):
            name = TopicName("default", f"t{number}")
            await here.broker.call(CreateTopic(name, TopicConfig(partitions=6)))
            for group in ("a", "b"):
                await here.broker.call(CreateGroup(name, group))
            await here.queue.publish_many(name.name, [ortoo.Message(b"x", key=str(key)) for key in range(12)])
        gc.collect()
        gc.disable()
        try:
            longest: list[float] = []
            while len(longest) < 3 or (
                len(longest) < 20 and min(longest) >= TURN_SECONDS_MAX
            ):  # a machine has bad moments
                await here.clock.advance(1)
                await here.sampler.sample()
                longest.append(here.sampler.longest_turn)
        finally:
            gc.enable()
        assert len(here.sampler.topics) == 1_000
        assert here.sampler.groups == 2_000
        assert min(longest) < TURN_SECONDS_MAX
        assert here.sampler.spent > 5 * min(longest), "it takes many turns"


async def test_it_looks_less_often_when_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(TimedTurns):
        def ended(self) -> None:
            self.spent = 0.35

    monkeypatch.setattr(module, "TimedTurns", Slow)
    async with sampling() as here:
        told: list[Sample] = []
        here.sampler.subscribe(told.append)
        await here.queue.publish("jobs", b"x")
        await here.clock.advance(13)
        await here.queue.publish_many("jobs", [b"x"] * 5)
        await here.clock.advance(4)
        series = await here.series("jobs", count=17)
    assert [sample.timestamp - told[0].timestamp for sample in told] == [0, 4, 8, 12, 16]
    assert series.figures["published"] == [1] + [0] * 15 + [5], "nothing is missed"


async def test_nothing_is_sampled_while_the_queue_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sampling() as here:
        await here.second()
        newest = here.sampler.newest
        with monkeypatch.context() as patched:
            patched.setattr(here.broker, "_refusal", UnavailableError("recovering"))
            await here.clock.advance(3)
            assert here.sampler.newest == newest
        await here.second()
        assert here.sampler.newest == newest + 4
