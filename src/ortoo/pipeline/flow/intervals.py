"""Lengths of time as a file says them, `10 minutes` or `1h30m`, as Spark takes them."""

from __future__ import annotations

import re

INTERVALS = "'10 seconds', '5 minutes' or '1h30m'"

_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_PART = re.compile(r"([0-9]{1,12})\s*([a-z]+)\s*")


def to_interval(text: str) -> str | None:
    """In Spark's words, in the largest unit that fits; None if it is not an interval, or nothing at all."""
    total, rest = 0, text.strip().lower()
    while rest:
        part = _PART.match(rest)
        if part is None or part[2] not in _UNITS_MS:
            return None
        total += int(part[1]) * _UNITS_MS[part[2]]
        rest = rest[part.end() :]
    for unit in ("day", "hour", "minute", "second", "millisecond"):
        count, left = divmod(total, _UNITS_MS[unit])
        if count and not left:
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return None


def milliseconds(interval: str) -> int:
    """Of what `to_interval` gave."""
    count, unit = interval.split()
    return int(count) * _UNITS_MS[unit]
