"""What users type, as values: durations, times, sizes, settings. A mistake is a usage error that says what would do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import typer

from ortoo.model.errors import ConfigError, InvalidError
from ortoo.model.setting_texts import parse_setting
from ortoo.model.units import DURATION, NUMBER, parse_duration, parse_size

_YEARS_MAX = 100  # beyond what clocks and timers of the system take, there are only errors
_SECONDS_MAX = _YEARS_MAX * 366 * 86_400.0
_RELATIVE = re.compile(rf"([+-]?)({DURATION.pattern})", re.IGNORECASE)


def duration(text: str) -> float:
    """Seconds: `30`, `1.5`, `500ms`, `30s`, `10m`, `1h30m`, `7d`."""
    try:
        seconds = parse_duration(text)
    except InvalidError as error:
        raise typer.BadParameter(str(error)) from None
    if seconds > _SECONDS_MAX:
        raise typer.BadParameter(f"{text!r} is too long; {_YEARS_MAX} years are the most")
    return seconds


def instant(text: str) -> float:
    """Seconds since 1970: ISO 8601 (local time unless it names a zone), such seconds, `now`, or relative to now."""
    word = text.strip()
    if word.lower() == "now":
        return time.time()
    if NUMBER.fullmatch(word):
        return float(word)
    if relative := _RELATIVE.fullmatch(word):
        away = duration(relative[2])
        return time.time() - away if relative[1] == "-" else time.time() + away
    try:
        return datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time; try 2026-01-31T12:00:00Z, seconds since 1970, -1h (an hour ago) or 10m (from now)"
        ) from None


def past(text: str) -> float:
    """A time to look back to. `1h` would lie ahead, and whoever types it means an hour ago."""
    if DURATION.fullmatch(text.strip().lower()):
        raise typer.BadParameter(f"{text!r} lies in the future; for so long ago say -{text.strip()}")
    return instant(text)


def place(text: str) -> tuple[Literal["start", "end"] | None, int | None, float | None]:
    """Where a group goes: `start`, `end`, an offset, or a time. One of the three is not None."""
    word = text.strip().lower()
    if word in ("start", "end"):
        return ("start" if word == "start" else "end"), None, None
    if word.isascii() and word.isdigit():
        return None, int(word), None
    try:
        return None, None, past(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{error.message}; or start, end, or an offset such as 1000") from None


def size(text: str) -> int:
    """Bytes: `4096`, `64KiB`, `1MiB`, `10MB`; a bare k, m or g counts by 1024."""
    try:
        return parse_size(text)
    except InvalidError as error:
        raise typer.BadParameter(str(error)) from None


def priority(text: str) -> int | str:
    """A number, or a name that the queue knows."""
    return int(text) if text.lstrip("-").isdigit() else text


def pair(text: str, what: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"{text!r} is not {what}; write NAME=VALUE")
    return name, value


def pairs(texts: Iterable[str], what: str) -> dict[str, str]:
    return dict(pair(text, what) for text in texts)


def topic_settings(texts: Iterable[str]) -> dict[str, Any]:
    """`max_attempts=5`, `lease=1m`, `retention_bytes=1GiB`, `labels=task=mail,team=ops`, `ttl=none`: any of TopicConfig."""
    given = pairs(texts, "a setting")
    try:
        return {name: parse_setting(name, value) for name, value in given.items()}
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
