"""Commands that look after a data directory as files: check, repair, backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ortoo.model.errors import NotFoundError

from . import show
from .help import Json

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="the data directory", show_default=False)]
Keys = Annotated[
    str | None,
    typer.Option(help="for encrypted topics: file:PATH or command:CMD; ORTOO_ENCRYPTION_KEYS when not given"),
]
NewDirectory = Annotated[Path, typer.Argument(metavar="TARGET", help="a new directory", show_default=False)]


def check(directory: Directory, keys: Keys = None, json: Json = False) -> None:
    """Verify every file of a data directory. Changes nothing; exit code 1 when something is wrong.

    A running queue may be checked, too.
    """
    from ortoo.stores.disk import KeyRing, load_keys
    from ortoo.stores.disk.check import check_directory
    from ortoo.stores.disk.view import ViewDisk

    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {directory}")
    with show.working("checking") as progress:
        report = check_directory(ViewDisk(directory), KeyRing(load_keys(keys)), progress)
    if json:
        show.json_document(report)
    else:
        for problem in report.problems:
            show.line(f"[red]✗[/red] {escape(problem)}")
        counted = (
            f"{report.files} files, {show.bytes_text(report.bytes)}, {report.messages} messages in segments, "
            f"{report.commits} commits"
        )
        verdict = "[green]✓ all is well[/green]" if not report.problems else f"{len(report.problems)} problems"
        show.line(f"{verdict}: {counted}")
        if report.damaged:
            show.line("`ortoo repair` makes the best of it, or restore a backup with `ortoo restore`.")
    if report.problems:
        raise typer.Exit(1)


def repair(directory: Directory, keys: Keys = None, json: Json = False) -> None:
    """Make a damaged directory whole again, and say exactly what is gone.

    The damaged directory is kept beside it. The queue must not be running.
    """
    from ortoo.app.repair import repair_directory

    with show.working("repairing"):
        done = repair_directory(directory, keys)
    if json:
        show.json_document(done)
        return
    for complaint in done.complaints:
        show.line(f"[yellow]![/yellow] {escape(complaint)}")
    for gone in [*done.losses, *done.commits]:
        show.line(f"[red]✗[/red] gone: {escape(str(gone))}")
    for transaction in done.transactions:
        show.line(f"[red]✗[/red] gone: what was staged in transaction {escape(transaction)}; begin it again")
    if not done.state_kept:
        show.line("What groups had done, and what was delayed, is not known any more: messages may come again.")
    if done.skipped_records:
        show.line(
            f"{done.skipped_records} deliveries or settlements could not be replayed; those messages may come again"
        )
    gone_count = sum(loss.end - loss.start for loss in done.losses if loss.end is not None and loss.certain)
    show.done(f"repaired: {done.messages} messages kept, {gone_count} gone")
    show.line(f"the damaged directory is kept as {escape(str(done.damaged))}")


def backup(directory: Directory, target: NewDirectory) -> None:
    """Copy a data directory, consistently, while the queue runs.

    Finished segments are linked, not copied, where the target is on the same file system.
    """
    from ortoo.stores.disk.backup import back_up

    with show.working("backing up") as progress:
        size = back_up(directory, target, progress)
    show.done(f"{escape(str(target))}: {show.bytes_text(size)}; open it with `ortoo restore`")


def restore(
    backup_directory: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="what `ortoo backup` made", show_default=False)
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a new data directory", show_default=False)],
) -> None:
    """Copy a backup to a new data directory. The backup stays as it is."""
    from ortoo.stores.disk.backup import restore as restore_backup

    with show.working("restoring") as progress:
        size = restore_backup(backup_directory, directory, progress)
    show.done(f"{escape(str(directory))}: {show.bytes_text(size)}")
