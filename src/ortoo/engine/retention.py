"""What retention may remove: by age, by bytes, by being done with in all groups, by being superseded. Whole prefixes of a log;
and one by one, messages that deleted their keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ortoo.model import limits
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Deleted, Record, Skipped, Trimmed

from .group import Group
from .partition import Partition
from .picker import Budget
from .topic import Topic

FLOORS_MAX = 64  # how finely it is remembered what was done when
_THINNED_AT_ONCE, _THINNING_COST, _CHUNKS_PER_MESSAGE = 4, 500, 4  # chunks of keys, and what they cost in messages


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
            _by_age(topic, partition, now),
            _by_bytes(partition, excess),
            _by_done(topic, partition, groups, now),
            _by_superseded(topic, partition),
        )
        start = min(start, partition.durable)
        if topic.config.retention_waits_for_archive:
            start = min(start, partition.archived)
        if start > partition.start:
            upto = _affordable(topic, partition, start, budget)
            records.extend(_skips(topic, partition, OffsetSet.span(partition.start, upto), now))
            records.append(Trimmed(now, topic.id, partition.index, upto))
            if upto < start:
                return records, partition.index
        if topic.latest is not None and partition.deleted and partition.keys:
            _thin_keys(topic, partition, budget)
        if partition.empties and not _remove_empties(
            topic, partition, max(start, partition.start), now, budget, records
        ):
            return records, partition.index
    return records, None


def _thin_keys(topic: Topic, partition: Partition, budget: Budget) -> None:
    """Nobody asks for the keys of what was superseded any more, but of what somebody holds. A few at a time, for there is no
    hurry; that is soft state."""
    gone = partition.deleted
    held = [group.feeds.look(partition.index).leased for group in topic.groups.values() if group.leases]
    for leased in held:
        gone = gone - leased
    thinned = partition.keys.thin(gone, _THINNED_AT_ONCE)
    budget.left -= len(partition.keys.chunks) // _CHUNKS_PER_MESSAGE + thinned * _THINNING_COST


def _remove_empties(
    topic: Topic, partition: Partition, start: int, now: int, budget: Budget, records: list[Record]
) -> bool:
    """Messages that delete their keys go one by one, when everybody has had time to learn of it. Whether that was all of them."""
    young = partition.timeline.first_at(now - limits.EMPTY_VALUES_KEPT_MS + 1)
    end = min(partition.durable, partition.unripe_before(now - limits.EMPTY_VALUES_KEPT_MS + 1))
    old = partition.empties.within(start, end if young is None else min(young, end))
    for group in topic.groups.values():
        if group.leases:
            old.subtract(group.feeds.look(partition.index).leased)
    going = old.take(max(1, budget.left // (1 + len(topic.groups))))
    budget.left -= len(going) * (1 + len(topic.groups))
    if going:
        records.extend(_skips(topic, partition, going, now))
        records.append(Deleted(now, topic.id, partition.index, going))
    return len(going) == len(old)


def _affordable(topic: Topic, partition: Partition, start: int, budget: Budget) -> int:
    """How far the log may be trimmed now: what a group has sorted by key, or failed, goes message by message."""
    feeds = [group.feeds.look(partition.index) for group in topic.groups.values()]
    busy = [feed for feed in feeds if feed.failures or (feed.keys is not None and partition.keys)]
    if topic.latest is not None:  # each that is the latest of its key is forgotten by itself, and others are counted
        start = min(start, partition.start + max(1, 2 * budget.left))
        live = OffsetSet.span(partition.start, start) - partition.deleted
        if len(live) > max(1, budget.left):
            live = live.take(max(1, budget.left))
            start = live.last() + 1
        budget.left -= len(live)
    each = max(1, budget.left // max(1, len(busy)))
    for feed in busy:
        going = feed.open.within(0, start)
        if len(going) > each:
            going = going.take(each)
            start = going.last() + 1
        budget.left -= len(going)
    return start


def _skips(topic: Topic, partition: Partition, gone: OffsetSet, now: int) -> Iterator[Record]:
    """Slow groups lose what they had not settled; that is counted, and told in the trace."""
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


def _by_superseded(topic: Topic, partition: Partition) -> int:
    """What lies before the first message that is still there, or that somebody holds."""
    if topic.latest is None or partition.start not in partition.deleted:
        return 0
    there = OffsetSet.span(partition.start, partition.end) - partition.deleted
    feeds = [group.feeds.look(partition.index) for group in topic.groups.values() if group.leases]
    firsts = [offsets.first() for offsets in (there, *(feed.leased for feed in feeds)) if offsets]
    return min(firsts, default=partition.end)


def _not_due(partition: Partition) -> int:
    return partition.delayed.first() if partition.delayed else partition.end
