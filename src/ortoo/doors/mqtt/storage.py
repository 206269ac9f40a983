"""What MQTT keeps, in topics of a namespace that is not listed.

    sessions        the record of each session, by its client, and its filters; the latest counts
    retained        the retained message of each topic, by its topic; the latest counts
    captures        which queue captures which ordinary topics; the latest counts
    inbox.ID        what a session that is kept has not got yet: one topic each, made with the first message

Names of clients and topics may be longer than ours, so that keys and names are hashes of them; the record has the text.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from typing import Final
from uuid import uuid4

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.access import MQTT_NAMESPACE
from ortoo.model.batch import Outgoing
from ortoo.model.commands import CreateGroup, CreateTopic, DeleteTopic, Position, Publish, Run, Settle, Transact
from ortoo.model.errors import ExistsError, NotFoundError, OrtooError
from ortoo.model.names import TopicName
from ortoo.model.queries import ListTopics, Scan
from ortoo.model.replies import Placed
from ortoo.model.topic import TopicConfig

from .rules.messages import Message
from .rules.state import SessionState, Subscribed, restore

_log = logging.getLogger("ortoo.mqtt")

SESSIONS: Final = TopicName(MQTT_NAMESPACE, "sessions")
RETAINED: Final = TopicName(MQTT_NAMESPACE, "retained")
CAPTURES: Final = TopicName(MQTT_NAMESPACE, "captures")
INBOX_GROUP: Final = "session"
_INBOX: Final = "inbox."
_FILTERS: Final = "filters."  # before the key of a session
_PAGE: Final = 1_000

_KEPT: Final = TopicConfig(
    partitions=1, keep="latest", dlq=False, retention_seconds=None, max_message_bytes=64 * 1024 * 1024
)
_INBOX_CONFIG: Final = TopicConfig(
    partitions=1,
    ordering="none",
    dlq=False,
    max_attempts=1_000_000,
    retention_seconds=None,
    retention_done_seconds=0.0,
    max_message_bytes=64 * 1024 * 1024,
)


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """A message, as it lies in an inbox or is retained."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    raw: bytes
    expires_at: int | None
    ids: tuple[int, ...] = ()
    namespace: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


class _Record(msgspec.Struct, frozen=True, array_like=True):
    namespace: str
    state: bytes


class Captured(msgspec.Struct, frozen=True, array_like=True):
    """What is published to ordinary topics that the filter matches goes to the queue, too."""

    namespace: str
    queue: str
    filter: str


_decode_captured = msgspec.msgpack.Decoder(Captured).decode
_decode_record = msgspec.msgpack.Decoder(_Record).decode
_decode_filters = msgspec.msgpack.Decoder(dict[str, Subscribed]).decode


def hash_of(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def new_inbox() -> TopicName:
    """Each session has its own, so that what ends with one session never reaches the next."""
    return TopicName(MQTT_NAMESPACE, _INBOX + uuid4().hex)


def to_inbox_value(message: Message, qos: int, retain: bool, ids: tuple[int, ...]) -> bytes:
    return _encode(_Stored(message.topic, message.payload, qos, retain, message.raw, message.expires_at, ids))


def from_inbox_value(value: bytes) -> tuple[Message, tuple[int, ...]]:
    stored = _decode(value)
    message = Message(stored.topic, stored.payload, stored.qos, stored.retain, stored.raw, stored.expires_at)
    return message, stored.ids


def record_of(namespace: str, client_id: str, rest: bytes, filters: dict[str, Subscribed] | None) -> Publish:
    """What makes the record of a session durable, with its filters, or without those that are so already."""
    key = hash_of(namespace, client_id)
    value = _encode(_Record(namespace, rest))
    if filters is None:
        return Publish(SESSIONS, Outgoing([value], [key]))
    return Publish(SESSIONS, Outgoing([_encode(filters), value], [_FILTERS + key, key]))


def no_record(namespace: str, client_id: str) -> Publish:
    """What removes it."""
    key = hash_of(namespace, client_id)
    return Publish(SESSIONS, Outgoing([b"", b""], [key, _FILTERS + key]))


def retained_of(namespace: str, message: Message) -> Publish:
    """What makes a retained message durable; an empty payload removes the one of its topic."""
    value = b""
    if message.payload:
        value = _encode(
            _Stored(
                message.topic,
                message.payload,
                message.qos,
                True,
                message.raw,
                message.expires_at,
                namespace=namespace,
            )
        )
    return Publish(RETAINED, Outgoing([value], [hash_of(namespace, message.topic)]))


def capture_of(captured: Captured, *, is_over: bool = False) -> Publish:
    """What makes it durable, or removes it."""
    key = hash_of(captured.namespace, captured.queue, captured.filter)
    return Publish(CAPTURES, Outgoing([b"" if is_over else _encode(captured)], [key]))


class Storage:
    """Asks in the name of the server itself."""

    def __init__(self, host: AuthorizedLink) -> None:
        self._host = host

    async def open(self) -> None:
        for topic in (SESSIONS, RETAINED, CAPTURES):
            try:
                await self._host.call(CreateTopic(topic, _KEPT))
            except ExistsError:
                pass  # made by another version, with other settings

    async def sessions(self) -> AsyncIterator[tuple[str, SessionState]]:
        """All that are kept, with their namespaces; each once."""
        found: dict[str, bytes] = {}
        async for key, value in self._latest(SESSIONS):
            if value:
                found[key] = value
            else:
                found.pop(key, None)
        for key, value in found.items():
            if key.startswith(_FILTERS):
                continue
            record = _decode_record(value)
            state = restore(record.state)
            if _FILTERS + key in found:  # older versions kept them with the rest
                state.subscriptions = _decode_filters(found[_FILTERS + key])
            yield record.namespace, state

    async def captures(self) -> list[Captured]:
        found: dict[str, Captured] = {}
        async for key, value in self._latest(CAPTURES):
            if value:
                found[key] = _decode_captured(value)
            else:
                found.pop(key, None)
        return list(found.values())

    async def retained(self) -> AsyncIterator[tuple[str, Message | None, str]]:
        """In the order in which they were retained: a later one of the same key replaces an earlier one; None removes it."""
        async for key, value in self._latest(RETAINED):
            if not value:
                yield "", None, key
                continue
            stored = _decode(value)
            message = Message(stored.topic, stored.payload, stored.qos, True, stored.raw, stored.expires_at)
            yield stored.namespace, message, key

    async def _latest(self, topic: TopicName) -> AsyncIterator[tuple[str, bytes]]:
        start = 0
        while True:
            page = await self._host.ask(Scan(topic, 0, Position(offset=start), count=_PAGE))
            columns = page.columns
            for key, value in zip(columns.keys or (), columns.values, strict=False):
                if key is not None:
                    yield key, value
            if page.next_offset >= page.end or page.next_offset <= start:
                return
            start = page.next_offset

    async def make_inbox(self, topic: TopicName) -> None:
        await self._host.call(CreateTopic(topic, _INBOX_CONFIG))
        try:
            await self._host.call(CreateGroup(topic, INBOX_GROUP))
        except ExistsError:
            pass

    async def inboxes(self) -> dict[TopicName, int]:
        """Those that there are, and how many messages wait in each."""
        topics = await self._host.ask(ListTopics(MQTT_NAMESPACE))
        return {TopicName(MQTT_NAMESPACE, info.name): info.depth for info in topics if info.name.startswith(_INBOX)}

    async def delete_inbox(self, topic: TopicName) -> None:
        try:
            await self._host.call(DeleteTopic(topic))
        except NotFoundError:
            pass  # nothing was ever put there

    async def ack(self, runs: list[Run], *, is_tried: bool = True) -> None:
        """By itself. What was lost meanwhile is not acked, and comes again; so does everything if it is only tried, and fails."""
        if runs:
            try:
                await self._host.call(Settle("ack", runs))
            except OrtooError as error:
                if not is_tried:
                    raise
                _log.warning("acks of an MQTT client were not stored", extra={"error": str(error)})

    async def commit(self, acks: list[Run], publishes: Sequence[Publish]) -> list[Placed]:
        """All of it or nothing; durable when it returns. Queues of other shards get theirs first, each all or nothing."""
        return await self._host.transact_in_parts(Transact(acks, list(publishes)))
