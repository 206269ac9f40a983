"""Queues as the document configures them, and what is told of them. Durations are texts, `30s`, or numbers of seconds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Duration = str | int | float
Ordering = Literal["none", "partition", "strict"]
LISTED_MAX = 10_000
LETTERS_MAX = 1_000


class RetryPolicy(msgspec.Struct, frozen=True):
    max_retries: int | None = None
    initial_backoff: Duration | None = None
    max_backoff: Duration | None = None
    backoff_multiplier: float | None = None
    total_timeout: Duration | None = None


class DlqConfig(msgspec.Struct, frozen=True):
    enabled: bool | None = None
    topic: str | None = None
    alert_webhook: str | None = None


class Limits(msgspec.Struct, frozen=True):
    max_message_size: int | None = None
    max_queue_depth: int | None = None
    message_ttl: Duration | None = None


class Performance(msgspec.Struct, frozen=True):
    """`batch_size` is taken and not needed: consumers say how many they take."""

    delivery_timeout: Duration | None = None
    batch_size: int | None = None


class QueueBody(msgspec.Struct):
    name: str = ""
    partitions: int | None = None
    ordering: Ordering | None = None
    retry_policy: RetryPolicy = RetryPolicy()
    dlq_config: DlqConfig = DlqConfig()
    limits: Limits = Limits()
    performance: Performance = Performance()


class QueueView(msgspec.Struct):
    name: str
    partitions: int
    ordering: str
    retry_policy: RetryPolicy
    dlq_config: DlqConfig
    limits: Limits
    performance: Performance
    created_at: str
    depth: int
    messages: int


class ListQuery(msgspec.Struct):
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX)] = 1_000
    offset: Annotated[int, Meta(ge=0, le=2**62)] = 0


class QueueList(msgspec.Struct):
    queues: list[QueueView]
    total: int


class Deleted(msgspec.Struct):
    name: str
    deleted: bool = True


class Purged(msgspec.Struct):
    name: str
    purged: int


class PartitionStats(msgspec.Struct):
    partition: int
    start_offset: int
    end_offset: int
    messages: int
    bytes: int


class GroupStats(msgspec.Struct):
    group: str
    depth: int
    ready: int
    delayed: int
    inflight: int
    blocked: int
    dlq: int
    active_consumers: int


class Latency(msgspec.Struct):
    """Seconds from publishing to the first delivery."""

    p50: float
    p99: float


class QueueStats(msgspec.Struct, omit_defaults=True):
    """Totals since the server was started; they are left out of what is not measured for itself, beyond a thousand queues."""

    name: str
    depth: int
    messages: int
    bytes: int
    active_consumers: int
    partitions: list[PartitionStats]
    groups: list[GroupStats]
    enqueue_total: int | None = None
    dequeue_total: int | None = None
    ack_total: int | None = None
    nack_total: int | None = None
    dlq_total: dict[str, int] | None = None
    delivery_latency_seconds: Latency | None = None


class Consumer(msgspec.Struct):
    consumer_id: str
    group: str
    partitions: list[int]


class ConsumerList(msgspec.Struct):
    name: str
    consumers: list[Consumer]
    total: int


class LettersQuery(msgspec.Struct):
    group: str | None = None
    limit: Annotated[int, Meta(ge=1, le=2**62)] = 100


class Letter(msgspec.Struct, omit_defaults=True):
    """`id` names the dead letter, `message_id` the message that it was."""

    id: str
    message_id: str
    queue_name: str
    dlq_topic: str
    group: str
    failure_reason: str
    retry_count: int
    moved_to_dlq_at: str
    payload: bytes
    properties: dict[str, str]
    partition_key: str | None = None
    error: str | None = None


class LetterList(msgspec.Struct):
    name: str
    dlq_topic: str
    messages: list[Letter]
    total: int


class Retried(msgspec.Struct):
    id: str
    name: str
    retried: bool = True


class Health(msgspec.Struct, omit_defaults=True):
    status: str
    reason: str = ""
