"""A named transaction: how much was staged, by whom and where to; and how far its commit is.

What was staged lies in the store, and is not here. Its batches are numbered from 0, in the order of staging.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ortoo.model.batch import Outgoing, size_of
from ortoo.model.commands import Publish
from ortoo.model.names import TopicId, TopicName

Name = tuple[str, str]  # namespace, name
Place = tuple[TopicId, int]  # topic, partition


def namespace_of(name: Name) -> str:
    return name[0]


class Slice(NamedTuple):
    """A stretch of what was staged, from where the last one ended to before a row of the batch of that number."""

    publishes: list[Publish]
    number: int
    row: int


class Share:
    """What was staged for one topic, as far as a commit has to know it to be refused in time.

    largest     bytes of the largest value
    partition   the highest partition that was named; -1: none was
    priorities  those in use
    is_placed   whether messages have a partition that they must go to: by their key, or by name
    """

    __slots__ = ("count", "is_placed", "largest", "partition", "priorities", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.largest = 0
        self.partition = -1
        self.priorities: set[int] = set()
        self.is_placed = False

    def add(self, batch: Outgoing) -> None:
        self.count += len(batch)
        self.size += size_of(batch)
        self.largest = max(self.largest, *map(len, batch.values))
        if batch.partitions is not None:
            self.partition = max(self.partition, *(-1 if one is None else one for one in batch.partitions))
        if batch.priorities is not None:
            self.priorities.update(batch.priorities)
        self.is_placed = self.is_placed or batch.keys is not None or batch.partitions is not None

    def merge(self, other: Share) -> None:
        self.count += other.count
        self.size += other.size
        self.largest = max(self.largest, other.largest)
        self.partition = max(self.partition, other.partition)
        self.priorities |= other.priorities
        self.is_placed = self.is_placed or other.is_placed


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


class Transaction:
    __slots__ = ("batches", "commit", "count", "quarantine_reason", "shares", "size", "until")

    def __init__(self, until: int) -> None:
        self.until = until
        self.quarantine_reason: str | None = None  # why something that was staged may be out of sight
        self.batches = 0
        self.count = 0
        self.size = 0
        self.shares: dict[tuple[str, TopicName], Share] = {}  # by part and topic
        self.commit: Committing | None = None

    def stage(self, part: str, publish: Publish) -> None:
        share = self.shares.get((part, publish.topic))
        if share is None:
            share = self.shares[part, publish.topic] = Share()
        share.add(publish.batch)
        self.batches += 1
        self.count += len(publish.batch)
        self.size += size_of(publish.batch)

    def chosen(self, parts: Iterable[str] | None) -> dict[TopicName, Share]:
        """By topic, what those parts staged."""
        wanted = None if parts is None else set(parts)
        found: dict[TopicName, Share] = {}
        for (part, topic), share in self.shares.items():
            if wanted is None or part in wanted:
                found.setdefault(topic, Share()).merge(share)
        return found
