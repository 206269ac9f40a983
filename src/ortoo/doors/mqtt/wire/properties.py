"""Properties of MQTT 5: one table says what each is called, how it is written and which packets may have it.

Properties are read once, for bytes that come again the same ones are given; what is forwarded is the raw bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

import msgspec

from .codes import Code, MqttError, malformed, protocol_error
from .fields import (
    binary,
    cut_short,
    read_binary,
    read_byte,
    read_string,
    read_u16,
    read_u32,
    read_varint,
    string,
    varint,
)

COUNT_MAX: Final = 1_024  # properties of one packet: each user property is an object
_REMEMBERED_BYTES_MAX: Final = 128  # longer ones are read anew each time
_REMEMBERED_MAX: Final = 2_048


class Kind(IntEnum):
    """Packet types, and the will of a CONNECT, which has properties of its own."""

    __hash__ = int.__hash__  # that of an Enum is a call in Python, and these are looked up for each packet

    WILL = 0
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Properties(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was not given is None. Users' properties may repeat, and keep their order."""

    payload_format: int | None = None
    message_expiry: int | None = None  # seconds
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    session_expiry: int | None = None  # seconds
    assigned_client_id: str | None = None
    server_keep_alive: int | None = None  # seconds
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay: int | None = None  # seconds
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcards_available: int | None = None
    subscription_ids_available: int | None = None
    shared_available: int | None = None


NONE: Final = Properties()

USER: Final = 0x26
SUBSCRIPTION_ID: Final = 0x0B
_MESSAGE_EXPIRY: Final = 0x02
_TOPIC_ALIAS: Final = 0x23
_WILL_DELAY: Final = 0x18
_PER_HOP: Final = frozenset(
    {_MESSAGE_EXPIRY, SUBSCRIPTION_ID, _TOPIC_ALIAS, _WILL_DELAY}
)  # written anew, or not at all

_Read = Callable[[bytes, int, int], tuple[Any, int]]


class _Property(msgspec.Struct, frozen=True):
    name: str
    read: _Read
    write: Callable[[Any], bytes]
    kinds: frozenset[Kind]


# Names of user properties that were checked already: clients use few of them.
_NAMES: Final[dict[bytes, str]] = {}
_NAMES_MAX: Final = 1_024
_NAME_BYTES_MAX: Final = 64


def _read_pair(data: bytes, at: int, end: int) -> tuple[tuple[str, str], int]:
    start = at + 2
    if start > end:
        raise cut_short()
    at = start + (data[at] << 8 | data[at + 1])
    name = _NAMES.get(data[start:at]) if at <= end else None
    if name is None:
        name, at = read_string(data, start - 2, end)
        if at - start <= _NAME_BYTES_MAX:
            if len(_NAMES) >= _NAMES_MAX:
                _NAMES.clear()
            _NAMES[data[start:at]] = name
    value, at = read_string(data, at, end)
    return (name, value), at


def _read_same(data: bytes, at: int, end: int, head: bytes, name: str, pairs: list[tuple[str, str]]) -> int:
    """More pairs with the same name, as an ack of many messages has them; `head` is what each begins with. Where they end."""
    size = len(head)
    while data.startswith(head, at) and len(pairs) <= COUNT_MAX:
        value, at = read_string(data, at + size, end)
        pairs.append((name, value))
    return at


def _read_flag(data: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = read_byte(data, at, end)
    if value > 1:
        raise protocol_error("a property is neither 0 nor 1")
    return value, at


def _read_positive_u16(data: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = read_u16(data, at, end)
    if value == 0:
        raise protocol_error("the receive maximum is 0")
    return value, at


def _read_alias(data: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = read_u16(data, at, end)
    if value == 0:
        raise MqttError(Code.TOPIC_ALIAS_INVALID, "the topic alias is 0")
    return value, at


def _read_positive_u32(data: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = read_u32(data, at, end)
    if value == 0:
        raise protocol_error("the maximum packet size is 0")
    return value, at


def _read_subscription_id(data: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = read_varint(data, at, end)
    if value == 0:
        raise protocol_error("the subscription identifier is 0")
    return value, at


def _read_response_topic(data: bytes, at: int, end: int) -> tuple[str, int]:
    value, at = read_string(data, at, end)
    if "+" in value or "#" in value:
        raise protocol_error("the response topic has wildcards")
    return value, at


def _byte(value: int) -> bytes:
    return bytes((value,))


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _pair(value: tuple[str, str]) -> bytes:
    return string(value[0]) + string(value[1])


_MESSAGE = frozenset({Kind.PUBLISH, Kind.WILL})
_GREETING = frozenset({Kind.CONNECT, Kind.CONNACK})
_AUTHENTICATION = frozenset({Kind.CONNECT, Kind.CONNACK, Kind.AUTH})
_ACKS = frozenset({Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP, Kind.SUBACK, Kind.UNSUBACK})
_CONNECT, _CONNACK = frozenset({Kind.CONNECT}), frozenset({Kind.CONNACK})

_TABLE: Final[dict[int, _Property]] = {
    0x01: _Property("payload_format", _read_flag, _byte, _MESSAGE),
    0x02: _Property("message_expiry", read_u32, _u32, _MESSAGE),
    0x03: _Property("content_type", read_string, string, _MESSAGE),
    0x08: _Property("response_topic", _read_response_topic, string, _MESSAGE),
    0x09: _Property("correlation_data", read_binary, binary, _MESSAGE),
    0x0B: _Property("subscription_ids", _read_subscription_id, varint, frozenset({Kind.PUBLISH, Kind.SUBSCRIBE})),
    0x11: _Property("session_expiry", read_u32, _u32, _GREETING | {Kind.DISCONNECT}),
    0x12: _Property("assigned_client_id", read_string, string, _CONNACK),
    0x13: _Property("server_keep_alive", read_u16, _u16, _CONNACK),
    0x15: _Property("authentication_method", read_string, string, _AUTHENTICATION),
    0x16: _Property("authentication_data", read_binary, binary, _AUTHENTICATION),
    0x17: _Property("request_problem_information", _read_flag, _byte, _CONNECT),
    0x18: _Property("will_delay", read_u32, _u32, frozenset({Kind.WILL})),
    0x19: _Property("request_response_information", _read_flag, _byte, _CONNECT),
    0x1A: _Property("response_information", read_string, string, _CONNACK),
    0x1C: _Property("server_reference", read_string, string, frozenset({Kind.CONNACK, Kind.DISCONNECT})),
    0x1F: _Property("reason_string", read_string, string, _ACKS | {Kind.CONNACK, Kind.DISCONNECT, Kind.AUTH}),
    0x21: _Property("receive_maximum", _read_positive_u16, _u16, _GREETING),
    0x22: _Property("topic_alias_maximum", read_u16, _u16, _GREETING),
    0x23: _Property("topic_alias", _read_alias, _u16, frozenset({Kind.PUBLISH})),
    0x24: _Property("maximum_qos", _read_flag, _byte, _CONNACK),
    0x25: _Property("retain_available", _read_flag, _byte, _CONNACK),
    0x26: _Property("user", _read_pair, _pair, frozenset(Kind)),
    0x27: _Property("maximum_packet_size", _read_positive_u32, _u32, _GREETING),
    0x28: _Property("wildcards_available", _read_flag, _byte, _CONNACK),
    0x29: _Property("subscription_ids_available", _read_flag, _byte, _CONNACK),
    0x2A: _Property("shared_available", _read_flag, _byte, _CONNACK),
}

# By packet type and identifier: what may come there.
_ALLOWED: Final[dict[int, dict[int, tuple[str, _Read]]]] = {
    kind: {number: (each.name, each.read) for number, each in _TABLE.items() if kind in each.kinds} for kind in Kind
}
_REPEATING: Final = frozenset({USER, SUBSCRIPTION_ID})


def parse(raw: bytes, kind: int) -> Properties:
    """Of the bytes after their length."""
    if not raw:
        return NONE
    return _parse_again(raw, kind) if len(raw) <= _REMEMBERED_BYTES_MAX else _parse(raw, kind)


def _parse(raw: bytes, kind: int) -> Properties:
    allowed = _ALLOWED[kind]
    found: dict[str, Any] = {}
    at, end = 0, len(raw)
    while at < end:
        number = raw[at]
        place = allowed.get(number)
        if place is None:
            raise malformed(f"the property 0x{number:02x} is unknown, or not one of this packet")
        name, read = place
        begin = at
        value, at = read(raw, at + 1, end)
        if number in _REPEATING:
            several = found.setdefault(name, [])
            several.append(value)
            if number == USER and raw.startswith(head := raw[begin : begin + 3 + len(value[0].encode())], at):
                at = _read_same(raw, at, end, head, value[0], several)
            if len(several) > COUNT_MAX:
                raise MqttError(Code.QUOTA_EXCEEDED, f"a packet has more than {COUNT_MAX} of the property {name}")
        elif name in found:
            raise protocol_error(f"the property {name} comes twice")
        else:
            found[name] = value
    if "user" in found:
        found["user"] = tuple(found["user"])
    if "subscription_ids" in found:
        found["subscription_ids"] = ids = tuple(found["subscription_ids"])
        if len(ids) > 1 and kind == Kind.SUBSCRIBE:
            raise protocol_error("a SUBSCRIBE has two subscription identifiers")
    return Properties(**found)


_parse_again = lru_cache(_REMEMBERED_MAX)(_parse)


def encode(properties: Properties) -> bytes:
    """Without their length."""
    if properties is NONE:
        return b""
    parts: list[bytes] = []
    for number, each in _TABLE.items():
        value = getattr(properties, each.name)
        if number in _REPEATING:
            for one in value:
                parts += (_byte(number), each.write(one))
        elif value is not None:
            parts += (_byte(number), each.write(value))
    return b"".join(parts)


def carried(raw: bytes) -> bytes:
    """What a PUBLISH hands on to every receiver: all but its alias, its expiry and subscription identifiers.

    `raw` was parsed before, so that nothing in it can be wrong.
    """
    kept: list[bytes] = []
    at, start, end = 0, 0, len(raw)
    while at < end:
        number, begins = raw[at], at
        _, at = _TABLE[number].read(raw, at + 1, end)
        if number in _PER_HOP:
            kept.append(raw[start:begins])
            start = at
    return b"".join((*kept, raw[start:])) if start else raw


def read_properties(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Their bytes, as they stand in a packet behind their length."""
    size, at = read_varint(data, at, end)
    if at + size > end:
        raise cut_short()
    return data[at : at + size], at + size


_LENGTHS: Final = [varint(length) for length in range(128)]


def with_length(raw: bytes) -> bytes:
    length = len(raw)
    return (_LENGTHS[length] if length < 128 else varint(length)) + raw
