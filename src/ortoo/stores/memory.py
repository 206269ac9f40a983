"""Everything in memory: the fastest store, and the one that forgets. Durable means as long as the process lives.

It keeps messages, not the records that the state comes from. So if the broker has to begin again, after a mistake of ours, it
begins empty, and says so.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from ortoo.model import limits
from ortoo.model.batch import size_of
from ortoo.model.names import TopicId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import (
    HISTORY_RECORDS,
    HistoryRecord,
    Opened,
    Published,
    Record,
    Retried,
    Skipped,
    Staged,
    TopicCreated,
    TopicDeleted,
    TopicPurged,
    TransactionBegan,
    TransactionEnded,
    Trimmed,
)
from ortoo.model.replies import Columns, join_columns
from ortoo.ports import StoredHistory, StoreStatus

from .stretch import Stretch
from .thinned import Thinned, joined, thin

_SEGMENT_MESSAGES = 8_192
_BUCKET_BITS = 12  # history is found by offset in buckets of 4096


class _Log:
    """One partition: its segments, and what happened to its messages."""

    __slots__ = ("forgotten", "gone", "happened", "happened_count", "row", "segments", "skips", "start")

    def __init__(self) -> None:
        self.segments: list[Stretch | Thinned] = []
        self.gone: OffsetSet = NOTHING  # messages that are blank, until their stretch is thinned out
        self.start = 0
        self.happened: dict[int, list[HistoryRecord]] = {}
        self.happened_count = 0
        self.skips: list[Skipped] = []  # told even after their messages are gone
        self.row: list[HistoryRecord] = []  # all of it, in order
        self.forgotten = 0  # how many went before those in the row

    def append(self, record: Published) -> None:
        last = self.segments[-1] if self.segments else None
        if not isinstance(last, Stretch) or len(last.values) >= _SEGMENT_MESSAGES:
            last = Stretch(record.base)
            self.segments.append(last)
        last.append(record)

    def discard(self, offsets: OffsetSet) -> None:
        """Their values go at once, and the rest of them when most of a stretch is gone."""
        at = 0
        offsets = offsets.within(self.start, self.end())
        while offsets:
            first = offsets.first()
            at = bisect_right(self.segments, first, lo=at, key=lambda segment: segment.base) - 1
            segment = self.segments[max(at, 0)]
            some = offsets.within(0, segment.end)
            offsets.remove_span(0, max(segment.end, first + 1))
            segment.blank(some)
            self.gone |= some
            if at < len(self.segments) - 1:
                at = self._thin(at, segment)

    def _thin(self, at: int, segment: Stretch | Thinned) -> int:
        """Where most of it is gone. Returns where it is then."""
        gone = self.gone.count_within(segment.base, segment.end)
        if 2 * gone <= len(segment):
            return at
        thinned = segment.without(self.gone) if isinstance(segment, Thinned) else thin(segment, self.gone)
        self.segments[at] = thinned
        self.gone.remove_span(segment.base, segment.end)
        return self._join(at)

    def _join(self, at: int) -> int:
        """With the one before it, where both have little left. Returns where it is now."""
        before, this = self.segments[at - 1] if at else None, self.segments[at]
        if not isinstance(before, Thinned) or not isinstance(this, Thinned) or before.end != this.base:
            return at
        if len(before) + len(this) > _SEGMENT_MESSAGES // 2:
            return at
        self.segments[at - 1 : at + 1] = [joined(before, this)]
        return at - 1

    def read(self, offsets: Sequence[int]) -> Columns:
        """Ascending offsets, each of which may be gone."""
        parts: list[Columns] = []
        at = 0
        while at < len(offsets):
            which = bisect_right(self.segments, offsets[at], key=lambda segment: segment.base) - 1
            segment = self.segments[which] if which >= 0 else None
            if segment is None or offsets[at] < self.start or offsets[at] >= segment.end:
                at += 1
                continue
            upto = at + 1
            while upto < len(offsets) and offsets[upto] < segment.end:
                upto = _far(offsets, upto, segment.end)
            parts.append(segment.read(self._there(segment, offsets[at:upto])))
            at = upto
        return join_columns([part for part in parts if len(part)])

    def _there(self, segment: Stretch | Thinned, offsets: Sequence[int]) -> Sequence[int]:
        if not self.gone.count_within(offsets[0], offsets[-1] + 1):
            return offsets
        return [offset for offset in offsets if offset not in self.gone]

    def scan(self, start: int, count: int) -> Columns:
        if not self.segments:
            return join_columns([])
        start = max(start, self.start)
        end = min(start + count, self.segments[-1].end)
        return self.read(range(start, end))

    def note(self, record: HistoryRecord) -> None:
        self.row.append(record)
        if len(self.row) > limits.HISTORY_RECORDS_MAX:  # many at a time, for each time all others move up
            gone = limits.HISTORY_RECORDS_MAX // 16 + 1
            del self.row[:gone]
            self.forgotten += gone
        if isinstance(record, Skipped):
            self.skips.append(record)
            del self.skips[: -limits.HISTORY_RECORDS_MAX]
            return
        first, last = _buckets(record)
        for bucket in range(first, last + 1):
            happened = self.happened.get(bucket)
            if happened is None:
                happened = self.happened[bucket] = []
            happened.append(record)
            self.happened_count += 1
        while self.happened_count > limits.HISTORY_RECORDS_MAX:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Of the first messages; where all is about the same ones, what happened first."""
        first = min(self.happened)
        if len(self.happened) > 1:
            self.happened_count -= len(self.happened.pop(first))
        else:
            gone = limits.HISTORY_RECORDS_MAX // 16 + 1
            del self.happened[first][:gone]
            self.happened_count -= gone

    def history(self, offset: int) -> list[HistoryRecord]:
        found: list[HistoryRecord] = [
            record for record in self.happened.get(offset >> _BUCKET_BITS, ()) if offset in record.offsets
        ]
        return found + [skip for skip in self.skips if offset in skip.offsets]

    def read_history(self, start: int, count: int) -> StoredHistory:
        start = max(start, self.forgotten)
        at = start - self.forgotten
        return StoredHistory(self.row[at : at + count], start, self.forgotten, self.forgotten + len(self.row))

    def trim(self, start: int) -> None:
        self.start = start
        self.gone.remove_span(0, start)
        while self.segments and self.segments[0].end <= start:
            del self.segments[0]
        for bucket in [bucket for bucket in self.happened if (bucket + 1) << _BUCKET_BITS <= start]:
            self.happened_count -= len(self.happened.pop(bucket))

    def end(self) -> int:
        return self.segments[-1].end if self.segments else self.start


def _far(offsets: Sequence[int], upto: int, end: int) -> int:
    """The first place at or after `upto` whose offset is not below `end`."""
    if offsets[-1] < end:
        return len(offsets)
    return bisect_right(offsets, end - 1, lo=upto)


def _buckets(record: HistoryRecord) -> tuple[int, int]:
    """The first and the last that it belongs to."""
    if isinstance(record, Retried):
        return min(record.offsets) >> _BUCKET_BITS, max(record.offsets) >> _BUCKET_BITS
    offsets = record.offsets
    return offsets.first() >> _BUCKET_BITS, offsets.last() >> _BUCKET_BITS


_EMPTY = _Log()
_STATUS = StoreStatus()
_EMPTIED = StoreStatus(
    problems=("the queue made a mistake and began again: everything that it held in memory is lost; see the log",)
)


class MemoryStore:
    def __init__(self) -> None:
        self._logs: dict[tuple[TopicId, int], _Log] = {}
        self._staged: dict[tuple[str, str], list[Staged]] = {}  # by transaction
        self._opened: Opened | None = None
        self._newest: TopicCreated | None = None
        self._is_open = False
        self._is_emptied = False

    async def recover(self) -> AsyncIterator[list[Record]]:
        """Nothing but the epoch and the last topic's number: receipts and ids of what is lost must not mean anything new."""
        self._is_emptied = self._is_emptied or self._is_open
        self._forget()
        self._is_open = True
        if self._opened is not None:
            yield [self._opened]
        if self._newest is not None:
            yield [self._newest, TopicDeleted(self._newest.at, self._newest.topic)]

    def appends_at_once(self, records: Sequence[Record]) -> bool:
        return True

    async def append(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, Published):
                self._log(record.topic, record.partition).append(record)
            elif isinstance(record, HISTORY_RECORDS):
                self._log(record.topic, record.partition).note(record)
            else:
                free = _FREE.get(type(record))
                if free is not None:
                    free(self, record)

    def _log(self, topic: TopicId, partition: int) -> _Log:
        log = self._logs.get((topic, partition))
        if log is None:
            log = self._logs[topic, partition] = _Log()
        return log

    def _known(self, topic: TopicId, partition: int) -> _Log:
        """To be read only: who asks for a topic that is deleted must not bring it back."""
        return self._logs.get((topic, partition), _EMPTY)

    def _topic_created(self, record: TopicCreated) -> None:
        self._newest = record

    def _trimmed(self, record: Trimmed) -> None:
        self._log(record.topic, record.partition).trim(record.start)

    def _purged(self, record: TopicPurged) -> None:
        for (topic, _), log in self._logs.items():
            if topic == record.topic:
                log.trim(log.end())

    def _topic_deleted(self, record: TopicDeleted) -> None:
        for place in [place for place in self._logs if place[0] == record.topic]:
            del self._logs[place]

    def _open(self, record: Opened) -> None:
        self._opened = record

    def _transaction_began(self, record: TransactionBegan) -> None:
        self._staged[record.namespace, record.transaction] = []

    def _stage(self, record: Staged) -> None:
        self._staged[record.namespace, record.transaction].append(record)

    def _transaction_ended(self, record: TransactionEnded) -> None:
        self._staged.pop((record.namespace, record.transaction), None)

    def discard(self, topic: TopicId, partition: int, offsets: OffsetSet) -> None:
        log = self._logs.get((topic, partition))
        if log is not None:
            log.discard(offsets)

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        found: list[Staged] = []
        for record in self._staged.get((namespace, transaction), [])[start : start + limits.SLICE_MESSAGES]:
            found.append(record)
            bytes_max -= size_of(record.publish.batch)
            if bytes_max <= 0:
                break
        return found

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        return self._known(topic, partition).read(offsets)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return self._known(topic, partition).scan(start, count)

    async def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[HistoryRecord]]:
        yield self._known(topic, partition).history(offset)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        return self._known(topic, partition).read_history(start, count)

    def status(self) -> StoreStatus:
        return _EMPTIED if self._is_emptied else _STATUS

    def figures(self) -> None:
        return None

    def keys(self) -> None:
        return None

    async def checkpoint(self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes] | None = None) -> None:
        raise NotImplementedError("a memory store never asks for a checkpoint")

    def page_out(self, numbers: array[int]) -> memoryview | None:
        return None

    async def close(self) -> None:
        self._forget()
        self._is_open = self._is_emptied = False

    def _forget(self) -> None:
        self._logs.clear()
        self._staged.clear()


_FREE: dict[type, Callable[[MemoryStore, Any], None]] = {
    Opened: MemoryStore._open,
    TopicCreated: MemoryStore._topic_created,
    Trimmed: MemoryStore._trimmed,
    TopicPurged: MemoryStore._purged,
    TopicDeleted: MemoryStore._topic_deleted,
    TransactionBegan: MemoryStore._transaction_began,
    Staged: MemoryStore._stage,
    TransactionEnded: MemoryStore._transaction_ended,
}
