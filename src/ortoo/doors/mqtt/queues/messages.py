"""A PUBLISH as a message of a queue, and a message of a queue as a PUBLISH.

User properties are headers, so that they are seen through every door. What headers cannot tell, a name that comes twice or a
property of MQTT itself, is kept as it came in one more header, for clients of MQTT.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ortoo.doors.mqtt.parts import Item
from ortoo.doors.mqtt.rules.messages import Delivery, Message, PlainRun, extra_properties
from ortoo.doors.mqtt.rules.state import UNNAMED, Ref
from ortoo.doors.mqtt.wire.codes import MqttError
from ortoo.doors.mqtt.wire.fields import string, varint
from ortoo.doors.mqtt.wire.packets import Publish
from ortoo.doors.mqtt.wire.properties import NONE, USER, Kind, Properties, carried, parse
from ortoo.doors.times import parse_duration, parse_instant
from ortoo.model.errors import InvalidError
from ortoo.model.message import CORRELATION_ID
from ortoo.model.names import TopicName
from ortoo.model.replies import LeasedRun

RAW: Final = "mqtt-properties"  # a header: all properties as they came, in base64
TOPIC: Final = "mqtt-topic"  # a header: what an ordinary topic that a queue captures was called
RESPONSE_TOPIC: Final = "response-topic"
CONTENT_TYPE: Final = "content-type"
MESSAGE_ID: Final = "message-id"
ATTEMPT: Final = "attempt"

_USER: Final = bytes((USER,))
_MESSAGE_ID: Final = _USER + string(MESSAGE_ID)


def to_item(
    topic: TopicName, payload: bytes, raw: bytes, properties: Properties, ttl: float | None, shown: str = ""
) -> Item:
    """`shown`: the ordinary topic that it was published to, where a queue captures that. InvalidError says what is wrong."""
    if properties is NONE:
        return Item(topic, payload, headers={TOPIC: shown} if shown else None, ttl=ttl)
    headers = dict(properties.user)
    asked = _instructions(headers) if headers else {}
    if _is_more_than(properties, headers):
        headers[RAW] = b64encode(carried(raw)).decode()
        _add_own(headers, properties)
    if shown:
        headers[TOPIC] = shown
    if ttl is not None:
        asked.setdefault("ttl", ttl)
    return Item(topic, payload, headers=headers or None, json=_is_json(properties, payload), **asked)


def item_of(topic: TopicName, publish: Publish) -> Item:
    """The same of what a client publishes to a queue."""
    expiry = publish.properties.message_expiry
    ttl = None if expiry is None else max(float(expiry), 0.001)
    return to_item(topic, publish.payload, publish.raw, publish.properties, ttl)


def _is_more_than(properties: Properties, user: dict[str, str]) -> bool:
    """Whether there is something that headers cannot tell."""
    return (
        len(user) != len(properties.user)
        or properties.payload_format is not None
        or properties.content_type is not None
        or properties.response_topic is not None
        or properties.correlation_data is not None
    )


def _add_own(headers: dict[str, str], properties: Properties) -> None:
    """Properties of MQTT that other clients understand."""
    if properties.content_type is not None:
        headers.setdefault(CONTENT_TYPE, properties.content_type)
    if properties.response_topic is not None:
        headers.setdefault(RESPONSE_TOPIC, properties.response_topic)
    if properties.correlation_data is not None:
        headers.setdefault(CORRELATION_ID, _to_text(properties.correlation_data))


def _to_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode()


def _is_json(properties: Properties, payload: bytes) -> bool:
    if properties.content_type != "application/json":
        return False
    try:
        msgspec.json.decode(payload, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


# -- what a publisher asks for


def _priority(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise InvalidError(f"priority must be a whole number, not {text[:40]!r}")
    return int(text)


def _deliver_at(text: str) -> float:
    """An instant, or seconds since 1970."""
    try:
        return float(text)
    except ValueError:
        return parse_instant("deliver-at", text)


_INSTRUCTIONS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "partition-key": ("key", str),
    "priority": ("priority", _priority),
    "delay": ("delay", lambda text: parse_duration("delay", text)),
    "deliver-at": ("deliver_at", _deliver_at),
    "ttl": ("ttl", lambda text: parse_duration("ttl", text)),
    "dedup-id": ("dedup_id", str),
}


def _instructions(user: dict[str, str]) -> dict[str, Any]:
    asked = {}
    for name in user.keys() & _INSTRUCTIONS.keys():
        if user[name] != "":
            field, read = _INSTRUCTIONS[name]
            asked[field] = read(user[name])
    return asked


# -- deliveries


class Renderer:
    """Makes deliveries of what was leased for one subscription."""

    def __init__(self, shown: str, qos: int, ids: tuple[int, ...], *, is_named: bool) -> None:
        """`is_named`: deliveries are answered for; else a PUBACK is nothing to know."""
        self._is_named = is_named
        self.again: dict[str, Ref] = {}  # what was under way when the last connection ended, by message id and group
        self._shown = shown
        self._qos = qos
        self._ids = ids

    def refs(self, run: LeasedRun) -> list[Ref]:
        """Message id, group and lease: a message may come through two groups, and again before the first time was answered."""
        taken = run.taken
        if not self._is_named:
            before = f"{taken.topic_id}.{taken.partition}."
            return [f"{before}{offset}" for offset in run.columns.offsets]
        before, after = f"{taken.topic_id}.{taken.partition}.", f"@{taken.group_id}:{taken.lease}"
        refs: list[Ref] = [f"{before}{offset}{after}" for offset in run.columns.offsets]
        if self.again:
            refs = [self.again.pop(_without_lease(str(ref)), ref) for ref in refs]
        return refs

    def expect(self, again: list[str]) -> None:
        """These come under the references that they had."""
        self.again = {_without_lease(ref): ref for ref in again}

    def deliveries(self, run: LeasedRun, refs: list[Ref]) -> list[Delivery]:
        taken, columns = run.taken, run.columns
        before, attempts = f"{taken.topic_id}.{taken.partition}.", taken.attempts
        headers = columns.headers
        found = []
        for row, offset in enumerate(columns.offsets):
            number = f"{before}{offset}".encode()
            raw = _MESSAGE_ID + len(number).to_bytes(2, "big") + number
            if attempts and offset in attempts:
                raw += _USER + string(ATTEMPT) + string(str(attempts[offset]))
            topic = self._shown
            given = headers[row] if headers is not None else None
            if given:
                topic = topic or given.get(TOPIC, "")
                raw = to_raw(given) + raw
            message = Message(topic or str(taken.topic), columns.values[row], self._qos, False, raw)
            found.append(Delivery(message, self._qos, refs[row] if self._is_named else UNNAMED, False, self._ids))
        return found

    def run(self, run: LeasedRun, refs: list[Ref]) -> PlainRun | None:
        """Messages that have nothing but a value, come for the first time, and need not be known by their references."""
        taken, columns = run.taken, run.columns
        if self._is_named or columns.headers is not None or taken.attempts or not refs:
            return None
        numbers = "\n".join(refs).encode().split(b"\n")  # type: ignore[arg-type]  # message ids
        heads = {length: self._head(length) for length in set(map(len, numbers))}
        properties = [heads[len(number)] + number for number in numbers]
        return PlainRun(self._shown or str(taken.topic), properties, columns.values)

    def _head(self, length: int) -> bytes:
        """What comes before a message id of that length, the length of all properties included."""
        head = extra_properties(None, self._ids, None) + _MESSAGE_ID + length.to_bytes(2, "big")
        return varint(len(head) + length) + head


def to_raw(headers: dict[str, str]) -> bytes:
    """The properties that a message had, or its headers as user properties."""
    known = headers.get(RAW)
    if known is not None:
        try:
            raw = b64decode(known, validate=True)
            parse(raw, Kind.PUBLISH)
            return carried(raw)
        except (Base64Error, ValueError, MqttError):
            pass  # somebody else wrote it
    return b"".join(
        [
            _USER + string(name) + string(value)
            for name, value in headers.items()
            if name not in (TOPIC, RAW) and "\0" not in name and "\0" not in value
        ]
    )


def message_id_of(ref: Ref) -> Ref:
    return str(ref).partition("@")[0]


def _without_lease(ref: str) -> str:
    return ref.rpartition(":")[0]
