"""What a queue's settings are among ours, and the other way round."""

from __future__ import annotations

from typing import Any

from ortoo.dialects.durations import short_duration
from ortoo.doors.times import instant_text, parse_duration
from ortoo.model.errors import InvalidError
from ortoo.model.replies import TopicInfo
from ortoo.model.topic import TopicConfig, topic_config

from .names import queue_of, topic_of
from .shapes import DlqConfig, Duration, Limits, Performance, QueueBody, QueueView, RetryPolicy

_WEEK = 604_800.0

# As the document has them. Ten retries are eleven deliveries.
DEFAULTS: dict[str, Any] = {
    "partitions": 10,
    "ordering": "partition",
    "max_attempts": 11,
    "backoff_initial": 5.0,
    "backoff_max": 300.0,
    "backoff_factor": 2.0,
    "total_timeout": 10_800.0,
    "max_message_bytes": 1024 * 1024,
    "max_depth": 100_000,
    "ttl": _WEEK,
    "retention_seconds": _WEEK,
    "lease": 30.0,
}
_BATCH_SIZE = 1


def new_config(body: QueueBody, topic: str) -> TopicConfig:
    given = changes(body, topic)
    if given.get("ordering") == "strict":
        given.setdefault("partitions", 1)
    return topic_config({**DEFAULTS, **given})


def changes(body: QueueBody, topic: str) -> dict[str, Any]:
    """Of what is given; the rest stays."""
    retry, dlq, limits = body.retry_policy, body.dlq_config, body.limits
    found: dict[str, Any] = {
        "partitions": body.partitions,
        "ordering": body.ordering,
        "max_attempts": None if retry.max_retries is None else retry.max_retries + 1,
        "backoff_initial": _seconds("initial_backoff", retry.initial_backoff),
        "backoff_max": _seconds("max_backoff", retry.max_backoff),
        "backoff_factor": retry.backoff_multiplier,
        "total_timeout": _seconds("total_timeout", retry.total_timeout),
        "dlq": dlq.enabled,
        "max_message_bytes": limits.max_message_size,
        "lease": _seconds("delivery_timeout", body.performance.delivery_timeout),
    }
    found = {name: value for name, value in found.items() if value is not None}
    if dlq.topic:
        named = topic_of(dlq.topic)
        found["dlq_topic"] = None if named == f"{topic}.dlq" else named
    if dlq.alert_webhook is not None:
        found["dlq_webhook"] = dlq.alert_webhook or None
    if limits.max_queue_depth is not None:
        found["max_depth"] = limits.max_queue_depth or None  # nought: as many as there are
    if (ttl := _seconds("message_ttl", limits.message_ttl)) is not None:
        found["ttl"] = found["retention_seconds"] = ttl or None  # what has not expired is kept
    return found


def _seconds(what: str, given: Duration | None) -> float | None:
    if given is None or isinstance(given, str):
        return None if given is None else parse_duration(what, given)
    if not 0 <= given <= 1e12:
        raise InvalidError(f"{what} must be a duration like 30s, or a number of seconds")
    return float(given)


def view(info: TopicInfo) -> QueueView:
    config = info.config
    return QueueView(
        queue_of(info.name),
        config.partitions,
        config.ordering,
        RetryPolicy(
            config.max_attempts - 1,
            short_duration(config.backoff_initial),
            short_duration(config.backoff_max),
            config.backoff_factor,
            short_duration(config.total_timeout),
        ),
        DlqConfig(config.dlq, queue_of(info.dlq), config.dlq_webhook or ""),
        Limits(config.max_message_bytes, config.max_depth or 0, short_duration(config.ttl or 0.0)),
        Performance(short_duration(config.lease), _BATCH_SIZE),
        instant_text(round(info.created * 1000)),
        info.depth,
        info.messages,
    )
