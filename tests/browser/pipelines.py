"""Jobs of a pipeline, as they report themselves: one that runs, after a run that failed, and one that has failed."""

from __future__ import annotations

from ortoo import SyncQueue
from ortoo.model.pipelines import ReportedBatch, RunReport

_FULL = "no space left on device"


def report_jobs(queue: SyncQueue) -> None:
    queue.report_run(
        "archive", RunReport(run="1", kind="archive", state="failed", seconds=10.0, batches=3, error=_FULL)
    )
    queue.report_run(
        "archive",
        RunReport(
            run="2",
            kind="archive",
            seconds=58.5,
            is_stream=True,
            reads="orders, payments",
            writes="./lake",
            host="worker-3:4711",
            batches=17,
            rows_in=120_345,
            rows_out=120_345,
            lag=120,
            last_batch=ReportedBatch(stream="messages", number=16, rows_in=1_000, rows_out=1_000, seconds=0.8, ago=1.0),
            warnings=1,
            warning="a batch came late",
        ),
    )
    queue.report_run("totals", RunReport(run="1", kind="flow", state="failed", seconds=5.0, error=_FULL))
