"""What the store cannot vouch for: partitions, or whole topics, which records speak of them, and how far they had come.

A quarantined partition stays as it was when it became so, while checkpoints of everything else go on. What it missed stays
in the write-ahead log, for the day it can be read again: when its key is given, or when the directory is repaired.

Records of a topic as a whole go on beside a quarantined partition of it. Some of them sweep away what that had missed before: a
purge its messages, a seek or the end of a group what became of them there. The checkpoint has such a record, but not what it
swept; so its commit is kept, too, and what was missed is swept when it is told at last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ortoo.model.names import GroupId, TopicId
from ortoo.model.records import (
    HISTORY_RECORDS,
    CameDue,
    GroupDeleted,
    GroupSought,
    Quarantined,
    Record,
    TopicCreated,
    TopicDeleted,
    TopicPurged,
)

from .wal import Run

_SWEEPING = (TopicPurged, GroupDeleted, GroupSought)
_ALWAYS_KNOWN = (TopicCreated, TopicDeleted)  # that there is such a topic, or no more, is never secret
WHOLE = -1  # in the place of a partition: more than messages is lost, a group or a setting


class Behind(NamedTuple):
    """What those commits, from the first to the last, tell of that partition, or topic, the checkpoint does not contain."""

    topic: TopicId
    partition: int
    first: int
    last: int

    def misses(self, topic: int, partition: int, number: int) -> bool:
        return self.topic == topic and self.partition in (WHOLE, partition) and self.has(number)

    def has(self, number: int) -> bool:
        return self.first <= number <= self.last


class Quarantine:
    def __init__(self, before: Iterable[Behind] = ()) -> None:
        """`before`: what the checkpoint does not contain already."""
        self._reasons: dict[tuple[TopicId, int], str] = {}
        self._places: dict[tuple[TopicId, int], dict[Run | None, Run]] = {}  # what each missed, by run of the log
        self._sweeps: dict[tuple[TopicId, int], dict[GroupId | None, int]] = {}  # by what: of a group, or of the topic
        self.before = list(before)

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, topic: TopicId, partition: int, partitions: int, reason: str) -> None:
        """The partition, or the topic as a whole."""
        self._places.setdefault((topic, partition), {})
        for one in range(partitions) if partition == WHOLE else (partition,):
            self._reasons.setdefault((topic, one), reason)

    def note(self, topic: TopicId, partition: int, number: int) -> None:
        """A commit of that number speaks of what is quarantined, and it stays in the log for that."""
        within = next(((one.first, one.last) for one in self.before if one.has(number)), None)
        for place, runs in self._places.items():
            if place[0] == topic and place[1] in (WHOLE, partition):
                first, last = runs.get(within, (number, number))
                runs[within] = (min(first, number), max(last, number))

    def follow(self, record: Record, number: int, after: int = 0) -> None:
        """Notes what sweeps: once, for later ones find nothing more. `after`: the last commit in the checkpoint."""
        if not self._places or not isinstance(record, _SWEEPING):
            return
        what = getattr(record, "group", None)
        for place, runs in self._places.items():
            if place[0] == record.topic and place[1] != WHOLE and (number > after or self.misses(*place, number)):
                sweeps = self._sweeps.setdefault(place, {})
                if max((last for _, last in runs.values()), default=0) >= sweeps.get(what, 0):
                    sweeps[what] = number

    def swept(self, record: Record, number: int) -> list[int]:
        """The partitions that can be read again, and whose messages of before that purge were missed."""
        if not isinstance(record, TopicPurged):
            return []
        behind = {one.partition for one in self.before if one.topic == record.topic and one.has(number)}
        return sorted(partition for partition in behind - {WHOLE} if (record.topic, partition) not in self._places)

    def missing(self, topic: int, partition: int, number: int) -> list[tuple[int, int]]:
        """What a commit that the checkpoint contains, and that spoke of that, told for the first time."""
        if partition != WHOLE:
            return [(topic, partition)] if self.misses(topic, partition, number) else []
        return list(
            {(int(one.topic), one.partition): None for one in self.before if one.topic == topic and one.has(number)}
        )

    def missed(self, record: Record, number: int) -> bool:
        """Whether the checkpoint lacks the record, though it contains the commit."""
        return not isinstance(record, _ALWAYS_KNOWN) and self.misses(*place_of(record), number)

    def misses(self, topic: int, partition: int, number: int) -> bool:
        return any(one.misses(topic, partition, number) for one in self.before)

    def forget(self, topic: TopicId) -> None:
        """The topic is deleted: nothing of it is needed any more."""
        self._reasons = {place: reason for place, reason in self._reasons.items() if place[0] != topic}
        self._places = {place: runs for place, runs in self._places.items() if place[0] != topic}
        self._sweeps = {place: sweeps for place, sweeps in self._sweeps.items() if place[0] != topic}

    @property
    def whole_topics(self) -> set[TopicId]:
        """Not those of which only partitions are quarantined."""
        return {topic for topic, partition in self._places if partition == WHOLE}

    def covers(self, record: Record) -> bool:
        """Whether the record builds on something that is lost."""
        topic, partition = place_of(record)
        if (topic, WHOLE) in self._places:
            return not isinstance(record, _ALWAYS_KNOWN)
        return partition != WHOLE and (topic, partition) in self._places

    def behind(self) -> list[Behind]:
        missed = [Behind(*place, *run) for place, runs in self._places.items() for run in runs.values()]
        numbers = [(place, number) for place, sweeps in self._sweeps.items() for number in sweeps.values()]
        return missed + [Behind(*place, number, number) for place, number in numbers]

    def records(self) -> Iterator[Record]:
        for (topic, partition), reason in self._reasons.items():
            yield Quarantined(0, topic, partition, reason)


class Swept:
    """Which history records that a partition missed count no more: a later record, which the checkpoint has, swept them away."""

    def __init__(self, before: Iterable[Behind], records: Iterable[tuple[int, Record]]) -> None:
        """`records`: of the write-ahead log, with the numbers of their commits."""
        self._last: dict[tuple[TopicId, GroupId | None], int] = {}
        behind = [one for one in before if one.partition != WHOLE]
        for number, record in records if behind else ():
            if isinstance(record, _SWEEPING) and any(one.topic == record.topic and one.has(number) for one in behind):
                self._last[record.topic, getattr(record, "group", None)] = number

    def has(self, record: Record, number: int) -> bool:
        if not self._last or not isinstance(record, (*HISTORY_RECORDS, CameDue)):
            return False
        group = getattr(record, "group", None)
        if group is None:
            return False
        return number < max(self._last.get((record.topic, what), 0) for what in (None, group))


def place_of(record: Record) -> tuple[TopicId, int]:
    return getattr(record, "topic", TopicId(0)), getattr(record, "partition", WHOLE)
