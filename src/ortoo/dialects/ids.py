"""Where a message lies, written in the ways in which other systems write ids."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from ortoo.model.names import MessageRef, TopicId, refs_of

# A UUID of version 8, whose 122 bits are free: topic, partition, a check that tells it from those that clients make, and offset.
#
#   place   TOPIC 40 | PARTITION 14 | CHECK 20 | OFFSET 48
#   UUID    HHHHHHHH-HHHH-8HHH-VHHH-LLLLLLLLLLLL    H: all but the offset, L: the offset, V: two bits of variant
#
# Messages of one partition differ in the last group only, which is read and written for each message that comes or goes.
_PARTITION_BITS, _CHECK_BITS = 14, 20
_VARIANT = 0b10
_HEAD_CHARS, _CHARS = 24, 36
_VERSION, _VERSION_AT = "8", slice(14, 15)
_HEAD = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-8[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-")
_PAD = "0000"  # of an offset to 64 bits

_NUMBER_PARTITIONS = 1 << _PARTITION_BITS


def to_uuid(message: MessageRef) -> str:
    return to_uuids(message.topic, message.partition, (message.offset,))[0]


def to_uuids(topic: TopicId, partition: int, offsets: Sequence[int]) -> list[str]:
    """Of messages of one partition."""
    head, numbers = _head(topic, partition), array("Q", offsets)
    if sys.byteorder == "little":
        numbers.byteswap()
    digits = numbers.tobytes().hex()
    return [head + digits[at : at + 12] for at in range(4, 16 * len(numbers), 16)]


@lru_cache(1024)
def _head(topic: TopicId, partition: int) -> str:
    place = topic << _PARTITION_BITS | partition
    high = place << _CHECK_BITS | _check(place)
    digits, last = f"{high >> 14:015x}", _VARIANT << 14 | high & 0x3FFF
    return f"{digits[:8]}-{digits[8:12]}-8{digits[12:]}-{last:04x}-"


def _check(place: int) -> int:
    return crc32(place.to_bytes(7, "big")) & (1 << _CHECK_BITS) - 1


def from_uuid(text: str) -> MessageRef | None:
    """None when it is not one of ours."""
    return from_uuids((text,))[0]


def from_uuids(texts: Sequence[str]) -> list[MessageRef | None]:
    """The same for many."""
    if _VERSION not in [text[_VERSION_AT] for text in texts]:  # as where clients name all of them
        return [None] * len(texts)
    heads = {text[:_HEAD_CHARS] for text in texts}
    if len(heads) == 1:
        return _of_one_head(texts, heads.pop())
    ours = {head for head in heads if head[_VERSION_AT] == _VERSION and _read_head(head) is not None}
    return [_of_one_head((text,), text[:_HEAD_CHARS])[0] if text[:_HEAD_CHARS] in ours else None for text in texts]


def _of_one_head(texts: Sequence[str], head: str) -> list[MessageRef | None]:
    """As mostly: all are of one partition."""
    place = _read_head(head)
    if place is None:
        return [None] * len(texts)
    ends = [text[_HEAD_CHARS:] for text in texts]
    digits = _PAD + _PAD.join(ends)
    if set(map(len, texts)) != {_CHARS} or not (digits.isascii() and digits.isalnum()):
        return [None] if len(texts) == 1 else [_of_one_head((text,), head)[0] for text in texts]
    try:
        numbers = array("Q", bytes.fromhex(digits))
    except ValueError:
        return [None] if len(texts) == 1 else [_of_one_head((text,), head)[0] for text in texts]
    if sys.byteorder == "little":
        numbers.byteswap()
    return list[MessageRef | None](refs_of(*place, numbers))


@lru_cache(1024)
def _read_head(head: str) -> tuple[TopicId, int] | None:
    if _HEAD.fullmatch(head) is None:
        return None
    high = int(head[:8] + head[9:13] + head[15:18], 16) << 14 | int(head[19:23], 16) & 0x3FFF
    place, check = divmod(high, 1 << _CHECK_BITS)
    if check != _check(place):
        return None
    topic, partition = divmod(place, 1 << _PARTITION_BITS)
    return TopicId(topic), partition


def to_number(partition: int, offset: int) -> int:
    """Of a message whose topic is known otherwise: positive, of 64 bits, and small as long as there are few."""
    return offset * _NUMBER_PARTITIONS + partition + 1


def from_number(number: int) -> tuple[int, int]:
    """Partition and offset."""
    offset, partition = divmod(number - 1, _NUMBER_PARTITIONS)
    return partition, offset
