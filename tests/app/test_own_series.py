"""Is the number of series bounded, are those who need one most given it, and does no counter ever go down?"""

from __future__ import annotations

from random import Random

import pytest

from ortoo.app.metrics import Metrics
from ortoo.broker.own_series import OwnSeries, Rank
from ortoo.broker.topic_figures import measure_all
from ortoo.broker.turns import Turns
from tests.app.test_metrics import Scraped, World, world
from tests.doors.http.home import serving

COUNTERS = ("_total", "_count", "_bucket", "_sum")


def counters(found: Scraped) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {place: value for place, value in found.samples.items() if place[0].endswith(COUNTERS)}


def bounded(here: World, topics: int, groups: int) -> World:
    here.broker.meters.topics_most, here.broker.meters.groups_most = topics, groups
    return here


async def test_topics_and_groups_beyond_the_bounds_are_summed_up() -> None:
    async with world(dialects=()) as here:
        bounded(here, 2, 3)
        for number in range(5):
            await here.queue.publish(f"t{number}", b"x")
            for group in range(4):
                await here.queue.lease(f"t{number}", group=f"g{group}")
        found = await here.scrape()
    assert found.labels("ortoo_topic_depth", "topic") == {"t0", "t1", "_other"}
    assert found.value("ortoo_messages_published_total", namespace="", topic="_other") == 3
    assert found.labels("ortoo_group_leased", "group") == {"g0", "g1", "g2", "_other"}
    assert found.value("ortoo_group_leased", namespace="", topic="_other", group="_other") == 17
    assert found.value("ortoo_group_delivered_total", namespace="", topic="_other", group="_other") == 17
    assert found.value("ortoo_leases") == 20


async def test_who_fails_or_moves_most_gets_a_series_and_what_was_counted_stays_where_it_was() -> None:
    async with world(dialects=()) as here:
        bounded(here, 2, 2)
        for name in ("a", "b", "late"):
            await here.queue.publish(name, b"x")
        first = await here.scrape()
        assert first.labels("ortoo_topic_depth", "topic") == {"a", "b", "_other"}
        [message] = await here.queue.lease("late")
        await message.reject("no")
        second = await here.scrape()
        third = await here.scrape()
        assert third.labels("ortoo_topic_depth", "topic") >= {"late"}
        assert third.value("ortoo_messages_published_total", namespace="default", topic="late") == 0
        await here.queue.publish("late", b"y")
        fourth = await here.scrape()
        assert fourth.value("ortoo_messages_published_total", namespace="default", topic="late") == 1
        for before, after in ((first, second), (second, third), (third, fourth)):
            found = counters(after)
            assert [place for place, value in counters(before).items() if found.get(place, value) < value] == []


async def test_the_first_dead_letter_among_the_others_is_an_increase() -> None:
    async with world(dialects=()) as here:
        bounded(here, 1, 1)
        await here.queue.publish_many("big", [b"x"] * 500)
        await here.queue.publish("small", b"x")
        labels = {"namespace": "", "topic": "_other", "reason": "rejected"}
        assert (await here.scrape()).value("ortoo_messages_dead_lettered_total", **labels) == 0
        [message] = await here.queue.lease("small")
        await message.reject("no")
        assert (await here.scrape()).value("ortoo_messages_dead_lettered_total", **labels) == 1


async def test_while_all_have_their_series_what_is_deleted_is_simply_gone() -> None:
    async with world(dialects=()) as here:
        for round_ in range(3):
            await here.queue.publish("orders", b"x")
            await here.queue.lease("orders", group=f"g{round_}")
            if round_ == 1:
                await here.scrape()
            await here.queue.delete_topic("orders")
        found = await here.scrape()
    assert found.labels("ortoo_topic_depth", "topic") == set()
    assert found.labels("ortoo_group_backlog", "group") == set()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_no_series_goes_down_and_nothing_is_counted_twice(seed: int) -> None:
    """Things come and go, count, and change places; what is told sums up to everything that was counted."""
    random = Random(seed)
    series, alive, past, newest = OwnSeries[int](3, 2), dict[int, list[int]](), [0, 0], 0
    shown_before: dict[int, list[int]] = {}
    rest_before, offset = [0, 0], None
    for _ in range(60):
        for _ in range(random.randrange(6)):
            match random.randrange(4):
                case 0:
                    newest += 1
                    alive[newest] = [random.randrange(3), 0]
                case 1 if alive:
                    gone = alive.pop(random.choice(list(alive)))
                    past = [past[0] + gone[0], past[1] + gone[1]]
                case _ if alive:
                    counted = alive[random.choice(list(alive))]
                    counted[0] += random.choice((1, 1, 1_000))
                    counted[1] += random.randrange(2)
        series.begin(list(past))
        shown = {}
        for key, counted in alive.items():
            told = series.see(key, list(counted), Rank(counted[1] > 5, counted[0]))
            if told is not None:
                shown[key] = list(told)
        rest = series.end()
        assert len(shown) <= 3
        for key, told in shown.items():
            before = shown_before.get(key, [0, 0])
            assert told[0] >= before[0]
            assert told[1] >= before[1]
        shown_before |= shown
        if rest is not None:
            assert rest[0] >= rest_before[0]
            assert rest[1] >= rest_before[1]
            rest_before = rest
            total = [past[at] + sum(one[at] for one in alive.values()) for at in (0, 1)]
            told_in_all = [rest[at] + sum(one[at] for one in shown_before.values()) for at in (0, 1)]
            left_out = [total[at] - told_in_all[at] for at in (0, 1)]
            if offset is not None:  # what was gone before there were others is in no sum
                assert left_out == offset
            offset = left_out


async def test_a_scrape_can_be_of_one_topic_or_namespace() -> None:
    async with serving() as home:
        home.door._services.metrics = Metrics(home.broker).render
        for namespace, topic in (("default", "orders"), ("default", "mails"), ("shop", "orders")):
            await home.queue.publish(topic, b"x", namespace=namespace)
            await home.queue.lease(topic, group="g", namespace=namespace)

        async def scrape(query: str) -> Scraped:
            request = f"GET /metrics{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
            head, _, body = (await home.raw(request)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            return Scraped(body.decode())

        def found(text: Scraped) -> set[tuple[str, str]]:
            places = [dict(labels) for name, labels in text.samples if name == "ortoo_group_leased"]
            return {(labels["namespace"], labels["topic"]) for labels in places}

        assert found(await scrape("?topic=orders")) == {("default", "orders")}
        assert found(await scrape("?namespace=default")) == {("default", "orders"), ("default", "mails")}
        assert found(await scrape("?topic=orders&namespace=shop")) == {("shop", "orders")}
        assert found(await scrape("?topic=nowhere")) == set()
        assert "ortoo_commit_seconds_count" not in (await scrape("?topic=orders")).names()
        whole = await scrape("")
        assert found(whole) == {("default", "orders"), ("default", "mails"), ("shop", "orders")}
        assert "ortoo_commit_seconds_count" in whole.names()


async def test_a_group_that_goes_while_it_is_measured_is_counted_once() -> None:
    async with world(dialects=()) as here:
        await here.queue.create_topic("orders")
        await here.queue.create_group("orders", "stays")
        await here.queue.create_group("orders", "goes", ephemeral=True)
        await here.queue.publish("orders", b"x")
        await here.queue.lease("orders", group="goes")
        [topic] = here.broker.state.topics.values()

        class Leaving(Turns):
            async def worked(self, units: float) -> None:
                if "goes" in topic.group_names:
                    topic.remove_group(topic.group_names["goes"])

        for _ in range(2):
            found, _ = await measure_all(here.broker, Leaving())
            assert found.topics[0].groups["_ephemeral"].delivered == 1
