"""What a task does: read its ranges, and notice when something is missing that should be there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ortoo.model.errors import NotFoundError
from ortoo.model.replies import Columns

from .arrow import history_batches, message_batches
from .options import ReadOptions
from .origin import Range
from .plan import Planner
from .schema import Column
from .splits import Split


def read_split(options: ReadOptions, columns: Sequence[Column], split: Split) -> Iterator[pa.RecordBatch]:
    planner = Planner(options)
    for wanted in split.ranges:
        if options.table == "history":
            yield from history_batches(planner.origin.history(wanted), wanted, columns)
        else:
            yield from message_batches(_whole(planner, wanted), wanted, columns)


def _whole(planner: Planner, wanted: Range) -> Iterator[Columns]:
    """The range's messages. Single ones may have been deleted; that the log begins later than the range is another matter."""
    seen = 0
    try:
        for part in planner.origin.messages(wanted):
            seen += len(part)
            yield part
    except NotFoundError:
        planner.lost(f"topic {wanted.topic!r} was deleted while it was read")
        return
    if seen == wanted.end - wanted.start:
        return
    if planner.origin.topic(wanted.topic).id != wanted.topic_id:
        planner.lost(f"topic {wanted.topic!r} was deleted and made again while it was read")
        return
    first = planner.first(wanted.topic)[wanted.partition]
    if first > wanted.start:
        planner.lost(
            f"messages {wanted.start} to {min(first, wanted.end) - 1} of partition {wanted.partition} of topic "
            f"{wanted.topic!r} were removed, by retention or a purge, while they were read"
        )
