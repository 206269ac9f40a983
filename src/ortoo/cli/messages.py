"""`ortoo messages` and `ortoo trace`: single messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.markup import escape
from rich.text import Text

from ortoo.model.message import Received
from ortoo.model.replies import MessageInfo, Trace, TraceEvent

from . import parse, show
from .connection import Target, Topic, on_target
from .help import Json, Yes, examples
from .template import MESSAGE, Template, check_one, format_option, message_row

TRACE_EXAMPLES = examples("ortoo trace 7.2.41")
STATS_EXAMPLES = examples("ortoo stats", "ortoo stats --json | jq .depth")

app = typer.Typer(no_args_is_help=True, help="List, search, show, delete, retry and dead-letter individual messages.")

Id = Annotated[str, typer.Argument(metavar="ID", help="a message id, e.g. 7.2.41", show_default=False)]
Format = Annotated[Template | None, format_option(MESSAGE)]
EventFormat = Annotated[Template | None, format_option(TraceEvent.__struct_encode_fields__)]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="message ids, e.g. 7.2.41", show_default=False)]
Limit = Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="maximum number")]
ForGroup = Annotated[str | None, typer.Option("--group", "-g", help="only for this group", show_default="all groups")]
State = Literal["ready", "delayed", "leased", "blocked", "done", "dead"]


def print_messages(messages: list[Received], empty: str, json: bool, template: Template | None) -> None:
    fields = map(show.message_fields, messages)
    if template is not None:
        template.print(map(message_row, fields))
        return
    if json:
        show.json_document(list(fields))
        return
    rows = [
        (
            message.id,
            show.time_text(message.timestamp),
            message.key,
            message.priority,
            len(message.value),
            show.value_text(message.value, 60),
        )
        for message in messages
    ]
    show.table(("id", "published", "key", "priority", "bytes", "value"), rows, empty)


@app.command(
    "list",
    epilog=examples("ortoo messages list orders", "ortoo messages list orders --group billing --state delayed"),
)
@on_target
def list_messages(
    target: Target,
    topic: Topic,
    group: Annotated[str, typer.Option("--group", "-g", help="consumer group")] = "default",
    state: Annotated[
        State, typer.Option("--state", "-s", help="ready, delayed, leased, blocked, done or dead")
    ] = "ready",
    limit: Limit = 100,
    json: Json = False,
    template: Format = None,
) -> None:
    """List the messages that are in one state for a group, without leasing them.

    Blocked messages wait behind an unsettled message with the same key; delayed messages are not due yet, or wait for a retry.
    """
    check_one(json, template)
    with target.open() as queue:
        messages = queue.messages(topic, group=group, state=state, limit=limit)
    print_messages(messages, f"no {state} messages for group {group!r}", json, template)


@app.command(
    epilog=examples(
        "ortoo messages search orders",
        "ortoo messages search orders 'key:ann value.total>100'",
        "ortoo messages search orders '\"no account\" header.source:shop' --from-time -1h --json",
    )
)
@on_target
def search(
    target: Target,
    topic: Topic,
    filter: Annotated[str, typer.Argument(metavar="[FILTER]", help="what to look for", show_default="everything")] = "",
    oldest: Annotated[bool, typer.Option("--oldest", help="the oldest first, rather than the newest")] = False,
    from_time: Annotated[
        float | None,
        typer.Option(parser=parse.past, metavar="TIME", help="published since then, e.g. -1h", show_default=False),
    ] = None,
    to_time: Annotated[
        float | None,
        typer.Option(parser=parse.instant, metavar="TIME", help="published before then", show_default=False),
    ] = None,
    limit: Limit = 20,
    most: Annotated[int, typer.Option("--scan", metavar="N", min=1, help="messages to look at, about")] = 1_000_000,
    json: Json = False,
    template: Format = None,
) -> None:
    """Search the messages of a topic, newest first, without a group.

    A filter has terms separated by spaces, all of which must match: a word or "quoted words" in the value, `key:ann`, `key:an*`,
    `header.NAME:text`, and comparisons of JSON fields such as `value.order.total>100` (also < >= <= = !=).
    """
    check_one(json, template)
    found: list[Received] = []
    place, scanned = None, 0
    with target.open() as queue, show.working("searching"):
        while True:
            page = queue.search(
                topic,
                filter,
                from_time=from_time if place is None else None,
                to_time=to_time if place is None else None,
                newest=not oldest,
                limit=limit - len(found),
                next=place,
            )
            found += page.messages
            place, scanned = page.next, scanned + page.scanned
            if place is None or len(found) >= limit or scanned >= most:
                break
    print_messages(found, f"nothing found among {show.count(scanned, 'message')}", json, template)
    if place is not None and found and not json and template is None:
        show.line(f"looked at {show.count(scanned, 'message')}; there are more")


@app.command("show", epilog=examples("ortoo messages show 7.2.41", "ortoo messages show 7.2.41 --raw > value.bin"))
@on_target
def show_message(
    target: Target,
    message_id: Id,
    raw: Annotated[bool, typer.Option("--raw", help="print only the value")] = False,
    json: Json = False,
) -> None:
    """Show one message: its fields, its state in each group, its value."""
    with target.open() as queue:
        info = queue.message(message_id)
    if raw:
        show.write(info.message.value)
        show.flush()
    elif json:
        show.json_document({"message": show.message_fields(info.message), "states": info.states})
    else:
        print_message(info)


def print_message(info: MessageInfo) -> None:
    message = info.message
    rows: list[tuple[str, Any]] = [
        ("id", message.id),
        ("topic", message.topic),
        ("partition, offset", f"{message.partition}, {message.offset}"),
        ("published", show.time_text(message.timestamp)),
        *([("publisher", message.publisher)] if message.publisher is not None else ()),
        ("key", message.key),
        ("priority", str(message.priority)),
        *((f"header {name}", text) for name, text in message.headers.items()),
        *((f"group {name}", state) for name, state in info.states.items()),
        ("value", show.value_text(message.value, 1000)),
    ]
    show.table(("field", "value"), rows)


@app.command(epilog=examples("ortoo messages delete 7.2.41 --yes"))
@on_target
def delete(target: Target, ids: Ids, yes: Yes = False) -> None:
    """Delete messages for every group."""
    show.confirm(f"Delete {_count(ids)}?", yes)
    with target.open() as queue:
        for message_id in ids:
            queue.delete_message(message_id)
    show.done(f"{_count(ids)} deleted")


@app.command(epilog=examples("ortoo messages retry 7.2.41", "ortoo messages retry 7.2.41 --group billing"))
@on_target
def retry(target: Target, ids: Ids, group: ForGroup = None) -> None:
    """Make messages deliverable at once, whatever they are waiting for."""
    with target.open() as queue:
        for message_id in ids:
            queue.retry_now(message_id, group=group)
    show.done(f"{_count(ids)} can be delivered now")


@app.command("dead-letter", epilog=examples("ortoo messages dead-letter 7.2.41 --error 'the address does not exist'"))
@on_target
def dead_letter(
    target: Target,
    ids: Ids,
    group: ForGroup = None,
    error: Annotated[str | None, typer.Option(help="the reason to record", show_default=False)] = None,
) -> None:
    """Dead-letter pending messages."""
    with target.open() as queue:
        for message_id in ids:
            queue.dead_letter(message_id, group=group, error=error)
    show.done(f"{_count(ids)} dead-lettered")


def _count(ids: list[str]) -> str:
    return f"message {escape(ids[0])}" if len(ids) == 1 else f"{len(ids)} messages"


@on_target
def trace(target: Target, message_id: Id, json: Json = False, template: EventFormat = None) -> None:
    """Show what happened to a message, in order, and what is scheduled.

    Covers publishing, deliveries, failures with their errors, dead-lettering and redrives, for every group.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.trace(message_id)
    if template is not None:
        template.print(found.events)
        return
    if json:
        show.json_document(found)
        return
    print_trace(found)


def print_trace(found: Trace) -> None:
    rows = [_trace_row(event) for event in found.events]
    show.line(f"[bold]{found.id}[/bold] of {escape(show.printable(found.topic))}")
    if found.omitted:
        show.line(f"{show.count(found.omitted, 'older event')} left out")
    show.table(("time", "what", "group", "consumer", "attempt", "detail"), rows, "nothing is remembered of it")


_STYLES = {
    "acknowledged": "green",
    "nacked": "yellow",
    "lease expired": "yellow",
    "dead-lettered": "red",
    "dropped": "red",
}


def _trace_row(event: TraceEvent) -> tuple[Any, ...]:
    by = None if event.publisher is None else f"by {event.publisher}"
    told = [by, event.reason, event.error, None if event.until is None else f"until {show.time_text(event.until)}"]
    return (
        show.time_text(event.time),
        Text(event.what, _STYLES.get(event.what, "")),
        event.group or "",
        event.consumer or "",
        event.attempt,
        ", ".join(text for text in told if text),
    )


@on_target
def stats(target: Target, json: Json = False) -> None:
    """Show statistics for the whole queue.

    Counters count messages since the queue was opened. Problems need an operator's attention; they do not change the exit code,
    which is 0.
    """
    with target.open() as queue:
        found = queue.stats()
    if json:
        show.json_document(found)
        return
    now = [(name, getattr(found, name)) for name in ("topics", "groups", "depth", "leases", "waiters", "transactions")]
    show.table(("now", "count"), now)
    show.line("")
    show.table(("since it was opened", "messages"), list(msgspec.structs.asdict(found.counters).items()))
    show.line("")
    for problem in found.problems:
        show.line(f"[red]✗[/red] {escape(show.printable(problem))}")
    if not found.problems:
        show.line("[green]✓[/green] no problems")
