"""What a queue measures of itself, as plain numbers: the answer to `GetMetrics`. Counters begin anew with the process.

However much there is, the answer is bounded: so many topics and groups have figures of their own, and the others are summed up.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from .histogram import Histogram
from .names import TopicName
from .replies import Counters

TOPICS_MAX = 10_000  # that the setting metrics.topics may ask for
GROUPS_MAX = 10_000  # of all topics; the same
TOPICS_TOLD = 1_000  # unless that is set; and of those that somebody may see, or asks for
GROUPS_TOLD = 1_000  # the same
NAMESPACES_MAX = 1_000  # with a quota; nothing is told of the others

OTHER = "_other"  # in place of a name: all those beyond the bound
EPHEMERAL = "_ephemeral"  # in place of a name: all groups that go with their consumer
OTHER_TOPICS = TopicName("", OTHER)


class MetricsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: Annotated[
        int,
        Meta(
            ge=1,
            le=TOPICS_MAX,
            description="How many topics have series of their own in `/metrics`; the others are summed up as `_other`.",
        ),
    ] = TOPICS_TOLD
    groups: Annotated[
        int, Meta(ge=1, le=GROUPS_MAX, description="The same for consumer groups, of all topics together.")
    ] = GROUPS_TOLD


GROUP_COUNTERS = ("delivered", "acked", "retried", "dead_lettered")
_AGES = ("oldest_pending_seconds", "lag_seconds")


class GroupFigures(msgspec.Struct, array_like=True):
    """Compact, as there may be many thousands of them."""

    backlog: int = 0
    ready: int = 0
    delayed: int = 0
    leased: int = 0
    blocked: int = 0
    dead: int = 0
    leases: int = 0
    consumers: int = 0
    oldest_pending_seconds: float = 0.0
    lag_seconds: float = 0.0  # the same of what is due
    delivered: int = 0  # messages since the queue was opened, and so on
    acked: int = 0
    retried: int = 0
    dead_lettered: int = 0

    def add(self, other: GroupFigures) -> None:
        for name in GroupFigures.__struct_fields__:
            mine, others = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, others) if name in _AGES else mine + others)


class GroupLatencies(msgspec.Struct, array_like=True):
    """Of a group that was delivered something: what was leased together, or settled together, counts once."""

    topic: TopicName
    group: str
    delivery: Histogram  # seconds from publishing to the first delivery
    ack: Histogram  # seconds from a delivery to its ack


class GroupFound(msgspec.Struct, array_like=True):
    topic: TopicName
    name: str
    figures: GroupFigures


class TopicFigures(msgspec.Struct):
    name: TopicName
    depth: int = 0
    messages: int = 0
    bytes: int = 0
    not_durable: int = 0  # messages
    leases: int = 0
    counters: Counters = msgspec.field(default_factory=Counters)
    dead_lettered: dict[str, int] = {}  # by reason; 0 for what may happen and has not yet
    dropped: dict[str, int] = {}  # the same
    groups: dict[str, GroupFigures] = {}  # by name

    def add(self, other: TopicFigures) -> None:
        """Of its groups nothing."""
        for name in ("depth", "messages", "bytes", "not_durable", "leases"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.counters.add(other.counters)
        for mine, others in ((self.dead_lettered, other.dead_lettered), (self.dropped, other.dropped)):
            for reason, count in others.items():
                mine[reason] = mine.get(reason, 0) + count


class NamespaceFigures(msgspec.Struct):
    """Of one with a quota: by the name of each limit that it has."""

    name: str
    used: dict[str, int]
    limits: dict[str, int]
    refusals: dict[str, int]  # since the queue was opened


class DoorFigures(msgspec.Struct):
    connections: int
    connections_opened: int
    connections_refused: int
    seconds: dict[str, Histogram]  # of requests that were served, by family of operations
    errors: list[tuple[str, str, int]]  # family, or "connect"; code; how many: 0 for what may happen and has not yet


class MqttFigures(msgspec.Struct):
    sessions: int = 0  # of clients that are connected, or that have one that is kept
    subscriptions: int = 0
    retained: int = 0
    received: int = 0  # messages that clients have published
    sent: int = 0  # to clients
    dropped: int = 0  # that a client did not get: too many waited for it, or too large


class RedisFigures(msgspec.Struct):
    """Of a Redis that servers share quotas and dedup ids through."""

    is_up: bool
    calls: int
    failures: int  # how often it went away
    fallbacks: dict[str, int]  # what was done without it, by what it is for: quota, dedup


class BrokerFigures(msgspec.Struct):
    is_ready: bool  # takes commands, and its store has room
    topics: int
    groups: int
    waiters: int
    transactions: int
    epoch: int
    problems: int
    recoveries: int
    longest_stall_seconds: float  # of the last minute
    longest_turn_seconds: float  # the same
    counters: Counters  # of all topics, also of those that are gone
    commit_seconds: Histogram
    commit_records: Histogram
    stall_seconds: Histogram
    in_flight_bytes: int | None  # of requests; None without a door
    in_flight_bytes_max: int | None
    sampler_seconds: float = 0.0  # of the processor, for the last sample of all topics
    sampler_longest_turn_seconds: float = 0.0  # of it
    overview_seconds: float = 0.0  # of the processor, for the last overview


class BufferHealth(msgspec.Struct, frozen=True):
    """Of the buffer in front of a shard's database."""

    is_on: bool  # commits are confirmed from it
    commits: int  # that the database does not have yet
    bytes: int
    drained: int  # commits, to the database, since the queue was opened
    failures: int  # how often it went away, or was not what it had been


class ShardHealth(msgspec.Struct, frozen=True):
    """Of a store in a database, which may be away."""

    is_healthy: bool = True  # commits go to the database
    reason: str | None = None  # why they do not
    since: float | None = None  # when that began, in seconds since 1970
    spilled_commits: int = 0  # that wait for the database
    spilled_bytes: int = 0
    drained: int = 0  # commits that were moved to the database, since the queue was opened
    buffer: BufferHealth | None = None  # where there is one


class StoreFigures(msgspec.Struct):
    sync_seconds: Histogram  # of the write-ahead log
    checkpoint_seconds: Histogram
    wal_bytes: int = 0  # of all files of the write-ahead log
    segment_bytes: int = 0
    free_bytes: int | None = None  # of the disk; None where the data is in a database
    shards: dict[str, ShardHealth] = {}  # in databases, by number


class MetricFigures(msgspec.Struct):
    topics: list[TopicFigures]
    deliveries: list[tuple[TopicName, Histogram]]  # seconds from publishing to the first delivery in any group
    doors: dict[str, DoorFigures]
    broker: BrokerFigures | None  # None for those who may see only some topics
    store: StoreFigures | None  # the same; and where there is nothing to measure: in memory
    namespaces: list[NamespaceFigures] = []
    mqtt: MqttFigures | None = None  # where that is served
    redis: RedisFigures | None = None  # where there is one
    latencies: list[GroupLatencies] = []
    groups: list[GroupFound] = []  # of topics that have no figures of their own
    other_groups: GroupFigures | None = None  # those beyond the bound, of all topics
