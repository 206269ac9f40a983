"""A commit as the write-ahead log keeps it: which partitions it touches, and its records in sections.

A section is a run of records as msgpack. Records of an encrypted topic are in sections of their own, encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.records import Record, decode_records, encode_records

from .crypto import KeyRing, Sealed


class Section(msgspec.Struct, array_like=True, frozen=True):
    topic: int  # 0 when it is not encrypted
    sealed: Sealed | None
    data: bytes


_encode = msgspec.msgpack.Encoder().encode
_sections = msgspec.msgpack.Decoder(list[Section])
_touched = msgspec.msgpack.Decoder(list[tuple[int, int]])


def encode_commit(
    records: Sequence[Record], secret_topic: Callable[[Record], int], ring: KeyRing
) -> tuple[bytes, bytes]:
    """(head, body) of the commit's frame. `secret_topic` names the encrypted topic a record speaks of, or 0."""
    touched = {(record.topic, getattr(record, "partition", -1)) for record in records if hasattr(record, "topic")}
    head = _encode(sorted(touched))
    sections = []
    for topic, run in groupby(records, key=secret_topic):
        data, sealed = encode_records(list(run)), None
        if topic:
            sealed, data = ring.seal(data, b"commit %d" % topic)
        sections.append(Section(topic, sealed, data))
    return head, _encode(sections)


def decode_commit(body: bytes, ring: KeyRing) -> Iterable[tuple[int, list[Record] | OrtooError]]:
    """(topic or 0, records) of each section; an error in their place where a key is missing or wrong."""
    try:
        sections = _sections.decode(body)
    except msgspec.MsgspecError as error:
        raise CorruptionError(f"a commit cannot be read: {error}") from None
    for section in sections:
        data = section.data
        if section.sealed is not None:
            try:
                data = ring.open(section.sealed, data, b"commit %d" % section.topic)
            except OrtooError as error:
                yield section.topic, error
                continue
        try:
            yield section.topic, decode_records(data)
        except msgspec.MsgspecError as error:
            raise CorruptionError(f"the records of a commit cannot be read: {error}") from None


def decode_touched(head: bytes) -> list[tuple[int, int]]:
    try:
        return _touched.decode(head)
    except msgspec.MsgspecError:
        return []
