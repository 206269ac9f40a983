"""What a store that people can look into is shown of the queue, beside what it has to keep: names, counts, states of delivery.

It is a picture, about a second old, or older where very much changes at once. Nothing is ever read back from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from ortoo.model.topic import TopicConfig

Offsets = str  # as PostgreSQL writes a multirange: {[0,5),[7,8)}
Span = str  # as it writes a range: [0,5), [5,) or empty


class ShownPartition(msgspec.Struct, frozen=True):
    partition: int
    start: int
    until: int
    bytes: int
    deleted: Offsets  # one by one


class ShownFeed(msgspec.Struct, frozen=True):
    partition: int
    cursor: int
    open: Offsets
    leased: Offsets
    delayed: Offsets
    dead: Offsets
    unknown: Span  # offsets of which the state is not shown, for there would be too many ranges


class ShownLease(msgspec.Struct, frozen=True):
    lease: int
    partition: int
    consumer: str
    since: int
    until: int
    messages: int
    offsets: Offsets  # the first ranges, where there are many


class ShownGroup(msgspec.Struct, frozen=True):
    id: int
    name: str
    is_ephemeral: bool
    is_paused: bool
    ready: int
    delayed: int
    leased: int
    blocked: int
    dead: int
    oldest: int | None
    feeds: list[ShownFeed]
    leases: list[ShownLease]


class ShownTopic(msgspec.Struct, frozen=True):
    id: int
    namespace: str
    name: str
    created: int
    at: int  # the instant of all this
    config: TopicConfig
    partitions: list[ShownPartition]
    groups: list[ShownGroup]


@runtime_checkable
class Showing(Protocol):
    async def show(self, topics: Sequence[ShownTopic], gone: Sequence[int], only: Sequence[int] | None) -> None:
        """`gone`: topics that were deleted. `only`: there are no others than these; None: there may be."""
        ...

    async def check_owner(self) -> bool:
        """NotOwnerError when another has taken the store over; False when what it has is not what it had, so that it has to be
        recovered from. Cheap: asked every few seconds, also when nothing happens."""
        ...
