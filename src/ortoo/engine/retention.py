"""What retention may remove: by age, by bytes, by being done with in all groups. Whole prefixes of a log only."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Record, Skipped, Trimmed

from .partition import Partition
from .topic import Topic


def retain(topic: Topic, now: int) -> list[Record]:
    done = _done_long_enough(topic, now)
    records: list[Record] = []
    for partition in topic.partitions:
        if partition.trouble is not None:
            continue
        start = max(_by_age(topic, partition, now), _by_bytes(topic, partition), done[partition.index])
        start = min(start, partition.durable)
        if topic.config.retention_waits_for_archive:
            start = min(start, partition.archived)
        if start > partition.start:
            records.extend(_skips(topic, partition, start, now))
            records.append(Trimmed(now, topic.id, partition.index, start))
    return records


def _skips(topic: Topic, partition: Partition, start: int, now: int) -> Iterator[Record]:
    """Slow groups lose what they had not settled; that is counted, and told in the trace."""
    gone = OffsetSet.span(partition.start, start)
    for group in topic.groups.values():
        slow = group.feeds[partition.index].unsettled(gone)
        if slow:
            yield Skipped(now, topic.id, group.id, partition.index, slow)


def _by_age(topic: Topic, partition: Partition, now: int) -> int:
    if topic.config.retention_seconds is None:
        return 0
    cutoff = now - round(topic.config.retention_seconds * 1000)
    young = partition.timeline.first_at(cutoff + 1)
    return min(partition.end if young is None else young, partition.unripe_before(cutoff + 1))


def _by_bytes(topic: Topic, partition: Partition) -> int:
    """Each partition gives up its share of what the topic has too much."""
    if topic.config.retention_bytes is None or not partition.bytes_held:
        return 0
    held = sum(other.bytes_held for other in topic.partitions)
    excess = (held - topic.config.retention_bytes) * partition.bytes_held / held
    if excess <= 0:
        return 0
    gone = partition.timeline.bytes_at(partition.start)
    first = partition.timeline.first_beyond(gone + int(excess))
    return min(partition.end if first is None else first, _not_due(partition))


def _done_long_enough(topic: Topic, now: int) -> list[int]:
    """What every durable group had settled when retention looked, at least retention_done_seconds ago."""
    nothing = [0] * len(topic.partitions)
    groups = [group for group in topic.groups.values() if not group.ephemeral]
    if topic.config.retention_done_seconds is None or not groups:
        topic.floors.clear()
        return nothing
    floors = [
        min(_not_due(partition), *(group.feeds[partition.index].floor for group in groups))
        for partition in topic.partitions
    ]
    topic.floors.append((now, floors))
    long_ago = now - round(topic.config.retention_done_seconds * 1000)
    done = nothing
    while topic.floors and topic.floors[0][0] <= long_ago:
        done = topic.floors.popleft()[1]
    # A seek may have gone back since, and a partition may be new since.
    return [min(then, today) for then, today in zip(done + nothing, floors, strict=False)]


def _not_due(partition: Partition) -> int:
    return partition.delayed.first() if partition.delayed else partition.end
