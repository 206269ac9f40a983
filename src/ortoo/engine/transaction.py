"""A named transaction: how much was staged, by whom and where to; and how far its commit is.

What was staged lies in the store, and is not here. Its batches are numbered from 0, in the order of staging.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ortoo.model.batch import Outgoing, size_of
from ortoo.model.commands import Publish
from ortoo.model.names import TopicId, TopicName

Name = tuple[str, str]  # namespace, name
Place = tuple[TopicId, int]  # topic, partition
_SHARE_BYTES = 256  # about what a share takes by itself, also where nothing but empty messages is staged


def namespace_of(name: Name) -> str:
    return name[0]


class Slice(NamedTuple):
    """A stretch of what was staged, from where the last one ended to before a row of the batch of that number."""

    publishes: list[Publish]
    number: int
    row: int


def share_bytes(part: str) -> int:
    """What the first batch of a part for a topic takes besides its messages."""
    return _SHARE_BYTES + len(part.encode())


class Share:
    """What was staged for one topic, as far as a commit has to know it to be refused in time.

    kept        bytes that it takes besides its messages
    largest     bytes of the largest value
    partition   the highest partition that was named; -1: none was
    priorities  those in use
    is_placed   whether messages have a partition that they must go to: by their key, or by name
    has_keyless whether some have no key
    """

    __slots__ = ("count", "has_keyless", "is_placed", "kept", "largest", "partition", "priorities", "size")

    def __init__(self) -> None:
        self.kept = 0
        self.count = 0
        self.size = 0
        self.largest = 0
        self.partition = -1
        self.priorities: set[int] = set()
        self.is_placed = False
        self.has_keyless = False

    def add(self, batch: Outgoing) -> None:
        self.count += len(batch)
        self.size += size_of(batch)
        self.largest = max(self.largest, *map(len, batch.values))
        if batch.partitions is not None:
            self.partition = max(self.partition, *(-1 if one is None else one for one in batch.partitions))
        if batch.priorities is not None:
            self.priorities.update(batch.priorities)
        self.is_placed = self.is_placed or batch.keys is not None or batch.partitions is not None
        self.has_keyless = self.has_keyless or batch.keys is None or None in batch.keys

    def merge(self, other: Share) -> None:
        self.kept += other.kept
        self.count += other.count
        self.size += other.size
        self.largest = max(self.largest, other.largest)
        self.partition = max(self.partition, other.partition)
        self.priorities |= other.priorities
        self.is_placed = self.is_placed or other.is_placed
        self.has_keyless = self.has_keyless or other.has_keyless


class Committing:
    """A commit that has begun.

    topics       where its messages go, and how many are to come; one that is deleted or purged meanwhile gets none
    number, row  the first message that is not published yet: of the batch of that number
    firsts       where in each partition it has begun; nobody sees what lies from there on
    """

    __slots__ = ("firsts", "number", "parts", "row", "topics")

    def __init__(self, parts: Iterable[str] | None, topics: dict[TopicId, int]) -> None:
        self.parts = None if parts is None else set(parts)
        self.topics = topics
        self.number = 0
        self.row = 0
        self.firsts: dict[Place, int] = {}

    def wants(self, part: str) -> bool:
        return self.parts is None or part in self.parts

    def drop(self, topic: TopicId) -> None:
        self.topics.pop(topic, None)
        self.firsts = {place: first for place, first in self.firsts.items() if place[0] != topic}


class StagedBytes:
    """What all transactions have staged, by namespace and topic: kept with each change, so that nobody has to count."""

    __slots__ = ("_sums", "_topics")

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._topics: dict[str, dict[TopicName, int]] = {}

    def change(self, name: TopicName, by: int) -> None:
        topics = self._topics.setdefault(name.namespace, {})
        self._sums[name.namespace] += by
        topics[name] = topics.get(name, 0) + by
        if not topics[name]:
            del topics[name]
            if not topics:
                del self._topics[name.namespace], self._sums[name.namespace]

    def of(self, namespace: str) -> int:
        return self._sums[namespace]

    def topics(self, namespace: str) -> Mapping[TopicName, int]:
        return self._topics.get(namespace, {})


class Transaction:
    """
    shares  by part and topic
    whole   the same by topic, of all parts together
    wanted  of the parts that a commit wants; of all, as long as none has begun
    bytes   by topic, what it counts for among what is staged
    """

    __slots__ = (
        "batches",
        "bytes",
        "commit",
        "count",
        "quarantine_reason",
        "shares",
        "size",
        "until",
        "wanted",
        "whole",
    )

    def __init__(self, until: int) -> None:
        self.until = until
        self.quarantine_reason: str | None = None  # why something that was staged may be out of sight
        self.batches = 0
        self.count = 0
        self.size = 0
        self.shares: dict[tuple[str, TopicName], Share] = {}
        self.wanted: dict[TopicName, Share] = {}
        self.whole = self.wanted
        self.bytes: dict[TopicName, int] = {}
        self.commit: Committing | None = None

    def stage(self, part: str, publish: Publish) -> None:
        """Also where its commit has begun: what was staged is told again after a snapshot."""
        new, share = Share(), self.shares.get((part, publish.topic))
        new.add(publish.batch)
        if share is None:
            share = self.shares[part, publish.topic] = Share()
            new.kept = share_bytes(part)
        share.merge(new)
        self.whole.setdefault(publish.topic, Share()).merge(new)
        if self.wanted is not self.whole and self.commit is not None and self.commit.wants(part):
            self.wanted.setdefault(publish.topic, Share()).merge(new)
        self.batches += 1
        self.count += len(publish.batch)
        self.size += size_of(publish.batch)

    def begin_commit(self, commit: Committing) -> None:
        self.commit = commit
        self.wanted = self.chosen(commit.parts)

    def bytes_left(self, name: TopicName, topic: TopicId | None) -> int:
        """What is staged for a topic; while the commit is under way, in proportion to the messages that are to come."""
        share = self.wanted.get(name)
        if share is None:
            return 0
        staged = share.size + share.kept
        if self.commit is None:
            return staged
        left = 0 if topic is None else self.commit.topics.get(topic, 0)
        return -(-staged * left // share.count)

    def chosen(self, parts: Iterable[str] | None) -> dict[TopicName, Share]:
        """By topic, what those parts staged; to be read only. Costs what was chosen, where that is less than all there is."""
        if parts is None:
            return self.whole
        wanted = set(parts)
        if len(wanted) * len(self.whole) < len(self.shares):
            places: Iterable[tuple[str, TopicName]] = ((part, topic) for topic in self.whole for part in sorted(wanted))
        else:
            places = (place for place in self.shares if place[0] in wanted)
        found: dict[TopicName, Share] = {}
        for place in places:
            if (share := self.shares.get(place)) is not None:
                found.setdefault(place[1], Share()).merge(share)
        return found
