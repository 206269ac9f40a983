"""The body of one packet to a value, strictly: what the specifications do not allow is an MqttError.

A PUBLISH is read in `decoder.py`, many at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import codes as c
from . import packets as p
from .codes import V5, V31, V311, Code, MqttError, malformed, protocol_error
from .fields import cut_short, read_binary, read_byte, read_string, read_u16
from .properties import NONE, Kind, Properties, parse, read_properties
from .topics import check_topic, parse_filter

FILTERS_MAX: Final = 5_000  # of one SUBSCRIBE or UNSUBSCRIBE; each costs microseconds, and others wait meanwhile
_NAMES: Final = {V31: b"MQIsdp", V311: b"MQTT", V5: b"MQTT"}


def decode_connect(data: bytes, at: int, end: int) -> p.Connect:
    version, at = _read_version(data, at, end)
    try:
        return _read_connect(version, data, at, end)
    except MqttError as error:
        error.version = version  # so that the client can be told in its own terms
        raise


def _read_version(data: bytes, at: int, end: int) -> tuple[int, int]:
    name, at = read_binary(data, at, end)
    if name not in _NAMES.values():
        raise MqttError(Code.UNSUPPORTED_VERSION, f"the protocol is {name[:20]!r}, not MQTT")
    version, at = read_byte(data, at, end)
    if _NAMES.get(version) != name:
        spoken = V5 if version > V5 else V311
        raise MqttError(Code.UNSUPPORTED_VERSION, f"MQTT 3.1, 3.1.1 and 5 are spoken, not level {version}", spoken)
    return version, at


def _read_connect(version: int, data: bytes, at: int, end: int) -> p.Connect:
    flags, at = read_byte(data, at, end)
    keep_alive, at = read_u16(data, at, end)
    _check_connect_flags(flags, version)
    properties, at = _properties(data, at, end, version, Kind.CONNECT)
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise protocol_error("authentication data come without a method")
    client_id, at = read_string(data, at, end)
    will = user = password = None
    if flags & 0x04:
        will, at = _read_will(version, flags, data, at, end)
    if flags & 0x80:
        user, at = read_string(data, at, end)
    if flags & 0x40:
        password, at = read_binary(data, at, end)
    _check_whole(at, end)
    return p.Connect(client_id, version, flags & 0x02 != 0, keep_alive, will, user, password, properties)


def _check_connect_flags(flags: int, version: int) -> None:
    if flags & 0x01:
        raise malformed("the reserved flag of CONNECT is set")
    if not flags & 0x04 and flags & 0x38:
        raise malformed("CONNECT has flags of a will, and no will")
    if flags & 0x18 == 0x18:
        raise malformed("a will has QoS 3")
    if flags & 0xC0 == 0x40 and version != V5:
        raise malformed("CONNECT has a password, and no user name")


def _read_will(version: int, flags: int, data: bytes, at: int, end: int) -> tuple[p.Will, int]:
    raw = b""
    if version == V5:
        raw, at = read_properties(data, at, end)
    properties = parse(raw, Kind.WILL)
    topic, at = read_string(data, at, end)
    if not topic:
        raise MqttError(Code.TOPIC_NAME_INVALID, "the topic of the will is empty")
    check_topic(topic, "the topic of a will")
    payload, at = read_binary(data, at, end)
    return p.Will(topic, payload, flags >> 3 & 3, flags & 0x20 != 0, properties, raw), at


def _connack(data: bytes, at: int, end: int, version: int) -> p.Connack:
    flags, at = read_byte(data, at, end)
    reason, at = read_byte(data, at, end)
    if flags > 1 or (flags and reason):
        raise malformed("the flags of CONNACK are not as they have to be")
    if reason not in c.CONNACK_CODES if version == V5 else reason > 5:
        raise malformed("the code of CONNACK is unknown")
    properties, at = _properties(data, at, end, version, Kind.CONNACK)
    _check_whole(at, end)
    return p.Connack(reason, flags == 1, properties)


def _ack(kind: Kind, make: type[Any], codes: frozenset[int]) -> Callable[[bytes, int, int, int], Any]:
    def read(data: bytes, at: int, end: int, version: int) -> Any:
        if end - at == 2:  # nearly always
            packet_id = data[at] << 8 | data[at + 1]
            if packet_id:
                return make(packet_id)
        packet_id, at = _packet_id(data, at, end)
        if version != V5:
            _check_whole(at, end)
        reason, properties = _reason(data, at, end, kind, codes)
        return make(packet_id, reason, properties)

    return read


def _reason(data: bytes, at: int, end: int, kind: Kind, codes: frozenset[int]) -> tuple[int, Properties]:
    """Either, or both, may be left out."""
    if at == end:
        return 0, NONE
    reason, at = read_byte(data, at, end)
    if reason not in codes:
        raise malformed(f"0x{reason:02x} is no reason code of {kind.name}")
    if at == end:
        return reason, NONE
    properties, at = _properties(data, at, end, V5, kind)
    _check_whole(at, end)
    return reason, properties


def _subscribe(data: bytes, at: int, end: int, version: int) -> p.Subscribe:
    packet_id, at = _packet_id(data, at, end)
    properties, at = _properties(data, at, end, version, Kind.SUBSCRIBE)
    found: list[p.Subscription] = []
    while at < end:
        name, at = read_string(data, at, end)
        options, at = read_byte(data, at, end)
        found.append(_subscription(name, options, version))
        _check_filters(len(found))
    if not found:
        raise protocol_error("SUBSCRIBE has no topic filter")
    return p.Subscribe(packet_id, tuple(found), properties)


def _subscription(name: str, options: int, version: int) -> p.Subscription:
    group = parse_filter(name).group
    if options & (0xC0 if version == V5 else 0xFC):
        raise malformed("reserved bits of a subscription are set")
    if options & 0x03 == 3:
        raise protocol_error("a subscription asks for QoS 3")
    if options & 0x30 == 0x30:
        raise protocol_error("the retain handling of a subscription is 3")
    if options & 0x04 and group is not None:
        raise protocol_error("no local is set on a shared subscription")
    return p.Subscription(name, options & 3, options & 0x04 != 0, options & 0x08 != 0, options >> 4)


def _unsubscribe(data: bytes, at: int, end: int, version: int) -> p.Unsubscribe:
    packet_id, at = _packet_id(data, at, end)
    properties, at = _properties(data, at, end, version, Kind.UNSUBSCRIBE)
    found: list[str] = []
    while at < end:
        name, at = read_string(data, at, end)
        parse_filter(name)
        found.append(name)
        _check_filters(len(found))
    if not found:
        raise protocol_error("UNSUBSCRIBE has no topic filter")
    return p.Unsubscribe(packet_id, tuple(found), properties)


def _suback(data: bytes, at: int, end: int, version: int) -> p.Suback:
    packet_id, at = _packet_id(data, at, end)
    properties, at = _properties(data, at, end, version, Kind.SUBACK)
    reasons = _reasons(data[at:end], c.SUBACK_CODES if version == V5 else c.SUBACK_CODES_311)
    return p.Suback(packet_id, reasons, properties)


def _unsuback(data: bytes, at: int, end: int, version: int) -> p.Unsuback:
    packet_id, at = _packet_id(data, at, end)
    if version != V5:
        _check_whole(at, end)
        return p.Unsuback(packet_id)
    properties, at = _properties(data, at, end, version, Kind.UNSUBACK)
    return p.Unsuback(packet_id, _reasons(data[at:end], c.UNSUBACK_CODES), properties)


def _reasons(reasons: bytes, codes: frozenset[int]) -> tuple[int, ...]:
    if not reasons or not codes.issuperset(reasons):
        raise malformed("the reason codes are missing or unknown")
    return tuple(reasons)


def _pingreq(data: bytes, at: int, end: int, version: int) -> p.Pingreq:
    _check_whole(at, end)
    return p.Pingreq()


def _pingresp(data: bytes, at: int, end: int, version: int) -> p.Pingresp:
    _check_whole(at, end)
    return p.Pingresp()


def _disconnect(codes: frozenset[int]) -> Callable[[bytes, int, int, int], p.Disconnect]:
    def read(data: bytes, at: int, end: int, version: int) -> p.Disconnect:
        if version != V5:
            _check_whole(at, end)
        return p.Disconnect(*_reason(data, at, end, Kind.DISCONNECT, codes))

    return read


def _auth(data: bytes, at: int, end: int, version: int) -> p.Auth:
    if version != V5:
        raise malformed("there is no AUTH before MQTT 5")
    return p.Auth(*_reason(data, at, end, Kind.AUTH, c.AUTH_CODES))


def _packet_id(data: bytes, at: int, end: int) -> tuple[int, int]:
    packet_id, at = read_u16(data, at, end)
    if packet_id == 0:
        raise protocol_error("the packet identifier is 0")
    return packet_id, at


def _properties(data: bytes, at: int, end: int, version: int, kind: Kind) -> tuple[Properties, int]:
    if version != V5:
        return NONE, at
    if at >= end:
        raise cut_short()
    raw, at = read_properties(data, at, end)
    return parse(raw, kind), at


def _check_whole(at: int, end: int) -> None:
    if at != end:
        raise malformed("a packet goes on after its end")


def _check_filters(count: int) -> None:
    if count > FILTERS_MAX:
        raise MqttError(Code.QUOTA_EXCEEDED, f"a packet has more than {FILTERS_MAX} topic filters")


_ACKS: Final = {
    0x40: _ack(Kind.PUBACK, p.Puback, c.PUBACK_CODES),
    0x50: _ack(Kind.PUBREC, p.Pubrec, c.PUBACK_CODES),
    0x62: _ack(Kind.PUBREL, p.Pubrel, c.PUBREL_CODES),
    0x70: _ack(Kind.PUBCOMP, p.Pubcomp, c.PUBREL_CODES),
}

# By the first byte of a packet: what a server takes after CONNECT, and what a client takes; PUBLISH is not here.
FROM_CLIENTS: Final[dict[int, Callable[[bytes, int, int, int], Any]]] = {
    **_ACKS,
    0x82: _subscribe,
    0xA2: _unsubscribe,
    0xC0: _pingreq,
    0xE0: _disconnect(c.CLIENT_DISCONNECT_CODES),
    0xF0: _auth,
}
FROM_SERVERS: Final[dict[int, Callable[[bytes, int, int, int], Any]]] = {
    **_ACKS,
    0x20: _connack,
    0x90: _suback,
    0xB0: _unsuback,
    0xD0: _pingresp,
    0xE0: _disconnect(c.SERVER_DISCONNECT_CODES),
    0xF0: _auth,
}
# MQTT 3.1 marks these as sent again.
RESENT_V31: Final = {0x6A: 0x62, 0x8A: 0x82, 0xAA: 0xA2}
