"""What the store holds in memory: the topics it knows, where their logs and histories begin and end, which rows are small, and
which commits have what open transactions staged."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

from ortoo.model import records as r
from ortoo.model.names import TopicId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import HistoryRecord
from ortoo.stores.disk.recent import FrameCache, Recent, RecentStretch
from ortoo.stores.known_topics import KnownTopics

Place = tuple[TopicId, int]
Name = tuple[str, str]
SMALL_MESSAGES, SMALL_BYTES = 1_024, 256 << 10  # rows that are smaller in both are merged
SMALL_RECORDS = 128


class Small(NamedTuple):
    """A row that is worth merging with its neighbours."""

    first: int
    until: int
    messages: int
    size: int
    commit: int


def is_small(count: int, size: int) -> bool:
    return count < SMALL_MESSAGES and size < SMALL_BYTES


class Log:
    """Of one partition."""

    __slots__ = ("discarded", "end", "partition", "pruned", "recent", "small", "start", "thinned", "topic")

    def __init__(self, topic: TopicId, partition: int, start: int = 0, end: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.pruned = 0  # rows before are removed
        self.small: list[Small] = []
        self.recent: list[RecentStretch] = []
        self.thinned: dict[
            int, int
        ] = {}  # rows that were written without what was discarded: how many messages were left
        self.discarded: OffsetSet = NOTHING  # messages that nobody asks for again, and that are still there

    def in_memory(self, offset: int) -> RecentStretch | None:
        recent = self.recent
        if not recent or offset < recent[0].base:
            return None
        stretch = recent[bisect_right(recent, offset, key=lambda stretch: stretch.base) - 1]
        return stretch if offset < stretch.end else None

    def trim(self, start: int) -> None:
        self.start = max(start, self.start)
        self.end = max(self.end, self.start)
        self.discarded.remove_span(0, self.start)
        self.thinned = {base: left for base, left in self.thinned.items() if base >= self.start}
        while self.recent and self.recent[0].end <= self.start:
            self.recent[0].is_full = True
            del self.recent[0]


class History:
    """Of one partition: its records are numbered."""

    __slots__ = ("end", "first", "partition", "small", "topic")

    def __init__(self, topic: TopicId, partition: int, first: int = 0, end: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.first = first
        self.end = end
        self.small: list[Small] = []


class Staging:
    """Which commits have what open transactions staged: one number for each batch."""

    def __init__(self) -> None:
        self.numbers: dict[Name, array[int]] = {}
        self.lost: dict[Name, int] = {}  # a commit that cannot be decrypted, and may have staged something

    def absorb(self, record: r.TransactionBegan | r.Staged | r.TransactionEnded, number: int) -> None:
        name = (record.namespace, record.transaction)
        if isinstance(record, r.TransactionEnded):
            self.numbers.pop(name, None)
            self.lost.pop(name, None)
        elif isinstance(record, r.TransactionBegan):
            self.numbers.setdefault(name, array("Q"))
        else:
            self.numbers.setdefault(name, array("Q")).append(number)

    def needed(self) -> list[int]:
        return sorted({number for numbers in self.numbers.values() for number in numbers})


class Catalog(KnownTopics):
    def __init__(self, recent_bytes: int | None = None) -> None:
        """`recent_bytes`: of messages that are kept in memory when they are published."""
        super().__init__()
        self.logs: dict[Place, Log] = {}
        self.histories: dict[Place, History] = {}
        self.staging = Staging()
        self.doomed: list[TopicId] = []  # deleted ones, whose rows are to go
        self.quarantined: dict[TopicId, str] = {}  # what cannot be decrypted, and why
        self.damaged: dict[Place, str] = {}  # what is not all there
        self.recent = Recent(recent_bytes)
        self.frames = FrameCache()

    def absorb(self, record: r.Record, number: int) -> None:
        """What a durable record means to the store."""
        if isinstance(record, r.Published):
            log = self.log(record.topic, record.partition)
            log.end = record.base + record.count
            self.recent.add(log, record)
        elif isinstance(record, r.HISTORY_RECORDS):
            self.history(record.topic, record.partition).end += 1
        elif isinstance(record, r.Trimmed):
            self.log(record.topic, record.partition).trim(record.start)
        elif isinstance(record, r.TopicPurged):
            for (topic, _), log in self.logs.items():
                if topic == record.topic:
                    log.trim(log.end)
        elif isinstance(record, r.TopicDeleted):
            self._forget(record.topic)
        elif isinstance(record, r.TransactionBegan | r.Staged | r.TransactionEnded):
            self.staging.absorb(record, number)
        else:
            self.learn(record)

    @property
    def is_locked(self) -> bool:
        """Something is not known, and must not be left out of a checkpoint. What was deleted need not be known."""
        return bool(self.quarantined or self.damaged or self.staging.lost)

    def problems(self) -> list[str]:
        return [
            *(f"topic {self._called(topic)} is quarantined: {reason}" for topic, reason in self.quarantined.items()),
            *(
                f"partition {partition} of topic {self._called(topic)} is quarantined: {reason}"
                for (topic, partition), reason in self.damaged.items()
            ),
        ]

    def _called(self, topic: TopicId) -> str:
        return repr(str(self.names.get(topic)))

    def _forget(self, topic: TopicId) -> None:
        self.quarantined.pop(topic, None)
        for place in [place for place in self.damaged if place[0] == topic]:
            del self.damaged[place]
        for place in [place for place in self.logs if place[0] == topic]:
            self.frames.drop(self.logs[place])
            self.logs.pop(place).trim(1 << 62)
        for place in [place for place in self.histories if place[0] == topic]:
            del self.histories[place]
        self.configs.pop(topic, None)
        self.names.pop(topic, None)
        self.doomed.append(topic)

    def log(self, topic: TopicId, partition: int) -> Log:
        """Made if there is none. For those who write."""
        found = self.logs.get((topic, partition))
        if found is None:
            found = self.logs[topic, partition] = Log(topic, partition)
        return found

    def history(self, topic: TopicId, partition: int) -> History:
        """As `log`."""
        found = self.histories.get((topic, partition))
        if found is None:
            found = self.histories[topic, partition] = History(topic, partition)
        return found


def bounds(records: list[HistoryRecord]) -> tuple[int, int]:
    """The first and the last offset that they speak of."""
    lows, highs = [], []
    for record in records:
        if isinstance(record, r.Retried):
            lows.append(min(record.offsets))
            highs.append(max(record.offsets))
        else:
            lows.append(record.offsets.first())
            highs.append(record.offsets.last())
    return min(lows), max(highs)
