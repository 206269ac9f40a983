"""A commit as the write-ahead log keeps it: which partitions it touches, and its records in sections.

A section is a run of records as msgpack. Records of an encrypted topic are in sections of their own, encrypted. Where there is
nothing of that kind, the body is the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import OrtooError
from ortoo.model.records import Answered, Record, decode_records, encode_records

from .crypto import KeyRing, Sealed
from .frame import PLAIN, Buffer


class Section(msgspec.Struct, array_like=True, frozen=True):
    topic: int  # 0 when it is not encrypted
    sealed: Sealed | None
    data: memoryview  # of the commit's bytes: no copy
    is_bound: bool = False  # to the number of its commit; not so in format 1


_encode = msgspec.msgpack.Encoder().encode
_sections = msgspec.msgpack.Decoder(list[Section])
_touched = msgspec.msgpack.Decoder(list[tuple[int, int]])


def encode_commit(
    number: int, records: Sequence[Record], secret_topic: Callable[[Record], int], ring: KeyRing
) -> tuple[bytes, bytes, int]:
    """(head, body, flags) of the frame of the commit with that number. `secret_topic` names the encrypted topic a record
    speaks of, or 0."""
    touched = {
        (getattr(record, "topic", 0), getattr(record, "partition", -1))
        for record in records
        if type(record) is not Answered  # to forget an answer hurts nobody
    }
    head = _encode(sorted(touched))
    runs = [(topic, list(run)) for topic, run in groupby(records, key=secret_topic)]
    if len(runs) == 1 and runs[0][0] == 0:  # as mostly
        return head, encode_records(runs[0][1]), PLAIN
    sections = []
    for topic, run in runs:
        data, sealed = encode_records(run), None
        if topic:
            sealed, data = ring.seal(data, _context(topic, number))
        sections.append(Section(topic, sealed, memoryview(data), sealed is not None))
    return head, _encode(sections), 0


def _context(topic: int, number: int) -> bytes:
    """Binds an encrypted section to its commit, so that it cannot be moved to another, nor be repeated there."""
    return b"commit %d.%d" % (topic, number)


def decode_commit(
    number: int, body: bytes, flags: int, ring: KeyRing
) -> Iterable[tuple[int, list[Record] | OrtooError]]:
    """(topic or 0, records) of each section; an error in their place where a key is missing or wrong."""
    for topic, data in decode_sections(number, body, flags, ring):
        yield topic, data if isinstance(data, OrtooError) else decode_records(data)


def decode_sections(number: int, body: bytes, flags: int, ring: KeyRing) -> Iterable[tuple[int, Buffer | OrtooError]]:
    """(topic or 0, records as bytes) of each section; a plain body is one."""
    if flags & PLAIN:
        yield 0, body
        return
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


def keys_needed(body: bytes, flags: int) -> Iterable[tuple[int, str, int]]:
    """(topic, key, bytes) of each section that is encrypted."""
    for section in () if flags & PLAIN else decode_stored(_sections, body, "a commit"):
        if section.sealed is not None:
            yield section.topic, section.sealed.key, len(section.data)


def decode_touched(head: bytes) -> list[tuple[int, int]]:
    """(topic, partition) of what the commit speaks of. Partition -1 is the topic as a whole, topic 0 the whole queue."""
    return decode_stored(_touched, head, "the head of a commit")
