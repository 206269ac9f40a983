"""What a queue measures of itself: the same through any link, bounded, and told also while the queue refuses."""

import asyncio
from pathlib import Path

import msgspec
import pytest

import ortoo
from ortoo.app.metrics import Metrics
from ortoo.model import metrics as m
from ortoo.model.histogram import SIZE_BOUNDS, Histogram
from ortoo.model.latency import HISTOGRAM_WIDTH, to_histogram
from ortoo.model.names import TopicName
from ortoo.model.operations import OPERATIONS, encode_answer
from ortoo.model.queries import GetMetrics, GetStats
from ortoo.stores.disk import open_directory
from ortoo.wire.protocol import FRAME_BYTES_MAX
from tests.doors.tcp.home import serving

JOBS = TopicName("default", "jobs")


async def work(queue: ortoo.Queue) -> None:
    await queue.publish_many("jobs", [b"1", b"2", b"3"])
    first, second, _ = await queue.lease("jobs", group="g", max_messages=3)
    await first.ack()
    await second.reject("no")


def own(text: bytes) -> list[str]:
    """Without what goes on by itself, and without requests, as to ask is one."""
    changing = (
        "process_",
        "ortoo_request",
        "ortoo_group_oldest",
        "ortoo_group_lag_seconds",
        "ortoo_event_loop",
        "ortoo_disk_free",
        "ortoo_in_flight_bytes",
    )
    return [line for line in text.decode().splitlines() if not line.startswith(changing)]


async def test_a_link_over_tcp_tells_what_the_broker_tells(tmp_path: Path) -> None:
    async with serving(store=open_directory(tmp_path)) as home, home.connect() as queue:
        await work(queue)
        await home.broker.flush()
        link = queue._link
        near, far = await Metrics(home.broker).render(), await Metrics(link).render()
        assert own(near) == own(far)
        assert b'ortoo_commit_records_bucket{le="10"}' in far
        figures = await link.ask(GetMetrics())
    [jobs] = [topic for topic in figures.topics if topic.name == JOBS]
    assert (jobs.messages, jobs.counters.published, jobs.dead_lettered["rejected"]) == (3, 3, 1)
    assert (jobs.groups["g"].backlog, jobs.groups["g"].leased, jobs.groups["g"].dead) == (1, 1, 1)
    assert figures.doors["tcp"].connections == 1
    assert [name for name, _ in figures.deliveries] == [JOBS]
    assert figures.store is not None
    assert (figures.store.free_bytes or 0) > 0


async def test_an_embedded_queue_has_figures_and_no_doors() -> None:
    async with ortoo.open() as queue:
        await work(queue)
        figures = await queue._link.ask(GetMetrics())
        assert figures.broker is not None
        assert figures.broker.is_ready
    assert (figures.doors, figures.store, figures.broker.in_flight_bytes) == ({}, None, None)
    assert figures.broker.counters.published == 4
    after = (await queue._link.ask(GetMetrics())).broker
    assert after is not None
    assert not after.is_ready


async def test_a_total_never_goes_down_whatever_is_deleted_meanwhile() -> None:
    async with ortoo.open() as queue:
        for number in range(150):
            await queue.publish(f"t{number:03}", b"x")
        for query in (GetMetrics(), GetStats()):
            asking = asyncio.create_task(queue._link.ask(query))
            await asyncio.sleep(0)
            for name in ("t000", "t001", "t140", "t149"):  # before and after they were looked at
                await queue.delete_topic(name)
                await queue.publish(name, b"x")
            told = await asking
            counted = told.broker if isinstance(told, m.MetricFigures) else told
            assert counted is not None
            found = counted.counters.published
            published = 150 if isinstance(query, GetMetrics) else 154
            assert published <= found <= published + 4


async def test_what_was_told_does_not_go_on_counting() -> None:
    async with serving() as home:
        before = await home.broker.ask(GetMetrics())
        told = encode_answer(before)
        await work(home.queue)
        assert encode_answer(before) == told != encode_answer(await home.broker.ask(GetMetrics()))


async def test_a_scrape_is_no_request_and_a_query_is_one() -> None:
    async with serving() as home:
        await Metrics(home.broker).render()
        assert home.broker.meters.requests() == 0
        await home.gate.host().ask(GetMetrics())
        assert home.broker.meters.door("tcp").seconds["read"].count == 1


def test_the_largest_answer_fits() -> None:
    names = [TopicName("n" * 255, f"{number:0255}") for number in range(m.TOPICS_MAX)]
    ends = dict.fromkeys(("attempts", "timeout", "rejected", "moved", "ttl", "max_wait", "superseded"), 1 << 40)
    topics = [m.TopicFigures(name, dead_lettered=ends, dropped=ends) for name in names]
    told = to_histogram([1 << 40] * HISTOGRAM_WIDTH)
    groups = [m.GroupFound(names[0], "g" * 255, m.GroupFigures(*[1 << 40] * 14))] * m.GROUPS_MAX
    latencies = [m.GroupLatencies(names[0], "g" * 255, told, told)] * m.GROUPS_MAX
    answer = m.MetricFigures(
        topics, [(name, told) for name in names], {}, None, None, [], None, None, latencies, groups
    )
    assert len(encode_answer(answer)) < FRAME_BYTES_MAX


@pytest.mark.parametrize("histogram", [Histogram(), Histogram(SIZE_BOUNDS)])
def test_a_histogram_is_read_as_it_was_written(histogram: Histogram) -> None:
    histogram.observe(3)
    found = msgspec.msgpack.decode(encode_answer(histogram), type=Histogram)
    assert found == histogram
    assert [type(bound) for bound in found.bounds] == [type(bound) for bound in histogram.bounds]
    found.observe(3)
    assert (found.count, found.total, histogram.count) == (2, 6.0, 1)


def test_who_may_read_may_ask_for_figures() -> None:
    assert OPERATIONS[GetMetrics].scope == "read"
