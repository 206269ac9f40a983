"""The commands that work on a data directory. Errors are one line on standard error and exit code 1; wrong usage is 2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from ortoo import __version__
from ortoo.app.repair import repair_directory
from ortoo.model.errors import OrtooError
from ortoo.stores.disk import KeyRing, RealDisk, load_keys
from ortoo.stores.disk.backup import back_up, restore
from ortoo.stores.disk.check import check_directory

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    help="Ortoo, a message queue. These commands look after data directories, as made by ortoo.open('./data').",
)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

Directory = Annotated[Path, typer.Argument(help="the data directory", show_default=False)]
Keys = Annotated[
    str | None,
    typer.Option(help="for encrypted topics: file:PATH or command:CMD; ORTOO_ENCRYPTION_KEYS when not given"),
]
Json = Annotated[bool, typer.Option("--json", help="print the result as JSON")]


def main() -> None:
    try:
        app()
    except OrtooError as error:
        err.print(f"[red]error[/red] ({error.code}): {error}", highlight=False)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="print the version and end")] = False) -> None:
    if version:
        out.print(f"ortoo {__version__}", highlight=False)
        raise typer.Exit


@contextmanager
def _progress(doing: str) -> Iterator[Callable[[str], None]]:
    """A line that tells which file is being worked on, where there is somebody to read it."""
    with err.status(doing) as status:
        yield lambda path: status.update(f"{doing} [dim]{path}[/dim]")


@app.command()
def check(directory: Directory, keys: Keys = None, json: Json = False) -> None:
    """Verify every file of a data directory. Changes nothing; exit code 1 when something is wrong.

    A running queue may be checked, too.
    """
    with _progress("checking") as progress:
        report = check_directory(RealDisk(directory), KeyRing(load_keys(keys)), progress)
    if json:
        out.print_json(msgspec.json.encode(report).decode())
    else:
        for problem in report.problems:
            out.print(f"[red]✗[/red] {problem}", highlight=False)
        mib = report.bytes / (1 << 20)
        counted = (
            f"{report.files} files, {mib:.1f} MiB, {report.messages} messages in segments, {report.commits} commits"
        )
        verdict = "[green]✓ all is well[/green]" if not report.problems else f"{len(report.problems)} problems"
        out.print(f"{verdict}: {counted}", highlight=False)
        if report.problems:
            out.print("`ortoo repair` makes the best of it, or restore a backup with `ortoo restore`.")
    if report.problems:
        raise typer.Exit(1)


@app.command()
def repair(directory: Directory, keys: Keys = None, json: Json = False) -> None:
    """Make a damaged directory whole again, and say exactly what is gone.

    The damaged directory is kept beside it. The queue must not be running.
    """
    with _progress("repairing"):
        done = repair_directory(directory, keys)
    if json:
        out.print_json(msgspec.json.encode(done).decode())
        return
    for complaint in done.complaints:
        out.print(f"[yellow]![/yellow] {complaint}", highlight=False)
    for loss in done.losses:
        out.print(f"[red]✗[/red] gone: {loss}", highlight=False)
    if done.skipped_records:
        out.print(
            f"{done.skipped_records} deliveries or settlements could not be replayed; those messages may come again"
        )
    gone = sum(loss.end - loss.start for loss in done.losses)
    out.print(f"[green]✓[/green] repaired: {done.messages - gone} messages kept, {gone} gone", highlight=False)
    out.print(f"the damaged directory is kept as {done.damaged}", highlight=False)


@app.command()
def backup(
    directory: Directory, target: Annotated[Path, typer.Argument(help="a new directory", show_default=False)]
) -> None:
    """Copy a data directory, consistently, while the queue runs. Finished segments are linked, not copied."""
    with _progress("backing up") as progress:
        size = back_up(directory, target, progress)
    out.print(f"[green]✓[/green] {target}: {size / (1 << 20):.1f} MiB; open it with `ortoo restore`", highlight=False)


@app.command(name="restore")
def restore_command(
    backup_directory: Annotated[Path, typer.Argument(help="what `ortoo backup` made", show_default=False)],
    directory: Annotated[Path, typer.Argument(help="a new data directory", show_default=False)],
) -> None:
    """Copy a backup to a new data directory. The backup stays as it is."""
    with _progress("restoring") as progress:
        size = restore(backup_directory, directory, progress)
    out.print(f"[green]✓[/green] {directory}: {size / (1 << 20):.1f} MiB", highlight=False)
