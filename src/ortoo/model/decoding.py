"""Reading stored bytes back: whatever is wrong with them, the answer is a CorruptionError."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from .errors import ConfigError, CorruptionError

T = TypeVar("T")

# What msgspec and its hooks raise for bytes that nobody wrote: bad text, bad bitmaps, nests without end, impossible settings.
_UNREADABLE = (msgspec.MsgspecError, ValueError, IndexError, RecursionError, ConfigError)


def decode_stored(decoder: msgspec.msgpack.Decoder[T], data: bytes | bytearray | memoryview, what: str) -> T:
    try:
        return decoder.decode(data)
    except _UNREADABLE as error:
        raise CorruptionError(f"{what} cannot be read: {error}") from None
