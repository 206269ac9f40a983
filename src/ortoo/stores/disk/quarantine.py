"""What the store cannot vouch for: partitions, or whole topics, and which records speak of them."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.model.names import TopicId
from ortoo.model.records import Quarantined, Record, TopicDeleted


class Quarantine:
    def __init__(self) -> None:
        self._partitions: dict[tuple[TopicId, int], str] = {}
        self._topics: set[TopicId] = set()  # those of which more than messages is lost: a group, a setting

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, topic: TopicId, partition: int, reason: str) -> None:
        self._partitions.setdefault((topic, partition), reason)

    def add_topic(self, topic: TopicId, partitions: int, reason: str) -> None:
        self._topics.add(topic)
        for partition in range(partitions):
            self.add(topic, partition, reason)

    def forget(self, topic: TopicId) -> None:
        """The topic is deleted: nothing of it is needed any more."""
        self._topics.discard(topic)
        self._partitions = {place: reason for place, reason in self._partitions.items() if place[0] != topic}

    def covers(self, record: Record) -> bool:
        """Whether the record builds on something that is lost."""
        topic = getattr(record, "topic", TopicId(0))
        if topic in self._topics:
            return not isinstance(record, TopicDeleted)
        return (topic, getattr(record, "partition", -1)) in self._partitions

    def records(self) -> Iterator[Record]:
        for (topic, partition), reason in self._partitions.items():
            yield Quarantined(0, topic, partition, reason)
