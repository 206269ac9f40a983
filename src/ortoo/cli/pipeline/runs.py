"""`ortoo pipeline list` and `forget`: the jobs that report their runs to a server."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ortoo.cli import show
from ortoo.cli.connection import Target, on_target
from ortoo.cli.help import Json, examples
from ortoo.cli.template import Template, check_one, format_option
from ortoo.model.pipelines import PipelineInfo

EXAMPLES = examples(
    "ortoo pipeline list", "ortoo pipeline list --all", "ortoo pipeline list --json | jq '.pipelines[].lag'"
)
FORGET_EXAMPLES = examples("ortoo pipeline forget archive:lake")
_PAGE = 1_000
Format = Annotated[Template | None, format_option(PipelineInfo.__struct_encode_fields__)]


@on_target
def list_jobs(
    target: Target,
    all_namespaces: Annotated[bool, typer.Option("--all", help="of every namespace that you may read")] = False,
    json: Json = False,
    template: Format = None,
) -> None:
    """List the jobs that report their runs: state, last batch, rows, lag, and why a run failed.

    `archive`, `analyze` and `run` report to the queue that they work with. A job that has stopped reporting is shown as stalled,
    and after an hour as gone. Needs neither Spark nor Java.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.pipelines(limit=_PAGE, namespace=None if all_namespaces else target.namespace)
    if template is not None:
        template.print(found.pipelines)
        return
    if json:
        show.json_document(found)
        return
    headings = ("job", "state", "began", "batches", "rows", "lag", "last batch", "last word", "problem")
    rows = [_row(info, all_namespaces) for info in found.pipelines]
    show.table(headings, rows, "no job has reported a run yet")


def _row(info: PipelineInfo, with_namespace: bool) -> tuple[show.Cell, ...]:
    batch = info.last_batch
    return (
        f"{info.namespace}/{info.job}" if with_namespace else info.job,
        info.state,
        show.time_text(info.began),
        info.batches,
        info.rows_in if info.rows_in is not None else info.rows_out,
        info.lag,
        None if batch is None else f"{batch.stream} {batch.number}, {batch.seconds:.1f} s",
        show.time_text(info.reported),
        info.error or info.warning,
    )


@on_target
def forget(
    target: Target,
    job: Annotated[str, typer.Argument(metavar="JOB", help="its name, as `list` shows it", show_default=False)],
) -> None:
    """Forget what a job has reported. It comes back with its next report."""
    with target.open() as queue:
        queue.forget_pipeline(job)
    show.done(f"job {escape(job)} forgotten")
