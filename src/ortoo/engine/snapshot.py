"""The hard state as bytes, and back. What the log itself tells (times, keys, dedup ids) is not in it: see LogIndex.

A snapshot is made of arrays and bitmaps, not of messages, and a few partitions at a time, so that it holds nobody up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain, islice
from operator import add
from typing import Any

import msgspec

from ortoo.model.names import GroupId, LeaseId, TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import (
    Archived,
    DeadLettered,
    Deleted,
    Dropped,
    Extended,
    GroupSought,
    Hastened,
    Record,
    TopicChanged,
    TopicPurged,
    Trimmed,
    WindowClosed,
)

from .dedup import Seen
from .dumps import CommitDump, DedupId, FeedDump, GroupDump, PartitionDump, StateDump, TopicDump, WheelDump
from .feed import Failure, Feed
from .group import Group
from .leases import LeaseState, dump_lease
from .partition import Partition
from .state import State
from .topic import Topic
from .transaction import Committing
from .wheel import Wheel

_LATER: Any = None  # in the place of what is dumped piece by piece
_SLICE = 2_000  # failures or dedup ids in a piece
_CHEAP = 20  # of them cost as much as a partition
_encode = msgspec.msgpack.Encoder().encode


class _TopicInPieces:
    """One topic as of the instant this was made, dumped piece by piece: a partition with every group's feed in it, a lease, some
    dedup ids, some failures. A piece is dumped before the first record that changes it.

    What no record changes, but replaces or removes, is only kept: groups, a group's list of feeds, a lease that ended.
    """

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.dump = _dump_topic(topic)
        self.is_done = False
        self._groups = list(topic.groups.values())
        self._places = {group.id: place for place, group in enumerate(self._groups)}
        self._feeds = [group.feeds for group in self._groups]
        self._leases: list[dict[LeaseId, Any]] = [dict(group.leases) for group in self._groups]
        self._settled = [group.settled.encoded() for group in self._groups]
        self._dedup_ids = _freeze_dedup_ids(topic)
        self._failures: list[tuple[list[Any], int, FeedDump, dict[int, Failure]]] = []
        self._pieces = self._dump_pieces()

    def go_on(self, most: int) -> int:
        """Dumps pieces of about that cost; what is left of it."""
        while most > 0 and not self.is_done:
            most -= next(self._pieces)
        return most

    def _dump_pieces(self) -> Iterator[int]:
        """Yields what each piece cost: 1 is that of a partition or a feed without much in it."""
        for index in range(len(self.dump.partitions)):
            self._take(index)
            yield 1 + len(self._groups)
        for place, dumped in enumerate(self.dump.groups):
            for lease in self._leases[place]:
                self._take_lease(place, lease)
                yield 1
            dumped.leases = list(self._leases[place].values())
            dumped.settled = list(map(msgspec.Raw, self._settled[place]))
            yield 1 + len(dumped.settled) // _CHEAP
        for dedup_ids in _slices(self._dedup_ids):
            self.dump.dedup_ids += dedup_ids
            yield len(dedup_ids) // _CHEAP
        for feeds, index, feed, failures in self._failures:
            rows: Iterator[tuple[int, ...]] = map(add, zip(failures), failures.values())
            parts = []
            for some in _slices(rows):
                parts.append(array("q", list(chain.from_iterable(some))).tobytes())
                yield len(some) // _CHEAP
            feed.failures = b"".join(parts)
            feeds[index] = msgspec.Raw(_encode(feed))
        self.is_done = True
        yield 1

    def before(self, record: Any) -> None:
        """It will be applied next: what it changes is dumped first."""
        match record:
            case TopicChanged() | TopicPurged() | Archived() | WindowClosed():
                self._take_logs()
            case GroupSought() if record.untils is not None and record.group in self._places:
                for index in range(len(self.dump.partitions)):
                    self._take_feed(self._places[record.group], index)
            case Extended():
                self._take_leases(record)
            case _ if getattr(record, "partition", None) is not None:
                if self.topic.config.window_seconds:  # a window closes in all partitions
                    self._take_logs()
                self._take(record.partition)
                self._take_leases(record)

    def _take(self, index: int) -> None:
        self._take_log(index)
        for place in range(len(self._groups)):
            self._take_feed(place, index)

    def _take_logs(self) -> None:
        for index in range(len(self.dump.partitions)):
            self._take_log(index)

    def _take_log(self, index: int) -> None:
        """The partition itself, without what groups have to do in it."""
        partitions: list[Any] = self.dump.partitions
        if index < len(partitions) and partitions[index] is _LATER:
            partitions[index] = msgspec.Raw(_encode(_dump_partition(self.topic.partitions[index])))

    def _take_feed(self, place: int, index: int) -> None:
        feeds: list[Any] = self.dump.groups[place].feeds
        if index >= len(feeds) or feeds[index] is not _LATER:
            return
        feed = self._feeds[place].look(index)
        dumped = feeds[index] = _dump_feed(feed)
        if feed.failures:
            self._failures.append((feeds, index, dumped, dict(feed.failures)))
        else:
            feeds[index] = msgspec.Raw(_encode(dumped))

    def _take_leases(self, record: Any) -> None:
        """Those that it changes: the one it names, or else whichever hold what it is about."""
        match record:
            case Dropped() | DeadLettered() | Hastened():
                self._take_holders(record.group, record.partition, record.offsets)
            case Deleted():
                for group in self.topic.groups.values():  # those that are gone have nothing to lose
                    self._take_holders(group.id, record.partition, record.offsets)
            case Trimmed():
                for group in self.topic.groups.values():
                    self._take_holders(
                        group.id, record.partition, group.feeds.look(record.partition).leased.within(0, record.start)
                    )
            case _ if (lease := getattr(record, "lease", None)) is not None and record.group in self._places:
                self._take_lease(self._places[record.group], lease)

    def _take_holders(self, group_id: GroupId, partition: int, offsets: OffsetSet) -> None:
        if group_id in self._places and (group := self.topic.groups.get(group_id)) is not None:
            for lease in group.holding(partition, offsets):
                self._take_lease(self._places[group_id], lease.id)

    def _take_lease(self, place: int, lease: LeaseId) -> None:
        found = self._leases[place].get(lease)
        if isinstance(found, LeaseState):
            self._leases[place][lease] = msgspec.Raw(_encode(dump_lease(found)))


class Snapshot:
    """The state as of the instant this was made, dumped little by little, and what is about to change first.

    `at` is that instant, `secrets` what a store has to encrypt: dedup ids of encrypted topics, by topic.
    """

    def __init__(self, state: State) -> None:
        self.at = state.now
        self.secrets: dict[TopicId, bytes] = {}
        self._left = dict(state.topics)
        self._begun: dict[TopicId, _TopicInPieces] = {}
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
            list(state.namespaces.items()),
        )

    def before(self, record: Record) -> None:
        """It will be applied next. No record changes more than one topic."""
        topic = getattr(record, "topic", None)
        if topic is not None and (pieces := self._begin(topic)) is not None:
            pieces.before(record)

    def go_on(self, most: int) -> bool:
        """Dumps about so many partitions, as they are and once more for each group. Whether all are dumped."""
        while most > 0 and (self._begun or self._left):
            pieces = self._begin(next(iter(self._begun or self._left)))
            assert pieces is not None
            most = pieces.go_on(most)
            if pieces.is_done:
                self._end(pieces)
        return not self._begun and not self._left

    def _begin(self, topic_id: TopicId) -> _TopicInPieces | None:
        """None where all of it is dumped, or it is too young to be."""
        if topic_id not in self._begun and topic_id in self._left:
            self._begun[topic_id] = _TopicInPieces(self._left.pop(topic_id))
        return self._begun.get(topic_id)

    def _end(self, pieces: _TopicInPieces) -> None:
        topic, dump = pieces.topic, pieces.dump
        del self._begun[topic.id]
        if pieces.dump.config.encrypted and dump.dedup_ids:
            self.secrets[topic.id] = _encode(dump.dedup_ids)
            dump.dedup_ids = []
        self._topics[topic.id] = msgspec.Raw(_encode(dump))

    def finish(self) -> bytes:
        self.go_on(1 << 62)
        self._dump.topics = list(self._topics.values())  # type: ignore[arg-type]  # encoded already
        return _encode(self._dump)


def _slices(items: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(items, _SLICE)):
        yield some


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
        topic.next_partition,
        topic.window_since,
        topic.window_count,
        [],
        topic.dedup.forgotten,
        list(topic.dedup.ends),
    )


def _freeze_dedup_ids(topic: Topic) -> Iterator[DedupId]:
    """Those that the log does not have any more: ids outlive their messages."""
    newest = max(partition.trimmed_at for partition in topic.partitions)
    oldest = next(iter(topic.dedup.seen.values()), None)
    if oldest is None or oldest[0] > newest:
        return iter(())
    return _dump_dedup_ids(dict(topic.dedup.seen), newest, [partition.start for partition in topic.partitions])


def _dump_dedup_ids(seen: Seen, newest: int, starts: list[int]) -> Iterator[DedupId]:
    for dedup_id, (at, partition, offset) in seen.items():  # oldest first
        if at > newest:
            return
        if offset < starts[partition]:
            yield dedup_id, at, partition, offset


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
        list(p.delayed_then_due.spans),
        p.archived,
        p.trimmed_at,
        p.bytes_gone,
        p.empties.to_bytes() if p.empties else None,
        p.bytes_cut,
    )


def _dump_feed(feed: Feed) -> FeedDump:
    """Without its failures, of which there may be many."""
    return FeedDump(
        feed.cursor,
        feed.open.to_bytes(),
        feed.dead.to_bytes(),
        feed.retrying.to_bytes(),
        feed.due_early.to_bytes(),
        b"",
        feed.skipped,
        feed.ahead.to_bytes() if feed.ahead else None,
    )


def _dump_group(group: Group) -> GroupDump:
    """With neither feeds nor leases yet."""
    return GroupDump(group.id, group.name, group.ephemeral, [_LATER] * len(group.feeds), [], [], group.paused)
