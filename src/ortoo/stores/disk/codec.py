"""Message frames: a stretch of a log as one head (instants, sizes, key hashes) and one body (what users wrote)."""

from __future__ import annotations

from array import array
from collections.abc import Container, Sequence, Sized
from typing import Any

import msgspec
import zstandard

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError
from ortoo.model.publishers import Runs, from_runs, spread, to_runs
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY

from .crypto import KeyRing, Sealed
from .frame import BODY_BYTES_MAX, MESSAGES, ZSTD, encode_frame
from .logged import LoggedBatch, LoggedPublish, join_arrays

ZSTD_LEVEL = 1
_NIL = b"\xc0"


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
    publishers: Runs | None = None  # left out where nobody is known


_encode = msgspec.msgpack.Encoder().encode
_head_decoder = msgspec.msgpack.Decoder(MessageHead)
_body_decoder = msgspec.msgpack.Decoder(MessageBody)


def encode_messages(records: Sequence[LoggedPublish], ring: KeyRing | None = None, salt: int = 0) -> bytes:
    """One frame of messages that follow each other. `ring` when the topic is encrypted."""
    return seal_messages(records, ring, salt)[0]


def seal_messages(
    records: Sequence[LoggedPublish], ring: KeyRing | None = None, salt: int = 0
) -> tuple[bytes, Sealed | None]:
    """The same, and how it was encrypted."""
    first, batches = records[0], [(record.batch, record.count) for record in records]
    count, hashes = sum(record.count for record in records), _hashes(records)
    keys, headers, ids = (_column(batches, name) for name in ("keys", "headers", "dedup_ids"))
    columns = [_column(batches, "values"), keys, headers, ids, _encode(hashes if ring is not None else None)]
    publishers = to_runs((record.publishers, record.count) for record in records)
    body = b"".join([b"\x96", *columns, _encode(publishers)] if publishers else [b"\x95", *columns])
    sealed, flags = None, 0
    if ring is not None:
        sealed, body = ring.seal(body, context(first.topic, first.partition, first.base))
    else:
        body, flags = compressed(body)
    head = MessageHead(
        count,
        first.at if first.at == records[-1].at else _times(records),
        sum(record.size for record in records),
        _filled(batches, "priorities", DEFAULT_PRIORITY),
        _filled(batches, "json", False),
        keys != _NIL,
        ids != _NIL,
        hashes if ring is None else None,
        sealed,
    )
    return encode_frame(MESSAGES, first.base, _encode(head), body, flags, salt=salt), sealed


def encode_rows(
    place: tuple[int, int, int],
    head: MessageHead,
    body: MessageBody,
    rows: range,
    blank: Container[int],
    size: int,
    ring: KeyRing,
    salt: int,
) -> tuple[bytes, Sealed | None]:
    """Some messages of a frame as one of their own, at that topic, partition and offset, encrypted if they were. Of blank ones
    only the dedup id is left. `size`: what the frame tells of bytes."""
    chosen = slice(rows.start, rows.stop)

    def column(values: list[Any] | None, nothing: Any) -> list[Any] | None:
        if values is None:
            return None
        return [nothing if row in blank else values[row] for row in rows]

    def packed(values: bytes | None) -> bytes | None:
        return None if values is None else values[8 * rows.start : 8 * rows.stop]

    publishers = spread(from_runs(body.publishers), head.count)[chosen]
    data = _encode(
        MessageBody(
            column(body.values, b"") or [],
            column(body.keys, None),
            column(body.headers, None),
            body.dedup_ids[chosen] if body.dedup_ids is not None else None,
            packed(body.hashes),
            to_runs([(publishers, len(rows))]) or None,
        )
    )
    sealed, flags = None, 0
    if head.sealed is not None:
        sealed, data = ring.seal(data, context(*place))
    else:
        data, flags = compressed(data)
    told = MessageHead(
        len(rows),
        head.times if isinstance(head.times, int) else packed(head.times) or b"",
        size,
        None if head.priorities is None else head.priorities[chosen],
        None if head.json is None else head.json[chosen],
        head.has_keys,
        head.has_dedup_ids,
        packed(head.hashes),
        sealed,
    )
    return encode_frame(MESSAGES, place[2], _encode(told), data, flags, salt=salt), sealed


def reseal(head: bytes, body: bytes, flags: int, place: bytes, ring: KeyRing) -> tuple[bytes, bytes, int]:
    """Head, body and flags of a frame under the current key. One that is under it, or is not encrypted, stays as it is."""
    decoded = decode_head(head)
    if decoded.sealed is None or decoded.sealed.key == ring.current:
        return head, body, flags
    plain = ring.open(decoded.sealed, decompress(body) if flags & ZSTD else body, place)
    sealed, body = ring.seal(plain, place)
    return _encode(msgspec.structs.replace(decoded, sealed=sealed)), body, flags & ~ZSTD


def compressed(body: bytes) -> tuple[bytes, int]:
    """With its flag, if that makes it smaller."""
    smaller = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(body)
    return (smaller, ZSTD) if len(smaller) < len(body) else (body, 0)


def decompress(body: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(body, max_output_size=BODY_BYTES_MAX)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"a compressed body cannot be read: {error}") from None


def _column(batches: Sequence[tuple[LoggedBatch, int]], name: str) -> bytes:
    """As msgpack; nil when no batch has it."""
    columns: list[tuple[msgspec.Raw, int]] = [(getattr(batch, name), count) for batch, count in batches]
    if not any(raw for raw, _ in columns):
        return _NIL
    return bytes(columns[0][0]) if len(columns) == 1 else join_arrays(columns)


def _filled(batches: Sequence[tuple[LoggedBatch, int]], name: str, blank: Any) -> list[Any] | None:
    """None when no batch has it."""
    columns = [(getattr(batch, name), count) for batch, count in batches]
    if all(column is None for column, _ in columns):
        return None
    return [one for column, count in columns for one in (column if column is not None else [blank] * count)]


def _hashes(records: Sequence[LoggedPublish]) -> bytes | None:
    if not any(record.key_hashes for record in records):
        return None
    return b"".join([record.key_hashes or bytes(8 * record.count) for record in records])


def _times(records: Sequence[LoggedPublish]) -> bytes:
    return b"".join([array("Q", [record.at]).tobytes() * record.count for record in records])


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
    are_whole = _all_have(count, [body.values, body.keys, body.headers, body.dedup_ids], [body.hashes])
    if not are_whole or not _are_runs_of(body.publishers, count):
        raise CorruptionError(f"the body of a message frame has not {count} messages, as its head tells")
    return body


def _are_runs_of(publishers: Runs | None, count: int) -> bool:
    counts = [run for run, _ in publishers or ()]
    return not counts or (min(counts) > 0 and sum(counts) == count)


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
        from_runs(body.publishers),
        body.dedup_ids,
    )
