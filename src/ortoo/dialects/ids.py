"""Where a message lies, written in the ways in which other systems write ids."""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Sequence

from ortoo.model.names import MessageRef, TopicId

# A UUID of version 8, whose 122 bits are free: topic, partition, offset, and a check that tells it from those that clients make.
_TOPIC_BITS, _PARTITION_BITS, _OFFSET_BITS, _CHECK_BITS = 40, 14, 52, 16
_VERSION, _VARIANT = 8, 0b10

#   place   TOPIC 40 | PARTITION 14 | OFFSET 52
#   UUID    60 of place, with the version among them | variant | 46 of place | CHECK 16
_LOW_BITS = _OFFSET_BITS - 6  # of the place, beside the check
_LOW_MASK = (1 << _LOW_BITS) - 1
_VARIANT_BITS = _VARIANT << _LOW_BITS + _CHECK_BITS
_HEAD = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-8[0-9a-fA-F]{3}-")

_NUMBER_PARTITIONS = 1 << _PARTITION_BITS


def to_uuid(message: MessageRef) -> str:
    return to_uuids(message.topic, message.partition, (message.offset,))[0]


def to_uuids(topic: TopicId, partition: int, offsets: Sequence[int]) -> list[str]:
    """Of messages of one partition: only the ends of their ids differ."""
    base = (topic << _PARTITION_BITS | partition) << _OFFSET_BITS
    heads: dict[int, tuple[str, int]] = {}
    check, texts = crc_hqx, []
    for offset in offsets:
        high = offset >> _LOW_BITS
        known = heads.get(high)
        if known is None:
            known = heads[high] = _head(base >> _LOW_BITS | high)
        head, start = known
        low = offset & _LOW_MASK
        end = f"{_VARIANT_BITS | low << _CHECK_BITS | check(low.to_bytes(6, 'big'), start):016x}"
        texts.append(f"{head}{end[:4]}-{end[4:]}")
    return texts


def _head(high: int) -> tuple[str, int]:
    """What ids begin with, and the check of that."""
    digits = f"{high:015x}"
    return f"{digits[:8]}-{digits[8:12]}-{_VERSION}{digits[12:]}-", crc_hqx(high.to_bytes(8, "big"), 0)


def from_uuid(text: str) -> MessageRef | None:
    """None when it is not one of ours."""
    return from_uuids((text,))[0]


def from_uuids(texts: Sequence[str]) -> list[MessageRef | None]:
    """The same for many."""
    heads: dict[str, tuple[TopicId, int, int, int] | None] = {}
    check, refs = crc_hqx, list[MessageRef | None]()
    for text in texts:
        head = text[:19]
        try:
            known = heads[head]
        except KeyError:
            known = heads[head] = _read_head(head)
        end = text[19:23] + text[24:]
        if known is None or len(text) != 36 or text[23] != "-" or not (end.isalnum() and end.isascii()):
            refs.append(None)
            continue
        topic, partition, base, start = known
        try:
            number = int(end, 16)
        except ValueError:
            refs.append(None)
            continue
        low = number >> _CHECK_BITS & _LOW_MASK
        is_ours = number >> _LOW_BITS + _CHECK_BITS == _VARIANT and number & 0xFFFF == check(
            low.to_bytes(6, "big"), start
        )
        refs.append(MessageRef(topic, partition, base | low) if is_ours else None)
    return refs


def _read_head(head: str) -> tuple[TopicId, int, int, int] | None:
    """Topic, partition, and the upper bits of the offset; and the check of it."""
    if _HEAD.fullmatch(head) is None:
        return None
    high = int(head[:8] + head[9:13] + head[15:18], 16)
    place = high << _LOW_BITS
    rest = place >> _OFFSET_BITS
    base = place & ((1 << _OFFSET_BITS) - 1)
    topic, partition = TopicId(rest >> _PARTITION_BITS), rest & ((1 << _PARTITION_BITS) - 1)
    return topic, partition, base, crc_hqx(high.to_bytes(8, "big"), 0)


def to_number(partition: int, offset: int) -> int:
    """Of a message whose topic is known otherwise: positive, of 64 bits, and small as long as there are few."""
    return offset * _NUMBER_PARTITIONS + partition + 1


def from_number(number: int) -> tuple[int, int]:
    """Partition and offset."""
    offset, partition = divmod(number - 1, _NUMBER_PARTITIONS)
    return partition, offset
