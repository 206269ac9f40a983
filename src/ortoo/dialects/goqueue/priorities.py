"""GoQueue's five priorities, and ours: in both, the lower number comes first."""

from __future__ import annotations

from ortoo.model.errors import InvalidError
from ortoo.model.topic import DEFAULT_PRIORITY

NAMES = ("critical", "high", "normal", "low", "background")  # a client may also send their numbers, 0 to 4
_OURS = (0, 1, DEFAULT_PRIORITY, 9, 10)
_NUMBERS = dict(zip(NAMES, _OURS, strict=True))


def parse(given: str | int | None) -> int:
    if given is None or given == "":
        return DEFAULT_PRIORITY
    if isinstance(given, int):
        if 0 <= given < len(_OURS):
            return _OURS[given]
    elif (found := _NUMBERS.get(given.lower())) is not None:
        return found
    raise InvalidError(f"priority must be one of {', '.join(NAMES)}, or its number, 0 to {len(NAMES) - 1}")


def name_of(priority: int) -> str:
    """What others published with a priority between two of these has the name of the later one."""
    for name, number in zip(NAMES, _OURS, strict=True):
        if priority <= number:
            return name
    return NAMES[-1]
