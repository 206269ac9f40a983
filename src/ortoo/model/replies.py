"""What the queue answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from .batch import own_headers
from .latency import Latency
from .message import Delivery, LateAcks, Received, Settler
from .names import GroupId, LeaseId, TopicId, TopicName
from .namespaces import Quota
from .offsets import OffsetSet
from .publishers import Publishers, join_publishers, pick_publishers, spread
from .topic import DEFAULT_PRIORITY, TopicConfig

MessageState = Literal["ready", "delayed", "leased", "blocked", "done", "dead"]


class Sent(msgspec.Struct, frozen=True, gc=False):
    """Where a published message lies. `duplicate` means that its dedup_id was known, and this is where the first one lies."""

    topic_id: TopicId
    partition: int
    offset: int
    duplicate: bool = False

    @property
    def id(self) -> str:
        return f"{self.topic_id}.{self.partition}.{self.offset}"


class Placed(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The answer to a publish, as columns in the order of the messages. A range equals the list of its numbers."""

    topic: TopicId
    partitions: list[int]
    offsets: Sequence[int]  # a range where there is no gap
    duplicates: list[bool] | None = None
    topics: list[TopicId] | None = None  # when the first one of a duplicate lies in another topic

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placed) and self._plain() == other._plain()

    __hash__ = None  # type: ignore[assignment]  # it has lists

    def _plain(self) -> tuple[object, ...]:
        return self.topic, self.partitions, list(self.offsets), self.duplicates, self.topics

    def part(self, start: int, end: int) -> Placed:
        return Placed(
            self.topic,
            self.partitions[start:end],
            self.offsets[start:end],
            self.duplicates and self.duplicates[start:end],
            self.topics and self.topics[start:end],
        )


class Taken(msgspec.Struct, frozen=True, gc=False):
    """Offsets of one partition that a lease took, in the order of delivery."""

    topic: TopicName
    topic_id: TopicId
    group: str
    group_id: GroupId
    lease: LeaseId
    partition: int
    offsets: Sequence[int]  # a range where there is no gap
    attempts: dict[int, int] | None = None  # of those that failed before


class LeaseTaken(msgspec.Struct, frozen=True, gc=False):
    """What a lease got. `more` means it stopped looking before it had seen all, so that others could run."""

    taken: list[Taken]
    more: bool = False


class Columns(msgspec.Struct, frozen=True, gc=False):
    """Messages read from a store, as columns; None where none of them uses the field."""

    offsets: Sequence[int]  # a range where there is no gap
    values: list[bytes]
    timestamps: list[int]
    keys: list[str | None] | None = None
    headers: list[dict[str, str] | None] | None = None
    priorities: list[int] | None = None
    json: list[bool] | None = None
    publishers: Publishers | None = None  # one for all, or one for each
    dedup_ids: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, end: int) -> Columns:
        """The messages from the one to the other."""
        if start <= 0 and end >= len(self.offsets):
            return self
        return self.pick(slice(start, end))

    def pick(self, rows: slice | Sequence[int]) -> Columns:
        """The messages in those rows, in that order."""
        picked: dict[str, Any] = {}
        for name in _LISTS:
            column = getattr(self, name)
            if column is not None:
                picked[name] = column[rows] if isinstance(rows, slice) else [column[row] for row in rows]
        return Columns(**picked, publishers=pick_publishers(self.publishers, rows))


class Page(msgspec.Struct, frozen=True):
    """Messages of one partition, and the offset to go on from."""

    topic: TopicName
    topic_id: TopicId
    partition: int
    columns: Columns
    next_offset: int
    end: int  # where the log ended when this was read
    dues: dict[int, int] | None = (
        None  # ms since the epoch, by offset: of those that are not due yet, where that was asked for
    )
    expiries: dict[int, int] | None = None  # the same

    def to_messages(self) -> list[Received]:
        found = to_received(self.columns, Delivery(self.topic, self.topic_id, self.partition))
        if self.dues or self.expiries:
            dues, expiries = self.dues or {}, self.expiries or {}
            for message in found:
                message.due_ms, message.expires_ms = dues.get(message.offset), expiries.get(message.offset)
        return found


class HistoryPage(msgspec.Struct, frozen=True):
    """What happened to messages of one partition, record by record; each has a number that no other will ever have.

    `ortoo.model.history` makes rows of it.
    """

    topic: TopicName
    topic_id: TopicId
    partition: int
    records: bytes  # as encode_records gives them
    start: int  # number of the first one here; higher than asked for when older ones are gone
    next: int  # where to go on from
    first: int  # the oldest that is still known
    end: int  # one past the newest
    groups: dict[int, str]  # names of the topic's present groups


class MessageFound(msgspec.Struct, frozen=True):
    """One message, as a page of its own, and its state in each group."""

    page: Page
    states: dict[str, MessageState]

    def to_info(self) -> MessageInfo:
        return MessageInfo(self.page.to_messages()[0], self.states)


class MessageInfo(msgspec.Struct, frozen=True):
    """One message, and its state in each group."""

    message: Received
    states: dict[str, MessageState]


class KeyCounts(msgspec.Struct, frozen=True):
    """How many messages of one key a group has in which state, as far as they were read; None for those without a key."""

    key: str | None
    pending: int  # neither leased nor settled
    leased: int
    done: int
    dead: int
    total: int
    oldest: float  # when the first of them was published, in seconds since 1970
    newest: float


class KeysFound(msgspec.Struct, frozen=True):
    """The keys of a topic, those used last first. `is_complete`: whether all messages were read, and all their keys are here."""

    keys: list[KeyCounts]
    is_complete: bool


def filter_columns(columns: Columns, unwanted: OffsetSet) -> Columns:
    """The columns without those offsets."""
    rows = [row for row, offset in enumerate(columns.offsets) if offset not in unwanted]
    return columns if len(rows) == len(columns.offsets) else columns.pick(rows)


def join_columns(parts: list[Columns]) -> Columns:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    joined: dict[str, list[Any]] = {}
    for name in _LISTS:
        if name in _ALWAYS or any(getattr(part, name) is not None for part in parts):
            blank = _BLANKS.get(name)
            column: list[Any] = []
            joined[name] = column
            for part in parts:
                column.extend(getattr(part, name) or [blank] * len(part.offsets))
    return Columns(**joined, publishers=join_publishers([(part.publishers, len(part.offsets)) for part in parts]))


_LISTS = tuple(name for name in Columns.__struct_fields__ if name != "publishers")
_ALWAYS = ("offsets", "values", "timestamps")
_BLANKS: dict[str, Any] = {"priorities": DEFAULT_PRIORITY, "json": False}


class Settled(msgspec.Struct, frozen=True, gc=False):
    """Which receipts of each run, in the order given, were stale. None at all is the usual answer.

    `revoked` are messages of the same leases that went back in line behind the ones settled.
    """

    lost: list[list[int]] | None = None
    revoked: list[list[int]] | None = None


# What became of a message that was named by its id: settled; not leased in that group now; settled before, whether it was done or
# given up; not known at all.
IdState = Literal["settled", "lost", "done", "unknown"]


class GroupInfo(msgspec.Struct, frozen=True):
    name: str
    backlog: int  # not settled yet: ready, delayed, leased and blocked
    ready: int
    delayed: int
    leased: int
    blocked: int
    dead: int
    skipped: int  # trimmed by retention before the group had settled them
    leases: int
    ephemeral: bool
    cursors: list[int]
    consumers: dict[str, list[int]]  # and the partitions each owns, when order is by partition
    paused: bool = False  # nothing is delivered to its consumers
    paused_until: float | None = None  # when that ends by itself, in seconds since 1970
    reason: str | None = None  # why it is paused, as whoever did it has said
    delivery_latency: Latency | None = None  # from publishing to the first delivery; None when there was none of late
    ack_latency: Latency | None = None  # from delivery to the ack


class PartitionInfo(msgspec.Struct, frozen=True):
    partition: int
    start: int
    end: int
    messages: int
    bytes: int
    archived: int = 0  # messages below are kept elsewhere


class TopicInfo(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    id: TopicId
    config: TopicConfig
    dlq: str  # the name of its dead-letter topic, whether that exists yet or not
    created: float
    depth: int
    messages: int
    bytes: int
    partitions: list[PartitionInfo]
    groups: list[GroupInfo]


class NamespaceInfo(msgspec.Struct, frozen=True):
    """What there is in a namespace, and its quota. `bytes` has what open transactions have staged, too."""

    name: str
    topics: int
    groups: int
    messages: int
    bytes: int
    quota: Quota


class Counters(msgspec.Struct):
    """Messages since the queue was opened."""

    published: int = 0
    duplicates: int = 0
    delivered: int = 0
    acked: int = 0
    retried: int = 0
    released: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    skipped: int = 0
    superseded: int = 0

    def add(self, other: Counters) -> None:
        for name in Counters.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Stats(msgspec.Struct, frozen=True):
    topics: int
    groups: int
    depth: int
    leases: int
    waiters: int
    transactions: int
    epoch: int
    counters: Counters
    problems: list[str]  # what an operator should know, in words; empty when all is well


TraceKind = Literal[
    "published",
    "due",
    "delivered",
    "redelivered",
    "nacked",
    "lease expired",
    "released",
    "acknowledged",
    "dead-lettered",
    "dropped",
    "redriven",
    "retried now",
    "deleted",
    "superseded",
    "skipped",
    "purged",
    "expires",
]


class TraceEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a message's timeline. An event in the future (`due`, `expires`) tells what is planned."""

    time: float
    what: TraceKind
    group: str | None = None
    consumer: str | None = None
    attempt: int | None = None
    reason: str | None = None
    error: str | None = None
    until: float | None = None
    publisher: str | None = None  # of what was published


class Trace(msgspec.Struct, frozen=True):
    id: str
    topic: str
    namespace: str
    events: list[TraceEvent]
    omitted: int = 0  # older events that are not among them, because there are very many


def to_received(columns: Columns, delivery: Delivery, attempts: dict[int, int] | None = None) -> list[Received]:
    """Builds the messages of one run; C speed as long as the columns are plain."""
    count = len(columns.offsets)
    nones: list[None] = [None] * count
    fields: list[Sequence[Any]] = [
        columns.values,
        columns.keys or nones,
        own_headers(columns.headers) if columns.headers else nones,  # a store keeps those it gave
        columns.priorities or [DEFAULT_PRIORITY] * count,
        columns.timestamps,
        columns.json or [False] * count,
        [attempts.get(offset, 1) for offset in columns.offsets] if attempts else [1] * count,
        columns.offsets,
        [delivery] * count,
    ]
    if columns.publishers is not None:
        fields.append(spread(columns.publishers, count))
    return list(map(Received, *fields))


class LeasedRun(msgspec.Struct, frozen=True, gc=False):
    """What a lease took from one partition, with the messages themselves."""

    taken: Taken
    columns: Columns

    def to_messages(self, queue: Settler | None, late: LateAcks | None = None) -> list[Received]:
        taken = self.taken
        ids = (taken.topic, taken.topic_id, taken.partition, taken.group, taken.group_id, taken.lease)
        delivery = Delivery(*ids, queue, late)
        return to_received(self.columns, delivery, taken.attempts)
