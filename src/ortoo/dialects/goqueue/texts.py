"""Values as the texts that GoQueue's messages carry, and instants, a column at a time."""

from __future__ import annotations

from base64 import b64encode

from ortoo.doors.times import instant_text

BASE64 = "base64"


def to_texts(values: list[bytes]) -> tuple[list[str], list[str]]:
    """The texts, and the encoding of each: none, or base64 where the bytes are no UTF-8."""
    try:
        return [value.decode() for value in values], [""] * len(values)
    except UnicodeDecodeError:
        pairs = [_to_text(value) for value in values]
        return [text for text, _ in pairs], [encoding for _, encoding in pairs]


def _to_text(value: bytes) -> tuple[str, str]:
    try:
        return value.decode(), ""
    except UnicodeDecodeError:
        return b64encode(value).decode(), BASE64


def to_instants(timestamps: list[int]) -> list[str]:
    """Messages that were published together mostly have the same one."""
    known = {stamp: instant_text(stamp) for stamp in set(timestamps)}
    return [known[stamp] for stamp in timestamps]
