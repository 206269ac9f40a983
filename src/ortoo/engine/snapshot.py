"""The hard state as bytes, and back. What the log itself tells (times, keys, dedup ids) is not in it: see LogIndex.

A snapshot is made of arrays and bitmaps, not of messages, and a few topics at a time, so that it holds nobody up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from operator import add

import msgspec

from ortoo.model.names import GroupId, MessageRef, TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import LogIndex, Record, TopicCreated
from ortoo.model.topic import TopicConfig

from .feed import Failure, Feed
from .group import Group
from .keys import NO_KEY, KeyState
from .leases import LeaseDump, dump_lease, load_lease
from .partition import Partition
from .state import Producer, State
from .topic import Topic
from .transaction import Committing, Transaction
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


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(StateDump)
_secrets_decoder = msgspec.msgpack.Decoder(list[DedupId])


def peek(data: bytes) -> StateDump:
    """What a snapshot says, for one who only wants to know."""
    return _decoder.decode(data)


class Snapshot:
    """The state as of the instant this was made, dumped little by little. A topic that is about to change is dumped first.

    `at` is that instant, `secrets` what a store has to encrypt: dedup ids of encrypted topics, by topic.
    """

    def __init__(self, state: State) -> None:
        self.at = state.now
        self.secrets: dict[TopicId, bytes] = {}
        self._left = dict(state.topics)
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
        topic = self._left.pop(getattr(record, "topic", None), None)  # type: ignore[arg-type]
        if topic is not None:
            self._dump_topic(topic)

    def go_on(self, most: int) -> bool:
        """Dumps topics with about so many partitions, as they are and once more for each group. Whether all are dumped."""
        while self._left and most > 0:
            topic = self._left.pop(next(iter(self._left)))
            most -= len(topic.partitions) * (1 + len(topic.groups))
            self._dump_topic(topic)
        return not self._left

    def _dump_topic(self, topic: Topic) -> None:
        self._topics[topic.id] = msgspec.Raw(_encode(_dump_topic(topic)))
        if topic.config.encrypted and (ids := list(_dump_dedup_ids(topic))):
            self.secrets[topic.id] = _encode(ids)

    def finish(self) -> bytes:
        self.go_on(1 << 62)
        self._dump.topics = list(self._topics.values())  # type: ignore[arg-type]  # encoded already
        return _encode(self._dump)


def _dump_commit(namespace: str, name: str, commit: Committing) -> CommitDump:
    parts = None if commit.parts is None else sorted(commit.parts)
    firsts: list[tuple[int, int, int]] = [(*place, first) for place, first in commit.firsts.items()]
    return CommitDump(namespace, name, parts, dict(commit.topics.items()), commit.number, commit.row, firsts)


def _dump_topic(topic: Topic) -> TopicDump:
    return TopicDump(
        topic.id,
        *topic.name,
        topic.created,
        topic.config,
        [_dump_partition(partition) for partition in topic.partitions],
        [_dump_group(group) for group in topic.groups.values()],
        topic.spread,
        topic.window_since,
        topic.window_count,
        [] if topic.config.encrypted else list(_dump_dedup_ids(topic)),
        topic.dedup.forgotten,
        topic.dedup.ends,
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
        [_dump_feed(feed) for feed in group.feeds],
        [dump_lease(lease) for lease in group.leases.values()],
        group.settled.dump(),
    )


def load(state: State, data: bytes, logs: list[LogIndex], secrets: list[tuple[int, bytes]]) -> None:
    """Fills an empty state. The logs tell what the snapshot leaves to them."""
    dumped = _decoder.decode(data)
    state.now, state.epoch, state.number = dumped.now, dumped.epoch, dumped.number
    indexes = {(log.topic, log.partition): log for log in logs}
    for topic_dump in dumped.topics:
        _load_topic(state, topic_dump, indexes)
    ids = {topic.id: topic.dedup_ids for topic in dumped.topics}
    ids |= {topic: _secrets_decoder.decode(secret) for topic, secret in secrets}
    _load_dedup_ids(state, ids, logs)
    for namespace, name, until in dumped.transactions:
        state.transactions[namespace, name] = Transaction(until)
        state.alarms.set(("transactions",), until)
    for commit in dumped.commits:
        _load_commit(state, commit)
    for namespace, name, at, committed in dumped.ended:
        state.ended[namespace, name] = (at, committed)
    for name, at, done_below, answers in dumped.producers:
        producer = state.producers[name] = Producer()
        producer.at, producer.done_below, producer.answers = at, done_below, answers


def _load_commit(state: State, dumped: CommitDump) -> None:
    topics = {TopicId(topic): count for topic, count in dumped.topics.items()}
    commit = state.transactions[dumped.namespace, dumped.name].commit = Committing(dumped.parts, topics)
    commit.number, commit.row = dumped.number, dumped.row
    commit.firsts = {(TopicId(topic), partition): first for topic, partition, first in dumped.firsts}
    state.hold(commit.firsts.items())


def _load_topic(state: State, dumped: TopicDump, indexes: dict[tuple[TopicId, int], LogIndex]) -> None:
    record = TopicCreated(dumped.created, TopicId(dumped.id), dumped.namespace, dumped.name, dumped.config)
    topic = Topic(record)
    state.add_topic(topic)
    state.alarms.set(("retention", topic.id, 0), state.now)
    topic.spread, topic.window_since, topic.window_count = dumped.spread, dumped.window_since, dumped.window_count
    topic.dedup.forgotten, topic.dedup.ends = dumped.dedup_forgotten, dumped.dedup_ends
    for partition, values in zip(topic.partitions, dumped.partitions, strict=True):
        index = indexes.get((topic.id, partition.index))
        _load_partition(partition, values, index, state.now)
        state.alarms.set(("delays", topic.id, partition.index), partition.delays.next())
        state.alarms.set(("expiries", topic.id, partition.index), partition.expiries.next())
    if topic.window_since is not None:
        state.alarms.set(("window", topic.id), topic.window_since)
    for group in dumped.groups:
        _load_group(state, topic, group)


def _load_wheel(dumped: WheelDump) -> Wheel:
    wheel = Wheel()
    wheel.now = dumped.now
    pairs = array("q", dumped.pairs)
    for at in range(0, len(pairs), 2):
        wheel.add(pairs[at], pairs[at + 1])
    return wheel


def _load_partition(partition: Partition, dumped: PartitionDump, index: LogIndex | None, now: int) -> None:
    partition.start, partition.end, partition.confirmed = dumped.start, dumped.end, dumped.end
    partition.windowed = dumped.windowed
    partition.bytes_total = dumped.bytes_total
    partition.delayed = OffsetSet.from_bytes(dumped.delayed)
    partition.delays = _load_wheel(dumped.delays)
    partition.expired = OffsetSet.from_bytes(dumped.expired)
    partition.evicted = OffsetSet.from_bytes(dumped.evicted)
    partition.expiries = _load_wheel(dumped.expiries)
    partition.deleted = OffsetSet.from_bytes(dumped.deleted)
    partition.private = {offset: GroupId(group) for offset, group in dumped.private.items()}
    partition.lanes = {lane: OffsetSet.from_bytes(offsets) for lane, offsets in dumped.lanes.items()}
    for due, *offsets in dumped.ripened:
        partition.ripened.add_span(due, offsets[0], offsets[-1])
    partition.archived = dumped.archived
    if dumped.trimmed_at is not None:
        partition.trimmed_at = dumped.trimmed_at
    elif dumped.start:
        partition.trimmed_at = now
    if index is None:
        return
    partition.bytes_total = 0  # only differences count, and the log knows the sizes of copies that were on their way
    for offset, time, size in zip(array("Q", index.offsets), array("Q", index.times), index.sizes, strict=True):
        partition.timeline.append(offset, time, partition.bytes_total)
        partition.bytes_total += size
    for base, count, hashes in index.keys:
        partition.keys.append(base, count, array("Q", hashes) if hashes else None)


def _load_dedup_ids(state: State, ids: dict[int, list[DedupId]], logs: list[LogIndex]) -> None:
    found = [
        (at, dedup_id, MessageRef(TopicId(topic), partition, offset))
        for topic, known in ids.items()
        for dedup_id, at, partition, offset in known
    ]
    for log in logs:
        found.extend(
            (at, dedup_id, MessageRef(log.topic, log.partition, offset)) for dedup_id, at, offset in log.dedup_ids
        )
    for at, dedup_id, ref in sorted(found):  # a table is ordered by age
        topic = state.topics.get(ref.topic)
        if topic is not None and not topic.dedup.is_forgotten(at, ref):
            state.remember_dedup_id(topic, dedup_id, at, ref)
    for topic in state.topics.values():
        state.prune_dedup_ids(topic, state.now)


def _load_group(state: State, topic: Topic, dumped: GroupDump) -> None:
    group = Group(GroupId(dumped.id), dumped.name, topic.config.ordering, dumped.ephemeral)
    topic.add_group(group, [feed.cursor for feed in dumped.feeds])
    group.leases = {lease.id: lease for lease in map(load_lease, dumped.leases)}
    group.settled.load(dumped.settled)
    for lease in group.leases.values():
        state.lease_groups[lease.id] = (topic.id, group.id)
        state.watch_lease(lease.id, lease.until)
        for partition, offsets in lease.held.items():
            group.feeds[partition].leased.update(offsets)
            group.hold(lease, partition, offsets)
    for feed, values in zip(group.feeds, dumped.feeds, strict=True):
        _load_feed(feed, values)
        state.alarms.set(("retries", topic.id, feed.partition.index, group.id), feed.retries.next())
    if group.ephemeral:
        state.alarms.set(("members", topic.id, group.id), state.now)


def _load_feed(feed: Feed, dumped: FeedDump) -> None:
    feed.open = OffsetSet.from_bytes(dumped.open)
    feed.dead = OffsetSet.from_bytes(dumped.dead)
    feed.retrying = OffsetSet.from_bytes(dumped.retrying)
    feed.early = OffsetSet.from_bytes(dumped.early)
    feed.skipped = dumped.skipped
    if dumped.ahead is not None:
        feed.ahead = OffsetSet.from_bytes(dumped.ahead)
    failures = array("q", dumped.failures)
    for at in range(0, len(failures), 4):
        offset, attempts, first, due = failures[at : at + 4]
        feed.failures[offset] = Failure(attempts, first, due)
        if offset in feed.retrying:
            feed.retries.add(due, offset)
    _hold_keys(feed, feed.leased | feed.retrying)
    feed.offer(feed.open - feed.leased - feed.retrying - (feed.partition.delayed - feed.early))


def _hold_keys(feed: Feed, held: OffsetSet) -> None:
    if feed.keys is None:
        return
    for offset in held:
        key = feed.partition.keys.at(offset)
        if key != NO_KEY:
            feed.keys.states.setdefault(key, KeyState()).held += 1
