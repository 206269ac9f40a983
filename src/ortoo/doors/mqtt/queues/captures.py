"""Ordinary topics that a queue captures: what is published there is also a message of the queue."""

from __future__ import annotations

from typing import Final

from ortoo.doors.mqtt.line import publish_of
from ortoo.doors.mqtt.parts import Item
from ortoo.doors.mqtt.rules.messages import Message
from ortoo.doors.mqtt.wire.properties import Kind, parse
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName

from .messages import TOPIC, to_item

_TOPIC_CHARS_MAX: Final = 8_000  # that fit into a header


class Capture:
    """A subscriber of ordinary topics that is a queue. Two of the same queue are the same: it gets one copy.

    One that a client has made ends with its queue; one of the configuration makes its queue anew.
    """

    __slots__ = ("is_configured", "topic")
    is_kept = True  # what it gets is durable

    def __init__(self, topic: TopicName, *, is_configured: bool = False) -> None:
        self.topic = topic
        self.is_configured = is_configured

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Capture) and other.topic == self.topic

    def __hash__(self) -> int:
        return hash(self.topic)

    def to_item(self, message: Message, now: int) -> Item:
        """Instructions to a queue that make no sense are not heeded: the publisher may not know of the queue."""
        ttl = None if message.expires_at is None else max(0.001, (message.expires_at - now) / 1000)
        if not message.raw and len(message.topic) <= _TOPIC_CHARS_MAX:  # as mostly
            return Item(self.topic, message.payload, headers={TOPIC: message.topic}, ttl=ttl)
        properties = parse(message.raw, Kind.PUBLISH)
        try:
            item = to_item(self.topic, message.payload, message.raw, properties, ttl, message.topic)
            publish_of(self.topic, [item])
        except InvalidError:
            headers = {TOPIC: message.topic} if len(message.topic) <= _TOPIC_CHARS_MAX else None
            return Item(self.topic, message.payload, headers=headers, ttl=ttl)
        return item
