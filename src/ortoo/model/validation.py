"""What does not fit a type, in words for people: which field, what it must be, and what it is.

msgspec tells that in words of its own, with names of Python's types between backticks; nobody else is to see those.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`)?", re.DOTALL)

_KINDS = {
    "any": "anything",
    "array": "an array",
    "bool": "true or false",
    "bytes": "bytes",
    "date": "a date, such as 2026-01-31",
    "datetime": "a date and time, such as 2026-01-31T12:00:00Z",
    "decimal": "a decimal number",
    "dict": "an object",
    "duration": "a duration, such as PT5M",
    "ext": "an extension",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a string",
    "time": "a time, such as 12:00:00Z",
    "uuid": "a UUID",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "==": "exactly", "": "exactly"}
_ITEMS = {"array": "items", "bytes": "bytes", "object": "entries", "str": "characters"}
_ONE = {"bytes": "byte", "characters": "character", "entries": "entry", "items": "item"}
_CODED = {
    "RFC3339 encoded datetime": "datetime",
    "RFC3339 encoded date": "date",
    "RFC3339 encoded time": "time",
    "ISO8601 duration": "duration",
    "UUID": "uuid",
    "decimal string": "decimal",
}


def in_words(error: Exception, whole: str = "it") -> str:
    """A ValidationError of msgspec. `whole`: what the value is called, where the error is about no part of it."""
    place = _PLACE.fullmatch(str(error))
    if place is None:
        return str(error)
    path = (place["path"] or "").removeprefix(".")
    subject = path or whole
    if place["key"]:
        subject = f"a key of {subject}"
    for pattern, words in _FORMS:
        if match := pattern.fullmatch(place["what"]):
            return words(subject, match)
    for pattern, says in _FIELDS:
        if match := pattern.fullmatch(place["what"]):
            return f"{path}.{match[1]} {says}" if path else f"{match[1]} {says}"
    return place["what"] if subject == whole else f"{subject}: {place['what']}"  # said by a type itself


def _kind(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _wrong_kind(subject: str, match: re.Match[str]) -> str:
    found = "a boolean" if match[2] == "bool" else _kind(match[2]).partition(",")[0]
    return f"{subject} must be {_kind(match[1])}, not {found}"


def _wrong_length(subject: str, match: re.Match[str]) -> str:
    bound = "at least" if match[2] else _BOUNDS[match[3] or ""]
    found = f", not {match[5]}" if match[5] else ""
    items = _ITEMS.get(match[1], "items")
    return f"{subject} must have {bound} {match[4]} {_ONE[items] if match[4] == '1' else items}{found}"


def _zone(subject: str, match: re.Match[str]) -> str:
    return f"{subject} must have {'no' if match[1] == 'no' else 'a'} time zone"


def _miscoded(subject: str, match: re.Match[str]) -> str:
    return f"{subject} must be {_KINDS[_CODED[match[1]]]}"


_FORMS: list[tuple[re.Pattern[str], Callable[[str, re.Match[str]], str]]] = [
    (re.compile(r"Expected `([^`]+)`, got `([^`]+)`"), _wrong_kind),
    (re.compile(r"Expected `(\w+)` of (at least )?length ?(>=|<=|==)? ?(\d+)(?:, got (\d+))?"), _wrong_length),
    (
        re.compile(r"Expected `\w+` (>=|<=|>|<) (\S+)"),
        lambda subject, match: f"{subject} must be {_BOUNDS[match[1]]} {match[2]}",
    ),
    (re.compile(r"Expected `\w+` that's a (multiple of .+)"), lambda subject, match: f"{subject} must be a {match[1]}"),
    (
        re.compile(r"Expected `str` matching regex (.+)", re.DOTALL),
        lambda subject, match: f"{subject} must match the pattern {match[1]}",
    ),
    (re.compile(r"Expected `\w+` with (no|a) timezone component"), _zone),
    (re.compile(r"Invalid (?:enum )?value (.+)", re.DOTALL), lambda subject, match: f"{subject} cannot be {match[1]}"),
    (re.compile(f"Invalid ({'|'.join(_CODED)})"), _miscoded),
    (re.compile(r"Invalid base64 encoded string"), lambda subject, match: f"{subject} must be base64"),
    (re.compile(r"(?:Number|Integer value) out of range"), lambda subject, match: f"{subject} is too large a number"),
]
_FIELDS = [
    (re.compile(r"Object missing required field `([^`]+)`"), "is missing"),
    (re.compile(r"Object contains unknown field `([^`]+)`"), "is not a known field"),
]
