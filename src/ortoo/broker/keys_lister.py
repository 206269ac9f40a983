"""Answers `ListKeys`: the engine knows only hashes of keys, so the newest messages are read for their names.

Partitions are read backwards, a stretch of each in turn, until everything was read or enough was: so many messages, bytes or
keys. Each stretch has the states of the moment when it was read. Those who ask for the same within a second get the same answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Protocol

from ortoo.engine.feed import Feed
from ortoo.engine.group import Group
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.batch import content_bytes
from ortoo.model.errors import InvalidError
from ortoo.model.names import GroupId, TopicId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, KeyCounts, KeysFound
from ortoo.ports import Clock, Store

_STRETCH = 2_000  # messages that are read at a time
_STRETCH_BYTES = 4 * 1024 * 1024
_KEPT_MS = 1_000
_KEPT_MAX = 16  # answers

Asked = tuple[TopicId, GroupId, int]
Key = str | None


class Shell(Protocol):
    clock: Clock
    store: Store

    @property
    def state(self) -> State: ...


class KeysLister:
    def __init__(self, broker: Shell) -> None:
        self._broker = broker
        self._answers: dict[Asked, asyncio.Task[KeysFound]] = {}

    async def list(self, name: TopicName, group: str, count: int) -> KeysFound:
        if not 1 <= count <= limits.BATCH_MESSAGES_MAX:
            raise InvalidError(f"count must be 1 to {limits.BATCH_MESSAGES_MAX}, not {count}")
        state = self._broker.state
        topic = state.topic(name)
        found = state.group(topic, group)
        asked = (topic.id, found.id, count)
        task = self._answers.get(asked)
        if task is None:
            task = asyncio.create_task(_Listing(self._broker, topic, found, count).read(), name="ortoo-keys")
            task.add_done_callback(lambda done: self._read(asked, done))
            if len(self._answers) < _KEPT_MAX:
                self._answers[asked] = task
        return await asyncio.shield(task)

    def _read(self, asked: Asked, task: asyncio.Task[KeysFound]) -> None:
        """It is kept for a while; what failed is not."""
        if self._answers.get(asked) is not task:
            if not task.cancelled():
                task.exception()
        elif task.cancelled() or task.exception() is not None:
            del self._answers[asked]
        else:
            self._broker.clock.call_later(_KEPT_MS, partial(self._drop, asked))

    def _drop(self, asked: Asked) -> None:
        self._answers.pop(asked, None)


class _Tally:
    """Of one key."""

    __slots__ = ("dead", "leased", "newest", "oldest", "pending", "total")

    def __init__(self, oldest: int, newest: int) -> None:
        self.pending = self.leased = self.dead = self.total = 0
        self.oldest, self.newest = oldest, newest

    def to_counts(self, key: Key) -> KeyCounts:
        done = self.total - self.pending - self.leased - self.dead
        return KeyCounts(
            key, self.pending, self.leased, done, self.dead, self.total, self.oldest / 1000, self.newest / 1000
        )


class _Listing:
    """One answer, while it is read."""

    def __init__(self, broker: Shell, topic: Topic, group: Group, count: int) -> None:
        self._broker = broker
        self._topic = topic
        self._group = group
        self._count = count
        self._tallies: dict[Key, _Tally] = {}
        self._messages_left = limits.KEYS_READ_MAX
        self._bytes_left = limits.KEYS_READ_BYTES_MAX
        self._key_bytes_left = limits.KEYS_BYTES_MAX
        self._is_complete = True

    async def read(self) -> KeysFound:
        ends = {}  # of what was not read yet, by partition
        for log in self._topic.partitions:
            if log.quarantine_reason is not None:
                self._is_complete = False
            elif log.start < log.durable:
                ends[log.index] = log.durable
        while ends:
            for index in list(ends):
                if self._messages_left <= 0 or self._bytes_left <= 0:
                    return self._answer(is_complete=False)
                ends[index] = await self._read_before(index, ends[index])
                if ends[index] <= self._topic.partitions[index].start:
                    del ends[index]
                await asyncio.sleep(0)  # a store in memory answers at once
        return self._answer(self._is_complete)

    def _answer(self, is_complete: bool) -> KeysFound:
        found = [tally.to_counts(key) for key, tally in self._tallies.items()]
        return KeysFound(sorted(found, key=lambda counts: -counts.newest), is_complete)

    async def _read_before(self, index: int, end: int) -> int:
        """Counts the messages of a stretch that ends there; returns where it begins."""
        log = self._topic.partitions[index]
        average = max(1, log.bytes_held // max(1, log.end - log.start))
        count = max(1, min(_STRETCH, _STRETCH_BYTES // average, self._messages_left))
        start = max(log.start, end - count)
        columns = await self._broker.store.scan(self._topic.id, index, start, end - start)
        self._broker.state.topic_by_id(self._topic.id)  # NotFoundError: it was deleted meanwhile
        columns = columns.part(0, sum(offset < end for offset in columns.offsets))
        self._messages_left -= end - start
        self._bytes_left -= content_bytes(columns.values, columns.keys, columns.headers)
        if len(columns):
            self._count_in(self._group.feeds.look(index), columns)
        return start

    def _count_in(self, feed: Feed, columns: Columns) -> None:
        """At C speed, as far as it goes: there may be two hundred thousand of them."""
        read = OffsetSet.of(columns.offsets)
        known = read - feed.partition.gone_for(self._group.id)
        names: dict[int, Key] = dict(zip(columns.offsets, columns.keys or [None] * len(columns), strict=True))
        pending = feed.unsettled(read)
        leased = read & feed.leased
        known |= pending
        kept = list(map(names.__getitem__, known))
        times = dict(zip(columns.offsets, columns.timestamps, strict=True))
        instants = list(map(times.__getitem__, known))
        newest = dict(zip(kept, instants, strict=True))  # the last of each key stays
        oldest = dict(zip(reversed(kept), reversed(instants), strict=True))
        for key, number in Counter(kept).items():
            if (tally := self._tally(key, oldest[key], newest[key])) is not None:
                tally.total += number
        for figure, offsets in (("pending", pending - leased), ("leased", leased), ("dead", read & feed.dead & known)):
            for key, number in Counter(map(names.__getitem__, offsets)).items():
                if (tally := self._tallies.get(key)) is not None:
                    setattr(tally, figure, getattr(tally, figure) + number)

    def _tally(self, key: Key, oldest: int, newest: int) -> _Tally | None:
        tally = self._tallies.get(key)
        if tally is not None:
            tally.oldest, tally.newest = min(tally.oldest, oldest), max(tally.newest, newest)
            return tally
        size = len(key or "") * 4
        if len(self._tallies) >= self._count or size > self._key_bytes_left:
            self._is_complete = False
            return None
        self._key_bytes_left -= size
        tally = self._tallies[key] = _Tally(oldest, newest)
        return tally
