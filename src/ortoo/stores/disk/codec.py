"""Message frames: a stretch of a log as one head (instants, sizes, key hashes) and one body (what users wrote)."""

from __future__ import annotations

from array import array
from collections.abc import Sized

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError
from ortoo.model.replies import Columns

from .crypto import KeyRing, Sealed
from .frame import MESSAGES, encode_frame


class MessageHead(msgspec.Struct, array_like=True, frozen=True):
    """Nothing here tells what a message says: it stays readable when the topic is encrypted."""

    count: int
    times: int | bytes  # one instant for all, or 8 bytes a message
    size: int  # bytes of the values together, as the engine counts them
    priorities: list[int] | None
    json: list[bool] | None
    has_keys: bool
    has_dedup_ids: bool
    hashes: bytes | None  # of keys, 8 bytes a message; in the body when the topic is encrypted
    sealed: Sealed | None  # how the body is encrypted

    def timestamps(self) -> list[int]:
        return [self.times] * self.count if isinstance(self.times, int) else array("Q", self.times).tolist()


class MessageBody(msgspec.Struct, array_like=True, frozen=True):
    values: list[bytes]
    keys: list[str | None] | None
    headers: list[dict[str, str] | None] | None
    dedup_ids: list[str | None] | None
    hashes: bytes | None


_encode = msgspec.msgpack.Encoder().encode
_head_decoder = msgspec.msgpack.Decoder(MessageHead)
_body_decoder = msgspec.msgpack.Decoder(MessageBody)


def encode_messages(
    topic: int,
    partition: int,
    columns: Columns,
    size: int,
    hashes: bytes | None,
    dedup_ids: list[str | None] | None,
    ring: KeyRing | None,
) -> bytes:
    """`ring` when the topic is encrypted."""
    base, times = columns.offsets[0], columns.timestamps
    body = _encode(
        MessageBody(columns.values, columns.keys, columns.headers, dedup_ids, hashes if ring is not None else None)
    )
    sealed = None
    if ring is not None:
        sealed, body = ring.seal(body, context(topic, partition, base))
    head = MessageHead(
        len(times),
        times[0] if times[0] == times[-1] else array("Q", times).tobytes(),
        size,
        columns.priorities,
        columns.json,
        columns.keys is not None,
        dedup_ids is not None,
        hashes if ring is None else None,
        sealed,
    )
    return encode_frame(MESSAGES, base, _encode(head), body)


def context(topic: int, partition: int, base: int) -> bytes:
    """Binds an encrypted body to its place, so that it cannot be moved to another."""
    return f"messages {topic}.{partition}.{base}".encode()


def decode_head(data: bytes) -> MessageHead:
    head = decode_stored(_head_decoder, data, "the head of a message frame")
    packed = [head.hashes, None if isinstance(head.times, int) else head.times]
    if head.count < 1 or not _all_have(head.count, [head.priorities, head.json], packed):
        raise CorruptionError("the head of a message frame contradicts itself")
    return head


def decode_body(data: bytes, count: int) -> MessageBody:
    """`count`: of messages, as the head tells it."""
    body = decode_stored(_body_decoder, data, "the body of a message frame")
    if not _all_have(count, [body.values, body.keys, body.headers, body.dedup_ids], [body.hashes]):
        raise CorruptionError(f"the body of a message frame has not {count} messages, as its head tells")
    return body


def _all_have(count: int, columns: list[Sized | None], packed: list[bytes | None]) -> bool:
    """Whether the columns that exist have `count` entries; packed ones have 8 bytes for each."""
    plain = all(column is None or len(column) == count for column in columns)
    return plain and all(column is None or len(column) == 8 * count for column in packed)


def to_columns(base: int, head: MessageHead, body: MessageBody) -> Columns:
    return Columns(
        range(base, base + head.count),
        body.values,
        head.timestamps(),
        body.keys,
        body.headers,
        head.priorities,
        head.json,
    )
