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

app = typer.Typer(no_args_is_help=True, help="Look at consumer groups, and move them.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="a group of the topic", show_default=False)]
Offset = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="to this offset of each partition", show_default=False)
]
Time = Annotated[
    float | None,
    typer.Option(
        parser=parse.past, metavar="TIME", help="to what was published since then, e.g. -1h", show_default=False
    ),
]

_COUNTS = ("backlog", "ready", "delayed", "leased", "blocked", "dead", "skipped", "leases")


def group_rows(groups: Sequence[GroupInfo]) -> tuple[tuple[str, ...], list[tuple[str | int, ...]]]:
    headings = ("group", *_COUNTS, "consumers")
    rows = [
        (
            f"{group.name} (ephemeral)" if group.ephemeral else group.name,
            *(getattr(group, count) for count in _COUNTS),
            len(group.consumers),
        )
        for group in sorted(groups, key=lambda group: group.name)
    ]
    return headings, rows


@app.command("list", epilog=examples("ortoo groups list orders"))
@on_target
def list_groups(target: Target, topic: Topic, json: Json = False) -> None:
    """List the groups of a topic and what each still has to do.

    The backlog is what is ready, delayed, leased or blocked (behind an unsettled message of the same key). Dead ones were
    given up; skipped ones were removed by retention before the group came to them.
    """
    with target.open() as queue:
        groups = queue.groups(topic)
    if json:
        show.json_document(sorted(groups, key=lambda group: group.name))
        return
    show.table(*group_rows(groups), "no groups yet: nobody has consumed")


@app.command("show", epilog=examples("ortoo groups show orders billing"))
@on_target
def show_group(target: Target, topic: Topic, group: Group, json: Json = False) -> None:
    """Show one group: its counts, its place in each partition, its consumers."""
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
        ("consumer", "partitions it owns"),
        [(name, ", ".join(map(str, owned)) or "–") for name, owned in info.consumers.items()],
        "no consumers at the moment",
    )


@app.command(
    epilog=examples(
        "ortoo groups seek orders billing start",
        "ortoo groups seek orders billing --time -1h",
        "ortoo groups seek orders billing --offset 0 --to-offset 100",
    )
)
@on_target
def seek(
    target: Target,
    topic: Topic,
    group: Group,
    at: Annotated[
        Literal["start", "end"] | None, typer.Argument(metavar="start|end", help="start or end", show_default=False)
    ] = None,
    offset: Offset = None,
    time: Time = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="only up to here", show_default=False)
    ] = None,
    to_time: Annotated[
        float | None, typer.Option(parser=parse.instant, metavar="TIME", help="only up to then", show_default=False)
    ] = None,
) -> None:
    """Move a group to the start, the end, an offset or a time.

    With --to-offset or --to-time just that stretch is delivered again, and the rest stays as it is. What the group's
    consumers hold at the moment is no longer theirs, and attempts count anew.
    """
    if sum(given is not None for given in (at, offset, time)) != 1:
        raise typer.BadParameter("say where to: start, end, --offset N or --time T")
    with target.open() as queue:
        queue.seek(topic, group, at, offset=offset, time=time, to_offset=to_offset, to_time=to_time)
        backlog = queue.group(topic, group).backlog
    show.done(f"group {escape(group)} of {escape(topic)} now has {show.count(backlog, 'message')} before it")


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
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="goes with its last consumer")] = False,
) -> None:
    """Make a group before its first consumer comes, and say where it begins.

    Consuming makes a group, too, which then begins with everything the topic still has.
    """
    with target.open() as queue:
        queue.create_group(topic, group, at, offset=offset, time=time, ephemeral=ephemeral)
        backlog = queue.group(topic, group).backlog
    show.done(f"group {escape(group)} of {escape(topic)} has {show.count(backlog, 'message')} before it")


@app.command(epilog=examples("ortoo groups delete orders billing --yes"))
@on_target
def delete(target: Target, topic: Topic, group: Group, yes: Yes = False) -> None:
    """Remove a group and what it remembers. The messages stay."""
    show.confirm(f"Remove group {group!r} of topic {topic!r}?", yes)
    with target.open() as queue:
        queue.delete_group(topic, group)
    show.done(f"group {escape(group)} of {escape(topic)} is gone")
