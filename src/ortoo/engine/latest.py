"""Topics that keep the latest message of each key only: which one that is, and what it supersedes.

A message takes effect once it is durable and due, and its transaction has ended. What lay at its key until then is superseded:
a record tells that, so that it is done for every group, and stays so. A log is looked at in the order of its offsets; what was
delayed is looked at when it comes due.

Much may be due at once, after a pause, and is not looked at in the order in which it would have happened. So each message has its
instant, of its publication or when it came due, and the last one counts. What is behind is looked at before anything comes
due: after a crash nobody knows any more when a message came due, but only what came later may still be behind.

Which message is the latest of a key is soft state. It follows from what the log still has, for of each key that is one; where a
crash came between a message and what it supersedes, two, and looking at the log once more tells which goes. So it takes memory
for each key there is, and nothing on the disk.

A key is its hash, here too: see keys.py. Messages without one, of a time when the topic kept all, are left alone; so are copies
that only one group sees.
"""

from __future__ import annotations

from collections.abc import Iterable

from ortoo.model import limits
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Superseded

from .alarms import LatestDue
from .decision import Draft
from .keys import NO_KEY
from .partition import Partition
from .picker import Budget
from .state import State
from .topic import Topic

# A place is one number: an instant, an offset, a partition, and about how many bytes the message has. Those of one partition
# compare as their messages took effect.
_SIZE_BITS, _PARTITION_BITS, _OFFSET_BITS = 28, 10, 48
_SIZE_MAX, _PARTITION_MAX, _OFFSET_MAX = ((1 << bits) - 1 for bits in (_SIZE_BITS, _PARTITION_BITS, _OFFSET_BITS))
_OFFSET_SHIFT = _SIZE_BITS + _PARTITION_BITS
_INSTANT_SHIFT = _OFFSET_SHIFT + _OFFSET_BITS

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
    _supersede(draft, topic, partition, ((0, offset) for offset in found.to_array()))
    latest.looked[partition.index] = max(upto, start)
    if upto < end:
        draft.state.soft.alarms.set(alarm, draft.now)


def is_behind(topic: Topic) -> bool:
    """Whether something that is durable was not looked at yet."""
    latest = topic.latest
    return latest is not None and any(
        latest.looked.get(partition.index, 0) < partition.durable and partition.quarantine_reason is None
        for partition in topic.partitions
    )


def supersede(draft: Draft, topic: Topic, partition: Partition, due: Iterable[tuple[int, int]]) -> None:
    """Delayed messages come due: when, and their offsets. What is not durable yet takes effect when it is."""
    looked = topic.latest.looked.get(partition.index, 0) if topic.latest is not None else 0
    effects = [(when, offset) for when, offset in due if partition.start <= offset < looked]
    _supersede(draft, topic, partition, [one for one in effects if one[1] not in partition.private])


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


def _supersede(draft: Draft, topic: Topic, partition: Partition, effects: Iterable[tuple[int, int]]) -> None:
    """Messages take effect: when, if that is later than they were published, and their offsets."""
    assert topic.latest is not None
    places, at, index = topic.latest.places, partition.keys.at, partition.index
    found: Pairs = {}
    first = end = size = time = 0
    for instant, offset in effects:
        key = at(offset)
        if key == NO_KEY:
            continue
        if not first <= offset < end:
            first, end, size = partition.mean_of(offset)
            size, time = min(size, _SIZE_MAX), partition.timeline.time_of(offset)
        place = max(instant, time) << _INSTANT_SHIFT | offset << _OFFSET_SHIFT | index << _SIZE_BITS | size
        before = places.get(key)
        if before is None:
            if len(places) < limits.LATEST_KEYS_MAX:
                places[key] = place
            continue
        loser, winner = (place, before) if _is_later(before, place) else (before, place)
        places[key] = winner
        pair = (_offset(loser), _offset(winner), loser & _SIZE_MAX)
        found.setdefault((_partition(loser), _partition(winner)), []).append(pair)
    for (of, by), pairs in found.items():
        _draft_superseded(draft, topic, topic.partitions[of], by, pairs)


def _is_later(one: int, other: int) -> bool:
    """Of the same instant, in one partition the higher offset counts, and else the one that is looked at last."""
    if _partition(one) == _partition(other):
        return one > other
    return one >> _INSTANT_SHIFT > other >> _INSTANT_SHIFT


def _offset(place: int) -> int:
    return place >> _OFFSET_SHIFT & _OFFSET_MAX


def _partition(place: int) -> int:
    return place >> _SIZE_BITS & _PARTITION_MAX


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
        if place is not None and _offset(place) == offset and _partition(place) == index:
            del places[at(offset)]


def begin_anew(state: State, topic: Topic) -> None:
    """After a restart, and again when all behind a checkpoint was replayed: what came due there nobody has looked at."""
    rebuild(topic)
    for partition in topic.partitions:
        state.soft.alarms.set(LatestDue(topic.id, partition.index), state.now)


def rebuild(topic: Topic) -> None:
    """From what the logs have, of which everything took effect before whatever comes. Where that is not one message of each key,
    all of it is looked at once more."""
    assert topic.latest is not None
    places, count = topic.latest.places, 0
    places.clear()
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
