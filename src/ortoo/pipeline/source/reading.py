"""What a task does: read its ranges, and notice when something is missing that should be there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.replies import Columns

from .arrow import history_batches, message_batches
from .options import ReadOptions
from .origin import Range, StoredHistory
from .plan import Planner
from .schema import Column
from .splits import Split

if TYPE_CHECKING:
    import pyarrow as pa

Part = TypeVar("Part", Columns, StoredHistory)


def read_split(options: ReadOptions, columns: Sequence[Column], split: Split) -> Iterator[pa.RecordBatch]:
    planner = Planner(options)
    for wanted in split.ranges:
        if options.table == "history":
            happened = _checked(planner, wanted, planner.origin.history(wanted), _happened_edges)
            yield from history_batches(happened, wanted, columns)
        else:
            messages = _checked(planner, wanted, planner.origin.messages(wanted), _message_edges)
            yield from message_batches(messages, wanted, columns)


def _message_edges(part: Columns) -> tuple[int, int]:
    return part.offsets[0], part.offsets[-1] + 1


def _happened_edges(part: StoredHistory) -> tuple[int, int]:
    return part.start, part.start + len(part.records)


def _checked(
    planner: Planner, wanted: Range, parts: Iterator[Part], edges: Callable[[Part], tuple[int, int]]
) -> Iterator[Part]:
    """What there is of the range. Where something is missing, single messages may have been deleted; anything else is lost."""
    gaps: list[tuple[int, int]] = []
    at = wanted.start
    try:
        for part in parts:
            first, end = edges(part)
            if first > at:
                gaps.append((at, first))
            at = end
            yield part
        if at < wanted.end:
            gaps.append((at, wanted.end))
        if gaps:
            _explain(planner, wanted, gaps)
    except NotFoundError:
        planner.lost(f"topic {wanted.topic!r} was deleted while it was read")
    except InvalidError:
        if planner.origin.topic(wanted.topic).id == wanted.topic_id:
            raise
        _tell_made_again(planner, wanted)  # and has fewer partitions


def _explain(planner: Planner, wanted: Range, gaps: list[tuple[int, int]]) -> None:
    if planner.origin.topic(wanted.topic).id != wanted.topic_id:
        _tell_made_again(planner, wanted)
        return
    first = planner.origin.first(wanted.topic)[wanted.partition]
    for start, end in gaps:
        if first > start:
            planner.removed(wanted.topic, wanted.partition, start, min(first, end), "while")


def _tell_made_again(planner: Planner, wanted: Range) -> None:
    planner.lost(f"topic {wanted.topic!r} was deleted and made again while it was read")
