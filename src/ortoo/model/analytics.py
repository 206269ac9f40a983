"""What the analytics job found, as values: it writes them as JSON, and the server gives them on.

An instant is in seconds since 1970, a latency in milliseconds, a rate or a share between 0 and 1. A figure that has no
meaning, such as the latency of an hour without deliveries, is null. docs/pipeline.md explains each.
"""

from __future__ import annotations

import msgspec

from .names import DEFAULT_NAMESPACE

HISTORY_FILE = "analytics/history.json"  # within the lake


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of a group, or with `group` null of the topic itself: what was published, and what belongs to no group."""

    topic: str
    group: str | None
    published: int | None = None  # of the topic itself only, as are bytes and deleted
    bytes: int | None = None
    deleted: int | None = None
    delivered: int = 0
    acknowledged: int = 0
    retried: int = 0
    released: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    skipped: int = 0
    depth: int | None = None  # of a group only, as is the lag
    lag_seconds: float | None = None
    delivery_p50_ms: float | None = None
    delivery_p95_ms: float | None = None
    delivery_p99_ms: float | None = None
    ack_p50_ms: float | None = None
    ack_p95_ms: float | None = None
    ack_p99_ms: float | None = None
    attempts_mean: float | None = None
    attempts_max: int | None = None
    retry_rate: float | None = None
    dlq_rate: float | None = None


class HourFigures(Figures, frozen=True, kw_only=True):
    hour: int  # when it begins


class ErrorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure. `error` is its text without what differs from case to case."""

    topic: str
    group: str | None
    error: str
    count: int
    example: str  # the message it happened to last
    last: float


class KeyFigures(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    group: str | None
    key: str
    failures: int
    messages: int
    dead_lettered: int


class ConsumerFigures(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    group: str | None
    consumer: str
    delivered: int
    acknowledged: int
    retried: int
    delivered_share: float | None
    acknowledged_share: float | None


class ProducerFigures(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    producer: str
    published: int
    bytes: int
    published_share: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Bounded: the newest hours, and the first of each ranking. The Parquet tables beside it hold more."""

    generated_at: float
    since: float | None
    until: float | None  # how far the lake tells; depth and lag of `topics` are as of then
    hours_since: float | None  # the hours before this were left out of `hourly`
    namespace: str = DEFAULT_NAMESPACE  # of all topics
    topics: list[Figures] = []
    hourly: list[HourFigures] = []
    errors: list[ErrorFigures] = []
    keys: list[KeyFigures] = []
    consumers: list[ConsumerFigures] = []
    producers: list[ProducerFigures] = []
