"""What users may pass by mistake: wrong types, NaN, infinity. Bounds are checked where they are known, in the engine."""

from __future__ import annotations

from math import inf
from typing import overload

from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName


def to_topic_name(namespace: str, topic: str) -> TopicName:
    if not isinstance(topic, str):
        raise InvalidError(f"a topic's name must be a string, not {type(topic).__name__}")
    return TopicName(namespace, topic)


@overload
def to_ms(what: str, seconds: float) -> int: ...
@overload
def to_ms(what: str, seconds: float | None) -> int | None: ...
def to_ms(what: str, seconds: float | None) -> int | None:
    if seconds is None:
        return None
    check_number(what, seconds)
    return round(check_number(what, seconds * 1000))  # the largest floats are no number of milliseconds


def check_number(what: str, seconds: float) -> float:
    if type(seconds) not in (int, float) or not abs(seconds) < inf:  # not isfinite: it cannot do the largest integers
        raise InvalidError(f"{what} must be a number of seconds, not {seconds!r}")
    return seconds


def check_count(what: str, count: int, low: int = 0) -> int:
    if type(count) is not int or count < low:
        raise InvalidError(f"{what} must be a whole number, {low} or more, not {count!r}")
    return count


def to_error_text(error: str | None) -> str | None:
    """An error's words come from a failure, so that odd ones are mended rather than refused."""
    if error is None:
        return None
    if not isinstance(error, str):
        raise InvalidError(f"an error must be a string, not {type(error).__name__}; use str(error)")
    return error.encode(errors="replace").decode()
