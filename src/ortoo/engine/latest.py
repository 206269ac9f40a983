"""Topics that keep the latest message of each key only: which one that is, and what it supersedes.

A message takes effect once it is durable and due, and its transaction has ended. What lay at its key until then is superseded:
a record tells that, so that it is done for every group, and stays so. A log is looked at in the order of its offsets; what was
delayed is looked at when it comes due.

Which message is the latest of a key is soft state. It follows from what the log still has, for of each key that is one; where a
crash came between a message and what it supersedes, two, and looking at the log once more tells which goes. So it takes memory
for each key there is, and nothing on the disk.

A key is its hash, here too: see keys.py. Messages without one, of a time when the topic kept all, are left alone; so are copies
that only one group sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortoo.model import limits
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Superseded

from .alarms import LatestDue
from .decision import Draft
from .keys import NO_KEY
from .partition import Partition
from .picker import Budget
from .topic import Topic

# A place is one number: an offset, a partition, and about how many bytes the message has.
_SIZE_BITS, _PARTITION_BITS = 28, 10
_SIZE_MAX, _PARTITION_MAX = (1 << _SIZE_BITS) - 1, (1 << _PARTITION_BITS) - 1
_OFFSET_SHIFT = _SIZE_BITS + _PARTITION_BITS

Pairs = dict[tuple[int, int], list[tuple[int, int, int]]]  # by both partitions: offset, that of the later one, bytes


def look(draft: Draft, topic: Topic, alarm: LatestDue, budget: Budget) -> None:
    """At what became durable since, as much as the budget allows."""
    latest, partition = topic.latest, topic.partitions[alarm.partition]
    if latest is None:
        return
    cost = 1 + len(topic.groups)
    start, end = max(latest.looked.get(partition.index, 0), partition.start), partition.durable
    found = effective(partition, start, end).take(max(1, budget.left // cost))
    upto = found.last() + 1 if found else end
    budget.left -= cost * len(found)
    _supersede(draft, topic, partition, found.to_array(), in_time=True)
    latest.looked[partition.index] = max(upto, start)
    if upto < end:
        draft.state.soft.alarms.set(alarm, draft.now)


def supersede(draft: Draft, topic: Topic, partition: Partition, due: Iterable[int]) -> None:
    """Delayed messages come due, in that order. What is not durable yet takes effect when it is."""
    looked = topic.latest.looked.get(partition.index, 0) if topic.latest is not None else 0
    offsets = [offset for offset in due if partition.start <= offset < looked]
    _supersede(draft, topic, partition, [one for one in offsets if one not in partition.private], in_time=False)


def effective(partition: Partition, start: int, end: int) -> OffsetSet:
    """What is there, and due."""
    if start >= end:
        return OffsetSet()
    found = OffsetSet.span(start, end)
    found.subtract(partition.deleted)
    found.subtract(partition.delayed)
    if partition.private:
        found.subtract(OffsetSet(partition.private))
    return found


def _supersede(draft: Draft, topic: Topic, partition: Partition, offsets: Sequence[int], in_time: bool) -> None:
    """`in_time`: where a key has messages in two partitions, the one that was published last is the latest."""
    assert topic.latest is not None
    places, at, index = topic.latest.places, partition.keys.at, partition.index
    found: Pairs = {}
    first = end = size = 0
    for offset in offsets:
        key = at(offset)
        if key == NO_KEY:
            continue
        if not first <= offset < end:
            first, end, size = partition.mean_of(offset)
            size = min(size, _SIZE_MAX)
        place = offset << _OFFSET_SHIFT | index << _SIZE_BITS | size
        before = places.get(key)
        if before is None:
            if len(places) < limits.LATEST_KEYS_MAX:
                places[key] = place
            continue
        loser, winner = before, place
        if in_time and _partition(before) != index and _time(topic, before) > _time(topic, place):
            loser, winner = place, before
        places[key] = winner
        pair = (loser >> _OFFSET_SHIFT, winner >> _OFFSET_SHIFT, loser & _SIZE_MAX)
        found.setdefault((_partition(loser), _partition(winner)), []).append(pair)
    for (of, by), pairs in found.items():
        _draft_superseded(draft, topic, topic.partitions[of], by, pairs)


def _partition(place: int) -> int:
    return place >> _SIZE_BITS & _PARTITION_MAX


def _time(topic: Topic, place: int) -> int:
    return topic.partitions[_partition(place)].timeline.time_of(place >> _OFFSET_SHIFT)


def _draft_superseded(
    draft: Draft, topic: Topic, partition: Partition, by: int, pairs: list[tuple[int, int, int]]
) -> None:
    there = [pair for pair in sorted(pairs) if pair[0] >= partition.start and pair[0] not in partition.deleted]
    if there:
        offsets = OffsetSet([offset for offset, _, _ in there])
        later, size = [offset for _, offset, _ in there], sum(size for _, _, size in there)
        draft.records.append(Superseded(draft.now, topic.id, partition.index, offsets, later, by, size))


def forget(topic: Topic, partition: Partition, offsets: OffsetSet) -> None:
    """These are gone, and nothing takes their place."""
    if topic.latest is None:
        return
    places, at, index = topic.latest.places, partition.keys.at, partition.index
    for offset in offsets:
        place = places.get(at(offset))
        if place is not None and place >> _OFFSET_SHIFT == offset and _partition(place) == index:
            del places[at(offset)]


def rebuild(topic: Topic) -> None:
    """From what the logs have. Where that is not one message of each key, all of it is looked at once more, in time."""
    assert topic.latest is not None
    places, count = topic.latest.places, 0
    for partition in topic.partitions:
        offsets = effective(partition, partition.start, partition.durable).to_array()
        size = min(partition.bytes_held // max(1, len(offsets)), _SIZE_MAX)
        rest = partition.index << _SIZE_BITS | size
        keys = partition.keys.of(offsets)
        count += len(keys) - keys.count(NO_KEY)
        places.update(zip(keys, [offset << _OFFSET_SHIFT | rest for offset in offsets], strict=True))
        topic.latest.looked[partition.index] = partition.durable
    places.pop(NO_KEY, None)
    if len(places) != count:
        places.clear()
        topic.latest.looked.clear()
