"""`ortoo groups`: who has read how far, and moving them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from rich.markup import escape

from ortoo.model.replies import GroupInfo

from . import parse, show
from .connection import Target, Topic, on_target
from .help import Json, Yes, examples
from .template import Template, check_one, format_option

app = typer.Typer(no_args_is_help=True, help="List, show, create, move, pause and delete consumer groups.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="a group of the topic", show_default=False)]
Offset = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="this offset in each partition", show_default=False)
]
Time = Annotated[
    float | None,
    typer.Option(parser=parse.past, metavar="TIME", help="messages published since then, e.g. -1h", show_default=False),
]

_COUNTS = ("backlog", "ready", "delayed", "leased", "blocked", "dead", "skipped", "leases")


def group_rows(groups: Sequence[GroupInfo]) -> tuple[tuple[str, ...], list[tuple[str | int, ...]]]:
    headings = ("group", *_COUNTS, "consumers")
    rows = [
        (
            _name(group),
            *(getattr(group, count) for count in _COUNTS),
            len(group.consumers),
        )
        for group in sorted(groups, key=lambda group: group.name)
    ]
    return headings, rows


def _name(group: GroupInfo) -> str:
    marks = [word for word, is_so in (("ephemeral", group.ephemeral), ("paused", group.paused)) if is_so]
    return f"{group.name} ({', '.join(marks)})" if marks else group.name


Format = Annotated[Template | None, format_option(GroupInfo.__struct_encode_fields__)]


@app.command(
    "list", epilog=examples("ortoo groups list orders", "ortoo groups list orders --format '{name} {backlog}'")
)
@on_target
def list_groups(target: Target, topic: Topic, json: Json = False, template: Format = None) -> None:
    """List the consumer groups of a topic, with their backlogs.

    The backlog is everything ready, delayed, leased or blocked (behind an unsettled message with the same key). Dead messages
    were dead-lettered; skipped messages were removed by retention before the group settled them.
    """
    check_one(json, template)
    with target.open() as queue:
        groups = sorted(queue.groups(topic), key=lambda group: group.name)
    if template is not None:
        template.print(groups)
        return
    if json:
        show.json_document(groups)
        return
    show.table(*group_rows(groups), "no consumer groups yet")


@app.command("show", epilog=examples("ortoo groups show orders billing"))
@on_target
def show_group(target: Target, topic: Topic, group: Group, json: Json = False) -> None:
    """Show one group: its counts, its position in each partition, its consumers."""
    with target.open() as queue:
        ends = [partition.end for partition in queue.topic(topic).partitions]
        info = queue.group(topic, group)
    if json:
        show.json_document(info)
        return
    show.table(*group_rows([info]))
    show.line("")
    places = zip(info.cursors, ends, strict=True)
    show.table(("partition", "done below", "end"), [(at, done, end) for at, (done, end) in enumerate(places)])
    show.line("")
    show.table(
        ("consumer", "owned partitions"),
        [(name, ", ".join(map(str, owned)) or "–") for name, owned in info.consumers.items()],
        "no consumers",
    )


@app.command(
    epilog=examples(
        "ortoo groups seek orders billing --to start",
        "ortoo groups seek orders billing --to -1h",
        "ortoo groups seek orders billing --to 2026-01-31T12:00Z --dry-run",
        "ortoo groups seek orders billing --offset 0 --to-offset 100",
    )
)
@on_target
def seek(
    target: Target,
    topic: Topic,
    group: Group,
    at: Annotated[
        str | None, typer.Argument(metavar="[WHERE]", help="the same as --to, e.g. start", show_default=False)
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="start|end|TIME|OFFSET", help="where to go, e.g. -1h", show_default=False),
    ] = None,
    offset: Offset = None,
    time: Time = None,
    to_offset: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="redeliver only messages before this offset", show_default=False),
    ] = None,
    to_time: Annotated[
        float | None,
        typer.Option(
            parser=parse.instant, metavar="TIME", help="redeliver only messages before this time", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only tell what would happen")] = False,
) -> None:
    """Move a group to the start, the end, an offset or a time.

    With --to-offset or --to-time, only that range is redelivered, and the rest stays as it is. The group's current leases are
    revoked, and attempts are reset.
    """
    if sum(given is not None for given in (at, to, offset, time)) != 1:
        raise typer.BadParameter("say where to, once: --to start, --to end, --to TIME or --to OFFSET")
    where: Literal["start", "end"] | None = None
    if (named := at or to) is not None:
        where, offset, time = parse.place(named)
    with target.open() as queue:
        if dry_run:
            found = queue.preview_seek(
                topic, group, where, offset=offset, time=time, to_offset=to_offset, to_time=to_time
            )
            show.line(f"{show.count(found.messages, 'message')} would be delivered")
            show.line(f"{show.count(found.skipped, 'message')} waiting now would be skipped")
            show.line(f"{show.count(found.leased, 'receipt')} would become invalid")
            return
        queue.seek(topic, group, where, offset=offset, time=time, to_offset=to_offset, to_time=to_time)
        backlog = queue.group(topic, group).backlog
    show.done(f"group {escape(group)} of {escape(topic)} now has a backlog of {show.count(backlog, 'message')}")


@app.command(
    epilog=examples(
        "ortoo groups pause orders billing", "ortoo groups pause orders billing --for 1h --reason 'the bank is down'"
    )
)
@on_target
def pause(
    target: Target,
    topic: Topic,
    group: Group,
    seconds: Annotated[
        float | None,
        typer.Option("--for", parser=parse.duration, metavar="TIME", help="how long", show_default="until resumed"),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="why, for others to read", show_default=False)] = None,
) -> None:
    """Deliver nothing to the consumers of a group.

    Messages that they have leased can still be settled, and new messages are kept. The pause survives restarts.
    """
    with target.open() as queue:
        queue.pause_group(topic, group, seconds=seconds, reason=reason)
        info = queue.group(topic, group)
    until = "until it is resumed" if info.paused_until is None else f"until {show.time_text(info.paused_until)}"
    show.done(f"group {escape(group)} of {escape(topic)} paused {until}")


@app.command(epilog=examples("ortoo groups resume orders billing"))
@on_target
def resume(target: Target, topic: Topic, group: Group) -> None:
    """End the pause of a group."""
    with target.open() as queue:
        queue.resume_group(topic, group)
        backlog = queue.group(topic, group).backlog
    show.done(f"group {escape(group)} of {escape(topic)} resumed, with a backlog of {show.count(backlog, 'message')}")


@app.command(
    epilog=examples("ortoo groups create orders billing", "ortoo groups create orders audit new"),
)
@on_target
def create(
    target: Target,
    topic: Topic,
    group: Group,
    at: Annotated[
        Literal["all", "new"] | None,
        typer.Argument(metavar="all|new", help="all (the default) or new", show_default=False),
    ] = None,
    offset: Offset = None,
    time: Time = None,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="delete the group with its last consumer")] = False,
) -> None:
    """Create a consumer group before its first consumer joins, and choose where it starts.

    Consuming also creates a group, which starts at the oldest message.
    """
    with target.open() as queue:
        queue.create_group(topic, group, at, offset=offset, time=time, ephemeral=ephemeral)
        backlog = queue.group(topic, group).backlog
    show.done(f"group {escape(group)} of {escape(topic)} has a backlog of {show.count(backlog, 'message')}")


@app.command(epilog=examples("ortoo groups delete orders billing --yes"))
@on_target
def delete(target: Target, topic: Topic, group: Group, yes: Yes = False) -> None:
    """Delete a consumer group and its state. The messages stay."""
    show.confirm(f"Delete group {group!r} of topic {topic!r}?", yes)
    with target.open() as queue:
        queue.delete_group(topic, group)
    show.done(f"group {escape(group)} of {escape(topic)} deleted")
