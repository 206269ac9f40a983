"""The messages of a partition as records of another store: the same offsets, instants and fields, without a gap.

Of what is deleted there are the places, the instants, and dedup ids, which may count longer; not what it said.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ortoo.engine.partition import TTL, Partition
from ortoo.engine.topic import Topic
from ortoo.engine.wheel import Wheel
from ortoo.model import records as r
from ortoo.model.batch import Batch, message_sizes
from ortoo.model.errors import CorruptionError
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY

READ_BYTES, READ_MESSAGES = 8 << 20, 4_096  # together, about
_BLANKS: dict[str, Any] = {"priorities": DEFAULT_PRIORITY, "json": False}
_FIELDS = ("keys", "headers", "priorities", "json", "dedup_ids")


def how_many(partition: Partition, at: int) -> int:
    """Messages from that one on that are about as many bytes as may be held at once."""
    ends = range(at + 1, min(at + READ_MESSAGES, partition.end) + 1)
    return max(1, bisect_right(ends, partition.bytes_before(at) + READ_BYTES, key=partition.bytes_before))


class Republished:
    def __init__(self, topic: Topic, partition: Partition) -> None:
        self.at = partition.start  # the next offset
        self._topic = topic
        self._partition = partition
        self._sizes = _Sizes(partition)
        self._dues = _Times(partition.delays, lambda item: item if item in partition.delayed else None)
        self._expires = _Times(partition.expiries, lambda item: item >> 1 if item & 1 == TTL else None)

    def take(self, found: Columns, until: int) -> list[r.Published]:
        """What the store has from the next offset to before another. A record for each instant."""
        records, columns = [], self._without_gaps(found, until)
        for instant, same in groupby(columns.timestamps):
            part = columns.part(self.at - columns.offsets[0], self.at - columns.offsets[0] + len(list(same)))
            records.append(self._record(instant, part))
            self.at += len(part)
        return records

    def _record(self, instant: int, part: Columns) -> r.Published:
        first, until = self.at, self.at + len(part)
        batch = Batch(
            part.values,
            part.keys,
            part.headers,
            part.priorities,
            part.json,
            self._dues.column(first, until),
            self._expires.column(first, until),
            part.dedup_ids,
        )
        keys = self._partition.keys
        hashes = keys.span(first, until).tobytes() if keys else None
        size = self._sizes.take(first, until, sum(message_sizes(part.values, part.keys, part.headers)))
        place = (instant, self._topic.id, self._partition.index, first, len(part), size)
        return r.Published(*place, batch, key_hashes=hashes, publishers=part.publishers)

    def _without_gaps(self, found: Columns, until: int) -> Columns:
        """CorruptionError when something is missing that is not deleted."""
        partition, start = self._partition, self.at
        if len(found) == until - start and not partition.deleted.count_within(start, until):
            return found
        rows: list[int | None] = [None] * (until - start)  # of what is not deleted
        ids: list[int | None] = [None] * (until - start)  # of all that is there
        for row, offset in enumerate(found.offsets):
            if start <= offset < until:
                ids[offset - start] = row
                rows[offset - start] = None if offset in partition.deleted else row
        missing = [at for at, row in enumerate(rows, start) if row is None and at not in partition.deleted]
        if missing:
            raise CorruptionError(
                f"message {missing[0]} in partition {partition.index} of topic {str(self._topic.name)!r} is missing; run "
                "`ortoo check`"
            )
        columns: dict[str, Any] = {}
        for name in _FIELDS:
            if (column := getattr(found, name)) is not None:
                which = rows if name != "dedup_ids" else ids
                columns[name] = [_BLANKS.get(name) if row is None else column[row] for row in which]
        publishers = found.publishers
        if isinstance(publishers, list):
            publishers = [None if row is None else publishers[row] for row in rows]
        times = [
            partition.timeline.time_of(at) if row is None else found.timestamps[row]
            for at, row in enumerate(ids, start)
        ]
        values = [b"" if row is None else found.values[row] for row in rows]
        return Columns(range(start, until), values, times, publishers=publishers, **columns)


class _Sizes:
    """How many bytes retention counts for a stretch of messages: together what the source counted for each instant."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._until = -1  # end of the instant that is being given out
        self._left = 0

    def take(self, start: int, until: int, size: int) -> int:
        """For messages of one instant that have that many bytes."""
        if start >= self._until:
            first, self._until, self._left = self._partition.instant_of(start)
            if first < start:  # of which some are trimmed
                self._left -= self._partition.bytes_cut
        left = max(0, self._left)
        size = left if until >= self._until else min(size, left)
        self._left -= size
        return size


class _Times:
    """When messages come due, or expire, that have not yet. Stores only show it; the state has it, too."""

    def __init__(self, wheel: Wheel, offset_of: Any) -> None:
        found = sorted((offset, when) for when, item in _pairs(wheel) if (offset := offset_of(item)) is not None)
        self._offsets = array("q", [offset for offset, _ in found])
        self._whens = array("q", [when for _, when in found])

    def column(self, first: int, until: int) -> list[int] | None:
        low, high = bisect_left(self._offsets, first), bisect_left(self._offsets, until)
        if low == high:
            return None
        column = [0] * (until - first)
        for at in range(low, high):
            column[self._offsets[at] - first] = self._whens[at]
        return column


def _pairs(wheel: Wheel) -> Iterator[tuple[int, int]]:
    for slot in wheel.slots.values():
        yield from zip(slot[0::2], slot[1::2], strict=True)
