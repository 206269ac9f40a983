"""What the store cannot vouch for: partitions, or whole topics, which records speak of them, and how far they had come.

A quarantined partition stays as it was when it became so, while checkpoints of everything else go on. What it missed stays
in the write-ahead log, for the day it can be read again: when its key is given, or when the directory is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ortoo.model.names import TopicId
from ortoo.model.records import Quarantined, Record, TopicCreated, TopicDeleted

from .wal import Run

_ALWAYS_KNOWN = (TopicCreated, TopicDeleted)  # that there is such a topic, or no more, is never secret
WHOLE = -1  # in the place of a partition: more than messages is lost, a group or a setting


class Behind(NamedTuple):
    """What those commits, from the first to the last, tell of that partition, or topic, the checkpoint does not contain."""

    topic: TopicId
    partition: int
    first: int
    last: int

    def misses(self, topic: int, partition: int, number: int) -> bool:
        is_there = self.topic == topic and self.partition in (WHOLE, partition)
        return is_there and self.first <= number <= self.last


class Quarantine:
    def __init__(self, before: Iterable[Behind] = ()) -> None:
        """`before`: what the checkpoint does not contain already."""
        self._reasons: dict[tuple[TopicId, int], str] = {}
        self._places: dict[tuple[TopicId, int], dict[Run | None, Run]] = {}  # what each missed, by run of the log
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
        within = next(((one.first, one.last) for one in self.before if one.first <= number <= one.last), None)
        for place, runs in self._places.items():
            if place[0] == topic and place[1] in (WHOLE, partition):
                first, last = runs.get(within, (number, number))
                runs[within] = (min(first, number), max(last, number))

    def missed(self, record: Record, number: int) -> bool:
        """Whether the checkpoint lacks the record, though it contains the commit."""
        return not isinstance(record, _ALWAYS_KNOWN) and self.misses(*place_of(record), number)

    def misses(self, topic: int, partition: int, number: int) -> bool:
        return any(one.misses(topic, partition, number) for one in self.before)

    def forget(self, topic: TopicId) -> None:
        """The topic is deleted: nothing of it is needed any more."""
        self._reasons = {place: reason for place, reason in self._reasons.items() if place[0] != topic}
        self._places = {place: runs for place, runs in self._places.items() if place[0] != topic}

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
        return [Behind(*place, *run) for place, runs in self._places.items() for run in runs.values()]

    def records(self) -> Iterator[Record]:
        for (topic, partition), reason in self._reasons.items():
            yield Quarantined(0, topic, partition, reason)


def place_of(record: Record) -> tuple[TopicId, int]:
    return getattr(record, "topic", TopicId(0)), getattr(record, "partition", WHOLE)
