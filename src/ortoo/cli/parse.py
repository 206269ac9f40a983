"""What users type, as values: durations, times, sizes, settings. A mistake is a usage error that says what would do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import typer

from ortoo.model.topic import TopicConfig
from ortoo.model.validation import in_words

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_UNIT_BYTES: dict[str, int] = {
    **{unit: 1024 ** (power + 1) for power, units in enumerate(("k kib", "m mib", "g gib")) for unit in units.split()},
    **{unit: 1000 ** (power + 1) for power, unit in enumerate(("kb", "mb", "gb"))},
    "": 1,
    "b": 1,
}
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_PIECE.pattern})+")
_RELATIVE = re.compile(rf"([+-]?)({_DURATION.pattern})", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_SIZE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([a-z]*)")
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
PLAIN_NUMBERS = {"backoff_factor"}  # the only float among the settings that is no time


def duration(text: str) -> float:
    """Seconds: `30`, `1.5`, `500ms`, `30s`, `10m`, `1h30m`, `7d`."""
    word = text.strip().lower()
    if _NUMBER.fullmatch(word) and not word.startswith("-"):
        return float(word)
    if _DURATION.fullmatch(word):
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PIECE.findall(word))
    raise typer.BadParameter(f"{text!r} is not a duration; try 30, 500ms, 30s, 10m, 1h30m or 7d")


def instant(text: str) -> float:
    """Seconds since 1970: ISO 8601 (local time unless it names a zone), such seconds, `now`, or relative to now."""
    word = text.strip()
    if word.lower() == "now":
        return time.time()
    if _NUMBER.fullmatch(word):
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
    if _DURATION.fullmatch(text.strip().lower()):
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
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNIT_BYTES:
        raise typer.BadParameter(f"{text!r} is not a size; try 4096, 64KiB, 1MiB or 10MB")
    return round(float(found[1].rstrip("_")) * _UNIT_BYTES[found[2]])


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def truth(text: str) -> bool:
    try:
        return _TRUTHS[text.strip().lower()]
    except KeyError:
        raise typer.BadParameter(f"{text!r} is neither true nor false") from None


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
    hints = get_type_hints(TopicConfig)
    settings: dict[str, Any] = {}
    for name, value in pairs(texts, "a setting").items():
        if name not in hints:
            near = get_close_matches(name, hints, 1)
            advice = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(hints)}"
            raise typer.BadParameter(f"there is no topic setting {name!r}; {advice}")
        try:
            settings[name] = _setting(name, hints[name], value)
        except typer.BadParameter as error:
            raise typer.BadParameter(f"{name}: {error.message}") from None
    return settings


def _setting(name: str, hint: Any, text: str) -> Any:
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    if NoneType in kinds and text.strip().lower() in ("none", "null", ""):
        return None
    kind = kinds[0]
    if kind is bool:
        return truth(text)
    if kind is int:
        return size(text) if name.endswith("_bytes") else whole(text)
    if kind is float:
        return _number(text) if name in PLAIN_NUMBERS else duration(text)
    if get_origin(kind) is dict:
        return _labels(text)
    return text


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise typer.BadParameter(f"{text!r} is not a number")
    return float(text)


def _labels(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    if not text.lstrip().startswith("{"):
        return pairs(text.split(","), "a label")
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.ValidationError as error:
        raise typer.BadParameter(f"labels are a JSON object of strings: {in_words(error)}") from None
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"these labels are not a JSON object of strings: {error}") from None
