"""Jobs report their runs: what is told of them, for how long, and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ortoo import InvalidError, NotFoundError, Queue, RateLimitedError
from ortoo.broker import Broker
from ortoo.broker.pipelines import GONE_SECONDS, RUNS, STALLED_SECONDS, Pipelines
from ortoo.model import limits
from ortoo.model.commands import ReportRun
from ortoo.model.pipelines import PipelineInfo, ReportedBatch, RunReport
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock


def report(run: str = "r1", **fields: Any) -> RunReport:
    return RunReport(run=run, kind=fields.pop("kind", "archive"), **fields)


async def only(queue: Queue) -> PipelineInfo:
    found = await queue.pipelines()
    assert found.total == 1
    return found.pipelines[0]


async def test_a_job_is_told_of_as_it_reported_itself(queue: Queue, clock: ManualClock) -> None:
    batch = ReportedBatch(stream="messages", number=4, rows_in=10, rows_out=9, seconds=0.5, ago=2.0)
    await queue.report_run(
        "nightly",
        report(
            seconds=30.0,
            is_stream=True,
            reads="orders",
            writes="/lake",
            host="here:1",
            batches=5,
            rows_in=100,
            rows_out=90,
            lag=7,
            last_batch=batch,
            warnings=1,
            warning="small files",
        ),
    )
    now, info = clock.time(), await only(queue)
    assert (info.namespace, info.job, info.kind, info.state, info.run) == (
        "default",
        "nightly",
        "archive",
        "running",
        "r1",
    )
    assert (info.began, info.ended, info.seconds, info.reported) == (now - 30, None, 30.0, now)
    assert (info.is_stream, info.reads, info.writes, info.host) == (True, "orders", "/lake", "here:1")
    assert (info.batches, info.rows_in, info.rows_out, info.lag) == (5, 100, 90, 7)
    assert info.last_batch is not None
    assert msgspec.structs.asdict(info.last_batch) == {
        "stream": "messages",
        "number": 4,
        "rows_in": 10,
        "rows_out": 9,
        "seconds": 0.5,
        "at": now - 2,
    }
    assert (info.error, info.warnings, info.warning, info.recent) == (None, 1, "small files", [])


async def test_a_run_keeps_the_time_at_which_it_began_and_ends_when_it_says_so(
    queue: Queue, clock: ManualClock
) -> None:
    began = clock.time() - 1
    await queue.report_run("a", report(seconds=1.0))
    await clock.advance(10)
    await queue.report_run("a", report(seconds=11.5, state="failed", error="no disk"))
    info = await only(queue)
    assert (info.state, info.began, info.ended, info.seconds, info.error) == (
        "failed",
        began,
        clock.time(),
        11.5,
        "no disk",
    )
    await clock.advance(GONE_SECONDS)
    assert (await only(queue)).state == "failed"  # it has said its last word


async def test_a_job_that_falls_silent_has_stalled_and_then_is_gone(queue: Queue, clock: ManualClock) -> None:
    await queue.report_run("a", report())
    said = clock.time()
    states = []
    for seconds in (STALLED_SECONDS - 1, 1, GONE_SECONDS - STALLED_SECONDS):
        await clock.advance(seconds)
        info = await only(queue)
        states.append(info.state)
        assert (info.reported, info.ended) == (said, None)
    assert states == ["running", "stalled", "gone"]
    await queue.report_run("a", report(seconds=GONE_SECONDS))
    assert (await only(queue)).state == "running"


async def test_the_runs_before_are_told_in_short_the_newest_first(queue: Queue, clock: ManualClock) -> None:
    for number in range(limits.PIPELINE_RUNS_MAX + 3):
        state = "done" if number % 2 else "failed"
        error = None if number % 2 else "x" * limits.RUN_ERROR_CHARS_MAX
        await queue.report_run("a", report(f"r{number}", state=state, rows_in=number, batches=1, error=error))
        await clock.advance(1)
    await queue.report_run("a", report("silent"))
    await clock.advance(5)
    await queue.report_run("a", report("last"))
    info = await only(queue)
    assert (info.run, len(info.recent)) == ("last", limits.PIPELINE_RUNS_MAX)
    silent, newest, second = info.recent[:3]
    assert (silent.run, silent.state, silent.ended) == ("silent", "gone", clock.time() - 5)
    assert (newest.run, newest.state, newest.rows_in, newest.error) == (
        f"r{limits.PIPELINE_RUNS_MAX + 2}",
        "failed",
        limits.PIPELINE_RUNS_MAX + 2,
        "x" * limits.PAST_ERROR_CHARS_MAX,
    )
    assert (second.state, second.error) == ("done", None)


async def test_two_runs_of_one_job_at_a_time_do_not_take_turns(queue: Queue) -> None:
    await queue.report_run("a", report("old", rows_in=1))
    await queue.report_run("a", report("new", rows_in=2))
    await queue.report_run("a", report("old", rows_in=3, state="done"))
    info = await only(queue)
    assert (info.run, info.rows_in, info.state) == ("new", 2, "running")
    assert [(past.run, past.rows_in, past.state) for past in info.recent] == [("old", 3, "done")]


async def test_jobs_are_listed_by_namespace_and_name_page_by_page(queue: Queue) -> None:
    for namespace, job in [("shop", "b"), ("shop", "a"), ("mails", "z")]:
        await queue.report_run(job, report(), namespace=namespace)
    found = await queue.pipelines()
    assert [(info.namespace, info.job) for info in found.pipelines] == [("mails", "z"), ("shop", "a"), ("shop", "b")]
    page = await queue.pipelines(limit=1, offset=1)
    assert ([info.job for info in page.pipelines], page.total) == (["a"], 3)
    within = await queue.pipelines(namespace="shop")
    assert [info.job for info in within.pipelines] == ["a", "b"]
    assert (await queue.pipelines(namespace="nowhere")).total == 0


async def test_a_job_can_be_forgotten(queue: Queue) -> None:
    await queue.report_run("a", report())
    with pytest.raises(NotFoundError, match="no job 'b'"):
        await queue.forget_pipeline("b")
    await queue.forget_pipeline("a")
    assert (await queue.pipelines()).total == 0


async def test_what_jobs_report_is_no_topic_of_anybody(queue: Queue) -> None:
    await queue.report_run("a", report())
    assert [topic.name for topic in await queue.topics()] == []
    assert [info.name for info in await queue.namespaces()] == []
    assert (await queue.stats()).topics == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"error": "x" * (limits.RUN_ERROR_CHARS_MAX + 1)},
        {"rows_in": -1},
        {"lag": 1 << 53},  # browsers would show another number
        {"run": ""},
        {"seconds": -1.0},
        {"state": "stalled"},
        {"reads": "x" * (limits.RUN_WORDS_CHARS_MAX + 1)},
    ],
)
async def test_a_report_that_makes_no_sense_is_refused(queue: Queue, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        await queue.report_run("a", report(**wrong))
    assert (await queue.pipelines()).total == 0


async def test_a_name_that_is_none_is_refused(queue: Queue) -> None:
    for name in ("", "x" * 300, "a\nb"):
        with pytest.raises(InvalidError):
            await queue.report_run(name, report())


async def test_a_restart_forgets_no_run_and_no_recovery_either(tmp_path: Path, clock: ManualClock) -> None:
    for state in ("running", "done"):
        async with Queue(Broker(open_directory(tmp_path), clock)) as queue:
            await queue.report_run("a", report("r0", rows_in=1, state="failed", error="why"))
            await queue.report_run("a", report("r1", rows_in=5, state=state))
            await queue.report_run("b", report())
            await queue.forget_pipeline("b")
        async with Queue(Broker(open_directory(tmp_path), clock)) as queue:
            info = await only(queue)
        assert (info.run, info.state, info.rows_in, info.recent[0].error) == ("r1", state, 5, "why")


async def test_a_job_that_was_silent_for_long_is_forgotten(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIPELINE_KEPT_MS", 600_000)
    async with Queue(Broker(MemoryStore(), clock)) as queue:
        await queue.report_run("old", report(state="done"))
        await clock.advance(limits.PIPELINE_KEPT_MS / 1000)
        assert (await queue.pipelines()).total == 0
        await queue.report_run("new", report())
        assert [info.job for info in (await queue.pipelines()).pipelines] == ["new"]


async def test_whoever_has_the_most_jobs_gives_up_those_silent_for_longest(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PIPELINES_PER_NAMESPACE_MAX", 4)
    monkeypatch.setattr(limits, "PIPELINES_MAX", 6)
    broker = Broker(MemoryStore(), clock)

    async def told(namespace: str, job: str, reporter: str, **fields: Any) -> None:
        await clock.advance(1)
        await broker.call(ReportRun(namespace, job, report(**fields), reporter))

    async with Queue(broker) as queue:
        await told("n", "honest", "ann", state="done")
        for number in range(5):
            await told("n", f"flood{number}", "eve")
        assert [info.job for info in (await queue.pipelines()).pipelines] == ["flood2", "flood3", "flood4", "honest"]
        for number in range(3):
            await told(f"other{number}", "x", "bob")
        found = await queue.pipelines()
        assert [(info.namespace, info.job) for info in found.pipelines] == [
            ("n", "flood3"),
            ("n", "flood4"),
            ("n", "honest"),
            ("other0", "x"),
            ("other1", "x"),
            ("other2", "x"),
        ]


async def test_reports_come_at_a_bounded_rate(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIPELINE_REPORTS_PER_MINUTE", 3)
    async with Queue(Broker(MemoryStore(), clock)) as queue:
        for _ in range(3):
            await queue.report_run("a", report())
        with pytest.raises(RateLimitedError):
            await queue.report_run("a", report())
        await queue.report_run("a", report(), namespace="other")
        await clock.advance(20)
        await queue.report_run("a", report())


async def test_what_cannot_be_understood_is_left_out(clock: ManualClock) -> None:
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.report_run("a", report())
        await queue.publish(RUNS.name, b"rubbish", key="k", namespace=RUNS.namespace)
        pipelines = Pipelines(broker)  # as after a restart
        assert [info.job for info in await pipelines.current()] == ["a"]


async def test_first_reports_that_come_together_leave_the_newest(tmp_path: Path, clock: ManualClock) -> None:
    """The topic that keeps them is made meanwhile, and they wait for it together."""
    async with Queue(Broker(open_directory(tmp_path), clock)) as queue:
        await asyncio.gather(*(queue.report_run("nightly", report(rows_in=rows)) for rows in range(20)))
        rows = (await only(queue)).rows_in
    async with Queue(Broker(open_directory(tmp_path), clock)) as queue:
        assert (await only(queue)).rows_in == rows
