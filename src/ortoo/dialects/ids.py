"""Where a message lies, written in the ways in which other systems write ids."""

from __future__ import annotations

from binascii import crc_hqx
from uuid import UUID

from ortoo.model.names import MessageRef, TopicId

# A UUID of version 8, whose 122 bits are free: topic, partition, offset, and a check that tells it from those that clients make.
_TOPIC_BITS, _PARTITION_BITS, _OFFSET_BITS, _CHECK_BITS = 40, 14, 52, 16
_LOW_BITS = 62  # after the variant
_VERSION, _VARIANT = 8, 0b10

_NUMBER_PARTITIONS = 1 << _PARTITION_BITS


def to_uuid(message: MessageRef) -> str:
    place = (message.topic << _PARTITION_BITS | message.partition) << _OFFSET_BITS | message.offset
    number = place << _CHECK_BITS | _check(place)
    high, low = number >> _LOW_BITS, number & ((1 << _LOW_BITS) - 1)
    first, second = high >> 12, high & 0xFFF
    return str(UUID(int=((first << 4 | _VERSION) << 12 | second) << 64 | _VARIANT << _LOW_BITS | low))


def from_uuid(text: str) -> MessageRef | None:
    """None when it is not one of ours."""
    try:
        number = UUID(text).int
    except ValueError:
        return None
    if number >> 76 & 0xF != _VERSION or number >> _LOW_BITS & 0b11 != _VARIANT:
        return None
    high = (number >> 80) << 12 | number >> 64 & 0xFFF
    whole = high << _LOW_BITS | number & ((1 << _LOW_BITS) - 1)
    place, check = whole >> _CHECK_BITS, whole & ((1 << _CHECK_BITS) - 1)
    if check != _check(place):
        return None
    rest, offset = place >> _OFFSET_BITS, place & ((1 << _OFFSET_BITS) - 1)
    return MessageRef(TopicId(rest >> _PARTITION_BITS), rest & ((1 << _PARTITION_BITS) - 1), offset)


def _check(place: int) -> int:
    return crc_hqx(place.to_bytes(16, "big"), 0)


def to_number(partition: int, offset: int) -> int:
    """Of a message whose topic is known otherwise: positive, of 64 bits, and small as long as there are few."""
    return offset * _NUMBER_PARTITIONS + partition + 1


def from_number(number: int) -> tuple[int, int]:
    """Partition and offset."""
    offset, partition = divmod(number - 1, _NUMBER_PARTITIONS)
    return partition, offset
