"""`ortoo peek`: look at the messages of a topic, or at what a group gets next. Nothing is leased, and no group moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ortoo.model.errors import NotFoundError
from ortoo.model.limits import BATCH_MESSAGES_MAX

from . import show
from .connection import Target, Topic, on_target
from .consume import (
    Format,
    FromOffset,
    FromTime,
    JsonLines,
    Partition,
    Printer,
    Raw,
    Reader,
    at_most,
    group_names,
    in_batches,
)
from .help import examples

if TYPE_CHECKING:
    from ortoo import SyncQueue
    from ortoo.model.message import Received

EXAMPLES = examples(
    "ortoo peek orders",
    "ortoo peek orders --group billing --max 3",
    "ortoo peek orders --format '{id} {value}'",
    "ortoo peek orders --from-time -1h --json | jq .value",
)


@on_target
def peek(
    target: Target,
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="what this group gets next", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--max", metavar="N", min=1, max=BATCH_MESSAGES_MAX, help="how many")] = 10,
    raw: Raw = False,
    json: JsonLines = False,
    template: Format = None,
    from_offset: FromOffset = None,
    from_time: FromTime = None,
    partition: Partition = None,
) -> None:
    """Print the first messages of a topic, or those that a group gets next.

    Nothing is leased, and no group is affected. Without --group, it reads the log from its start, or from --from-offset or
    --from-time; done messages are included. With --group, it shows the ready messages of the group, the most urgent and oldest
    first.
    """
    if from_offset is not None and from_time is not None:
        raise typer.BadParameter("give only one of --from-offset and --from-time")
    if group is not None and any(given is not None for given in (from_offset, from_time, partition)):
        raise typer.BadParameter("--group shows what is ready; --from-offset, --from-time and --partition read the log")
    printer = Printer(raw, json, template)
    with target.open() as queue:
        if group is not None:
            found = next_of(queue, topic, group, limit)
            printer.print(found)
            is_empty = not found
        else:
            is_empty = True
            for batch in at_most(
                limit, in_batches(Reader(queue, topic, partition, from_offset, from_time, None).read())
            ):
                printer.print(batch)
                is_empty = False
    if is_empty:
        show.remark("no messages" if group is None else f"nothing is ready for group {group!r}")


def next_of(queue: SyncQueue, topic: str, group: str, limit: int) -> Sequence[Received]:
    """In about the order of delivery. Partitions are listed one after the other, so as many as possible are asked for."""
    try:
        ready = queue.messages(topic, group=group, state="ready", limit=BATCH_MESSAGES_MAX)
    except NotFoundError as error:
        names = group_names(queue, topic)
        raise NotFoundError(f"{error}; its groups are {names}" if names else f"{error}; it has no groups yet") from None
    return sorted(ready, key=lambda message: (message.priority, message.timestamp_ms))[:limit]
