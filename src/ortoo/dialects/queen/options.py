"""A queue's options: what they mean for a topic here, and what is told of them.

What a topic has no setting for is kept in its labels: `namespace`, `task`, `queen-priority`, `queen-options`, and one
`queen-partition:NAME` for each partition with a priority of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.topic import TopicConfig

from .shapes import OptionsSent

DEFAULT_PARTITION = "Default"
PRIORITY, KEPT, PARTITION = "queen-priority", "queen-options", "queen-partition:"
GROUP_LABELS = ("namespace", "task")

_MIDDLE = limits.PRIORITY_MAX // 2  # priority 0 there; ours are lower first
_ENDLESS = 1_000_000
_FOREVER = 100 * 366 * 86_400.0
_MESSAGE_BYTES_MAX = 10 * 1024 * 1024
_DEDUP_SECONDS, _DEDUP_COUNT = 86_400.0, 1_000_000


class Options(msgspec.Struct, rename="camel", frozen=True, omit_defaults=False):
    """All of them, with the defaults of Queen's document."""

    lease_time: float = 300
    max_size: int = 10_000
    ttl: float = 3_600
    retry_limit: int = 3
    retry_delay: int = 1_000
    dead_letter_queue: bool = False
    dlq_after_max_retries: bool = False
    priority: int = 0
    delayed_processing: float = 0
    window_buffer: float = 0
    retention_seconds: float = 0
    completed_retention_seconds: float = 0
    partition_retention_seconds: float = 0
    retention_enabled: bool = False
    encryption_enabled: bool = False
    max_wait_time_seconds: float = 0


_KEPT = ("retry_limit", "retry_delay", "max_size", "ttl", "dead_letter_queue")  # no setting of a topic tells these
_DEFAULTS = Options()


def complete(sent: OptionsSent) -> Options:
    given = {name: value for name, value in msgspec.structs.asdict(sent).items() if value is not None}
    if not given.get("lease_time", 1):
        del given["lease_time"]  # 0 is no time at all
    return Options(**given)


def to_settings(options: Options, sent: OptionsSent) -> dict[str, Any]:
    """Of a topic. Of `ttl` and `maxSize`, only what was sent counts: their defaults would lose and refuse messages."""
    keeps = options.retention_enabled
    return {
        "lease": options.lease_time,
        "priority": to_priority(options.priority),
        "max_attempts": options.retry_limit + 1 if options.dlq_after_max_retries else _ENDLESS,
        "backoff_initial": 0.0,
        "total_timeout": _FOREVER,
        "ttl": sent.ttl or None,
        "max_wait": options.max_wait_time_seconds or None,
        "max_depth": sent.max_size or None,
        "delay": options.delayed_processing,
        "window_seconds": options.window_buffer,
        "retention_seconds": (options.retention_seconds or None) if keeps else None,
        "retention_done_seconds": (options.completed_retention_seconds or None) if keeps else None,
        "encrypted": options.encryption_enabled,
    }


def to_labels(options: Options, namespace: str | None, task: str | None) -> dict[str, str]:
    labels = {name: value for name, value in zip(GROUP_LABELS, (namespace, task), strict=True) if value}
    if options.priority:
        labels[PRIORITY] = str(options.priority)
    kept = [
        f"{name}={int(getattr(options, name))}" for name in _KEPT if getattr(options, name) != getattr(_DEFAULTS, name)
    ]
    if kept:
        labels[KEPT] = " ".join(kept)
    return labels


def is_ours(label: str) -> bool:
    """Whether a configuration says all about it: what it does not name goes."""
    return label in GROUP_LABELS or label in (PRIORITY, KEPT)


def options_of(config: TopicConfig) -> Options:
    """As far as a topic tells: also of one that somebody else made."""
    kept = dict(part.split("=", 1) for part in config.labels.get(KEPT, "").split() if "=" in part)
    has_end = config.max_attempts < _ENDLESS
    return Options(
        lease_time=config.lease,
        max_size=_number(kept, "max_size", config.max_depth or _DEFAULTS.max_size),
        ttl=config.ttl or _number(kept, "ttl", int(_DEFAULTS.ttl)),
        retry_limit=config.max_attempts - 1 if has_end else _number(kept, "retry_limit", _DEFAULTS.retry_limit),
        retry_delay=_number(kept, "retry_delay", _DEFAULTS.retry_delay),
        dead_letter_queue=bool(_number(kept, "dead_letter_queue", 0)),
        dlq_after_max_retries=has_end and config.dlq,
        priority=queue_priority(config.labels),
        delayed_processing=config.delay,
        window_buffer=config.window_seconds,
        retention_seconds=config.retention_seconds or 0,
        completed_retention_seconds=config.retention_done_seconds or 0,
        retention_enabled=config.retention_seconds is not None or config.retention_done_seconds is not None,
        encryption_enabled=config.encrypted,
        max_wait_time_seconds=config.max_wait or 0,
    )


def _number(kept: Mapping[str, str], name: str, default: int) -> int:
    """Labels can say anything: others can set them, too."""
    text = kept.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default


def shown(options: Options) -> dict[str, Any]:
    """As JavaScript writes numbers: whole ones without a point."""
    plain: dict[str, Any] = msgspec.to_builtins(options)
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in plain.items()
    }


# -- priorities: higher first there, lower first here


def to_priority(priority: int) -> int:
    return min(max(_MIDDLE - priority, limits.PRIORITY_MIN), limits.PRIORITY_MAX)


def queue_priority(labels: Mapping[str, str]) -> int:
    return _signed(labels.get(PRIORITY, "0"))


def partition_priorities(labels: Mapping[str, str]) -> dict[str, int]:
    """Of partitions that have one of their own."""
    return {
        name.removeprefix(PARTITION): _signed(value) for name, value in labels.items() if name.startswith(PARTITION)
    }


def partition_label(partition: str) -> str:
    label = PARTITION + partition
    if len(label.encode(errors="replace")) > limits.NAME_BYTES_MAX:
        most = limits.NAME_BYTES_MAX - len(PARTITION)
        raise InvalidError(f"the name of a partition with a priority of its own has at most {most} bytes")
    return label


def _signed(text: str) -> int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0


def new_config(settings: Mapping[str, Any], labels: Mapping[str, str]) -> TopicConfig:
    """One log: what was pushed first is popped first, whatever its partition there, which is a key here."""
    return TopicConfig(
        **settings,
        partitions=1,
        labels=dict(labels),
        max_message_bytes=_MESSAGE_BYTES_MAX,
        dedup_window=_DEDUP_SECONDS,
        dedup_count=_DEDUP_COUNT,
        dedup_scope="key",
    )


FIRST_USE = new_config(
    to_settings(_DEFAULTS, OptionsSent()), {}
)  # of a queue that is pushed to before it is configured
