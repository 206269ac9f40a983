"""Does a job tell how it does, and never fail or wait because of that?"""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ortoo import ForbiddenError, UnavailableError
from ortoo.model.names import TopicId
from ortoo.model.pipelines import RunReport
from ortoo.pipeline import reporting as module
from ortoo.pipeline.connection import Address
from ortoo.pipeline.reporting import DoneBatch, reporting
from ortoo.pipeline.source.offsets import TopicPlace

HERE = Address("ortoo://nowhere:1")


class Hearing:
    """In the place of a queue. `heard` is set when something was reported."""

    def __init__(self) -> None:
        self.reports: list[RunReport] = []
        self.error: Exception | None = None
        self.tries = 0
        self.heard = threading.Event()
        self.is_closed = False

    def report_run(self, job: str, report: RunReport) -> None:
        self.tries += 1
        self.heard.set()
        if self.error is not None:
            raise self.error
        self.reports.append(report)

    def offsets(self, topic: str) -> list[int]:
        return [10, 20]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def hearing(monkeypatch: pytest.MonkeyPatch) -> Hearing:
    hearing = Hearing()

    def connect(*args: Any, **options: Any) -> Hearing:
        return hearing

    monkeypatch.setattr(module, "connect_sync", connect)
    return hearing


def test_batches_and_problems_are_summed_up_and_the_last_word_is_told(hearing: Hearing) -> None:
    place = {"orders": TopicPlace(TopicId(1), {0: 4, 1: 20})}
    with reporting(HERE, "a", "archive", is_stream=True, reads="orders", writes="s3a://me:secret@lake/x") as run:
        assert hearing.heard.wait(60)
        run.batch(DoneBatch("messages", 0, 5, 5, 0.5, place))
        run.batch(DoneBatch("messages", 1, 7, 6, 0.5, place))
        run.warn("small files")
    first, last = hearing.reports[0], hearing.reports[-1]
    assert (first.state, first.batches, first.rows_in) == ("running", 0, 0)
    assert (last.state, last.batches, last.rows_in, last.rows_out) == ("done", 2, 12, 11)
    assert (last.lag, last.warnings, last.warning) == (6, 1, "small files")
    assert last.last_batch is not None
    assert (last.last_batch.number, last.last_batch.rows_in) == (1, 7)
    assert last.writes == "s3a://lake/x"
    assert first.run == last.run
    assert hearing.is_closed


def test_a_run_that_fails_says_why(hearing: Hearing) -> None:
    with pytest.raises(ValueError, match="no"), reporting(HERE, "a", "flow"):
        raise ValueError("no")
    assert (hearing.reports[-1].state, hearing.reports[-1].error) == ("failed", "no")


def test_a_run_that_somebody_ends_was_stopped(hearing: Hearing) -> None:
    with pytest.raises(KeyboardInterrupt), reporting(HERE, "a", "flow"):
        raise KeyboardInterrupt
    assert hearing.reports[-1].state == "stopped"


@pytest.mark.parametrize("error", [ForbiddenError("not you"), UnavailableError("away"), RuntimeError("a mistake")])
def test_a_server_that_does_not_hear_it_costs_the_job_nothing_and_is_logged_once(
    hearing: Hearing, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    hearing.error = error
    with caplog.at_level(logging.WARNING, "ortoo.pipeline"), reporting(HERE, "a", "flow") as run:
        assert hearing.heard.wait(60)
        for number in range(10):
            run.batch(DoneBatch("x", number, 1, 1, 0.1))
    assert len(caplog.records) == 1
    assert hearing.tries <= 2  # at the start, and the last word


def test_reports_come_at_most_about_once_a_second(hearing: Hearing) -> None:
    with reporting(HERE, "a", "flow") as run:
        assert hearing.heard.wait(60)
        for number in range(1_000):
            run.batch(DoneBatch("x", number, 1, 1, 0.001))
    assert hearing.reports[-1].batches == 1_000
    assert len(hearing.reports) <= 3


def test_without_a_queue_nothing_is_told(hearing: Hearing) -> None:
    with reporting(None, "a", "analyze") as run:
        run.batch(DoneBatch("x", 0, 1, 1, 0.1))
    assert hearing.tries == 0
