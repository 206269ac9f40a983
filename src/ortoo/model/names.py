"""Identifiers: what names may look like, and how message ids and receipts are written.

    message id   TOPIC.PARTITION.OFFSET                 e.g. 7.2.41
    receipt      TOPIC.GROUP.LEASE.PARTITION.OFFSET     e.g. 7.3.1099511627781.2.41

TOPIC is the topic's incarnation, a number never given twice, and so is GROUP. LEASE carries the owner epoch in its upper bits;
below, numbers begin where the instant tells in which the epoch began: a store that went back may give an epoch again, but not
its leases.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import NamedTuple, NewType

from . import limits
from .errors import InvalidError, OrtooError

TopicId = NewType("TopicId", int)
GroupId = NewType("GroupId", int)
LeaseId = NewType("LeaseId", int)

DEFAULT_NAMESPACE = "default"
DEFAULT_GROUP = "default"
LEASES_PER_EPOCH = 1 << 40
_LEASES_PER_MS = 32  # more are never given
KEY_SEPARATOR = "\x1f"  # between a dedup id and the hash of its key, where an id is named with it
INBOX_PREFIX = "reply."
_INBOX_CHARS, _HEX = 32, frozenset("0123456789abcdef")  # what follows it
INBOX_LABELS = {"ortoo": "inbox"}  # of topics that hold answers to one client's requests
INBOX_OWNER = "owner"  # one more label of those: whose it is, where not everybody may see everything


class TopicName(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return self.name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/{self.name}"


class MessageRef(NamedTuple):
    """Where a message lies; its id in numbers."""

    topic: TopicId
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}.{self.partition}.{self.offset}"


def refs_of(topic: TopicId, partitions: int | Iterable[int], offsets: Iterable[int]) -> list[MessageRef]:
    """Of messages of one topic, in one partition or each in its own; without a call for each."""
    if isinstance(partitions, int):
        partitions = repeat(partitions)
    return list(map(_to_ref, zip(repeat(topic), partitions, offsets)))


_to_ref = partial(tuple.__new__, MessageRef)


def leases_from(at: int) -> int:
    """Behind which number those of an epoch begin that began at that instant. Half of all are left for it."""
    return at * _LEASES_PER_MS % (LEASES_PER_EPOCH // 2)


class LeaseRef(NamedTuple):
    """Which lease; its number alone says neither of what topic nor of what group it is."""

    topic: TopicId
    group: GroupId
    lease: LeaseId


class ReceiptRef(NamedTuple):
    topic: TopicId
    group: GroupId
    lease: LeaseId
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}.{self.group}.{self.lease}.{self.partition}.{self.offset}"


def parse_message_id(text: str) -> MessageRef:
    numbers = _numbers(text, 3)
    if numbers is None:
        raise InvalidError(f"{text!r} is not a message id; ids look like 7.2.41")
    return MessageRef(TopicId(numbers[0]), numbers[1], numbers[2])


def parse_receipt(text: str) -> ReceiptRef:
    numbers = _numbers(text, 5)
    if numbers is None:
        raise InvalidError(f"{text!r} is not a receipt; use the receipt of a leased message as it came")
    return ReceiptRef(TopicId(numbers[0]), GroupId(numbers[1]), LeaseId(numbers[2]), numbers[3], numbers[4])


def _numbers(text: object, count: int) -> list[int] | None:
    if not isinstance(text, str):
        return None
    parts = text.split(".")
    # isascii, because int() also takes other scripts' digits; the length, because it takes thousands of digits slowly.
    if len(parts) != count or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        return None
    return [int(part) for part in parts]


def check_name(what: str, name: str, error: type[OrtooError] = InvalidError) -> str:
    """Any UTF-8 of 1 to 255 bytes without control characters."""
    if not isinstance(name, str):
        raise error(f"{what} must be a string, not {type(name).__name__}")
    if 0 < len(name) <= limits.NAME_BYTES_MAX and name.isascii() and name.isprintable():  # the usual case, at C speed
        return name
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise error(f"{what} {name!r} is not valid Unicode") from None
    if not 1 <= size <= limits.NAME_BYTES_MAX:
        raise error(f"{what} must have 1 to {limits.NAME_BYTES_MAX} bytes, this one has {size}")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in name):
        raise error(f"{what} {name!r} has control characters")
    return name


def check_labels(labels: Mapping[str, str], error: type[OrtooError] = InvalidError) -> None:
    if len(labels) > limits.LABELS_MAX:
        raise error(f"a topic has at most {limits.LABELS_MAX} labels, not {len(labels)}")
    for name, value in labels.items():
        check_name("a label's name", name, error)
        check_name(f"the value of label {name!r}", value, error)


def is_inbox_name(name: str) -> bool:
    """Of a topic for answers, as clients name them: nobody else should have one like it."""
    rest = name.removeprefix(INBOX_PREFIX)
    return len(rest) == _INBOX_CHARS and rest != name and set(rest) <= _HEX


def is_inbox(labels: Mapping[str, str]) -> bool:
    return labels.items() >= INBOX_LABELS.items()
