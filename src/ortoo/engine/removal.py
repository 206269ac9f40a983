"""Applying records of messages that go: deleted, superseded, trimmed."""

from __future__ import annotations

from ortoo.model import records as r
from ortoo.model.names import LeaseId
from ortoo.model.offsets import OffsetSet

from .latest import forget
from .quotas import note_freed
from .state import State


def end_leases(state: State, ended: list[LeaseId]) -> None:
    for lease in ended:
        state.lease_groups.end(lease)


def deleted(state: State, record: r.Deleted) -> None:
    topic = state.topics[record.topic]
    for group in topic.groups.values():
        end_leases(state, group.close(record.partition, record.offsets))
        group.feeds.look(record.partition).dead.subtract(record.offsets)
    partition = topic.partitions[record.partition]
    forget(topic, partition, record.offsets)
    partition.remove(record.offsets, partition.bytes_of(record.offsets) if topic.latest is not None else 0)
    partition.delayed.subtract(record.offsets)


def superseded(state: State, record: r.Superseded) -> None:
    """Who holds one may finish it."""
    topic = state.topics[record.topic]
    for group in topic.groups.values():
        if not group.feeds.is_untouched(record.partition):
            feed = group.feeds[record.partition]
            feed.close(record.offsets - feed.leased)
            feed.dead.subtract(record.offsets)
    topic.partitions[record.partition].remove(record.offsets, record.size)
    topic.counters.superseded += len(record.offsets)
    note_freed(state, topic.name.namespace)


def trimmed(state: State, record: r.Trimmed) -> None:
    topic = state.topics[record.topic]
    partition = topic.partitions[record.partition]
    for group in topic.groups.values():
        if not group.feeds.is_untouched(record.partition):
            going = group.feeds[record.partition].open.within(0, record.start)
            end_leases(state, group.revoke(record.partition, going))
        group.feeds.start_at(record.partition, record.start)
    if topic.latest is not None and record.start > partition.start:
        forget(topic, partition, OffsetSet.span(partition.start, record.start) - partition.deleted)
    partition.trim(record.start)
    note_freed(state, topic.name.namespace)
