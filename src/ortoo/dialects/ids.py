"""Where a message lies, written in the ways in which other systems write ids."""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Sequence
from itertools import groupby

from ortoo.model.names import MessageRef, TopicId

# A UUID of version 8, whose 122 bits are free: topic, partition, offset, and a check that tells it from those that clients make.
#
#   place   TOPIC 40 | PARTITION 14 | OFFSET 20 + 32
#   UUID    HHHHHHHH-HHHH-8HHH-VHHH-LLLLLLLLCCCC    H: all but the last 32 bits, L: these, C: check, V: two bits of variant
#
# Messages of one partition differ in the last group only, which is read and written for each message that comes or goes.
_PARTITION_BITS, _OFFSET_BITS, _LOW_BITS, _CHECK_BITS = 14, 52, 32, 16
_LOW_MASK = (1 << _LOW_BITS) - 1
_VARIANT = 0b10
_MIX = 0x9E3779B97F4A7C15  # a check of what is multiplied by this sees each digit that is another
_HEAD = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-8[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-")

_NUMBER_PARTITIONS = 1 << _PARTITION_BITS


def to_uuid(message: MessageRef) -> str:
    return to_uuids(message.topic, message.partition, (message.offset,))[0]


def to_uuids(topic: TopicId, partition: int, offsets: Sequence[int]) -> list[str]:
    """Of messages of one partition."""
    base = (topic << _PARTITION_BITS | partition) << _OFFSET_BITS - _LOW_BITS
    if max(offsets, default=0) <= _LOW_MASK:
        return _with_head(base, offsets)
    texts: list[str] = []
    for high, some in groupby(offsets, lambda offset: offset >> _LOW_BITS):
        texts += _with_head(base | high, [offset & _LOW_MASK for offset in some])
    return texts


def _with_head(high: int, lows: Sequence[int]) -> list[str]:
    digits, last = f"{high >> 14:015x}", _VARIANT << 14 | high & 0x3FFF
    head, check = f"{digits[:8]}-{digits[8:12]}-8{digits[12:]}-{last:04x}-", _check(high)
    return [f"{head}{low << 16 | low * _MIX >> 32 & 0xFFFF ^ check:012x}" for low in lows]


def _check(high: int) -> int:
    return crc_hqx(high.to_bytes(10, "big"), 0)


def from_uuid(text: str) -> MessageRef | None:
    """None when it is not one of ours."""
    return from_uuids((text,))[0]


def from_uuids(texts: Sequence[str]) -> list[MessageRef | None]:
    """The same for many."""
    heads: dict[str, tuple[TopicId, int, int, int] | None] = {}
    refs: list[MessageRef | None] = []
    for text in texts:
        head, end = text[:24], text[24:]
        if head not in heads:
            heads[head] = _read_head(head)
        known = heads[head]
        if known is None or len(end) != 12 or not (end.isalnum() and end.isascii()):
            refs.append(None)
            continue
        topic, partition, base, check = known
        try:
            number = int(end, 16)
        except ValueError:
            refs.append(None)
            continue
        low = number >> 16
        is_ours = low * _MIX >> 32 & 0xFFFF ^ check == number & 0xFFFF
        refs.append(MessageRef(topic, partition, base | low) if is_ours else None)
    return refs


def _read_head(head: str) -> tuple[TopicId, int, int, int] | None:
    """Topic, partition, and the upper bits of the offset; and the check of it."""
    if _HEAD.fullmatch(head) is None:
        return None
    high = int(head[:8] + head[9:13] + head[15:18], 16) << 14 | int(head[19:23], 16) & 0x3FFF
    rest, offset = divmod(high, 1 << _OFFSET_BITS - _LOW_BITS)
    topic, partition = divmod(rest, 1 << _PARTITION_BITS)
    return TopicId(topic), partition, offset << _LOW_BITS, _check(high)


def to_number(partition: int, offset: int) -> int:
    """Of a message whose topic is known otherwise: positive, of 64 bits, and small as long as there are few."""
    return offset * _NUMBER_PARTITIONS + partition + 1


def from_number(number: int) -> tuple[int, int]:
    """Partition and offset."""
    offset, partition = divmod(number - 1, _NUMBER_PARTITIONS)
    return partition, offset
