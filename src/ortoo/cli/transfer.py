"""`ortoo export`, `import` and `ensure`: topics, their settings and groups as a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from msgspec.structs import replace
from rich.markup import escape

from ortoo.model.errors import ExistsError, InvalidError, NotFoundError

from . import show
from .connection import Target, on_target
from .definitions import Change, Definitions, exported, plan, read_definitions
from .help import Yes, examples

if TYPE_CHECKING:
    from ortoo import SyncQueue

EXPORT_EXAMPLES = examples("ortoo export > queue.yaml", "ortoo export --format json --full | jq .topics")
IMPORT_EXAMPLES = examples(
    "ortoo import queue.yaml", "ortoo import queue.yaml --dry-run", "ortoo import queue.yaml --prune"
)
ENSURE_EXAMPLES = examples("ortoo ensure queue.yaml", "ortoo ensure queue.yaml --namespace shop")

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="YAML or JSON, as ortoo export writes it; - for standard input", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only show what would change")]


@on_target
def export_definitions(
    target: Target,
    format: Annotated[Literal["yaml", "json"], typer.Option("--format", help="yaml or json")] = "yaml",
    full: Annotated[
        bool, typer.Option("--full", help="all settings, not only those that differ from what is built in")
    ] = False,
) -> None:
    """Write the topics of a namespace, with their settings and groups, as YAML or JSON.

    No messages, and no secrets: addresses of webhooks are left out.
    """
    with target.open() as queue:
        found, secret = exported(queue.topics(), full)
    told = msgspec.to_builtins(found)
    if format == "json":
        show.json_document(told)
    else:
        import yaml

        show.write(yaml.safe_dump(told, sort_keys=False, allow_unicode=True).encode())
        show.flush()
    if secret:
        show.remark(f"dlq_webhook is left out, as it may be a secret: {', '.join(secret)}")


@on_target
def import_definitions(
    target: Target,
    file: File,
    prune: Annotated[
        bool, typer.Option("--prune", help="delete topics and groups that the file does not have")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Show what has to change until the namespace is as a file says, ask, and do it.

    Settings that the file does not name stay as they are. Nothing is deleted without --prune.
    """
    wanted = read_definitions(file)
    with target.open() as queue:
        changes = _planned(queue, wanted, prune)
        if changes and not dry_run:
            if not yes:
                show.confirm(f"Make {show.count(len(changes), 'change')}?", yes)
                _check_same(changes, plan(wanted, queue.topics(), prune))
            _apply(queue, changes)


@on_target
def ensure(target: Target, file: File, dry_run: DryRun = False) -> None:
    """Make topics and groups as a file says: for deploys. Doing it again changes nothing.

    Settings that the file does not name stay as they are, and nothing is deleted.
    """
    wanted = read_definitions(file)
    with target.open() as queue:
        changes = _planned(queue, wanted, prune=False)
        if changes and not dry_run:
            _apply(queue, changes)


def _planned(queue: SyncQueue, wanted: Definitions, prune: bool) -> list[Change]:
    changes = plan(wanted, queue.topics(), prune)
    for change in changes:
        colour = {"+": "green", "-": "red"}.get(change.text[0], "yellow")
        show.line(f"[{colour}]{escape(show.printable(change.text))}[/{colour}]")
    if not changes:
        show.done("nothing to change")
    return changes


def _check_same(shown: list[Change], found: list[Change]) -> None:
    """What was agreed to is done, and nothing else. How many messages a topic has by now makes no difference."""
    if [replace(change, text="") for change in shown] != [replace(change, text="") for change in found]:
        raise InvalidError("the topics were changed meanwhile, and nothing was done; run the command again")


def _apply(queue: SyncQueue, changes: list[Change]) -> None:
    done = 0
    try:
        for change in changes:
            _do(queue, change)
            done += 1
    finally:
        if done < len(changes):
            show.remark(
                f"{done} of {show.count(len(changes), 'change')} made before the error; the same command makes the rest"
            )
    show.done(f"{show.count(done, 'change')} made")


def _do(queue: SyncQueue, change: Change) -> None:
    """As often as it is said: another deploy may do the same."""
    match change.kind:
        case "create topic" | "change topic":
            queue.ensure_topic(change.topic, **change.settings)
        case "create group":
            with suppress(ExistsError):
                queue.create_group(change.topic, str(change.group))
        case "delete group":
            with suppress(NotFoundError):
                queue.delete_group(change.topic, str(change.group))
        case "delete topic":
            with suppress(NotFoundError):
                queue.delete_topic(change.topic)
