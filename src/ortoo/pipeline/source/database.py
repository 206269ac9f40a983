"""Reading the tables of a queue on PostgreSQL, no server asked: everything up to the commit that was the last when it was looked.

A batch looks once, when it is planned: where it ends is one commit's, in all topics. Its tasks read ranges of offsets, which
never change; what is deleted meanwhile is left out.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from ortoo.engine.dumps import peek
from ortoo.model import records as r
from ortoo.model.errors import UnavailableError
from ortoo.model.names import TopicId, TopicName, is_inbox
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, filter_columns
from ortoo.model.topic import TopicConfig, dlq_name
from ortoo.stores.disk import open_ring
from ortoo.stores.postgres import OutsideSchema, parse_address

from .origin import Known, Range, StoredHistory, no_key, no_such_topic

T = TypeVar("T")
Place = tuple[TopicId, int]


class _State:
    """What a reader has to know of the engine's state."""

    def __init__(self, snapshot: bytes | None = None) -> None:
        self.deleted: defaultdict[Place, OffsetSet] = defaultdict(OffsetSet)
        self.groups: defaultdict[TopicId, dict[int, str]] = defaultdict(dict)
        self._held: dict[
            tuple[str, str], dict[Place, int]
        ] = {}  # where transactions begin that have not ended: nobody sees them yet
        if snapshot is None:
            return
        dump = peek(snapshot)
        for topic in dump.topics:
            self.groups[TopicId(topic.id)] = {group.id: group.name for group in topic.groups}
            for index, partition in enumerate(topic.partitions):
                if found := OffsetSet.from_bytes(partition.deleted):
                    self.deleted[TopicId(topic.id), index] = found
        for commit in dump.commits:
            firsts = {(TopicId(topic), partition): first for topic, partition, first in commit.firsts}
            self._held[commit.namespace, commit.name] = firsts

    def take(self, record: r.Record) -> None:
        if isinstance(record, r.Deleted | r.Superseded):
            self.deleted[record.topic, record.partition] |= record.offsets
        elif isinstance(record, r.CommitAdvanced):
            held = self._held.setdefault((record.namespace, record.transaction), {})
            held.update({(topic, partition): first for topic, partition, first in record.firsts})
        elif isinstance(record, r.TransactionEnded):
            self._held.pop((record.namespace, record.transaction), None)
        elif isinstance(record, r.GroupCreated):
            self.groups[record.topic][record.group] = record.name
        elif isinstance(record, r.GroupDeleted):
            self.groups[record.topic].pop(record.group, None)

    def visible(self, place: Place, end: int) -> int:
        return min([end, *(firsts[place] for firsts in self._held.values() if place in firsts)])


class Database:
    """Connected only while it looks or reads: Spark's workers live longer than their tasks."""

    def __init__(self, url: str, namespace: str, table: str, keys: str | None, *, is_fixed: bool) -> None:
        """`is_fixed`: where topics begin and end is as it was when they were looked up."""
        self._namespace = namespace
        self._is_history = table == "history"
        self._is_fixed = is_fixed
        self._state = _State()
        self._outside = OutsideSchema(parse_address(url), open_ring(keys), self._begin, self._take)

    def _begin(self, snapshot: bytes | None) -> None:
        self._state = _State(snapshot)

    def _take(self, record: r.Record) -> None:
        self._state.take(record)

    def _run(self, doing: Callable[[], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with self._outside.connected():
                return await doing()

        return asyncio.run(connected())

    def _each(self, found: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """One after the other, connected as long as somebody wants more."""
        with asyncio.Runner() as runner:
            connected = self._outside.connected()
            runner.run(connected.__aenter__())
            try:
                items = found()
                while (item := runner.run(_next(items))) is not None:
                    yield item
            finally:
                runner.run(connected.__aexit__(None, None, None))

    def _look(self) -> None:
        self._run(self._outside.look)

    # -- what is there

    def _here(self) -> dict[str, tuple[TopicId, TopicConfig]]:
        catalog = self._outside.catalog
        return {
            name.name: (topic, catalog.configs[topic])
            for topic, name in catalog.names.items()
            if name.namespace == self._namespace
        }

    def topics(self) -> dict[str, Known]:
        self._look()
        here = self._here()
        return {name: self._known(name, *here[name]) for name in here if not is_inbox(here[name][1].labels)}

    def _known(self, name: str, topic: TopicId, config: TopicConfig) -> Known:
        return Known(topic, dlq_name(TopicName(self._namespace, name), config).name, config.encrypted)

    def topic(self, name: str) -> Known:
        self._look()
        return self._known(name, *self._find(name))

    def _find(self, name: str) -> tuple[TopicId, TopicConfig]:
        here = self._here()
        if name not in here:
            raise no_such_topic(name, list(here))
        return here[name]

    def _bounds(self, name: str) -> list[tuple[int, int]]:
        topic, config = self._find(name)
        if (error := self._outside.locked.get(topic)) is not None:
            raise no_key(name, error)
        places = [(topic, index) for index in range(config.partitions)]
        if self._is_history:
            return [self._outside.history_bounds(*place) for place in places]
        bounds = [(place, *self._outside.bounds(*place)) for place in places]
        return [(first, max(first, self._state.visible(place, end))) for place, first, end in bounds]

    def first(self, topic: str) -> list[int]:
        if not self._is_fixed:
            self._look()
        return [first for first, _ in self._bounds(topic)]

    def end(self, topic: str) -> list[int]:
        if not self._is_fixed:
            self._look()
        return [end for _, end in self._bounds(topic)]

    def whole_end(self, topic: str) -> list[int]:
        """All of it is readable, but for what a transaction that has not ended published."""
        return [end for _, end in self._bounds(topic)]

    def at(self, topic: str, time: float) -> list[int]:
        found, config = self._find(topic)

        async def firsts() -> list[int]:
            wanted = round(time * 1000)
            return [await self._outside.first_at(found, index, wanted) for index in range(config.partitions)]

        ends = [end for _, end in self._bounds(topic)]
        return [min(*pair) for pair in zip(self._run(firsts), ends, strict=True)]

    # -- what is read

    def messages(self, wanted: Range) -> Iterator[Columns]:
        if self.topic(wanted.topic).id != wanted.topic_id:
            return
        place = (wanted.topic_id, wanted.partition)
        deleted = self._state.deleted.get(place)
        start = max(wanted.start, self._outside.bounds(*place)[0])
        found = self._each(lambda: self._outside.scan(*place, start, wanted.end))
        for columns in _with_keys(wanted.topic, found):
            left = filter_columns(columns, deleted) if deleted else columns
            if len(left):
                yield left

    def history(self, wanted: Range) -> Iterator[StoredHistory]:
        if self.topic(wanted.topic).id != wanted.topic_id:
            return
        place = (wanted.topic_id, wanted.partition)
        groups = dict(self._state.groups.get(wanted.topic_id, {}))
        found = self._each(lambda: self._outside.read_history(*place, wanted.start, wanted.end))
        for part in _with_keys(wanted.topic, found):
            yield StoredHistory(part.start, part.records, groups)


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)


def _with_keys(topic: str, found: Iterator[T]) -> Iterator[T]:
    try:
        yield from found
    except UnavailableError as error:
        if isinstance(error, OSError):  # the database is away
            raise
        raise no_key(topic, error) from error
