"""What users may pass by mistake: wrong types, NaN, infinity. Bounds are checked where they are known, in the engine."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import cast, overload

from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.message import Span
from ortoo.model.names import TopicName

_COUNT_MAX = 1 << 62  # beyond any offset there will ever be, and within what bitmaps and arrays hold
_TIME_MAX = 1e12  # some thirty thousand years


Time = float | datetime


def to_topic_name(namespace: str, topic: str) -> TopicName:
    if not (isinstance(namespace, str) and isinstance(topic, str)):
        check_text("a namespace", namespace)
        check_text("a topic's name", topic)
    return TopicName(namespace, topic)


def check_text(what: str, text: str) -> str:
    if not isinstance(text, str):
        raise InvalidError(f"{what} must be a string, not {type(text).__name__}")
    return text


def check_group(group: str | None) -> str | None:
    """None is every group."""
    return None if group is None else check_text("a group's name", group)


@overload
def to_ms(what: str, seconds: float | Span) -> int: ...
@overload
def to_ms(what: str, seconds: float | Span | None) -> int | None: ...
def to_ms(what: str, seconds: float | Span | None) -> int | None:
    if seconds is None:
        return None
    if not isinstance(seconds, float | int) and hasattr(seconds, "total_seconds"):
        seconds = seconds.total_seconds()
    seconds = cast(float, seconds)  # or else it is refused
    check_number(what, seconds)
    return round(check_number(what, seconds * 1000))  # the largest floats are no number of milliseconds


def check_number(what: str, seconds: float) -> float:
    if type(seconds) not in (int, float) or not abs(seconds) < inf:  # not isfinite: it cannot do the largest integers
        raise InvalidError(f"{what} must be a number of seconds, not {seconds!r}")
    return seconds


def check_count(what: str, count: int, low: int = 0) -> int:
    if type(count) is not int or not low <= count <= _COUNT_MAX:
        raise InvalidError(f"{what} must be a whole number, {low} or more, not {count!r}")
    return count


def check_time(seconds: float) -> float:
    """Seconds since 1970, as a float; what is too far away to be counted in milliseconds is no time."""
    if abs(check_number("time", seconds)) >= _TIME_MAX:
        raise InvalidError(f"time must be seconds since 1970, not {seconds!r}")
    return float(seconds)


def to_seconds(time: Time) -> float:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidError(f"{time} has no time zone; use datetime.now(timezone.utc) or seconds since 1970")
        return time.timestamp()
    return check_time(time)


def to_error_text(error: str | None) -> str | None:
    """An error's words come from a failure, so that odd ones are mended rather than refused."""
    if error is None:
        return None
    if not isinstance(error, str):
        raise InvalidError(f"an error must be a string, not {type(error).__name__}; use str(error)")
    return error[: limits.ERROR_CHARS_MAX].encode(errors="replace").decode()  # no more is kept
