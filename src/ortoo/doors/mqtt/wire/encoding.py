"""Packets to bytes. What cannot be written (a topic too long, a number too large) is a ValueError: a mistake of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import add
from typing import Any, Final

from . import packets as p
from .codes import V5, V31
from .fields import binary, string, varint
from .properties import NONE, Kind, Properties, with_length
from .properties import encode as encode_properties

PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"

# What messages began with that were written before, by topic, size and flags: most traffic is on few of them.
_HEADS: Final[dict[tuple[str, int, int], bytes]] = {}
_HEADS_MAX: Final = 8_192
_NAME_BYTES_MAX: Final = 256


def encode(packet: p.Packet, version: int) -> bytes:
    return _ENCODE[packet.kind](packet, version)


def publish_parts(
    topic: str, payload: bytes, version: int, qos: int, retain: bool, dup: bool = False, raw: bytes = b""
) -> tuple[bytes, bytes]:
    """What comes before the packet identifier, and what after it; at QoS 0 nothing comes between."""
    after = payload
    if version == V5:
        after = with_length(raw) + payload if raw else b"\0" + payload
    place = (topic, len(after), 0x30 | dup << 3 | qos << 1 | retain)
    return _HEADS.get(place) or _to_head(place, qos), after


def publish_run(topic: str, ids: Iterable[int], properties: list[bytes], payloads: list[bytes]) -> bytes:
    """Messages of QoS 1 for a client of MQTT 5, as one piece: for each its identifier, its properties with their length, and its
    payload."""
    count = len(payloads)
    sizes = list(map(add, map(len, properties), map(len, payloads)))
    if sizes.count(sizes[0]) == count:  # as mostly
        heads = [_run_head(topic, sizes[0])] * count
    else:
        heads = [_run_head(topic, size) for size in sizes]
    parts = [b""] * (4 * count)
    parts[0::4] = heads
    parts[1::4] = [number.to_bytes(2, "big") for number in ids]
    parts[2::4] = properties
    parts[3::4] = payloads
    return b"".join(parts)


def _run_head(topic: str, size: int) -> bytes:
    place = (topic, size, 0x32)
    return _HEADS.get(place) or _to_head(place, 1)


def _to_head(place: tuple[str, int, int], qos: int) -> bytes:
    topic, after, flags = place
    name = string(topic)
    head = bytes((flags,)) + varint(len(name) + after + (2 if qos else 0)) + name
    if len(name) <= _NAME_BYTES_MAX:
        if len(_HEADS) >= _HEADS_MAX:
            _HEADS.clear()
        _HEADS[place] = head
    return head


def _publish(packet: p.Publish, version: int) -> bytes:
    raw = packet.raw or encode_properties(packet.properties)
    before, after = publish_parts(
        packet.topic, packet.payload, version, packet.qos, packet.retain, packet.dup, raw if version == V5 else b""
    )
    if not packet.qos:
        return before + after
    return before + packet.packet_id.to_bytes(2, "big") + after


def _connect(packet: p.Connect, version: int) -> bytes:
    will = packet.will
    flags = packet.clean_start << 1 | (packet.user is not None) << 7 | (packet.password is not None) << 6
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    parts = [
        string("MQIsdp" if packet.version == V31 else "MQTT"),
        bytes((packet.version, flags)),
        packet.keep_alive.to_bytes(2, "big"),
        _properties(packet.properties, packet.version),
        string(packet.client_id),
    ]
    if will is not None:
        if packet.version == V5:
            parts.append(with_length(will.raw or encode_properties(will.properties)))
        parts += (string(will.topic), binary(will.payload))
    if packet.user is not None:
        parts.append(string(packet.user))
    if packet.password is not None:
        parts.append(binary(packet.password))
    return _packet(0x10, b"".join(parts))


def _connack(packet: p.Connack, version: int) -> bytes:
    return _packet(0x20, bytes((packet.session_present, packet.reason)) + _properties(packet.properties, version))


def _ack(packet: p.Ack, version: int) -> bytes:
    head = packet.kind << 4 | (2 if packet.kind == Kind.PUBREL else 0)
    return _packet(head, packet.packet_id.to_bytes(2, "big") + _reason(packet.reason, packet.properties, version))


def _subscribe(packet: p.Subscribe, version: int) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big"), _properties(packet.properties, version)]
    for one in packet.subscriptions:
        options = one.qos | one.no_local << 2 | one.retain_as_published << 3 | one.retain_handling << 4
        parts += (string(one.filter), bytes((options,)))
    return _packet(0x82, b"".join(parts))


def _unsubscribe(packet: p.Unsubscribe, version: int) -> bytes:
    head = packet.packet_id.to_bytes(2, "big") + _properties(packet.properties, version)
    return _packet(0xA2, head + b"".join(map(string, packet.filters)))


def _suback(packet: p.Suback | p.Unsuback, version: int) -> bytes:
    head = packet.packet_id.to_bytes(2, "big") + _properties(packet.properties, version)
    return _packet(packet.kind << 4, head + bytes(packet.reasons))


def _disconnect(packet: p.Disconnect | p.Auth, version: int) -> bytes:
    return _packet(packet.kind << 4, _reason(packet.reason, packet.properties, version))


def _reason(reason: int, properties: Properties, version: int) -> bytes:
    """Both may be left out when there is nothing to say."""
    if version != V5 or (reason == 0 and properties is NONE):
        return b""
    if properties is NONE:
        return bytes((reason,))
    return bytes((reason,)) + with_length(encode_properties(properties))


def _properties(properties: Properties, version: int) -> bytes:
    return with_length(encode_properties(properties)) if version == V5 else b""


def _packet(head: int, body: bytes) -> bytes:
    return bytes((head,)) + varint(len(body)) + body


_ENCODE: Final[dict[Kind, Callable[[Any, int], bytes]]] = {
    Kind.CONNECT: _connect,
    Kind.CONNACK: _connack,
    Kind.PUBLISH: _publish,
    Kind.PUBACK: _ack,
    Kind.PUBREC: _ack,
    Kind.PUBREL: _ack,
    Kind.PUBCOMP: _ack,
    Kind.SUBSCRIBE: _subscribe,
    Kind.SUBACK: _suback,
    Kind.UNSUBSCRIBE: _unsubscribe,
    Kind.UNSUBACK: _suback,
    Kind.PINGREQ: lambda packet, version: PINGREQ,
    Kind.PINGRESP: lambda packet, version: PINGRESP,
    Kind.DISCONNECT: _disconnect,
    Kind.AUTH: _disconnect,
}
