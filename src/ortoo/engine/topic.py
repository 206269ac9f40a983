"""A topic: its partitions, its groups, its window, and the dedup ids it remembers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from ortoo.model.names import GroupId, TopicId, TopicName
from ortoo.model.records import TopicCreated
from ortoo.model.replies import Counters
from ortoo.model.topic import TopicConfig, dlq_name

from .dedup import DedupTable
from .group import Group, Tally, add_tallies
from .heads import News
from .partition import Partition


class TopicCounters(Counters):
    """Soft: of this opening. Dead letters and drops by reason, too."""

    dead_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    drop_reasons: dict[str, int] = msgspec.field(default_factory=dict)

    def count_dead(self, reason: str, count: int) -> None:
        self.dead_lettered += count
        self.dead_reasons[reason] = self.dead_reasons.get(reason, 0) + count

    def add_all(self, other: TopicCounters) -> None:
        """With the reasons."""
        self.add(other)
        for mine, others in ((self.dead_reasons, other.dead_reasons), (self.drop_reasons, other.drop_reasons)):
            for reason, count in others.items():
                mine[reason] = mine.get(reason, 0) + count

    def count_dropped(self, reason: str, count: int) -> None:
        self.dropped += count
        self.drop_reasons[reason] = self.drop_reasons.get(reason, 0) + count


class Latest:
    """Soft: which message is the latest of each key, where the topic keeps these only. See latest.py.

    places  by the hash of a key
    looked  by partition: what lies before that is in it
    """

    __slots__ = ("looked", "places")

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.looked: dict[int, int] = {}


_DEFAULT = TopicConfig()


class Topic:
    __slots__ = (
        "config",
        "counters",
        "created",
        "dedup",
        "depth_most",
        "done_marks",
        "gone_ephemeral",
        "gone_groups",
        "group_names",
        "groups",
        "id",
        "lanes_known",
        "latest",
        "name",
        "news",
        "next_partition",
        "partitions",
        "sized",
        "suspended",
        "window_count",
        "window_since",
    )

    def __init__(self, record: TopicCreated) -> None:
        self.id: TopicId = record.topic
        self.name = TopicName(record.namespace, record.name)
        self.created = record.at
        self.config = _DEFAULT if record.config == _DEFAULT else record.config  # as mostly; then it is shared
        self.news = News()  # soft: where something became visible
        self.partitions: list[Partition] = []
        self.groups: dict[GroupId, Group] = {}
        self.group_names: dict[str, Group] = {}
        self.dedup = DedupTable(record.topic)
        self.counters = TopicCounters()
        self.gone_groups: Tally | None = None  # soft: what groups had counted that are deleted
        self.gone_ephemeral: Tally | None = None  # the same of those that went with their consumer
        self.next_partition = 0  # which partition the next batch without keys goes to
        self.sized: tuple[int, int, int] | None = None  # soft: after how many batches it was counted, bytes, messages
        self.depth_most: int | None = None  # soft: what is pending or held back is not more; None: nobody has counted
        self.lanes_known: set[int] | None = None  # soft: the priorities in use, and perhaps others
        self.latest = Latest() if self.config.keep == "latest" else None
        self.suspended: str | None = None  # soft: why nothing is done with it until the next opening
        self.window_since: int | None = None  # when the oldest message came that waits for the window to close
        self.window_count = 0
        self.done_marks: dict[int, deque[tuple[int, int]]] = {}  # soft: by partition (when, what all groups had done)
        self._grow()

    def change(self, config: TopicConfig) -> None:
        self.config = config
        if (config.keep == "latest") != (self.latest is not None):
            self.latest = Latest() if config.keep == "latest" else None
        if not config.window_seconds:
            self.window_since, self.window_count = None, 0
        self._grow()

    def _grow(self) -> None:
        for index in range(len(self.partitions), self.config.partitions):
            partition = Partition(index, self.news)
            if self.config.window_seconds:
                partition.windowed = 0
            self.partitions.append(partition)  # the groups' feeds follow by themselves
        for partition in self.partitions:
            if not self.config.window_seconds and partition.windowed is not None:
                partition.windowed = None
                partition.tell()
            elif self.config.window_seconds and partition.windowed is None:
                partition.windowed = partition.end

    def add_group(self, group: Group) -> None:
        self.groups[group.id] = group
        self.group_names[group.name] = group
        self.depth_most = None

    def remove_group(self, group: Group) -> None:
        del self.groups[group.id], self.group_names[group.name]
        if group.ephemeral:
            self.gone_ephemeral = add_tallies(self.gone_ephemeral, group.tally())
        else:
            self.gone_groups = add_tallies(self.gone_groups, group.tally())
        self.depth_most = None

    def tally(self) -> Tally | None:
        """Of all its groups, also those that are gone."""
        total = add_tallies(self.gone_groups, self.gone_ephemeral)
        for group in self.groups.values():
            total = add_tallies(total, group.tally())
        return total

    @property
    def dedup_window_ms(self) -> int:
        return round(self.config.dedup_window * 1000)

    @property
    def quarantine_reason(self) -> str | None:
        """Why nothing of the topic can be used: every partition is quarantined."""
        if self.partitions[0].quarantine_reason is None:
            return None
        quarantine_reasons = [partition.quarantine_reason for partition in self.partitions]
        return quarantine_reasons[0] if all(quarantine_reasons) else None

    def depth(self, acked: Mapping[GroupId, int] | None = None) -> int:
        """The largest backlog of a durable group; before there is one, everything the log has. `acked`: how many messages the
        decision that asks acks, by group."""
        gone = acked or {}
        backlogs = [group.backlog() - gone.get(group.id, 0) for group in self.groups.values() if not group.ephemeral]
        return max(backlogs) if backlogs else self.messages()

    def messages(self) -> int:
        return sum(p.settled_end - p.start - len(p.deleted) for p in self.partitions)

    def average_bytes(self) -> tuple[int, int]:
        """Of its messages: (bytes, messages), as counted not long ago. Where partitions are many they are not counted for
        each who asks."""
        if self.sized is None or self.next_partition - self.sized[0] > len(self.partitions) // 8:
            self.sized = (self.next_partition, sum(log.bytes_held for log in self.partitions), self.messages())
        return self.sized[1:]

    def held_back(self) -> int:
        """Messages that nobody sees before a transaction has ended."""
        return sum(p.end - p.held for p in self.partitions if p.held is not None)

    def dlq_name(self, config: TopicConfig | None = None) -> TopicName:
        """Where its dead letters go, with this config or with another."""
        return dlq_name(self.name, config or self.config)
