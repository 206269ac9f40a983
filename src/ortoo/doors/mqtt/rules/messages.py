"""A message on its way to clients. The same bytes serve all receivers of one version, QoS and retain flag."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from ortoo.doors.mqtt.routing.subscriptions import Recipient, S
from ortoo.doors.mqtt.wire.codes import V5
from ortoo.doors.mqtt.wire.encoding import publish_parts
from ortoo.doors.mqtt.wire.fields import varint
from ortoo.doors.mqtt.wire.packets import Publish, Will
from ortoo.doors.mqtt.wire.properties import carried

from .state import UNNAMED, Ref

_NO_PARTS: Final = (b"", b"")


class Message:
    """What was published, without what belongs to one hop. `raw` are properties that are handed on as they are."""

    __slots__ = ("_key", "_parts", "expires_at", "payload", "qos", "raw", "retain", "serial", "topic")

    def __init__(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        raw: bytes = b"",
        expires_at: int | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.raw = raw
        self.expires_at = expires_at  # milliseconds
        self.serial = 0  # of one that is retained: the order in which they came
        self._key = -1  # for whom the last parts were
        self._parts = _NO_PARTS

    def parts(self, version: int, qos: int, retain: bool) -> tuple[bytes, bytes]:
        """Before and after the packet identifier, for whoever needs nothing of its own."""
        key = (version == V5) << 3 | qos << 1 | retain
        if key != self._key:
            self._key = key
            self._parts = publish_parts(self.topic, self.payload, version, qos, retain, raw=self.raw)
        return self._parts

    def own_parts(
        self, version: int, qos: int, retain: bool, *, dup: bool, topic: str, extra: bytes
    ) -> tuple[bytes, bytes]:
        return publish_parts(topic, self.payload, version, qos, retain, dup, extra + self.raw)


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message for one client. `ref` is not needed at QoS 0, nor of what is UNNAMED."""

    message: Message
    qos: int = 0
    ref: Ref = UNNAMED
    retain: bool = False
    ids: tuple[int, ...] = ()


class PlainRun(NamedTuple):
    """Messages of QoS 1 for a client of MQTT 5 that differ in their properties and payloads only, and that nobody asks about
    later. Properties are bytes, with their length, and never empty."""

    topic: str
    properties: list[bytes]
    payloads: list[bytes]


def message_of(topic: str, publish: Publish, now: int) -> Message:
    """Of what a client has published; the topic is given, for a PUBLISH may have an alias in its place."""
    if not publish.raw:
        return Message(topic, publish.payload, publish.qos, publish.retain)
    expiry = publish.properties.message_expiry
    expires_at = None if expiry is None else now + expiry * 1000
    return Message(topic, publish.payload, publish.qos, publish.retain, carried(publish.raw), expires_at)


def message_of_will(will: Will, now: int) -> Message:
    expiry = will.properties.message_expiry
    expires_at = None if expiry is None else now + expiry * 1000
    return Message(will.topic, will.payload, will.qos, will.retain, carried(will.raw), expires_at)


def deliver_to(recipient: Recipient[S], message: Message, ref: Ref, publisher: S | None = None) -> Delivery | None:
    """None where the message is its own, and it asked not to get these."""
    if recipient.no_local and publisher == recipient.subscriber:
        if recipient.own is None:
            return None
        recipient = recipient.own
    retain = message.retain and recipient.retain_as_published
    return Delivery(message, min(message.qos, recipient.qos), ref, retain, recipient.ids)


def extra_properties(seconds: int | None, ids: tuple[int, ...], alias: int | None) -> bytes:
    """Those that are written for each receiver."""
    parts = []
    if seconds is not None:
        parts.append(b"\x02" + seconds.to_bytes(4, "big"))
    parts += [b"\x0b" + varint(number) for number in ids]
    if alias is not None:
        parts.append(b"\x23" + alias.to_bytes(2, "big"))
    return b"".join(parts)
