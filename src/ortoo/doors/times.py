"""Durations and instants as programs in Go and JavaScript write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from ortoo.model.errors import InvalidError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ns|us|µs|ms|s|m|h|d)")


def to_count(text: str, otherwise: int) -> int:
    """Of a header, which can say anything."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else otherwise


def parse_duration(what: str, text: str) -> float:
    """Seconds: of `30s`, `5m`, `1h30m`, `500ms`; a bare number is seconds."""
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidError(f"{what} must be a duration like 30s, 5m or 1h30m, not {text[:40]!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def parse_instant(what: str, text: str) -> float:
    """Seconds since 1970 of an RFC 3339 instant; one without a zone is UTC."""
    try:
        found = datetime.fromisoformat(text)
        in_utc = found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return in_utc.timestamp()
    except (ValueError, OverflowError):
        raise InvalidError(f"{what} must be an instant like 2025-12-25T10:00:00Z, not {text[:40]!r}") from None


def instant_text(ms: int, *, digits: int = 3) -> str:
    """RFC 3339 in UTC, of milliseconds since 1970; with so many digits after the second."""
    whole = _second_text(ms // 1000)
    return f"{whole}.{ms % 1000:03d}Z" if digits else f"{whole}Z"


@lru_cache(64)
def _second_text(second: int) -> str:
    """Most that is told happened in the last few."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
