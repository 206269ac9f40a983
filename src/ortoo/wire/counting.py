"""How much a request has, before anything is built of it.

Each list is bounded as it is decoded, and so is each map of headers. What has many of them could be very much all the same: a
transaction of ten thousand publishes, or ten thousand messages with all the headers they may have. So a large request is looked
through first, which keeps nothing.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.errors import InvalidError

_LARGE_BYTES = 1 << 20  # smaller ones cannot have too much of anything
_FIELDS_MAX = len(Outgoing.__struct_fields__) * limits.BATCH_MESSAGES_MAX
_NIL, _MAP_16, _MAP_32 = 0xC0, 0xDE, 0xDF  # as msgpack has it; a smaller map has its length in its only byte
_Column = Annotated[list[Raw], Meta(max_length=limits.BATCH_MESSAGES_MAX)] | None


class _Batch(msgspec.Struct):
    values: _Column = None
    keys: _Column = None
    headers: _Column = None
    priorities: _Column = None
    json: _Column = None
    delays: _Column = None
    deliver_ats: _Column = None
    ttls: _Column = None
    dedup_ids: _Column = None
    partitions: _Column = None

    def __post_init__(self) -> None:
        columns = [getattr(self, name) for name in self.__struct_fields__]
        _count.fields += sum(len(column) for column in columns if column is not None)
        if _count.fields > _FIELDS_MAX:
            raise InvalidError(f"a command has at most {limits.BATCH_MESSAGES_MAX} messages; send several")
        sizes = list(map(_map_size, self.headers or ()))
        if sizes and max(sizes) > limits.HEADERS_MAX:
            raise InvalidError(f"a message has at most {limits.HEADERS_MAX} headers, this one has {max(sizes)}")
        _count.headers += sum(sizes)
        if _count.headers > limits.BATCH_HEADERS_MAX:
            most = limits.BATCH_HEADERS_MAX
            raise InvalidError(f"a publish has at most {most} headers in all; send fewer messages at once")


class _Request(msgspec.Struct):
    """What requests that carry messages have in common, and what they stand in."""

    batch: _Batch | None = None
    publishes: Annotated[list[_Request], Meta(max_length=limits.BATCH_MESSAGES_MAX)] = []
    publish: _Request | None = None
    command: _Request | None = None


class _Count:
    fields = 0
    headers = 0


_count = _Count()  # of the request that is being looked through; that is done in one go
_look_through = msgspec.msgpack.Decoder(tuple[int, _Request]).decode


def check_counts(body: memoryview) -> None:
    """InvalidError, or one of msgspec's, when it has more than any request may have."""
    if len(body) > _LARGE_BYTES:
        _count.fields = _count.headers = 0
        _look_through(body)


def _map_size(raw: Raw) -> int:
    head = bytes(memoryview(raw)[:5])
    if head[0] == _MAP_16:
        return int.from_bytes(head[1:3], "big")
    if head[0] == _MAP_32:
        return int.from_bytes(head[1:5], "big")
    return 0 if head[0] == _NIL else head[0] & 0x0F
