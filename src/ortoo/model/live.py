"""What a server shows of itself from second to second: the answers to `GetOverview` and `GetActivity`. Made of samples, and soft:
they begin anew with the process."""

from __future__ import annotations

from typing import Literal

import msgspec

from .latency import Latency

Sort = Literal["in", "out", "backlog", "oldest", "dead", "name"]
NeedKind = Literal[
    "lag_growing",
    "dead_letters",
    "blocked_key",
    "quarantined",
    "disk",
    "stalled_consumer",
    "archive",
    "pipeline",
    "paused",
    "problem",
]
Severity = Literal["error", "warning"]
ActivityKind = Literal[
    "pushed", "delivered", "completed", "failed", "dead_lettered", "topic_created", "topic_deleted"
]  # what happened to so many messages of a topic in one second, or to the topic itself


class Totals(msgspec.Struct, frozen=True, rename={"incoming": "in"}):
    """Of all topics that may be seen. The first five are messages a second, the mean of the last five seconds. Dead letters count
    in `dead`, and not among the others."""

    incoming: float = 0.0
    out: float = 0.0
    acked: float = 0.0
    failed: float = 0.0
    dead_lettered: float = 0.0
    backlog: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    oldest_seconds: int = 0  # that the oldest message that is not settled has waited; 0 for none
    topics: int = 0
    connections: int = 0
    delivery_latency: Latency | None = None  # from publishing to the first delivery; None when there was none of late
    ack_latency: Latency | None = None  # from delivery to the ack


class TopicRow(msgspec.Struct, frozen=True, rename={"incoming": "in"}):
    """One topic. `in` to `failed` are messages a second, the mean of the last five seconds."""

    namespace: str
    name: str
    priority: int
    incoming: float
    out: float
    acked: float
    failed: float
    depth: int
    leased: int
    delayed: int
    dead: int  # messages in its topic for dead letters, if that may be read
    oldest_seconds: int
    groups: int
    trend: list[int]  # its depth in the last 30 seconds, the oldest first
    delivery_latency: Latency | None = None  # of all its groups together
    ack_latency: Latency | None = None
    is_dlq: bool = False  # it has the dead letters of other topics


class Need(msgspec.Struct, frozen=True):
    """Something that a person should look at, and in `text` what to do about it."""

    kind: NeedKind
    severity: Severity
    text: str
    namespace: str | None = None
    topic: str | None = None
    group: str | None = None
    key: str | None = None
    count: int | None = None  # of messages, partitions or leases
    since: float | None = None  # seconds since 1970


class SamplerCost(msgspec.Struct, frozen=True):
    """What watching costs the server: seconds of the processor. Zeros for those who may see only some topics."""

    seconds: float = 0.0  # of the last sample
    longest_turn: float = 0.0  # of it
    topics: int = 0  # that are sampled
    left_out: int = 0  # that are not
    overview_seconds: float = 0.0  # of the last overview, which all viewers share


class ServerMemory(msgspec.Struct, frozen=True):
    """What the server's process holds, in bytes."""

    resident_bytes: int  # of the machine's memory, of all kinds
    requests_bytes: int = 0  # of them, requests that are being served
    requests_bytes_max: int = 0  # beyond that, clients wait for room; 0 for no bound
    parked_bytes: int = 0  # publishes that wait for room in a full topic


class Overview(msgspec.Struct, frozen=True):
    timestamp: float  # the end of the newest sample
    totals: Totals
    topics: list[TopicRow]  # those that were asked for
    matching: int  # how many there are of them, on all pages
    needs: list[Need]  # the most severe first
    sampler: SamplerCost
    memory: ServerMemory | None = None  # for those who may see everything


class ActivityEvent(msgspec.Struct, frozen=True):
    timestamp: float  # when the second began in which it happened
    kind: ActivityKind
    namespace: str
    topic: str
    count: int


class Activity(msgspec.Struct, frozen=True):
    events: list[ActivityEvent]  # the newest first
