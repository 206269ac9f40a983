"""`ortoo explain`, and what looks into deliveries among the commands of groups and topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from ortoo.model import limits
from ortoo.model.inspection import ConsumerInfo, Explanation, Holder, LeaseInfo, LockInfo, PartitionStrip
from ortoo.model.replies import MessageState

from . import groups, parse, show, topics
from .connection import Target, Topic, on_target
from .groups import Group
from .help import Json, examples
from .messages import Id
from .template import Template, check_one, format_option

EXAMPLES = examples("ortoo explain 7.2.41 --group billing")
LeaseFormat = Annotated[Template | None, format_option(LeaseInfo.__struct_encode_fields__)]
LockFormat = Annotated[Template | None, format_option(LockInfo.__struct_encode_fields__)]
ConsumerFormat = Annotated[Template | None, format_option(ConsumerInfo.__struct_encode_fields__)]
DelayedFormat = Annotated[Template | None, format_option(("start", "end", "messages"))]
Listed = Annotated[int, typer.Option(metavar="N", min=1, max=limits.LISTED_MAX, help="maximum number")]

STATES: dict[
    str, tuple[str, str]
] = {  # a glyph and a colour for each; where a bucket has several, the first one counts
    "dead": ("✕", "red"),
    "leased": ("◐", "yellow"),
    "blocked": ("▣", "magenta"),
    "delayed": ("◷", "blue"),
    "ready": ("●", "green"),
    "done": ("○", "dim"),
    "gone": ("·", "dim"),
}


@on_target
def explain(
    target: Target,
    message_id: Id,
    group: Annotated[str, typer.Option("--group", "-g", help="consumer group")] = "default",
    json: Json = False,
) -> None:
    """Explain why a group gets a message, or does not get it, and what can be done about it."""
    with target.open() as queue:
        found = queue.explain(message_id, group)
    if json:
        show.json_document(found)
        return
    print_explanation(found)


def print_explanation(found: Explanation) -> None:
    glyph, colour = STATES[found.state or "gone"]
    show.line(f"[{colour}]{glyph}[/{colour}] [bold]{found.reason}[/bold]: {escape(show.printable(found.text))}\n")
    rows: list[tuple[str, Any]] = [
        ("message", found.id),
        ("group", found.group),
        ("state", found.state),
        ("since", None if found.since is None else show.time_text(found.since)),
        ("until", None if found.until is None else show.time_text(found.until)),
        ("attempt", str(found.attempt)),
        ("consumers", str(found.consumers)),
    ]
    if found.behind is not None:
        rows += [("behind", found.behind.id), ("key", found.behind.key), ("held by", found.behind.consumer)]
    show.table(("field", "value"), rows)


@groups.app.command(epilog=examples("ortoo groups leases orders billing"))
@on_target
def leases(
    target: Target,
    topic: Topic,
    group: Group,
    limit: Listed = 100,
    next: Annotated[
        str | None, typer.Option("--next", metavar="NEXT", help="go on where the list before ended", show_default=False)
    ] = None,
    json: Json = False,
    template: LeaseFormat = None,
) -> None:
    """List what is leased in a group, and by whom, the oldest first."""
    check_one(json, template)
    with target.open() as queue:
        found = queue.leases(topic, group, limit=limit, next=next)
    if template is not None:
        template.print(found.leases)
        return
    if json:
        show.json_document(found)
        return
    rows = [
        (
            lease.consumer,
            lease.partition,
            f"{lease.first}–{lease.last}",
            lease.messages,
            show.time_text(lease.since),
            show.time_text(lease.until),
            lease.attempt,
        )
        for lease in found.leases
    ]
    headings = ("consumer", "partition", "offsets", "messages", "since", "until", "attempt")
    show.table(headings, rows, "nothing is leased")
    if found.next is not None:
        show.line(f"[dim]of {show.count(found.total, 'lease')}; go on with --next {found.next}[/dim]")


@groups.app.command(epilog=examples("ortoo groups locks orders billing"))
@on_target
def locks(
    target: Target,
    topic: Topic,
    group: Group,
    limit: Listed = 100,
    json: Json = False,
    template: LockFormat = None,
) -> None:
    """List the keys, or partitions, that other messages wait for.

    A message that is leased, or waits for its retry, holds its key; where order is by partition, it holds the partition. Those
    that most messages wait for come first.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.locks(topic, group, limit=limit)
    if template is not None:
        template.print(found.locks)
        return
    if json:
        show.json_document(found)
        return
    rows = [_lock_row(lock) for lock in found.locks]
    show.table(("key", "partition", "waiting", "state", "holder", "consumer", "until"), rows, "nothing is locked")
    if found.total > len(rows):
        show.line(f"[dim]{len(rows)} of {found.total:,}[/dim]")


def _lock_row(lock: LockInfo) -> tuple[show.Cell, ...]:
    holder = lock.holder or Holder("", None, None)
    until = None if holder.until is None else show.time_text(holder.until)
    return lock.key, lock.partition, lock.waiting, lock.state, holder.id, holder.consumer, until


@groups.app.command(epilog=examples("ortoo groups consumers orders billing"))
@on_target
def consumers(target: Target, topic: Topic, group: Group, json: Json = False, template: ConsumerFormat = None) -> None:
    """List who consumes a group, or has leases of it."""
    check_one(json, template)
    with target.open() as queue:
        found = queue.consumers(topic, group).consumers
    if template is not None:
        template.print(found)
        return
    if json:
        show.json_document(found)
        return
    rows = [
        (
            one.name,
            one.leases,
            one.messages,
            ", ".join(map(str, one.partitions)) or "–",
            None if one.seen is None else show.time_text(one.seen),
            None if one.oldest_lease is None else show.time_text(one.oldest_lease),
        )
        for one in found
    ]
    show.table(("consumer", "leases", "messages", "owned partitions", "seen", "oldest lease"), rows, "no consumers")


@topics.app.command(
    epilog=examples("ortoo topics strip orders --group billing", "ortoo topics strip orders --partition 2 --width 60")
)
@on_target
def strip(
    target: Target,
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="consumer group", show_default="none: what is stored")
    ] = None,
    width: Annotated[int, typer.Option(metavar="N", min=1, max=limits.STRIP_WIDTH_MAX, help="glyphs in a row")] = 72,
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="only this partition", show_default="all")
    ] = None,
    json: Json = False,
) -> None:
    """Draw the log of a topic as a group sees it.

    A row for each partition, from its oldest message to its newest: ● ready, ◐ leased, ◷ delayed, ▣ blocked, ○ done, ✕ dead,
    · gone. A glyph may stand for many messages; then it shows the most remarkable state among them: dead before leased, blocked,
    delayed, ready and done.
    """
    with target.open() as queue:
        found = queue.strip(topic, group, width=width, partition=partition)
    if json:
        show.json_document(found)
        return
    for drawn in found.partitions:
        show.out.print(_row(drawn))
    totals = Text()
    for state in ("ready", "leased", "delayed", "blocked", "done", "dead", "gone"):
        count = sum(sum(getattr(drawn, state)) for drawn in found.partitions)
        glyph, colour = STATES[state]
        totals.append(f"{glyph} ", colour).append(f"{state} {count:,}  ")
    totals.rstrip()
    show.out.print(totals)


def _row(strip: PartitionStrip) -> Text:
    row = Text(f"{strip.partition:>4} {strip.start:>12} ")
    for bucket in range(len(strip.ready)):
        glyph, colour = STATES[remarkable(strip, bucket)]
        row.append(glyph, colour)
    return row.append(f" {strip.end}")


def remarkable(strip: PartitionStrip, bucket: int) -> MessageState | str:
    return next((state for state in STATES if getattr(strip, state)[bucket]), "gone")


@topics.app.command(
    epilog=examples("ortoo topics delayed orders", "ortoo topics delayed orders --from now --to 1d --buckets 24")
)
@on_target
def delayed(
    target: Target,
    topic: Topic,
    from_time: Annotated[
        float | None, typer.Option("--from", parser=parse.instant, metavar="TIME", help="begin", show_default="now")
    ] = None,
    to_time: Annotated[
        float | None,
        typer.Option("--to", parser=parse.instant, metavar="TIME", help="end, e.g. 1d", show_default="a week later"),
    ] = None,
    buckets: Annotated[
        int, typer.Option(metavar="N", min=1, max=limits.DELAYED_BUCKETS_MAX, help="parts of that time")
    ] = 168,
    json: Json = False,
    template: DelayedFormat = None,
) -> None:
    """Count the delayed messages of a topic by when they come due.

    What waits for a retry in a single group is not among them.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.delayed(topic, from_time=from_time, to_time=to_time, buckets=buckets)
    if template is not None:
        begins = [found.start + at * found.seconds for at in range(len(found.counts))]
        template.print(
            {"start": begin, "end": begin + found.seconds, "messages": count}
            for begin, count in zip(begins, found.counts, strict=True)
            if count
        )
        return
    if json:
        show.json_document(found)
        return
    counts = [
        (show.time_text(found.start + at * found.seconds), count) for at, count in enumerate(found.counts) if count
    ]
    before, after = (
        [(name, number)] if number else [] for name, number in (("earlier", found.earlier), ("later", found.later))
    )
    show.table(("due from", "messages"), [*before, *counts, *after], "nothing is delayed")
