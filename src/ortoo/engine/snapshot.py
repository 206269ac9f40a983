"""The hard state as bytes, and back. What the log itself tells (times, keys, dedup ids) is not in it: see LogIndex.

A snapshot is made of arrays and bitmaps, not of messages, and a few partitions at a time, so that it holds nobody up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from operator import add
from typing import Any

import msgspec

from ortoo.model.names import TopicId
from ortoo.model.records import Extended, Record
from ortoo.model.topic import TopicConfig

from .feed import Feed
from .group import Group
from .leases import LeaseDump, dump_lease
from .partition import Partition
from .state import State
from .topic import Topic
from .transaction import Committing
from .wheel import Wheel

DedupId = tuple[str, int, int, int]  # id, instant, partition, offset


class WheelDump(msgspec.Struct, array_like=True):
    now: int
    pairs: bytes


class PartitionDump(msgspec.Struct, array_like=True):
    start: int
    end: int
    windowed: int | None
    bytes_total: int
    delayed: bytes
    delays: WheelDump
    expired: bytes
    evicted: bytes
    expiries: WheelDump
    deleted: bytes
    private: dict[int, int]
    lanes: dict[int, bytes]
    ripened: list[tuple[int, ...]]  # due, first offset, last offset; an early version wrote a pair a message
    archived: int = 0
    trimmed_at: int | None = None  # unknown where an early version wrote it


class FeedDump(msgspec.Struct, array_like=True):
    cursor: int
    open: bytes
    dead: bytes
    retrying: bytes
    early: bytes
    failures: bytes  # offset, attempts, first, due; offset, ...
    skipped: int
    ahead: bytes | None = None


class GroupDump(msgspec.Struct, array_like=True):
    id: int
    name: str
    ephemeral: bool
    feeds: list[FeedDump]
    leases: list[LeaseDump]
    settled: list[msgspec.Raw]  # of the same shape


class TopicDump(msgspec.Struct, array_like=True):
    id: int
    namespace: str
    name: str
    created: int
    config: TopicConfig
    partitions: list[PartitionDump]
    groups: list[GroupDump]
    spread: int
    window_since: int | None
    window_count: int
    dedup_ids: list[DedupId]  # of messages that the log no longer has
    dedup_forgotten: int = 0
    dedup_ends: list[int] = []


class CommitDump(msgspec.Struct, array_like=True):
    """Of a transaction whose commit has begun."""

    namespace: str
    name: str
    parts: list[str] | None
    topics: dict[int, int]
    number: int
    row: int
    firsts: list[tuple[int, int, int]]


class StateDump(msgspec.Struct, array_like=True):
    now: int
    epoch: int
    number: int
    topics: list[TopicDump]
    transactions: list[tuple[str, str, int]]  # what was staged comes from the log
    ended: list[tuple[str, str, int, bool]]
    producers: list[tuple[str, int, int, dict[int, bytes]]] = []  # at, done_below, answers
    commits: list[CommitDump] = []


_LATER: Any = None  # in the place of what is dumped piece by piece
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(StateDump)


def peek(data: bytes) -> StateDump:
    """What a snapshot says, for one who only wants to know."""
    return _decoder.decode(data)


class _Dumping:
    """A topic of which some partitions are dumped, each with every group's place in it. What belongs to no partition is dumped
    at the beginning, leases too: a record that changes them changes one partition, and that is dumped before."""

    __slots__ = ("dump", "left", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.left = dict.fromkeys(range(len(topic.partitions)))
        self.dump = _dump_topic(topic)

    def take(self, index: int) -> None:
        if index in self.left:
            del self.left[index]
            partitions: list[Any] = self.dump.partitions
            partitions[index] = msgspec.Raw(_encode(_dump_partition(self.topic.partitions[index])))
            for group, dumped in zip(self.topic.groups.values(), self.dump.groups, strict=True):
                feeds: list[Any] = dumped.feeds
                feeds[index] = msgspec.Raw(_encode(_dump_feed(group.feeds[index])))

    def take_all(self) -> None:
        for index in list(self.left):
            self.take(index)


class Snapshot:
    """The state as of the instant this was made, dumped little by little. What is about to change is dumped first: a partition,
    or where a record names none, all that is left of its topic.

    `at` is that instant, `secrets` what a store has to encrypt: dedup ids of encrypted topics, by topic.
    """

    def __init__(self, state: State) -> None:
        self.at = state.now
        self.secrets: dict[TopicId, bytes] = {}
        self._left = dict(state.topics)
        self._begun: dict[TopicId, _Dumping] = {}
        self._topics: dict[TopicId, msgspec.Raw] = dict.fromkeys(state.topics, msgspec.Raw())  # in their order
        self._dump = StateDump(
            state.now,
            state.epoch,
            state.number,
            [],
            [(namespace, name, tx.until) for (namespace, name), tx in state.transactions.items()],
            [(namespace, name, at, committed) for (namespace, name), (at, committed) in state.ended.items()],
            [(name, one.at, one.done_below, dict(one.answers)) for name, one in state.producers.items()],
            [_dump_commit(*name, tx.commit) for name, tx in state.transactions.items() if tx.commit is not None],
        )

    def before(self, record: Record) -> None:
        """It will be applied next. No record changes more than one topic."""
        dumping = self._begin(getattr(record, "topic", None))
        if dumping is None or isinstance(record, Extended):  # that changes a lease, which is dumped
            return
        partition = getattr(record, "partition", None)
        if partition is None or dumping.topic.config.window_seconds:  # a window closes in all partitions
            dumping.take_all()
        else:
            dumping.take(partition)
        self._end(dumping)

    def go_on(self, most: int) -> bool:
        """Dumps about so many partitions, as they are and once more for each group. Whether all are dumped."""
        while most > 0 and (self._begun or self._left):
            dumping = self._begin(next(iter(self._begun or self._left)))
            assert dumping is not None
            while dumping.left and most > 0:
                most -= 1 + len(dumping.topic.groups)
                dumping.take(next(iter(dumping.left)))
            self._end(dumping)
        return not self._begun and not self._left

    def _begin(self, topic_id: TopicId | None) -> _Dumping | None:
        """None where all of it is dumped, or it is too young to be."""
        if topic_id is None or topic_id in self._begun:
            return None if topic_id is None else self._begun[topic_id]
        topic = self._left.pop(topic_id, None)
        if topic is None:
            return None
        if topic.config.encrypted and (ids := list(_dump_dedup_ids(topic))):
            self.secrets[topic.id] = _encode(ids)
        dumping = self._begun[topic.id] = _Dumping(topic)
        return dumping

    def _end(self, dumping: _Dumping) -> None:
        if not dumping.left:
            del self._begun[dumping.topic.id]
            self._topics[dumping.topic.id] = msgspec.Raw(_encode(dumping.dump))

    def finish(self) -> bytes:
        self.go_on(1 << 62)
        self._dump.topics = list(self._topics.values())  # type: ignore[arg-type]  # encoded already
        return _encode(self._dump)


def _dump_commit(namespace: str, name: str, commit: Committing) -> CommitDump:
    parts = None if commit.parts is None else sorted(commit.parts)
    firsts: list[tuple[int, int, int]] = [(*place, first) for place, first in commit.firsts.items()]
    return CommitDump(namespace, name, parts, dict(commit.topics.items()), commit.number, commit.row, firsts)


def _dump_topic(topic: Topic) -> TopicDump:
    """With nothing in its partitions yet."""
    return TopicDump(
        topic.id,
        *topic.name,
        topic.created,
        topic.config,
        [_LATER] * len(topic.partitions),
        [_dump_group(group) for group in topic.groups.values()],
        topic.spread,
        topic.window_since,
        topic.window_count,
        [] if topic.config.encrypted else list(_dump_dedup_ids(topic)),
        topic.dedup.forgotten,
        list(topic.dedup.ends),
    )


def _dump_dedup_ids(topic: Topic) -> Iterator[tuple[str, int, int, int]]:
    """Ids outlive their messages."""
    newest = max(partition.trimmed_at for partition in topic.partitions)
    for dedup_id, (at, ref) in topic.dedup.seen.items():  # oldest first
        if at > newest:
            return
        if ref.offset < topic.partitions[ref.partition].start:
            yield dedup_id, at, ref.partition, ref.offset


def _dump_wheel(wheel: Wheel) -> WheelDump:
    return WheelDump(wheel.now, b"".join(slot.tobytes() for slot in wheel.slots.values()))


def _dump_partition(p: Partition) -> PartitionDump:
    return PartitionDump(
        p.start,
        p.end,
        p.windowed,
        p.bytes_total,
        p.delayed.to_bytes(),
        _dump_wheel(p.delays),
        p.expired.to_bytes(),
        p.evicted.to_bytes(),
        _dump_wheel(p.expiries),
        p.deleted.to_bytes(),
        {offset: int(group) for offset, group in p.private.items()},
        {lane: offsets.to_bytes() for lane, offsets in p.lanes.items()},
        list(p.ripened.spans),
        p.archived,
        p.trimmed_at,
    )


def _dump_feed(feed: Feed) -> FeedDump:
    rows: Iterator[tuple[int, ...]] = map(
        add, zip(feed.failures), feed.failures.values()
    )  # at C speed, for there may be many
    failures = array("q", list(chain.from_iterable(rows)))
    return FeedDump(
        feed.cursor,
        feed.open.to_bytes(),
        feed.dead.to_bytes(),
        feed.retrying.to_bytes(),
        feed.early.to_bytes(),
        failures.tobytes(),
        feed.skipped,
        feed.ahead.to_bytes() if feed.ahead else None,
    )


def _dump_group(group: Group) -> GroupDump:
    return GroupDump(
        group.id,
        group.name,
        group.ephemeral,
        [_LATER] * len(group.feeds),
        [dump_lease(lease) for lease in group.leases.values()],
        group.settled.dump(),
    )
