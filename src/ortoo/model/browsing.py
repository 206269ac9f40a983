"""What is found in a topic page by page: by a search, or by the state that messages have in a group."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from heapq import merge

import msgspec

from .errors import InvalidError
from .message import Received
from .names import TopicId, TopicName
from .replies import GroupInfo, Page, TopicInfo

_NOT_ONE = "`next` is not a continuation; pass it as it came"


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """What of a partition has not been looked at: from one offset up to another."""

    partition: int
    start: int
    end: int


class Continuation(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Where a search goes on. It means a topic, not a name: one that was made again has other messages."""

    topic: TopicId
    is_newest: bool
    marks: list[Mark]


class SearchFound(msgspec.Struct, frozen=True):
    """Messages that match, a page per partition, each in the order that was asked for. Without a continuation, that was all."""

    pages: list[Page]
    scanned: int  # messages that were looked at
    next: Continuation | None = None


class StateFound(msgspec.Struct, frozen=True):
    """Messages in one state for a group, a page per partition; and where the next ones begin, unless that was all."""

    pages: list[Page]
    next: tuple[int, int] | None = None  # a partition, and an offset there


class TopicsFound(msgspec.Struct, frozen=True):
    """A page of topics, by namespace and name. `next`: the last of them; None when there are no more."""

    topics: list[TopicInfo]
    next: TopicName | None = None


class GroupsFound(msgspec.Struct, frozen=True):
    """The same of the groups of a topic."""

    groups: list[GroupInfo]
    next: str | None = None


class FoundMessages(msgspec.Struct, frozen=True):
    """Some of the messages that were asked for; `next` goes on with the others, and is None when these were all."""

    messages: list[Received]
    next: str | None
    scanned: int  # messages that were looked at

    @property
    def complete(self) -> bool:
        return self.next is None


class TopicPage(msgspec.Struct, frozen=True):
    """Some of the topics; `next` goes on with the others, and is None when these were all."""

    topics: list[TopicInfo]
    next: str | None


class GroupPage(msgspec.Struct, frozen=True):
    """The same of the groups of a topic."""

    groups: list[GroupInfo]
    next: str | None


class SeekPreview(msgspec.Struct, frozen=True):
    """What a seek would do."""

    messages: int  # that would be delivered, again or for the first time
    skipped: int  # that are waiting now, and would not be delivered any more
    leased: int  # whose receipts would go stale


def merge_found(found: SearchFound, is_newest: bool) -> list[Received]:
    """In one order over all partitions: by the time when they were published."""
    sign = -1 if is_newest else 1
    return list(
        merge(
            *(page.to_messages() for page in found.pages),
            key=lambda message: (sign * message.timestamp_ms, sign * message.partition),
        )
    )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Continuation).decode
_decode_names = msgspec.msgpack.Decoder(list[str]).decode


def write_continuation(found: Continuation | None) -> str | None:
    return None if found is None else urlsafe_b64encode(_encode(found)).decode().rstrip("=")


def read_continuation(text: str | None) -> Continuation | None:
    if text is None:
        return None
    try:
        found = _decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError):
        raise InvalidError(_NOT_ONE) from None
    return found


def write_place(place: tuple[int, int] | None) -> str | None:
    return None if place is None else f"{place[0]}.{place[1]}"


def read_place(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, 0
    partition, dot, offset = text.partition(".")
    is_plain = dot and all(part.isascii() and part.isdecimal() and len(part) <= 18 for part in (partition, offset))
    if not is_plain:
        raise InvalidError(_NOT_ONE)
    return int(partition), int(offset)


def write_names(names: Sequence[str] | None) -> str | None:
    """Where a list that is sorted by names goes on: behind these."""
    return None if names is None else urlsafe_b64encode(_encode(tuple(names))).decode().rstrip("=")


def read_names(text: str | None, count: int) -> list[str] | None:
    if text is None:
        return None
    try:
        names = _decode_names(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError):
        raise InvalidError(_NOT_ONE) from None
    if len(names) != count:
        raise InvalidError(_NOT_ONE)
    return names
