"""What GoQueue's settings of a topic are among ours."""

from __future__ import annotations

from ortoo.model.errors import InvalidError
from ortoo.model.topic import TopicConfig

from .shapes import NewTopic

PARTITIONS = 6
RETENTION_HOURS = 168
MAX_RETRIES = 3  # after the first delivery
LEASE_SECONDS = 30.0
_TEN_YEARS = 10 * 366 * 86_400.0
_HOUR = 3_600.0


def topic_settings(wanted: NewTopic) -> TopicConfig:
    """Nothing, and what is not positive, means the default, as in GoQueue."""
    partitions = _positive(wanted.num_partitions) or _positive(wanted.partitions) or PARTITIONS
    hours: float = _positive(wanted.retention_hours) or RETENTION_HOURS
    if wanted.retention_hours is None and wanted.config and "retention.ms" in wanted.config:
        hours = _milliseconds(wanted.config["retention.ms"]) / 1000 / _HOUR
    return TopicConfig(
        partitions=partitions,
        ordering="key",
        lease=LEASE_SECONDS,
        max_attempts=1 + MAX_RETRIES,
        total_timeout=_TEN_YEARS,
        retention_seconds=hours * _HOUR,
    )


def _positive(given: int | None) -> int | None:
    return given if given is not None and given > 0 else None


def _milliseconds(given: float | str) -> float:
    try:
        return float(given)
    except (ValueError, OverflowError):
        raise InvalidError(f"retention.ms must be a number of milliseconds, not {str(given)[:40]!r}") from None


DEFAULT = topic_settings(NewTopic())
