"""The state from a snapshot: see snapshot.py for what it holds. The logs tell what it leaves to them."""

from __future__ import annotations

from array import array

import msgspec

from ortoo.model.names import GroupId, TopicId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.pausing import Pause
from ortoo.model.records import LogIndex, TopicCreated

from .alarms import (
    DelaysDue,
    ExpiriesDue,
    MembersDue,
    PauseEnds,
    RetentionDue,
    RetriesDue,
    TransactionsTimeOut,
    WindowCloses,
)
from .dedup import with_keys
from .due_dates import DueDates
from .dumps import CommitDump, DedupId, FeedDump, GroupDump, PartitionDump, TopicDump, WheelDump, peek
from .feed import Failure, Feed
from .group import Group
from .latest import begin_anew
from .leases import load_lease
from .partition import Partition
from .producers import Producer
from .state import State
from .timeline import Timeline
from .topic import Topic
from .transaction import Committing, Transaction
from .wheel import NO_WHEEL, Wheel

_NO_OFFSETS = NOTHING.to_bytes()
_secrets_decoder = msgspec.msgpack.Decoder(list[DedupId])


def load(state: State, data: bytes, logs: list[LogIndex], secrets: list[tuple[int, bytes]]) -> None:
    """Fills an empty state."""
    dumped = peek(data)
    state.now, state.epoch, state.number = dumped.now, dumped.epoch, dumped.number
    indexes = {(log.topic, log.partition): log for log in logs}
    for topic_dump in dumped.topics:
        _load_topic(state, topic_dump, indexes)
    ids = {topic.id: topic.dedup_ids for topic in dumped.topics}
    ids |= {topic: _secrets_decoder.decode(secret) for topic, secret in secrets}
    _load_dedup_ids(state, ids, logs)
    for namespace, name, until in dumped.transactions:
        state.transactions[namespace, name] = Transaction(until)
        state.soft.alarms.set(TransactionsTimeOut(), until)
    for commit in dumped.commits:
        _load_commit(state, commit)
    for topic in state.topics.values():
        _load_latest(state, topic)
    state.namespaces.update(dumped.namespaces)
    for namespace, name, at, committed in dumped.ended:
        state.ended[namespace, name] = (at, committed)
    for name, at, done_below, answers in dumped.producers:
        producer = Producer()
        producer.at, producer.done_below, producer.answers = at, done_below, answers
        state.producers[name] = producer


def _load_latest(state: State, topic: Topic) -> None:
    for partition in topic.partitions:
        if partition.deleted:
            state.soft.discards.add(topic, partition.index, partition.deleted)
    if topic.latest is not None:
        begin_anew(state, topic)


def _load_commit(state: State, dumped: CommitDump) -> None:
    topics = {TopicId(topic): count for topic, count in dumped.topics.items()}
    commit = Committing(dumped.parts, topics)
    state.transactions[dumped.namespace, dumped.name].begin_commit(commit)
    commit.number, commit.row = dumped.number, dumped.row
    commit.firsts = {(TopicId(topic), partition): first for topic, partition, first in dumped.firsts}
    state.hold(commit.firsts.items())


def _load_topic(state: State, dumped: TopicDump, indexes: dict[tuple[TopicId, int], LogIndex]) -> None:
    record = TopicCreated(dumped.created, TopicId(dumped.id), dumped.namespace, dumped.name, dumped.config)
    topic = Topic(record)
    state.add_topic(topic)
    state.soft.alarms.set(RetentionDue(topic.id), state.now)
    topic.next_partition, topic.window_since, topic.window_count = (
        dumped.next_partition,
        dumped.window_since,
        dumped.window_count,
    )
    topic.dedup.forgotten, topic.dedup.ends = dumped.dedup_forgotten, dumped.dedup_ends
    for partition, values in zip(topic.partitions, dumped.partitions, strict=True):
        index = indexes.get((topic.id, partition.index))
        _load_partition(partition, values, index, state.now)
        state.soft.alarms.set(DelaysDue(topic.id, partition.index), partition.delays.next())
        state.soft.alarms.set(ExpiriesDue(topic.id, partition.index), partition.expiries.next())
    if topic.window_since is not None:
        state.soft.alarms.set(WindowCloses(topic.id), topic.window_since)
    for group in dumped.groups:
        _load_group(state, topic, group)


def _load_offsets(dumped: bytes) -> OffsetSet:
    return OffsetSet.from_bytes(dumped) or NOTHING


def _load_wheel(dumped: WheelDump) -> Wheel:
    if not dumped.now and not dumped.pairs:
        return NO_WHEEL
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
    partition.delayed = _load_offsets(dumped.delayed)
    partition.delays = _load_wheel(dumped.delays)
    partition.expired = _load_offsets(dumped.expired)
    partition.evicted = _load_offsets(dumped.evicted)
    partition.expiries = _load_wheel(dumped.expiries)
    partition.deleted = _load_offsets(dumped.deleted)
    if dumped.private:
        partition.private = {offset: GroupId(group) for offset, group in dumped.private.items()}
    if dumped.lanes:
        partition.lanes = {lane: OffsetSet.from_bytes(offsets) for lane, offsets in dumped.lanes.items()}
    if dumped.delayed_then_due:
        partition.delayed_then_due = DueDates()
    for due, *offsets in dumped.delayed_then_due:
        partition.delayed_then_due.add_span(due, offsets[0], offsets[-1])
    partition.archived = dumped.archived
    partition.bytes_gone, partition.bytes_cut = dumped.bytes_gone, dumped.bytes_cut
    if dumped.empties is not None:
        partition.empties = _load_offsets(dumped.empties)
    if dumped.trimmed_at is not None:
        partition.trimmed_at = dumped.trimmed_at
    elif dumped.start:
        partition.trimmed_at = now
    if index is None:
        return
    partition.timeline = Timeline()
    partition.bytes_total = 0  # only differences count, and the log knows the sizes of copies that were on their way
    for offset, time, size in zip(array("Q", index.offsets), array("Q", index.times), index.sizes, strict=True):
        partition.timeline.append(offset, time, partition.bytes_total)
        partition.bytes_total += size
    _recut(partition)
    for base, count, hashes in index.keys:
        partition.append_keys(base, count, hashes)


def _recut(partition: Partition) -> None:
    """What went of the first instant counts as gone as far as the log still has it: of whole batches nobody knows any more."""
    if not partition.bytes_cut:
        return
    start = partition.start
    first = min(partition.instant_of(start)[0] if start < partition.end else start, start)
    known = partition.bytes_of(OffsetSet.span(first, start)) if first < start else 0
    cut = min(partition.bytes_cut, known)
    partition.bytes_gone -= partition.bytes_cut - cut
    partition.bytes_cut = cut


def _load_dedup_ids(state: State, ids: dict[int, list[DedupId]], logs: list[LogIndex]) -> None:
    found = [
        (at, TopicId(topic_id), partition, offset, dedup_id)
        for topic_id, known in ids.items()
        for dedup_id, at, partition, offset in known
    ]
    for log in logs:
        names = _names(state, log)
        found += [
            (at, log.topic, log.partition, offset, name)
            for name, (_, at, offset) in zip(names, log.dedup_ids, strict=True)
        ]
    found.sort()  # as they came: tables are ordered by age, and the last with an id counts
    for at, topic_id, partition, offset, dedup_id in found:
        topic = state.topics.get(topic_id)
        if topic is not None and not topic.dedup.is_forgotten((at, partition, offset)):
            state.remember_dedup_ids(topic, (dedup_id,), ((at, partition, offset),))
    for topic in state.topics.values():
        state.prune_dedup_ids(topic, state.now)


def _names(state: State, log: LogIndex) -> list[str]:
    """What the topic calls the ids of a log."""
    topic, ids = state.topics.get(log.topic), [dedup_id for dedup_id, _, _ in log.dedup_ids]
    if topic is None or topic.config.dedup_scope != "key":
        return ids
    keys = topic.partitions[log.partition].keys
    return with_keys(ids, [keys.at(offset) for _, _, offset in log.dedup_ids])


def _load_group(state: State, topic: Topic, dumped: GroupDump) -> None:
    cursors = [feed.cursor for feed in dumped.feeds]
    ordering, partitions = topic.config.ordering, topic.partitions
    group = Group(GroupId(dumped.id), dumped.name, ordering, partitions, cursors, dumped.ephemeral)
    topic.add_group(group)
    group.leases = {lease.id: lease for lease in map(load_lease, dumped.leases)}
    group.settled.load(dumped.settled)
    for lease in group.leases.values():
        state.lease_groups.add(lease.id, (topic.id, group.id), topic.name.namespace, lease.consumer)
        state.watch_lease(lease.id, lease.until)
        for partition, offsets in lease.held.items():
            group.feeds[partition].leased |= offsets
            group.hold(lease, partition, offsets)
    for index, values in enumerate(dumped.feeds):
        if group.feeds.is_untouched(index) and _is_untouched(values):
            continue
        feed = group.feeds[index]
        _load_feed(feed, values)
        state.soft.alarms.set(RetriesDue(topic.id, feed.partition.index, group.id), feed.retries.next())
    if dumped.paused is not None:
        group.paused = Pause(*dumped.paused)
        state.soft.alarms.set(PauseEnds(topic.id, group.id), group.paused.until)
    if group.ephemeral:
        state.soft.alarms.set(MembersDue(topic.id, group.id), state.now)


def _is_untouched(dumped: FeedDump) -> bool:
    sets = {dumped.open, dumped.dead, dumped.retrying, dumped.due_early}
    return sets == {_NO_OFFSETS} and not (dumped.failures or dumped.skipped or dumped.ahead)


def _load_feed(feed: Feed, dumped: FeedDump) -> None:
    feed.open = _load_offsets(dumped.open)
    feed.dead = _load_offsets(dumped.dead)
    feed.retrying = _load_offsets(dumped.retrying)
    feed.due_early = _load_offsets(dumped.due_early)
    feed.skipped = dumped.skipped
    if dumped.ahead is not None:
        feed.ahead = _load_offsets(dumped.ahead)
    failures = array("q", dumped.failures)
    for at in range(0, len(failures), 4):
        offset, attempts, first, due = failures[at : at + 4]
        feed.failures[offset] = Failure(attempts, first, due)
        if offset in feed.retrying:
            feed.retry_at(due, [offset])
    if feed.keys is not None:
        feed.keys.hold_all(feed.partition.keys.of((feed.leased | feed.retrying).to_array()))
    feed.offer(feed.open - feed.leased - feed.retrying - (feed.partition.delayed - feed.due_early))
