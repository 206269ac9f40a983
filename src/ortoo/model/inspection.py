"""What can be seen of deliveries from the outside: why a message waits, who holds what, how a log lies before a group."""

from __future__ import annotations

from typing import Literal

import msgspec

from .replies import MessageState

Reason = Literal[
    "not_durable",  # not on disk yet, or part of a transaction that is not committed
    "delayed",  # not due yet
    "window",  # the topic's window has not closed yet
    "behind_key",  # another message of its key is leased, or waits for its retry
    "partition_held",  # the same of its partition, where order is by partition
    "retrying",  # it failed, and waits for its next attempt
    "paused",  # ready, but the group is paused
    "no_consumer",  # ready, but nobody consumes the group
    "ready",
    "leased",
    "skipped",  # the group never settled it: it began later, was moved past it, or retention was faster
    "dead",  # the group gave it up
    "quarantined",  # the store cannot vouch for its partition
    "done",
    "superseded",  # by a later message of its key
    "deleted",
    "expired",  # it outlived its time to live, or its longest wait
]


class Behind(msgspec.Struct, frozen=True):
    """The message that another one waits for. `consumer`: who has leased it; None while it waits for its retry itself."""

    id: str
    key: str | None
    consumer: str | None
    until: float | None


class Explanation(msgspec.Struct, frozen=True):
    """Why a group gets a message, or does not get it. `text` says so in a sentence, and what can be done about it.

    `state` is None where the group has nothing to do with it. Times are seconds since 1970, None where they are not known.
    """

    id: str
    group: str
    state: MessageState | None
    reason: Reason
    text: str
    since: float | None  # when that began; of what is pending, when it was published
    until: float | None  # when it ends by itself
    attempt: int  # the delivery under way, or the next one
    behind: Behind | None
    consumers: int  # that the group has now


class LeaseInfo(msgspec.Struct, frozen=True):
    """What a lease holds in one partition."""

    lease: str
    consumer: str
    partition: int
    first: int  # offsets
    last: int
    messages: int
    since: float
    until: float
    attempt: int  # the highest of its messages


class LeasesFound(msgspec.Struct, frozen=True):
    """The oldest first, a row for each partition that a lease holds messages of. `total` counts leases."""

    leases: list[LeaseInfo]
    total: int
    next: str | None  # where to go on; None at the end


class Holder(msgspec.Struct, frozen=True):
    """The first of the messages that hold a key or a partition. Without a consumer it waits for its retry."""

    id: str
    consumer: str | None
    until: float | None


LockState = Literal["leased", "retrying", "delayed"]


class LockInfo(msgspec.Struct, frozen=True):
    """A key, or with None a whole partition, of which nothing more is delivered for now."""

    key: str | None
    partition: int
    holder: Holder | None
    state: LockState
    waiting: int


class LocksFound(msgspec.Struct, frozen=True):
    """Those that most messages wait for first."""

    locks: list[LockInfo]
    total: int


class ConsumerInfo(msgspec.Struct, frozen=True):
    """Who consumes a group, or has leases of it."""

    name: str
    leases: int
    messages: int  # that they hold
    partitions: list[int]  # that it owns, where order is by partition
    seen: float | None  # its last sign of life, in seconds since 1970; None: it gave none since the queue was opened
    oldest_lease: float | None  # when it was taken


class ConsumersFound(msgspec.Struct, frozen=True):
    consumers: list[ConsumerInfo]


class PartitionStrip(msgspec.Struct, frozen=True):
    """A partition's messages in buckets of `width` offsets, from `start` on: how many of each are in which state."""

    partition: int
    start: int
    end: int
    width: int
    ready: list[int]
    leased: list[int]
    delayed: list[int]  # not due, waiting for a retry, or not visible yet
    blocked: list[int]
    done: list[int]
    dead: list[int]
    gone: list[int]  # deleted, superseded, expired, or meant for another group


class Strip(msgspec.Struct, frozen=True):
    """How a topic's log lies before a group; without one, what is stored counts as ready."""

    group: str | None
    partitions: list[PartitionStrip]


class DelayedCounts(msgspec.Struct, frozen=True):
    """How many messages come due when: in buckets of so many seconds, and before and after those."""

    start: float = msgspec.field(name="from")
    until: float = msgspec.field(name="to")
    seconds: float
    counts: list[int]
    total: int
    later: int
    earlier: int
