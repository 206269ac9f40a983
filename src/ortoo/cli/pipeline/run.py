"""`ortoo pipeline run`: a pipeline declared in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ortoo.cli import show
from ortoo.cli.help import examples

from .options import Conf, Master, to_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from ortoo.pipeline.flow.flow import Flow
    from ortoo.pipeline.flow.progress import Batch

EXAMPLES = examples(
    "ortoo pipeline run enrich.yaml --dry-run",
    "ortoo pipeline run enrich.yaml --once",
    "ortoo pipeline run enrich.yaml --master spark://host:7077",
)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a pipeline, as YAML", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="stop when everything published so far is processed")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default="as the file says", help="where to keep the pipeline's progress"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="check the file and show the plan; Spark is not started")
    ] = False,
    schemas: Annotated[
        bool,
        typer.Option("--schemas", help="like --dry-run, but Spark also checks the SQL and shows each step's columns"),
    ] = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Run a pipeline: read topics, transform them with SQL and Python, write topics or Parquet files.

    The whole file is checked before anything runs. Each batch is reported on standard error; Ctrl-C stops the pipeline, and
    the next run continues where it stopped.
    """
    from ortoo.pipeline.flow.plan import describe
    from ortoo.pipeline.flow.run import FailedError, flow_session, run_flow

    settings = to_settings(conf or ())
    flow = _load(file, checkpoint)
    if dry_run and not schemas:
        _print(describe(flow))
        _print(
            [
                "",
                "checked: the file. Not checked: SQL, columns that only Spark knows, and topics; --schemas asks Spark",
            ]
        )
        return
    with flow_session(flow, master=master, conf=settings) as session:
        if schemas:
            _print_schemas(flow, session)
            return
        try:
            run_flow(flow, session, once=once, on_batch=_tell)
        except FailedError as error:
            _complain([str(error)])
            raise typer.Exit(1) from None


def _load(file: Path, checkpoint: Path | None) -> Flow:
    from ortoo.pipeline.flow.flow import load_flow
    from ortoo.pipeline.flow.problems import FlowError

    try:
        flow = load_flow(file, checkpoint=checkpoint.absolute() if checkpoint is not None else None)
    except FlowError as error:
        _complain(str(error).splitlines())
        _complain([f"{file} has {show.count(len(error.problems), 'mistake')}; nothing was run"])
        raise typer.Exit(1) from None
    for warning in flow.warnings:
        show.err.print(f"[yellow]warning[/yellow]: {escape(show.printable(warning))}")
    return flow


def _print_schemas(flow: Flow, session: SparkSession) -> None:
    from ortoo.pipeline.flow.frames import build_frames
    from ortoo.pipeline.flow.plan import describe
    from ortoo.pipeline.flow.writing import to_outputs

    frames = build_frames(flow, session)
    to_outputs(flow, frames)
    _print(describe(flow, frames))
    _print(["", "checked: the file, SQL, columns and schemas. Not checked: whether the topics exist"])


def _tell(batch: Batch) -> None:
    show.err.print(escape(str(batch)))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        show.line(escape(show.printable(line)))


def _complain(lines: Iterable[str]) -> None:
    for line in lines:
        show.err.print(f"[red]error[/red]: {escape(show.printable(line))}")
