"""The fifteen control packets as values. `decoding.py` makes them of bytes, `encoding.py` bytes of them.

`properties` are those of MQTT 5, and `NONE` before it. Reason codes are plain numbers; `codes.py` has their names.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from .codes import V311
from .properties import NONE, Kind, Properties


class Will(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NONE
    raw: bytes = b""  # the same, as they came


class Connect(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.CONNECT

    client_id: str
    version: int = V311
    clean_start: bool = True  # before MQTT 5: clean session
    keep_alive: int = 0  # seconds
    will: Will | None = None
    user: str | None = None
    password: bytes | None = None
    properties: Properties = NONE


class Connack(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.CONNACK

    reason: int = 0
    session_present: bool = False
    properties: Properties = NONE


class Publish(msgspec.Struct, frozen=True, gc=False):
    """`raw` are the properties as they came: forwarding need not write them anew. They count when encoding."""

    kind: ClassVar = Kind.PUBLISH

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0  # of QoS 1 and 2
    properties: Properties = NONE
    raw: bytes = b""


class _Ack(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reason: int = 0
    properties: Properties = NONE


class Puback(_Ack, frozen=True, gc=False):
    kind: ClassVar = Kind.PUBACK


class Pubrec(_Ack, frozen=True, gc=False):
    kind: ClassVar = Kind.PUBREC


class Pubrel(_Ack, frozen=True, gc=False):
    kind: ClassVar = Kind.PUBREL


class Pubcomp(_Ack, frozen=True, gc=False):
    kind: ClassVar = Kind.PUBCOMP


class Subscription(msgspec.Struct, frozen=True):
    """A topic filter of a SUBSCRIBE with its options; before MQTT 5 there is only the QoS."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0  # 0: send retained messages, 1: only if the subscription is new, 2: never


class Subscribe(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.SUBSCRIBE

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NONE


class Suback(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.SUBACK

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NONE


class Unsubscribe(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.UNSUBSCRIBE

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NONE


class Unsuback(msgspec.Struct, frozen=True):
    """Before MQTT 5 it has no reasons."""

    kind: ClassVar = Kind.UNSUBACK

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NONE


class Pingreq(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.PINGREQ


class Pingresp(msgspec.Struct, frozen=True):
    kind: ClassVar = Kind.PINGRESP


class Disconnect(msgspec.Struct, frozen=True):
    """Before MQTT 5 it has no reason, and servers send none."""

    kind: ClassVar = Kind.DISCONNECT

    reason: int = 0
    properties: Properties = NONE


class Auth(msgspec.Struct, frozen=True):
    """MQTT 5 only."""

    kind: ClassVar = Kind.AUTH

    reason: int = 0
    properties: Properties = NONE


Ack = Puback | Pubrec | Pubrel | Pubcomp
Packet = (
    Connect
    | Connack
    | Publish
    | Ack
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
