"""The plain fields that packets are made of: numbers, strings, binary data.

A reading function takes the bytes, the place and where the packet ends, and gives the value and the place after it.
"""

from __future__ import annotations

from typing import Final

from .codes import MqttError, malformed

VARINT_MAX: Final = 268_435_455  # four bytes of seven bits
STRING_BYTES_MAX: Final = 65_535


def read_byte(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise cut_short()
    return data[at], at + 1


def read_u16(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 2 > end:
        raise cut_short()
    return data[at] << 8 | data[at + 1], at + 2


def read_u32(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 4 > end:
        raise cut_short()
    return int.from_bytes(data[at : at + 4], "big"), at + 4


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    start = at
    while True:
        if at >= end:
            raise cut_short()
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 28:
            raise malformed("a variable byte integer has more than four bytes")
    if byte == 0 and at - start > 1:
        raise malformed("a variable byte integer is longer than it need be")
    return value, at


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    if at + 2 > end:
        raise cut_short()
    start = at + 2
    at = start + (data[at] << 8 | data[at + 1])
    if at > end:
        raise cut_short()
    return data[start:at], at


def read_string(data: bytes, at: int, end: int) -> tuple[str, int]:
    """As `read_binary` and `to_text`, without the calls: properties are mostly strings."""
    start = at + 2
    if start > end:
        raise cut_short()
    at = start + (data[at] << 8 | data[at + 1])
    if at > end:
        raise cut_short()
    raw = data[start:at]
    return (raw.decode() if raw.isascii() and 0 not in raw else to_text(raw)), at


def to_text(raw: bytes) -> str:
    """Python's decoder refuses surrogates by itself, as MQTT asks."""
    if 0 in raw:
        raise malformed("a string has the character U+0000")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise malformed("a string is not well-formed UTF-8") from None


def cut_short() -> MqttError:
    return malformed("a field reaches beyond the end of its packet")


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if value > VARINT_MAX:
        raise ValueError(f"{value} does not fit a variable byte integer")
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21))


def binary(value: bytes) -> bytes:
    if len(value) > STRING_BYTES_MAX:
        raise ValueError(f"{len(value)} bytes do not fit a field of MQTT, at most {STRING_BYTES_MAX} do")
    return len(value).to_bytes(2, "big") + value


def string(value: str) -> bytes:
    return binary(value.encode())
