"""`ortoo migrate`: a queue moves to another store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from . import show
from .help import Json, examples

if TYPE_CHECKING:
    from ortoo.app.targets import Moved

EXAMPLES = examples(
    "ortoo migrate --from ./data --to postgres://queue@db1/q",
    "ortoo migrate --from postgres://queue@db1/q --to ./data",
    "ortoo migrate --from ./data --to ./data2 --keys file:old.keys --to-keys file:new.keys",
)
Keys = Annotated[
    str | None,
    typer.Option(help="for encrypted topics: file:PATH or command:CMD; default $ORTOO_ENCRYPTION_KEYS"),
]
TargetKeys = Annotated[
    str | None, typer.Option(help="keys that the target encrypts with, where they are others than --keys")
]
Spill = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="PostgreSQL: the server's spill, where commits may wait that a database does not have",
        envvar="ORTOO_SPILL",
    ),
]
SPILL = Path("data", "spill")  # a server's own, when it is told of no other
Verify = Annotated[bool, typer.Option(help="read everything again in both, and compare")]


def migrate(
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="STORE", help="a data directory, or postgres://USER@HOST/DATABASE", show_default=False
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to", metavar="STORE", help="a new directory, or a database without a queue", show_default=False
        ),
    ],
    keys: Keys = None,
    to_keys: TargetKeys = None,
    verify: Verify = True,
    spill: Spill = SPILL,
    json: Json = False,
) -> None:
    """Move a queue to another store: directory or PostgreSQL, in each direction.

    Everything moves: messages with their offsets, groups, leases, attempts, delays, dedup ids, open transactions, dead letters,
    history. Receipts and ids stay good. The queue must not be running; the source does not change. The target is no queue before
    everything is there and is the same: if this is interrupted, run it again. The exit code is 1 if both differ.
    """
    from ortoo.app import migrate as moving
    from ortoo.app.stores import shown_store

    with show.working("moving") as progress:
        moved = asyncio.run(
            moving.migrate(source, target, keys, to_keys, verify=verify, spill=spill, progress=progress)
        )
    show_moved(moved, shown_store(target), json)


def show_moved(moved: Moved, target: str, json: bool) -> None:
    """And ends with 1 if something differs."""
    if json:
        show.json_document(moved)
    else:
        _show(moved, target)
    if moved.differences:
        raise typer.Exit(1)


def _show(moved: Moved, target: str) -> None:
    for problem in moved.problems:
        show.line(f"[yellow]![/yellow] {escape(problem)}")
    for difference in moved.differences:
        show.line(f"[red]✗[/red] {escape(difference)}")
    if moved.differences:
        show.line(f"{len(moved.differences)} differences: {escape(target)} stays closed, and the source is as it was.")
        show.line("Run it again, and if that does not help, report a bug.")
        return
    counted = (
        f"{moved.messages} messages in {moved.topics} topics, {moved.groups} groups, {moved.leases} leases, "
        f"{moved.history} records of history, {moved.transactions} open transactions"
    )
    show.done(f"{escape(target)}: {counted}; {'all the same' if moved.verified else 'not compared'}")
