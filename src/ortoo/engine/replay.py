"""Applying records: the only code that changes hard state, live and at recovery alike. It never refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortoo.model import limits
from ortoo.model import records as r
from ortoo.model.access import HIDDEN_NAMESPACES
from ortoo.model.names import LEASES_PER_EPOCH, leases_from
from ortoo.model.offsets import OffsetSet

from . import namespaces, pausing, removal, staging
from .alarms import DelaysDue, ExpiriesDue, LatestDue, MembersDue, PauseEnds, RetentionDue, RetriesDue, WindowCloses
from .dedup import ids_in
from .feed import Feed
from .group import ACKED, DEAD_LETTERED, DELIVERED, RETRIED, Group, add_tallies
from .latest import begin_anew
from .leases import LeaseState
from .once import remember
from .quotas import likely_bytes, note_freed, note_stored
from .removal import end_leases
from .restore import load
from .state import State
from .topic import Topic, TopicCounters

_IDS_PRUNED = 1_000  # with each publish, beyond twice what it brings


def apply(state: State, record: r.Record) -> None:
    state.now = max(state.now, record.at)
    _APPLY[type(record)](state, record)


def _restored(state: State, record: r.Restored) -> None:
    load(state, record.snapshot, record.logs, record.secrets)


def _opened(state: State, record: r.Opened) -> None:
    state.epoch = record.epoch
    state.opened = record.at
    state.lease_number = leases_from(record.at)
    for topic in state.topics.values():
        if topic.latest is not None:
            begin_anew(state, topic)


# -- topics and groups


def _topic_created(state: State, record: r.TopicCreated) -> None:
    state.add_topic(Topic(record))
    state.number = max(state.number, record.topic)
    state.soft.alarms.set(RetentionDue(record.topic), record.at + limits.RETENTION_INTERVAL_MS)


def _topic_changed(state: State, record: r.TopicChanged) -> None:
    topic = state.topics[record.topic]
    state.outdate_dedup_ids(topic, record.at)
    if record.config.dedup_scope != topic.config.dedup_scope:
        state.forget_dedup_ids(topic)
    was_latest = topic.latest
    state.change_topic(topic, record.config)
    if topic.latest is not was_latest:  # now it counts for what is there, too
        for partition in topic.partitions:
            state.soft.alarms.set(LatestDue(topic.id, partition.index), record.at)
    if topic.window_since is not None:
        state.soft.alarms.set(WindowCloses(topic.id), topic.window_since + round(topic.config.window_seconds * 1000))


def _topic_deleted(state: State, record: r.TopicDeleted) -> None:
    state.forget_dedup_ids(state.topics[record.topic])
    topic = state.remove_topic(record.topic)
    _remember_counters(state, topic)
    state.drop_promises(topic)
    note_freed(state, topic.name.namespace)
    for group in topic.groups.values():
        _forget_leases(state, group)
        state.note_left(topic, group, group.look_at_members().alive_until)


def _remember_counters(state: State, topic: Topic) -> None:
    """Totals never go down. What is hidden is in no sum of topics."""
    soft = state.soft
    soft.past.add(topic.counters)
    if topic.name.namespace not in HIDDEN_NAMESPACES:
        soft.past_topics.add_all(topic.counters)
        soft.past_groups = add_tallies(soft.past_groups, topic.tally())


def _topic_purged(state: State, record: r.TopicPurged) -> None:
    topic = state.topics[record.topic]
    state.drop_promises(topic)
    for group in topic.groups.values():
        _forget_leases(state, group)
    for partition in topic.partitions:
        partition.held = None
        partition.trim(partition.end)
        if topic.latest is not None:
            topic.latest.places.clear()
        if partition.windowed is not None:
            partition.windowed = partition.end
    note_freed(state, topic.name.namespace)
    topic.window_since, topic.window_count = None, 0
    ends = [partition.end for partition in topic.partitions]
    for group in topic.groups.values():
        group.reset(ends)


def _archived(state: State, record: r.Archived) -> None:
    for partition, end in zip(state.topics[record.topic].partitions, record.ends, strict=False):
        partition.archived = max(partition.archived, end)


def _group_created(state: State, record: r.GroupCreated) -> None:
    topic = state.topics[record.topic]
    ordering, partitions = topic.config.ordering, topic.partitions
    group = Group(record.group, record.name, ordering, partitions, record.cursors, record.ephemeral)
    joining = state.soft.joining.pop((topic.id, group.name), None)
    if joining is not None:
        group.members = joining
    topic.add_group(group)
    state.note_joined(topic, group, group.look_at_members().alive_until)
    state.number = max(state.number, record.group)
    if record.ephemeral:  # it needs a consumer soon, or it goes
        state.soft.alarms.set(MembersDue(topic.id, group.id), record.at + limits.SESSION_TIMEOUT_MS)


def _group_deleted(state: State, record: r.GroupDeleted) -> None:
    topic = state.topics[record.topic]
    group = topic.groups[record.group]
    _forget_leases(state, group)
    state.note_left(topic, group, group.look_at_members().alive_until)
    topic.remove_group(group)
    state.soft.alarms.forget(MembersDue(topic.id, group.id))
    state.soft.alarms.forget(PauseEnds(topic.id, group.id))
    for partition in topic.partitions:
        state.soft.alarms.forget(RetriesDue(topic.id, partition.index, group.id))


def _group_sought(state: State, record: r.GroupSought) -> None:
    topic = state.topics[record.topic]
    topic.depth_most = None
    group = topic.groups[record.group]
    _forget_leases(state, group)
    if record.untils is None:
        group.reset(record.cursors)
        return
    group.forget_leases()
    for feed, start, end in zip(group.feeds, record.cursors, record.untils, strict=True):
        feed.begin_again(start, end)


def _forget_leases(state: State, group: Group) -> None:
    for lease in group.leases:
        state.lease_groups.end(lease)


# -- the log


def _published(state: State, record: r.Published) -> None:
    topic = state.topics[record.topic]
    partition = topic.partitions[record.partition]
    likely = likely_bytes(state, topic, record)
    partition.append(record, topic.config, likely)
    topic.next_partition += 1
    topic.counters.published += record.count
    note_stored(state, topic.name.namespace, record.size + likely)
    if topic.depth_most is not None:
        topic.depth_most += record.count
    if topic.lanes_known is not None and partition.lanes:
        topic.lanes_known.update(partition.lanes)
    if record.batch.dedup_ids and not record.origins:
        _remember_dedup_ids(state, topic, record)
    state.soft.alarms.set(DelaysDue(topic.id, partition.index), partition.delays.next())
    state.soft.alarms.set(ExpiriesDue(topic.id, partition.index), partition.expiries.next())
    if partition.windowed is not None:
        _fill_window(state, topic, record)


def _remember_dedup_ids(state: State, topic: Topic, record: r.Published) -> None:
    state.remember_dedup_ids(topic, *ids_in(record, has_keys=topic.config.dedup_scope == "key"))
    state.prune_dedup_ids(topic, record.at, 2 * record.count + _IDS_PRUNED)  # faster than they come


def _fill_window(state: State, topic: Topic, record: r.Published) -> None:
    topic.window_count += record.count
    if topic.window_since is None:
        topic.window_since = record.at
    if topic.config.window_count and topic.window_count >= topic.config.window_count:
        _close_window(topic)
    else:
        state.soft.alarms.set(WindowCloses(topic.id), topic.window_since + round(topic.config.window_seconds * 1000))


def _window_closed(state: State, record: r.WindowClosed) -> None:
    _close_window(state.topics[record.topic])


def _close_window(topic: Topic) -> None:
    topic.window_since, topic.window_count = None, 0
    for partition in topic.partitions:
        if partition.windowed is not None:
            partition.windowed = partition.end
            partition.tell()


def _came_due(state: State, record: r.CameDue) -> None:
    topic = state.topics[record.topic]
    partition = topic.partitions[record.partition]
    if record.group is not None:
        feed = topic.groups[record.group].feeds[record.partition]
        feed.retries_due(record.at, record.upto)
        state.soft.alarms.set(RetriesDue(topic.id, record.partition, record.group), feed.retries.next())
        return
    due = partition.come_due(record.at, record.upto)
    for group in topic.groups.values():
        if not group.feeds.is_untouched(record.partition):
            group.feeds[record.partition].came_due(due)
    state.soft.alarms.set(DelaysDue(topic.id, partition.index), partition.delays.next())


def _expired(state: State, record: r.Expired) -> None:
    partition = state.topics[record.topic].partitions[record.partition]
    partition.expire(record.at, record.upto)
    state.soft.alarms.set(ExpiriesDue(record.topic, record.partition), partition.expiries.next())


def _quarantined(state: State, record: r.Quarantined) -> None:
    topic = state.topics.get(record.topic)
    if topic is not None and record.partition < len(topic.partitions):
        topic.partitions[record.partition].quarantine_reason = record.reason
    if topic is None or topic.config.encrypted:  # what was staged for it may be out of sight
        for transaction in state.transactions.values():
            transaction.quarantine_reason = record.reason


def _skipped(state: State, record: r.Skipped) -> None:
    topic = state.topics[record.topic]
    topic.groups[record.group].feeds[record.partition].skipped += len(record.offsets)
    topic.counters.skipped += len(record.offsets)


# -- delivery


def _leased(state: State, record: r.Leased) -> None:
    topic = state.topics[record.topic]
    group = topic.groups[record.group]
    lease = group.leases.get(record.lease)
    if lease is None:
        lease = group.leases[record.lease] = LeaseState(record.lease, record.consumer, record.at, record.until)
        state.lease_groups.add(record.lease, (record.topic, record.group), topic.name.namespace, record.consumer)
        state.lease_number = max(state.lease_number, record.lease % LEASES_PER_EPOCH)
        state.watch_lease(record.lease, record.until)
    group.hold(lease, record.partition, record.offsets.copy())
    group.feeds[record.partition].take(record.offsets)
    topic.counters.delivered += len(record.offsets)
    group.count(DELIVERED, len(record.offsets))


def _extended(state: State, record: r.Extended) -> None:
    lease = state.topics[record.topic].groups[record.group].leases.get(record.lease)
    if lease is not None and lease.until != record.until:
        lease.until = record.until
        state.watch_lease(record.lease, record.until)


def _delivery(state: State, record: Any) -> tuple[TopicCounters, Group, Feed, LeaseState]:
    topic = state.topics[record.topic]
    group = topic.groups[record.group]
    return topic.counters, group, group.feeds[record.partition], group.leases[record.lease]


def _retire(state: State, group: Group, lease: LeaseState) -> None:
    if not lease.held:
        group.retire(lease)
        state.lease_groups.end(lease.id)


def _acked(state: State, record: r.Acked) -> None:
    counters, group, feed, lease = _delivery(state, record)
    lease.ack(record.partition, record.offsets)
    feed.settle(record.offsets)
    _retire(state, group, lease)
    counters.acked += len(record.offsets)
    group.count(ACKED, len(record.offsets))
    group.acked(record.at - lease.at, record.at)


def _retried(state: State, record: r.Retried) -> None:
    counters, group, feed, lease = _delivery(state, record)
    lease.drop(record.partition, OffsetSet(record.offsets))
    feed.retry(record.offsets, record.dues, record.first, record.at)
    _retire(state, group, lease)
    state.soft.alarms.set(RetriesDue(record.topic, record.partition, record.group), feed.retries.next())
    counters.retried += len(record.offsets)
    group.count(RETRIED, len(record.offsets))


def _released(state: State, record: r.Released) -> None:
    counters, group, feed, lease = _delivery(state, record)
    lease.drop(record.partition, record.offsets)
    feed.give_back(record.offsets)
    _retire(state, group, lease)
    counters.released += len(record.offsets)


def _dropped(state: State, record: r.Dropped) -> None:
    topic = state.topics[record.topic]
    group = topic.groups[record.group]
    if record.reason == "moved":  # the others that were fresh are expired, which the log knows
        group.feeds[record.partition].admit_some(record.offsets)
    end_leases(state, group.close(record.partition, record.offsets))
    topic.counters.count_dropped(record.reason, len(record.offsets))


def _dead_lettered(state: State, record: r.DeadLettered) -> None:
    topic = state.topics[record.topic]
    group = topic.groups[record.group]
    end_leases(state, group.revoke(record.partition, record.offsets))
    group.feeds[record.partition].bury(record.offsets)
    topic.counters.count_dead(record.reason, len(record.offsets))
    group.count(DEAD_LETTERED, len(record.offsets))


def _redriven(state: State, record: r.Redriven) -> None:
    topic = state.topics[record.topic]
    topic.depth_most = None
    feed = topic.groups[record.group].feeds[record.partition]
    feed.admit_some(record.offsets)
    feed.reopen(record.offsets - feed.open)


def _hastened(state: State, record: r.Hastened) -> None:
    topic = state.topics[record.topic]
    topic.depth_most = None
    group = topic.groups[record.group]
    end_leases(state, group.revoke(record.partition, record.offsets))
    feed, partition = group.feeds[record.partition], topic.partitions[record.partition]
    feed.admit_some(record.offsets)
    for offset in record.offsets:
        one = OffsetSet([offset])
        was_delayed = offset in partition.delayed and offset not in feed.due_early
        if was_delayed:
            feed.due_early |= one
        if offset not in feed.open:
            feed.reopen(one)
        elif was_delayed:
            feed.offer(one)
        else:
            feed.hasten(offset)


_APPLY: dict[type, Callable[[State, Any], None]] = {
    r.Opened: _opened,
    r.Restored: _restored,
    r.TopicCreated: _topic_created,
    r.TopicChanged: _topic_changed,
    r.TopicDeleted: _topic_deleted,
    r.TopicPurged: _topic_purged,
    r.Archived: _archived,
    r.GroupCreated: _group_created,
    r.GroupDeleted: _group_deleted,
    r.GroupSought: _group_sought,
    r.GroupPaused: pausing.paused,
    r.GroupResumed: pausing.resumed,
    r.Published: _published,
    r.Leased: _leased,
    r.Extended: _extended,
    r.Acked: _acked,
    r.Retried: _retried,
    r.Released: _released,
    r.Dropped: _dropped,
    r.DeadLettered: _dead_lettered,
    r.Redriven: _redriven,
    r.Hastened: _hastened,
    r.Deleted: removal.deleted,
    r.Superseded: removal.superseded,
    r.CameDue: _came_due,
    r.Expired: _expired,
    r.WindowClosed: _window_closed,
    r.Trimmed: removal.trimmed,
    r.Skipped: _skipped,
    r.Quarantined: _quarantined,
    r.TransactionBegan: staging.transaction_began,
    r.Staged: staging.staged,
    r.CommitBegan: staging.commit_began,
    r.CommitAdvanced: staging.commit_advanced,
    r.TransactionEnded: staging.transaction_ended,
    r.NamespaceChanged: namespaces.namespace_changed,
    r.NamespaceDeleted: namespaces.namespace_deleted,
    r.Answered: remember,
}
