"""What happened, in the past tense. State is a fold over records; a store keeps them; a trace is a query over them.

Records carry effects, never intentions: offsets, instants and numbers are already decided, so replaying cannot diverge.
Every record names the instant `at` (ms since the epoch) and, where it has one, the topic's incarnation.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .batch import Batch
from .decoding import decode_stored
from .latest import Superseded as Superseded  # noqa: PLC0414 - given on
from .names import GroupId, LeaseId, MessageRef, TopicId
from .namespaces import NamespaceChanged as NamespaceChanged  # noqa: PLC0414 - given on
from .namespaces import NamespaceDeleted as NamespaceDeleted  # noqa: PLC0414 - given on
from .offsets import OffsetSet
from .pausing import GroupPaused as GroupPaused  # noqa: PLC0414 - given on
from .pausing import GroupResumed as GroupResumed  # noqa: PLC0414 - given on
from .publishers import Publishers
from .topic import TopicConfig
from .transactions import CommitAdvanced as CommitAdvanced  # noqa: PLC0414 - given on
from .transactions import CommitBegan as CommitBegan  # noqa: PLC0414 - given on
from .transactions import Staged as Staged  # noqa: PLC0414 - given on
from .transactions import TransactionBegan as TransactionBegan  # noqa: PLC0414 - given on
from .transactions import TransactionEnded as TransactionEnded  # noqa: PLC0414 - given on

RetryReason = Literal["nack", "expired"]
ReleaseReason = Literal["release", "revoked", "left"]
DeathReason = Literal["attempts", "timeout", "rejected", "ttl", "max_wait", "moved", "superseded"]


class Opened(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An owner took the queue; lease numbers begin under its epoch, where `leases_from` tells."""

    at: int
    epoch: int


class LogIndex(msgspec.Struct, frozen=True, array_like=True):
    """What a partition's log tells of itself: instants, key hashes, dedup ids that may still count."""

    topic: TopicId
    partition: int
    offsets: bytes  # of the first message of each instant; 8 bytes each, as machine integers
    times: bytes
    sizes: list[int]  # bytes published at each instant
    keys: list[tuple[int, int, bytes | None]]  # base, count, hashes
    dedup_ids: list[tuple[str, int, int]]  # id, instant, offset


class Restored(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A checkpoint: stands for every record before it. Only ever the first that a store recovers."""

    at: int
    snapshot: bytes
    logs: list[LogIndex]
    secrets: list[tuple[int, bytes]] = []  # by topic: what an encrypted one has that must not lie in a snapshot


class TopicCreated(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    namespace: str
    name: str
    config: TopicConfig


class TopicChanged(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    config: TopicConfig


class TopicDeleted(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId


class TopicPurged(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId


class Archived(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Messages below these offsets, one per partition, are kept elsewhere."""

    at: int
    topic: TopicId
    ends: list[int]


class GroupCreated(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId
    name: str
    cursors: list[int]  # one per partition
    ephemeral: bool = False


class GroupDeleted(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId


class GroupSought(msgspec.Struct, frozen=True, tag=True, gc=False):
    """With `untils`, [cursor, until) of each partition became deliverable again; without, the group moved to the cursors."""

    at: int
    topic: TopicId
    group: GroupId
    cursors: list[int]
    untils: list[int] | None = None


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Where a copied message came from, and why it was copied."""

    message: MessageRef
    group: str
    reason: str
    attempts: int
    error: str | None


class Published(msgspec.Struct, frozen=True, tag=True, gc=False, omit_defaults=True):
    """Messages were appended. A copy's values are filled in from its origins by the broker before the record is stored."""

    at: int
    topic: TopicId
    partition: int
    base: int
    count: int
    size: int  # of values, keys and headers together
    batch: Batch
    key_hashes: bytes | None = None  # 8 bytes a message, where the topic is in key order and some have keys
    origins: list[Origin] | None = None
    only_group: GroupId | None = None  # a redriven copy whose original was trimmed is seen by this group only
    publishers: Publishers | None = None  # a copy has that of its original


class Leased(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId
    partition: int
    lease: LeaseId
    consumer: str
    until: int
    offsets: OffsetSet


class Extended(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId
    lease: LeaseId
    until: int


class Acked(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId
    partition: int
    lease: LeaseId
    offsets: OffsetSet


class Retried(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Deliveries failed and count as attempts; each message comes back at its due time."""

    at: int
    topic: TopicId
    group: GroupId
    partition: int
    lease: LeaseId
    offsets: list[int]
    dues: list[int]
    first: int  # when this lease was granted: the first delivery of those that had not failed before
    reason: RetryReason
    error: str | None = None


class Released(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Deliveries ended without counting as attempts."""

    at: int
    topic: TopicId
    group: GroupId
    partition: int
    lease: LeaseId
    offsets: OffsetSet
    reason: ReleaseReason


class Dropped(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The group gave these up, and no dead letter was wanted."""

    at: int
    topic: TopicId
    group: GroupId
    partition: int
    offsets: OffsetSet
    reason: DeathReason
    error: str | None = None


class DeadLettered(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The group gave these up; their copies were appended to a dead-letter topic from `copy` on, in the same order."""

    at: int
    topic: TopicId
    group: GroupId
    partition: int
    offsets: OffsetSet
    reason: DeathReason
    copy: MessageRef
    error: str | None = None


class Redriven(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId
    partition: int
    offsets: OffsetSet


class Hastened(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Messages that were delayed, waiting for a retry or leased became deliverable at once."""

    at: int
    topic: TopicId
    group: GroupId
    partition: int
    offsets: OffsetSet


class Deleted(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    partition: int
    offsets: OffsetSet


class CameDue(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Delays ran out by `at`: those of the partition, or with a group the retries of that group in it.

    With `upto`, an instant and an offset, only those up to there in that order: the rest follows.
    """

    at: int
    topic: TopicId
    partition: int
    group: GroupId | None = None
    upto: tuple[int, int] | None = None


class Expired(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Times to live ran out by `at`; what each group still had of them follows as Dropped or DeadLettered.

    With `upto`, an instant and an item of the wheel, only those up to there in that order: the rest follows.
    """

    at: int
    topic: TopicId
    partition: int
    upto: tuple[int, int] | None = None


class WindowClosed(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId


class Trimmed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Retention moved the start of a partition."""

    at: int
    topic: TopicId
    partition: int
    start: int


class Skipped(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Retention removed these before the group had settled them."""

    at: int
    topic: TopicId
    group: GroupId
    partition: int
    offsets: OffsetSet


class Quarantined(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A store cannot vouch for a partition: it is neither read nor written until it is repaired. Never stored itself."""

    at: int
    topic: TopicId
    partition: int
    reason: str


class Answered(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A numbered command was answered; see Once. In one commit with what it made happen."""

    at: int
    producer: str
    sequence: int
    done_below: int
    answer: bytes


Record = (
    Opened
    | Restored
    | TopicCreated
    | TopicChanged
    | TopicDeleted
    | TopicPurged
    | Archived
    | GroupCreated
    | GroupDeleted
    | GroupSought
    | GroupPaused
    | GroupResumed
    | Published
    | Leased
    | Extended
    | Acked
    | Retried
    | Released
    | Dropped
    | DeadLettered
    | Redriven
    | Hastened
    | Deleted
    | Superseded
    | CameDue
    | Expired
    | WindowClosed
    | Trimmed
    | Skipped
    | Quarantined
    | TransactionBegan
    | Staged
    | CommitBegan
    | CommitAdvanced
    | TransactionEnded
    | NamespaceChanged
    | NamespaceDeleted
    | Answered
)

# What happened to single messages in a partition: what a store's history answers with.
HISTORY_RECORDS = (
    Leased, Acked, Retried, Released, Dropped, DeadLettered, Redriven, Hastened, Deleted, Superseded, Skipped
)  # fmt: skip
HistoryRecord = (
    Leased | Acked | Retried | Released | Dropped | DeadLettered | Redriven | Hastened | Deleted | Superseded | Skipped
)


def _to_plain(value: object) -> object:
    if isinstance(value, OffsetSet):
        return value.to_bytes()
    raise NotImplementedError(f"records hold no {type(value).__name__}")


def from_plain(kind: type, value: object) -> object:
    """What msgspec asks when it meets a type that is not its own."""
    if kind is OffsetSet and isinstance(value, bytes):
        return OffsetSet.from_bytes(value)
    raise TypeError(f"{kind.__name__} is written as bytes")


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_plain)
_decoder = msgspec.msgpack.Decoder(list[Record], dec_hook=from_plain)
_history_decoder = msgspec.msgpack.Decoder(list[HistoryRecord], dec_hook=from_plain)


def encode_records(records: list[Record]) -> bytes:
    return _encoder.encode(records)


def decode_records(data: bytes | bytearray | memoryview) -> list[Record]:
    """CorruptionError when the bytes are not what encode_records gave."""
    return decode_stored(_decoder, data, "a list of records")


def decode_history(data: bytes) -> list[HistoryRecord]:
    return decode_stored(_history_decoder, data, "a history")
