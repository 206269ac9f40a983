"""`ortoo dlq`: what was given up, and giving it another chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ortoo.client.dead_letters import is_letter
from ortoo.model.errors import NotFoundError
from ortoo.model.failures import ErrorKind
from ortoo.model.message import Received
from ortoo.model.replies import MessageInfo

from . import show
from .connection import Target, Topic, on_target
from .help import Json, Yes, examples
from .messages import Format, Id, print_message, print_trace
from .template import Template, check_one, format_option, message_row

if TYPE_CHECKING:
    from ortoo import SyncQueue

app = typer.Typer(
    no_args_is_help=True, help="List, count, show, redrive and delete dead letters: messages that a group gave up on."
)

OfGroup = Annotated[
    str | None, typer.Option("--group", "-g", help="only dead letters of this group", show_default="all groups")
]
OfError = Annotated[
    str | None,
    typer.Option(
        "--error", help="only those with this error, as `ortoo dlq errors` shows it", show_default="all errors"
    ),
]
AtMost = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="at most so many, the oldest", show_default="all")
]

ErrorFormat = Annotated[Template | None, format_option(ErrorKind.__struct_encode_fields__)]
_TOLD = 10


@app.command(
    "list", epilog=examples("ortoo dlq list orders", "ortoo dlq list orders --json | jq '.[].headers[\"ortoo-error\"]'")
)
@on_target
def list_letters(
    target: Target,
    topic: Topic,
    group: OfGroup = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="maximum number")] = 100,
    json: Json = False,
    template: Format = None,
) -> None:
    """List the dead letters of a topic, oldest first, with their reasons."""
    check_one(json, template)
    with target.open() as queue:
        letters = queue.dead_letters(topic, group=group, limit=limit)
    if template is not None:
        template.print(message_row(show.message_fields(letter)) for letter in letters)
        return
    if json:
        show.json_document([show.message_fields(letter) for letter in letters])
        return
    headings = ("id", "given up", "group", "reason", "attempts", "error", "key", "value")
    show.table(headings, [_row(letter) for letter in letters], "no dead letters")


def _row(letter: Received) -> tuple[Any, ...]:
    told = [letter.headers.get(f"ortoo-{name}", "") for name in ("group", "reason", "attempts", "error")]
    return (letter.id, show.time_text(letter.timestamp), *told, letter.key, show.value_text(letter.value, 40))


@app.command("show", epilog=examples("ortoo dlq show orders 9.0.3"))
@on_target
def show_letter(target: Target, topic: Topic, letter_id: Id, json: Json = False) -> None:
    """Show a dead letter and what happened to the original message."""
    with target.open() as queue:
        [info] = _find(queue, topic, [letter_id])
        letter, history = info.message, None
        try:
            history = queue.trace(letter.headers["ortoo-origin"])
        except NotFoundError:
            pass  # retention has removed the original
    if json:
        show.json_document({"message": show.message_fields(letter), "trace": history})
        return
    print_message(info)
    if history is not None:
        show.line("")
        print_trace(history)


def _find(queue: SyncQueue, topic: str, ids: list[str]) -> list[MessageInfo]:
    """Those dead letters of the topic. Any other message is not one, whatever its id."""
    info, found = queue.topic(topic), []
    for letter_id in ids:
        try:
            letter = queue.message(letter_id)
        except NotFoundError:
            letter = None
        dlq = (info.namespace, info.dlq)
        if (
            letter is None
            or (letter.message.namespace, letter.message.topic) != dlq
            or not is_letter(letter.message, info)
        ):
            raise NotFoundError(f"topic {topic!r} has no dead letter {letter_id}; `ortoo dlq list` shows them")
        found.append(letter)
    return found


@app.command(epilog=examples("ortoo dlq errors orders", "ortoo dlq errors orders -g billing --json"))
@on_target
def errors(
    target: Target,
    topic: Topic,
    group: OfGroup = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="maximum number")] = 20,
    json: Json = False,
    template: ErrorFormat = None,
) -> None:
    """Count the dead letters of a topic by error, the most frequent first.

    Errors that differ only in numbers and ids are one: `--error` of redrive and delete takes them as they are shown here.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.dead_letter_errors(topic, group=group, limit=limit)
    if template is not None:
        template.print(found.errors)
        return
    if json:
        show.json_document(found)
        return
    rows = [
        (
            kind.count,
            kind.error,
            ", ".join(kind.groups),
            show.time_text(kind.first),
            show.time_text(kind.last),
            kind.ids[0],
        )
        for kind in found.errors
    ]
    show.table(("count", "error", "groups", "first", "last", "one of them"), rows, "no dead letters")
    if not found.complete:
        show.line(f"counted in the oldest {show.count(found.scanned, 'dead letter')}; there are more")


@app.command(
    epilog=examples(
        "ortoo dlq redrive orders 9.0.3 9.0.4",
        "ortoo dlq redrive orders --all",
        "ortoo dlq redrive orders -g billing",
        "ortoo dlq redrive orders --error 'no account <n>'",
    )
)
@on_target
def redrive(
    target: Target,
    topic: Topic,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="dead letters; or choose them with options", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all dead letters of the topic")] = False,
    group: OfGroup = None,
    error: OfError = None,
    limit: AtMost = None,
) -> None:
    """Make dead letters deliverable again, for the group that gave up on them.

    Choose them: by their ids, with --group, --error or --limit, or --all.

    Attempts are reset, and the dead letter is removed. A message that fails again becomes a new dead letter, which the same
    command does not redrive.
    """
    if ids and every:
        raise typer.BadParameter("give ids or --all, not both")
    with target.open() as queue, show.working("redriving"):
        if not ids and not every and group is None and error is None and limit is None:
            raise typer.BadParameter(_too_vague(queue, topic))
        count = queue.redrive(topic, ids or None, group=group, error=error, limit=limit)
    show.done(f"{show.count(count, 'dead letter')} of {escape(topic)} deliverable again")
    if count.skipped:
        few = ", ".join(count.skipped[:_TOLD])
        show.line(f"{show.count(count.skipped_count, 'dead letter')} skipped, as their headers name no message: {few}")


def _too_vague(queue: SyncQueue, topic: str) -> str:
    found = queue.dead_letter_errors(topic, limit=1)
    number = show.count(found.scanned, "dead letter") + ("" if found.complete else " or more")
    return f"topic {topic!r} has {number}: name some by id, choose with --group, --error or --limit, or say --all"


@app.command(
    epilog=examples(
        "ortoo dlq delete orders 9.0.3 --yes", "ortoo dlq delete orders --error 'no account <n>' --limit 100 --yes"
    )
)
@on_target
def delete(
    target: Target,
    topic: Topic,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="dead letters; or choose them with options", show_default=False),
    ] = None,
    group: OfGroup = None,
    error: OfError = None,
    limit: AtMost = None,
    yes: Yes = False,
) -> None:
    """Delete dead letters permanently: some by their ids, or those of a group or with an error."""
    if not ids and group is None and error is None and limit is None:
        raise typer.BadParameter(
            f"name dead letters by id, or choose with --group, --error or --limit; `ortoo dlq purge {topic}` deletes all"
        )
    what = show.count(len(ids), "dead letter") if ids else "these dead letters"
    show.confirm(f"Delete {what}?", yes)
    with target.open() as queue:
        if ids:
            _find(queue, topic, ids)  # all of them, before one is deleted
        count = queue.delete_dead_letters(topic, ids or None, group=group, error=error, limit=limit)
    show.done(f"{show.count(count, 'dead letter')} of {escape(topic)} deleted")


@app.command(epilog=examples("ortoo dlq purge orders --yes"))
@on_target
def purge(target: Target, topic: Topic, yes: Yes = False) -> None:
    """Delete all dead letters of a topic permanently."""
    show.confirm(f"Delete all dead letters of topic {topic!r}?", yes)
    with target.open() as queue, show.working("removing"):
        count = queue.purge_dead_letters(topic)
    show.done(f"{show.count(count, 'dead letter')} of {escape(topic)} deleted")
