"""A commit as the write-ahead log keeps it: which partitions it touches, and its records in sections.

A section is a run of records as msgpack. Records of an encrypted topic are in sections of their own, encrypted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import OrtooError
from ortoo.model.records import Answered, Record, decode_records, encode_records

from .crypto import KeyRing, Sealed
from .frame import Buffer


class Section(msgspec.Struct, array_like=True, frozen=True):
    topic: int  # 0 when it is not encrypted
    sealed: Sealed | None
    data: memoryview  # of the commit's bytes: no copy
    is_bound: bool = False  # to the number of its commit; not so in format 1


_PARTS_MAX = 100  # that are handed to the system in one call
_U8, _U32 = struct.Struct(">B"), struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_sections = msgspec.msgpack.Decoder(list[Section])
_touched = msgspec.msgpack.Decoder(list[tuple[int, int]])


def encode_commit(
    number: int, records: Sequence[Record], secret_topic: Callable[[Record], int], ring: KeyRing
) -> tuple[bytes, list[bytes]]:
    """(head, parts of the body) of the frame of the commit with that number. `secret_topic` names the encrypted topic a record
    speaks of, or 0."""
    touched = {
        (getattr(record, "topic", 0), getattr(record, "partition", -1))
        for record in records
        if type(record) is not Answered  # to forget an answer hurts nobody
    }
    head = _encode(sorted(touched))
    runs = [(topic, list(run)) for topic, run in groupby(records, key=secret_topic)]
    parts = [_array_start(len(runs))]
    for topic, run in runs:
        data, sealed = encode_records(run), None
        if topic:
            sealed, data = ring.seal(data, _context(topic, number))
        parts += _section_parts(topic, sealed, data)
    return head, parts if len(parts) <= _PARTS_MAX else [b"".join(parts)]


def _section_parts(topic: int, sealed: Sealed | None, data: bytes) -> list[bytes]:
    """A section as msgpack writes it, but without a copy of the data."""
    length = b"\xc4" + _U8.pack(len(data)) if len(data) < 1 << 8 else b"\xc6" + _U32.pack(len(data))
    start = b"\x94" + _encode(topic) + _encode(sealed) + length
    return [start, data, b"\xc2" if sealed is None else b"\xc3"]


def _array_start(count: int) -> bytes:
    return bytes([0x90 | count]) if count < 16 else b"\xdd" + _U32.pack(count)


def _context(topic: int, number: int) -> bytes:
    """Binds an encrypted section to its commit, so that it cannot be moved to another, nor be repeated there."""
    return b"commit %d.%d" % (topic, number)


def decode_commit(number: int, body: bytes, ring: KeyRing) -> Iterable[tuple[int, list[Record] | OrtooError]]:
    """(topic or 0, records) of each section; an error in their place where a key is missing or wrong."""
    for topic, data in decode_sections(number, body, ring):
        yield topic, data if isinstance(data, OrtooError) else decode_records(data)


def decode_sections(number: int, body: bytes, ring: KeyRing) -> Iterable[tuple[int, Buffer | OrtooError]]:
    """(topic or 0, records as bytes) of each section."""
    for section in decode_stored(_sections, body, "a commit"):
        data: Buffer = section.data
        if section.sealed is not None:
            try:
                bound = _context(section.topic, number) if section.is_bound else b"commit %d" % section.topic
                data = ring.open(section.sealed, data, bound)
            except OrtooError as error:
                yield section.topic, error
                continue
        yield section.topic, data


def decode_touched(head: bytes) -> list[tuple[int, int]]:
    """(topic, partition) of what the commit speaks of. Partition -1 is the topic as a whole, topic 0 the whole queue."""
    return decode_stored(_touched, head, "the head of a commit")
