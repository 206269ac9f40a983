"""Kinds of errors: what the texts of failures have in common, once what differs from case to case is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

ERROR_KIND_CHARS = 200

# What differs from case to case, and what stands for it; each sees what the ones before have left. They mean the same to Java,
# for the pipeline hands them to Spark.
VARIES = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
    (r"\b0x[0-9a-fA-F]+\b", "<hex>"),
    (r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b", "<hex>"),
    (r"\b\d+(?:[.,:]\d+)*", "<n>"),
    (r"\s+", " "),
)
_PATTERNS = [(re.compile(pattern, re.ASCII), word) for pattern, word in VARIES]


def normalise_error(text: str) -> str:
    """`bad amount 17 for 7.2.41` and `bad amount 9 for 7.0.3` are one error: `bad amount <n> for <n>`."""
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text.strip(" ")[:ERROR_KIND_CHARS]


def letter_text(headers: Mapping[str, str]) -> str:
    """What a dead letter tells of its failure: the error, or what happened, in parentheses."""
    reason = headers.get("ortoo-reason")
    return headers.get("ortoo-error", "").strip() or (f"(dead-lettered: {reason})" if reason else "(dead-lettered)")


def letter_error(headers: Mapping[str, str]) -> str:
    """The kind of error of a dead letter."""
    return normalise_error(letter_text(headers))


class ErrorKind(msgspec.Struct, frozen=True):
    """Dead letters that failed alike. `ids` has the first of them."""

    error: str  # what their errors have in common
    example: str  # the error of the newest, as it was told
    count: int
    first: float  # when the first was given up, in seconds since 1970
    last: float
    groups: dict[str, int]  # and how many of them each gave up
    ids: list[str]


class ErrorKinds(msgspec.Struct, frozen=True):
    """Those of a topic's dead letters, the most frequent first."""

    errors: list[ErrorKind]
    total: int  # kinds that were found, listed or not
    scanned: int  # dead letters that were looked at, the oldest first
    complete: bool  # whether these are all
