"""Durations, instants and sizes as people and Python write them: `7d`, `1h30m`, a timedelta, a datetime, `64KiB`.

What is a number already stays what it is; whether it is one that may be used is for those to say who use it.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from .errors import InvalidError

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_UNIT_BYTES: dict[str, int] = {
    **{unit: 1024 ** (power + 1) for power, units in enumerate(("k kib", "m mib", "g gib")) for unit in units.split()},
    **{unit: 1000 ** (power + 1) for power, unit in enumerate(("kb", "mb", "gb"))},
    "": 1,
    "b": 1,
}
_PIECE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|[smhdw])")
DURATION = re.compile(rf"(?:{_PIECE.pattern})+")
NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_SIZE = re.compile(r"([0-9][0-9_]{0,20}(?:\.[0-9]{1,18})?)\s*([a-z]*)")


class TimeDelta(Protocol):
    """datetime.timedelta, which this layer does not import."""

    def total_seconds(self) -> float: ...


class DateTime(Protocol):
    """datetime.datetime."""

    @property
    def tzinfo(self) -> Any: ...
    def timestamp(self) -> float: ...


Duration = float | TimeDelta  # seconds, or a timedelta
Time = float | DateTime  # seconds since 1970, or a datetime with a time zone


def to_duration(given: Any) -> Any:
    """Seconds of a timedelta; anything else as it is."""
    return given.total_seconds() if hasattr(given, "total_seconds") else given


def to_instant(given: Any) -> Any:
    """Seconds since 1970 of a datetime; anything else as it is."""
    if not hasattr(given, "timestamp") or not hasattr(given, "tzinfo"):
        return given
    if given.tzinfo is None:
        raise InvalidError(f"{given} has no time zone; use datetime.now(timezone.utc) or seconds since 1970")
    return given.timestamp()


def parse_duration(text: str) -> float:
    """Seconds: `30`, `1.5`, `500ms`, `30s`, `10m`, `1h30m`, `7d`, `2w`."""
    word = text.strip().lower()
    if NUMBER.fullmatch(word) and not word.startswith("-"):
        return float(word)
    if DURATION.fullmatch(word):
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PIECE.findall(word))
    raise InvalidError(f"{text[:100]!r} is not a duration; try 30, 500ms, 30s, 10m, 1h30m or 7d")


def parse_size(text: str) -> int:
    """Bytes: `4096`, `64KiB`, `1MiB`, `10MB`; a bare k, m or g counts by 1024."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNIT_BYTES:
        raise InvalidError(f"{text[:100]!r} is not a size; try 4096, 64KiB, 1MiB or 10MB")
    return round(float(found[1].rstrip("_")) * _UNIT_BYTES[found[2]])
