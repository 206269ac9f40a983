"""What the store cannot vouch for: partitions, or whole topics, which records speak of them, and how far they had come.

A quarantined partition stays as it was when it became so, while checkpoints of everything else go on. What it missed stays
in the write-ahead log, for the day it can be read again: when its key is given, or when the directory is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ortoo.model.names import TopicId
from ortoo.model.records import Quarantined, Record, TopicDeleted

_OPEN = 1 << 62
WHOLE = -1  # in the place of a partition: more than messages is lost, a group or a setting


class Behind(NamedTuple):
    """Of that partition, or topic, the checkpoint contains what was committed up to `since`. Later commits up to `until`
    may speak of it, none after that."""

    topic: TopicId
    partition: int
    since: int
    until: int

    def needs(self, record: Record, number: int) -> bool:
        return self.since < number <= self.until and self.is_about(record)

    def is_about(self, record: Record) -> bool:
        if getattr(record, "topic", 0) != self.topic:
            return False
        if self.partition == WHOLE:
            return not isinstance(record, TopicDeleted)
        return getattr(record, "partition", WHOLE) == self.partition


class Quarantine:
    def __init__(self, before: Iterable[Behind] = ()) -> None:
        """`before`: what the checkpoint knows to be behind already."""
        self._reasons: dict[tuple[TopicId, int], str] = {}
        self._behind: dict[tuple[TopicId, int], Behind] = {}
        self._before = {(one.topic, one.partition): one for one in before}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def add(self, topic: TopicId, partition: int, partitions: int, reason: str, since: int) -> None:
        """The partition, or the topic as a whole; it has taken in what was committed up to `since`."""
        known = self.before(topic, partition)
        until = known.until if known is not None and since <= known.until else _OPEN
        self._behind.setdefault((topic, partition), Behind(topic, partition, since, until))
        for one in range(partitions) if partition == WHOLE else (partition,):
            self._reasons.setdefault((topic, one), reason)

    def complete(self, last: int) -> None:
        """All was read, and that is the last commit."""
        self._behind = {
            place: one._replace(until=min(one.until, max(last, one.since))) for place, one in self._behind.items()
        }

    def before(self, topic: TopicId, partition: int) -> Behind | None:
        return self._before.get((topic, partition)) or self._before.get((topic, WHOLE))

    def before_all(self) -> list[Behind]:
        return list(self._before.values())

    def missed(self, record: Record, number: int) -> bool:
        """Whether the checkpoint lacks the record, though it contains the commit."""
        return any(one.needs(record, number) for one in self._before.values())

    def forget(self, topic: TopicId) -> None:
        """The topic is deleted: nothing of it is needed any more."""
        self._reasons = {place: reason for place, reason in self._reasons.items() if place[0] != topic}
        self._behind = {place: one for place, one in self._behind.items() if place[0] != topic}

    def covers(self, record: Record) -> bool:
        """Whether the record builds on something that is lost."""
        return any(one.is_about(record) for one in self._behind.values())

    def behind(self) -> list[Behind]:
        return list(self._behind.values())

    def records(self) -> Iterator[Record]:
        for (topic, partition), reason in self._reasons.items():
            yield Quarantined(0, topic, partition, reason)
