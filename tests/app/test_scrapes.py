"""Can alerts be built on what is exposed, and does a scrape, or a listing, of many topics hold up others?"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ortoo.app.metrics import Metrics
from ortoo.broker.figures import measure
from ortoo.model.commands import CreateGroup, CreateTopic
from ortoo.model.metrics import MetricFigures
from ortoo.model.names import TopicName
from ortoo.model.queries import GetMetrics
from ortoo.model.topic import TopicConfig
from tests.app.test_metrics import Scraped, world
from tests.doors.http.home import Home, serving
from tests.doors.watching import Watch, calmest

TOPICS = 5_000


async def test_counters_of_failures_are_there_before_the_first_failure() -> None:
    """So that the first one is an increase."""
    async with world() as here:
        await here.queue.create_topic("orders")
        await here.queue.create_topic("expiring", on_expire="dlq")
        await here.queue.create_topic("dropping", dlq=False)
        found = await here.scrape()
        for topic, dead, dropped in (
            ("orders", {"attempts", "timeout", "rejected", "moved"}, {"ttl", "max_wait"}),
            ("expiring", {"attempts", "timeout", "rejected", "moved", "ttl", "max_wait"}, set()),
            ("dropping", set(), {"attempts", "timeout", "rejected", "moved", "ttl", "max_wait"}),
        ):
            assert zeros(found, "ortoo_messages_dead_lettered_total", topic=topic) == dead
            assert zeros(found, "ortoo_messages_dropped_total", topic=topic) == dropped
            mqtt = {"max_retries" if reason == "attempts" else reason for reason in dead}
            assert zeros(found, "mqtt_queue_dlq_total", queue=topic) == mqtt
        assert found.value("ortoo_request_errors_total", door="tcp", operation="publish", code="full") == 0
        assert found.value("ortoo_request_errors_total", door="tcp", operation="connect", code="unauthenticated") == 0


async def test_a_counter_goes_on_from_its_zero() -> None:
    async with world() as here:
        await here.queue.publish("orders", b"1")
        before = await here.scrape()
        [message] = await here.queue.lease("orders")
        await message.reject("never")
        labels = {"namespace": "default", "topic": "orders", "reason": "rejected"}
        assert before.value("ortoo_messages_dead_lettered_total", **labels) == 0
        assert (await here.scrape()).value("ortoo_messages_dead_lettered_total", **labels) == 1


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "\\n", "snö ☃", "a,b={}"])
async def test_any_name_can_be_a_label(name: str) -> None:
    async with world() as here:
        await here.queue.publish(name, b"1")
        found = await here.scrape()
        assert found.value("ortoo_messages_published_total", namespace="default", topic=name) == 1


async def test_many_who_ask_at_once_are_measured_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred connections that each ask for the metrics made a publish take a second."""
    async with world() as here:
        await here.queue.create_topic("orders")
        measured = 0

        async def counted(broker: Any, *wanted: Any) -> MetricFigures:
            nonlocal measured
            measured += 1
            return await measure(broker)

        monkeypatch.setattr("ortoo.broker.watching.measure", counted)
        first = asyncio.create_task(here.broker.ask(GetMetrics()))
        others = [asyncio.create_task(here.broker.ask(GetMetrics())) for _ in range(200)]
        await asyncio.sleep(0)
        first.cancel()  # the others get their answer all the same
        assert all([len((await other).topics) == 1 for other in others])
        assert measured == 1
        await here.queue.create_topic("mails")
        assert len((await here.broker.ask(GetMetrics())).topics) == 2, "an old answer is not kept"


def zeros(found: Scraped, name: str, **wanted: str) -> set[str]:
    matching = {labels: value for (metric, labels), value in found.samples.items() if metric == name}
    chosen = {dict(labels)["reason"]: value for labels, value in matching.items() if wanted.items() <= set(labels)}
    assert set(chosen.values()) <= {0}
    return set(chosen)


@pytest.fixture
def without_gc() -> Iterator[None]:
    """A collection of all there is takes its time whatever is measured."""
    gc.disable()
    yield
    gc.enable()


async def crowd(home: Home) -> None:
    for number in range(TOPICS):
        topic = TopicName("default", f"topic-{number}")
        home.broker.submit(CreateTopic(topic, TopicConfig(), True))
        if number % 4 == 0:
            home.broker.submit(CreateGroup(topic, "g"))
    await home.queue.publish("last", b"1")


@pytest.mark.usefixtures("without_gc")
async def test_thousands_of_topics_are_told_in_turns() -> None:
    async with serving() as home:
        await crowd(home)
        metrics = Metrics(home.broker)

        async def ask(path: str) -> Watch:
            request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
            async with Watch() as watch:
                answer = await home.raw(request)
            assert answer.startswith(b"HTTP/1.1 200 ")
            return watch

        async def scrape() -> Watch:
            async with Watch() as watch:
                text = await metrics.render()
            assert b'ortoo_topic_depth{namespace="default",topic="topic-7"} 0' in text
            return watch

        for attempt in (
            partial(ask, "/v1/topics?limit=1000"),
            partial(ask, "/v1/topics?limit=1000&namespace=*"),
            partial(ask, "/v1/stats"),
            scrape,
        ):
            watch = await calmest(attempt, turn=0.05)
            assert watch.longest_turn < 0.05, (attempt, watch)
