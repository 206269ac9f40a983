"""Looks through a topic for messages that match a filter, from the newest or from the oldest on, without a group.

The partitions are merged by the times of their messages. One search looks at a bounded number of messages and bytes, in turns;
then it says where the next one goes on. What is published meanwhile is not chased: the ends are taken when it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Protocol

from ortoo.engine.lease import resolve
from ortoo.engine.partition import Partition
from ortoo.engine.publish import check_healthy
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.batch import MESSAGE_OVERHEAD_BYTES, message_sizes
from ortoo.model.browsing import Continuation, Mark, SearchFound
from ortoo.model.errors import InvalidError
from ortoo.model.filters import Filter, KeyTerm, parse_filter
from ortoo.model.names import TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.queries import Search
from ortoo.model.replies import Columns, Page, filter_columns, join_columns
from ortoo.ports import Store

from .portion import left_of
from .turns import Turns

_AT_ONCE = 1_000  # messages of one partition
_BYTES_AT_ONCE = 4 * 1024 * 1024  # about, of all partitions together
_READ_BYTES = 16 * 1024 * 1024  # the same, even if each message were as large as its topic lets it be
_ANSWER_BYTES = 16 * 1024 * 1024
_LOOKED_THROUGH = 1 << 16  # offsets at first, among which messages are looked for
_UNIT_BYTES = 500  # of a value, that take as long to look at as a short one


class Shelf(Protocol):
    """What a search needs of the broker."""

    store: Store

    @property
    def state(self) -> State: ...


class _Track:
    """One partition on its way through the merge. `rows` are those of `columns` that were not looked at, the next one last."""

    __slots__ = ("columns", "end", "found", "partition", "rows", "sizes", "start")

    def __init__(self, mark: Mark) -> None:
        self.partition, self.start, self.end = mark.partition, mark.start, mark.end
        self.columns = Columns([], [], [])
        self.rows: list[int] = []
        self.sizes: list[int] = []  # of the messages in `columns`, with keys and headers
        self.found: list[Columns] = []

    def mark(self, is_newest: bool) -> Mark:
        start, end = self.start, self.end
        if self.rows and is_newest:
            end = self.columns.offsets[self.rows[-1]] + 1
        elif self.rows:
            start = self.columns.offsets[self.rows[-1]]
        return Mark(self.partition, start, end)


class Searcher:
    """One search."""

    def __init__(self, broker: Shelf, query: Search) -> None:
        self._broker = broker
        self._query = query
        self._name: TopicName = query.topic
        self._filter = _to_filter(query)
        self._turns = Turns()
        self._tracks: list[_Track] = []
        self._heads: list[tuple[int, int, int]] = []  # time and partition of the next message, and which track it is on
        self._scanned = self._bytes = self._found = self._found_bytes = 0
        if not 1 <= query.count <= limits.BATCH_MESSAGES_MAX:
            raise InvalidError(f"count must be 1 to {limits.BATCH_MESSAGES_MAX}, not {query.count}")

    async def run(self) -> SearchFound:
        topic = self._broker.state.topic(self._name)
        marks = self._begin(topic) if self._query.next is None else self._resume(topic, self._query.next)
        self._tracks = [_Track(mark) for mark in marks]
        for which in range(len(marks)):
            self._line_up(topic, which)
            await self._turns.worked(1)
        while self._heads and not self._is_enough():
            _, _, which = heappop(self._heads)
            if self._tracks[which].rows:
                await self._look(self._tracks[which], self._heads[0] if self._heads else None)
            else:
                await self._load(topic, self._tracks[which])
            self._line_up(topic, which)
        return self._finish(topic)

    def _begin(self, topic: Topic) -> list[Mark]:
        query = self._query
        count = len(topic.partitions)
        if query.partition is not None and not 0 <= query.partition < count:
            raise InvalidError(f"topic {str(self._name)!r} has partitions 0 to {count - 1}, not {query.partition}")
        marks = []
        for log in topic.partitions if query.partition is None else [topic.partitions[query.partition]]:
            check_healthy(topic, log.index)
            end = log.durable if query.until is None else min(resolve(log, query.until), log.durable)
            start = resolve(log, query.start)
            if start < end:
                marks.append(Mark(log.index, start, end))
        return marks

    def _resume(self, topic: Topic, place: Continuation) -> list[Mark]:
        if place.topic != topic.id:
            raise InvalidError("the topic was deleted and recreated; start the search again")
        if place.is_newest != self._query.is_newest:
            raise InvalidError("`next` continues in the order it came from; start again for another order")
        partitions = [mark.partition for mark in place.marks]
        if len(set(partitions)) < len(partitions) or not all(
            0 <= index < len(topic.partitions) for index in partitions
        ):
            raise InvalidError("`next` is not a continuation; pass it as it came")
        marks = []
        for mark in place.marks:
            check_healthy(topic, mark.partition)
            log = topic.partitions[mark.partition]
            start, end = max(mark.start, log.start), min(mark.end, log.durable)
            if start < end:
                marks.append(Mark(mark.partition, start, end))
        return marks

    def _is_enough(self) -> bool:
        return (
            self._found >= self._query.count
            or self._found_bytes >= _ANSWER_BYTES
            or self._scanned >= limits.SEARCHED_MAX
            or (self._bytes >= limits.SEARCHED_BYTES_MAX and self._scanned > 0)
        )

    def _line_up(self, topic: Topic, which: int) -> None:
        """Where it was not read yet, by the time when its next offset was published: only what comes first is read."""
        track = self._tracks[which]
        if track.rows:
            published = track.columns.timestamps[track.rows[-1]]
        elif track.start < track.end:
            next_one = track.end - 1 if self._query.is_newest else track.start
            published = topic.partitions[track.partition].timeline.time_of(next_one)
        else:
            return
        sign = -1 if self._query.is_newest else 1
        heappush(self._heads, (sign * published, sign * track.partition, which))

    async def _load(self, topic: Topic, track: _Track) -> None:
        log = topic.partitions[track.partition]
        track.start = max(track.start, log.start)
        if track.start >= track.end:
            return
        average = log.bytes_held // max(1, log.end - log.start - len(log.deleted)) + 1
        most = _READ_BYTES // topic.config.max_message_bytes
        count = max(1, min(_AT_ONCE, most, _BYTES_AT_ONCE // len(self._tracks) // average))
        wanted: Sequence[int]
        if self._query.is_newest:
            wanted, track.end = left_before(log, track.start, count, track.end)
        else:
            wanted, track.start = left_of(log, track.start, count, track.end)
        columns = await self._broker.store.read(topic.id, track.partition, wanted)
        if self._broker.state.topics.get(topic.id) is not topic:
            raise InvalidError("the topic was deleted, or the queue reopened; start again")
        if log.deleted:  # perhaps meanwhile
            columns = filter_columns(columns, log.deleted)
        track.sizes = list(message_sizes(columns.values, columns.keys, columns.headers))
        self._bytes += sum(track.sizes)
        track.columns = columns
        track.rows = list(range(len(columns)))
        if not self._query.is_newest:
            track.rows.reverse()
        await self._turns.worked(1)

    async def _look(self, track: _Track, limit: tuple[int, int, int] | None) -> None:
        """At the messages of a track, as long as none of another comes before them."""
        columns, rows, matches = track.columns, track.rows, self._filter.matches
        values, keys, headers, times = columns.values, columns.keys, columns.headers, columns.timestamps
        sign = -1 if self._query.is_newest else 1
        chosen: list[int] = []
        while rows and not self._is_enough():
            row = rows[-1]
            if limit is not None and (sign * times[row], sign * track.partition) > limit[:2]:
                break
            rows.pop()
            self._scanned += 1
            value = values[row]
            if matches(value, keys[row] if keys else None, headers[row] if headers else None):
                chosen.append(row)
                self._found += 1
                self._found_bytes += track.sizes[row] + MESSAGE_OVERHEAD_BYTES
            await self._turns.worked(1 + track.sizes[row] / _UNIT_BYTES)
        if chosen:
            track.found.append(columns.pick(chosen))

    def _finish(self, topic: Topic) -> SearchFound:
        pages = []
        for track in self._tracks:
            if track.found:
                columns = join_columns(track.found)
                pages.append(Page(self._name, topic.id, track.partition, columns, track.start, track.end))
        marks = [self._tracks[which].mark(self._query.is_newest) for _, _, which in sorted(self._heads)]
        place = Continuation(topic.id, self._query.is_newest, marks) if marks else None
        return SearchFound(pages, self._scanned, place)


def _to_filter(query: Search) -> Filter:
    parsed = parse_filter(query.filter)
    return parsed if query.key is None else Filter((KeyTerm(query.key), *parsed.terms))


def left_before(log: Partition, start: int, count: int, end: int) -> tuple[Sequence[int], int]:
    """The last so many offsets in [start, end) whose messages are there, and where those before them end."""
    if not log.deleted:
        first = max(start, end - count)
        return range(first, end), first
    found, at, width = OffsetSet(), end, max(count, _LOOKED_THROUGH)
    while at > start and len(found) < count:
        first = max(start, at - width)
        more = OffsetSet.span(first, at) - log.deleted
        if (excess := len(more) - (count - len(found))) > 0:
            more = more.within(more[excess], at)
        found.update(more)
        at, width = first, 2 * width
    return found.to_sequence(), found.first() if len(found) == count else start
