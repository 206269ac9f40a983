"""What retention may remove: by age, by bytes, by being done with in all groups. Whole prefixes of a log only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Record, Skipped, Trimmed

from .group import Group
from .partition import Partition
from .picker import Budget
from .topic import Topic

FLOORS_MAX = 64  # how finely it is remembered what was done when


def retain(topic: Topic, first: int, now: int, budget: Budget) -> tuple[list[Record], int | None]:
    """What goes from the partitions from that one on, as far as the budget allows; and where to go on, if that is not all."""
    records: list[Record] = []
    cost = 4 + 2 * len(topic.groups)
    excess = _excess(topic)
    groups = [group for group in topic.groups.values() if not group.ephemeral]
    if topic.config.retention_done_seconds is None or not groups:
        topic.done_marks.clear()
    for partition in topic.partitions[first:]:
        if budget.left <= 0 and partition.index > first:
            return records, partition.index
        budget.left -= cost
        if partition.quarantine_reason is not None:
            continue
        start = max(
            _by_age(topic, partition, now), _by_bytes(partition, excess), _by_done(topic, partition, groups, now)
        )
        start = min(start, partition.durable)
        if topic.config.retention_waits_for_archive:
            start = min(start, partition.archived)
        if start > partition.start:
            upto = _affordable(topic, partition, start, budget)
            records.extend(_skips(topic, partition, upto, now))
            records.append(Trimmed(now, topic.id, partition.index, upto))
            if upto < start:
                return records, partition.index
    return records, None


def _affordable(topic: Topic, partition: Partition, start: int, budget: Budget) -> int:
    """How far the log may be trimmed now: what a group has sorted by key, or failed, goes message by message."""
    feeds = [group.feeds.look(partition.index) for group in topic.groups.values()]
    busy = [feed for feed in feeds if feed.failures or (feed.keys is not None and partition.keys)]
    each = max(1, budget.left // max(1, len(busy)))
    for feed in busy:
        going = feed.open.within(0, start)
        if len(going) > each:
            going = going.take(each)
            start = going.last() + 1
        budget.left -= len(going)
    return start


def _skips(topic: Topic, partition: Partition, start: int, now: int) -> Iterator[Record]:
    """Slow groups lose what they had not settled; that is counted, and told in the trace."""
    gone = OffsetSet.span(partition.start, start)
    for group in topic.groups.values():
        slow = group.feeds.look(partition.index).unsettled(gone)
        if slow:
            yield Skipped(now, topic.id, group.id, partition.index, slow)


def _by_age(topic: Topic, partition: Partition, now: int) -> int:
    if topic.config.retention_seconds is None:
        return 0
    cutoff = now - round(topic.config.retention_seconds * 1000)
    young = partition.timeline.first_at(cutoff + 1)
    return min(partition.end if young is None else young, partition.unripe_before(cutoff + 1))


def _excess(topic: Topic) -> float:
    """Which share of its bytes the topic has too much; each partition gives up as much of its own."""
    if topic.config.retention_bytes is None:
        return 0
    held = sum(partition.bytes_held for partition in topic.partitions)
    return (held - topic.config.retention_bytes) / held if held else 0


def _by_bytes(partition: Partition, excess: float) -> int:
    if excess <= 0 or not partition.bytes_held:
        return 0
    gone = partition.timeline.bytes_at(partition.start)
    first = partition.timeline.first_beyond(gone + int(excess * partition.bytes_held))
    return min(partition.end if first is None else first, _not_due(partition))


def _by_done(topic: Topic, partition: Partition, groups: list[Group], now: int) -> int:
    """What every durable group had settled when retention looked, at least retention_done_seconds ago."""
    if topic.config.retention_done_seconds is None or not groups:
        return 0
    floor = min(_not_due(partition), *(group.feeds.look(partition.index).floor for group in groups))
    after = round(topic.config.retention_done_seconds * 1000)
    floors = topic.done_marks.setdefault(partition.index, deque())
    while floors and floors[-1][1] > floor:  # a seek has gone back since
        floors.pop()
    if not floors or (floors[-1][1] < floor and now - floors[-1][0] >= after // FLOORS_MAX):
        floors.append((now, floor))
    while len(floors) > 1 and floors[1][0] <= now - after:
        floors.popleft()
    return floors[0][1] if floors[0][0] <= now - after else 0


def _not_due(partition: Partition) -> int:
    return partition.delayed.first() if partition.delayed else partition.end
