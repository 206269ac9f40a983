"""`ortoo lag`: how far each group is behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from ortoo.model.errors import NotFoundError

from . import parse, show
from .connection import Target, complete_topic, on_target
from .help import Json, examples
from .template import Template, check_one, format_option

if TYPE_CHECKING:
    from ortoo import SyncQueue

EXAMPLES = examples(
    "ortoo lag",
    "ortoo lag orders --sort seconds",
    "ortoo lag --watch 2s",
    "ortoo lag orders --group billing --fail-above 1000 || echo 'billing is behind'",
    "ortoo lag --fail-above 5m --json",
)
_WATCH_SECONDS_MIN = 0.1
Sort = Literal["messages", "seconds", "topic"]


class Lag(msgspec.Struct, frozen=True):
    """Of one durable group."""

    topic: str
    group: str
    messages: int  # not settled yet
    seconds: float | None  # for which the oldest of them has waited; None where it is not told
    oldest: float | None  # when that was published, or came due: seconds since 1970
    ready: int
    leased: int
    delayed: int
    blocked: int  # behind a key or partition that is held
    consumers: int
    paused: bool


Format = Annotated[Template | None, format_option(Lag.__struct_encode_fields__)]


@on_target
def lag(
    target: Target,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="a topic", show_default="all", autocompletion=complete_topic),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="only this group", show_default="all")] = None,
    sort: Annotated[Sort, typer.Option("--sort", "-s", help="messages, seconds or topic")] = "messages",
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="N|DURATION",
            help="exit with 1 if a group is further behind; with --watch, as soon as one is",
            show_default="never",
        ),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            parser=parse.duration, metavar="DURATION", help="again each time, until Ctrl-C", show_default="once"
        ),
    ] = None,
    json: Json = False,
    template: Format = None,
) -> None:
    """Show how far each consumer group is behind: in messages, and in seconds.

    Seconds are the age of the oldest message that the group has not settled; delayed ones count from when they come due. With
    --fail-above, a number is messages, and a duration such as 5m is time.
    """
    most = None if fail_above is None else _bound(fail_above)
    check_one(json, template)
    if watch is not None and json:
        raise typer.BadParameter("give --watch or --json, not both")
    with target.open() as queue:
        while True:
            rows = lags(queue, target.namespace, topic, group, sort)
            _print(rows, json, template)
            if most is not None and any(_is_above(row, *most) for row in rows):
                raise typer.Exit(1)
            if watch is None:
                break
            time.sleep(max(watch, _WATCH_SECONDS_MIN))
            if template is None:
                show.line("")


def lags(queue: SyncQueue, namespace: str, topic: str | None, group: str | None, sort: Sort) -> list[Lag]:
    topics = queue.topics() if topic is None else [queue.topic(topic)]
    figures = {named.name.name: named.groups for named in queue.metrics().topics if named.name.namespace == namespace}
    now = time.time()
    rows = []
    for info in topics:
        for one in info.groups:
            if one.ephemeral or group not in (None, one.name):
                continue
            known = figures.get(info.name, {}).get(one.name)
            seconds = None if known is None else round(known.oldest_pending_seconds, 3)
            if not one.backlog:
                seconds = 0.0
            oldest = now - seconds if seconds else None
            states = one.ready, one.leased, one.delayed, one.blocked, len(one.consumers), one.paused
            rows.append(Lag(info.name, one.name, one.backlog, seconds, oldest, *states))
    if group is not None and not rows:  # a name that is misspelt must not look as if all were well
        if topic is not None:
            queue.group(topic, group)  # says that there is none
        raise NotFoundError(f"no topic of namespace {namespace!r} has a group {group!r}; `ortoo lag` shows the groups")
    return sorted(rows, key=lambda row: _place(row, sort))


def _place(row: Lag, sort: Sort) -> tuple[Any, ...]:
    first = {"messages": -row.messages, "seconds": -(row.seconds or 0.0), "topic": 0}[sort]
    return first, row.topic, row.group


def _bound(text: str) -> tuple[int | None, float | None]:
    if text.isascii() and text.isdigit():
        return int(text), None
    return None, parse.duration(text)


def _is_above(row: Lag, messages: int | None, seconds: float | None) -> bool:
    return (messages is not None and row.messages > messages) or (
        seconds is not None and (row.seconds or 0.0) > seconds
    )


def _print(rows: list[Lag], json: bool, template: Template | None) -> None:
    if template is not None:
        template.print(rows)
        return
    if json:
        show.json_document(rows)
        return
    show.table(
        ("topic", "group", "messages", "oldest", "ready", "leased", "delayed", "blocked", "consumers"),
        [
            (
                row.topic,
                f"{row.group} (paused)" if row.paused else row.group,
                row.messages,
                show.figure("–" if row.seconds is None else show.seconds_text(round(row.seconds))),
                row.ready,
                row.leased,
                row.delayed,
                row.blocked,
                row.consumers,
            )
            for row in rows
        ],
        "no consumer groups",
    )
