"""Commands that look after stored data: check, repair, backup, restore. All but the first are for data directories only."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ortoo.model.errors import NotFoundError

from . import show
from .help import Json, examples
from .migrate import SPILL, Spill
from .parse import size

if TYPE_CHECKING:
    from ortoo.stores.postgres.check import SchemaReport

CHECK_EXAMPLES = examples("ortoo check ./data", "ortoo check postgres://queue@db1/q")
REPAIR_EXAMPLES = examples("ortoo repair ./data")
BACKUP_EXAMPLES = examples("ortoo backup ./data ./backup")
RESTORE_EXAMPLES = examples("ortoo restore ./backup ./data2")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="the data directory", show_default=False)]
Keys = Annotated[
    str | None,
    typer.Option(help="for encrypted topics: file:PATH or command:CMD; default $ORTOO_ENCRYPTION_KEYS"),
]
Limit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="PostgreSQL: read at most about so much of messages and of history, as in 1GiB"),
]
NewDirectory = Annotated[Path, typer.Argument(metavar="TARGET", help="a new directory", show_default=False)]


_DATABASE = re.compile(r"postgres(ql)?:/", re.IGNORECASE)


def _refuse_database(where: Path | str, doing: str) -> None:
    """What looks after files says what looks after a database."""
    if _DATABASE.match(str(where)):
        raise typer.BadParameter(f"{where} is a database, which PostgreSQL's own tools look after: {doing}")


_DUMP = "pg_dump --format=custom --schema=ortoo --dbname=DATABASE --file=queue.dump makes a consistent copy while the queue runs"
_UNDUMP = "pg_restore --dbname=DATABASE queue.dump brings one back into a database that has no such schema"


def check(
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="the data directory, or postgres://USER@HOST/DATABASE", show_default=False),
    ],
    keys: Keys = None,
    limit: Limit = None,
    spill: Spill = SPILL,
    json: Json = False,
) -> None:
    """Verify everything that is stored. Changes nothing; the exit code is 1 if something is wrong.

    Works on a running queue, too. In PostgreSQL it looks at the queue's tables as of one commit: that no commit and no message is
    missing, and that all of it can be read.
    """
    if _DATABASE.match(directory):
        _check_database(directory, keys, limit, spill, json)
    else:
        _check_directory(Path(directory), keys, json)


def _check_database(url: str, keys: str | None, limit: str | None, spill: Path, json: bool) -> None:
    from ortoo.stores.addresses import is_postgres
    from ortoo.stores.disk import open_ring

    bytes_max = None if limit is None else size(limit)
    assert is_postgres(url)
    from ortoo.stores.postgres import check_schema, parse_address

    with show.working("checking") as progress:
        report = asyncio.run(check_schema(parse_address(url), open_ring(keys), bytes_max, progress, spill))
    if json:
        show.json_document(report)
    else:
        _show_report(report)
    if report.problems:
        raise typer.Exit(1)


def _show_report(report: SchemaReport) -> None:
    for problem in report.problems:
        show.line(f"[red]✗[/red] {escape(problem)}")
    verdict = "[green]✓ no problems[/green]" if not report.problems else f"{len(report.problems)} problems"
    show.line(
        f"{verdict} up to commit {report.commit}: {report.messages} messages in {report.batches} batches, {report.commits} "
        f"commits since the checkpoint or kept, {show.bytes_text(report.read_bytes)} read"
    )
    if report.problems:
        show.line(f"Where data is missing, restore a backup: {escape(_UNDUMP)}.")


def _check_directory(directory: Path, keys: str | None, json: bool) -> None:
    from ortoo.stores.disk import open_ring
    from ortoo.stores.disk.check import check_directory
    from ortoo.stores.disk.view import ViewDisk

    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {directory}")
    with show.working("checking") as progress:
        report = check_directory(ViewDisk(directory), open_ring(keys), progress)
    if json:
        show.json_document(report)
    else:
        for problem in report.problems:
            show.line(f"[red]✗[/red] {escape(problem)}")
        counted = (
            f"{report.files} files, {show.bytes_text(report.bytes)}, {report.messages} messages, "
            f"{report.commits} commits"
        )
        verdict = "[green]✓ no problems[/green]" if not report.problems else f"{len(report.problems)} problems"
        show.line(f"{verdict}: {counted}")
        if report.damaged:
            show.line("Restore a backup with `ortoo restore`, or salvage what is readable with `ortoo repair`.")
    if report.problems:
        raise typer.Exit(1)


def repair(directory: Directory, keys: Keys = None, json: Json = False) -> None:
    """Repair a damaged data directory, and report exactly what is lost.

    The damaged directory is kept next to it. The queue must not be running.
    """
    from ortoo.app.repair import repair_directory

    _refuse_database(directory, f"`ortoo check` tells what is wrong, and a backup repairs it: {_UNDUMP}")
    with show.working("repairing"):
        done = repair_directory(directory, keys)
    if json:
        show.json_document(done)
        return
    for complaint in done.complaints:
        show.line(f"[yellow]![/yellow] {escape(complaint)}")
    for gone in [*done.losses, *done.commits]:
        show.line(f"[red]✗[/red] lost: {escape(str(gone))}")
    for transaction in done.transactions:
        show.line(f"[red]✗[/red] lost: everything staged in transaction {escape(transaction)}; begin it again")
    if not done.state_kept:
        show.line("The state of groups and all delays are lost: messages may be delivered again.")
    if done.skipped_records:
        show.line(
            f"{done.skipped_records} deliveries or settlements could not be replayed; those messages may be delivered again"
        )
    gone_count = sum(loss.end - loss.start for loss in done.losses if loss.end is not None and loss.certain)
    show.done(f"repaired: {done.messages} messages kept, {gone_count} lost")
    show.line(f"the damaged directory is kept as {escape(str(done.damaged))}")


def backup(directory: Directory, target: NewDirectory) -> None:
    """Make a consistent copy of a data directory, while the queue runs.

    Finished segments are hard-linked, not copied, if the target is on the same file system.
    """
    from ortoo.stores.disk.backup import back_up

    for where in (directory, target):
        _refuse_database(where, f"{_DUMP}; `ortoo migrate` moves a queue to or from a directory")
    with show.working("backing up") as progress:
        size = back_up(directory, target, progress)
    show.done(f"{escape(str(target))}: {show.bytes_text(size)}; open it with `ortoo restore`")


def restore(
    backup_directory: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="what `ortoo backup` made", show_default=False)
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a new data directory", show_default=False)],
) -> None:
    """Copy a backup to a new data directory. The backup does not change."""
    from ortoo.stores.disk.backup import restore as restore_backup

    for where in (backup_directory, directory):
        _refuse_database(where, f"{_UNDUMP}; `ortoo migrate` moves a queue to or from a directory")
    with show.working("restoring") as progress:
        size = restore_backup(backup_directory, directory, progress)
    show.done(f"{escape(str(directory))}: {show.bytes_text(size)}")
