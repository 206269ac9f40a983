"""How the hard state is written: the shapes of a snapshot."""

from __future__ import annotations

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.namespaces import Quota
from ortoo.model.topic import TopicConfig

from .leases import LeaseDump

DedupId = tuple[str, int, int, int]  # id, instant, partition, offset


class WheelDump(msgspec.Struct, array_like=True):
    now: int
    pairs: bytes


class PartitionDump(msgspec.Struct, array_like=True):
    start: int
    end: int
    windowed: int | None
    bytes_total: int
    delayed: bytes
    delays: WheelDump
    expired: bytes
    evicted: bytes
    expiries: WheelDump
    deleted: bytes
    private: dict[int, int]
    lanes: dict[int, bytes]
    delayed_then_due: list[tuple[int, ...]]  # due, first offset, last offset; an early version wrote a pair a message
    archived: int = 0
    trimmed_at: int | None = None  # unknown where an early version wrote it
    bytes_gone: int = 0
    empties: bytes | None = None
    bytes_cut: int = 0


class FeedDump(msgspec.Struct, array_like=True):
    cursor: int
    open: bytes
    dead: bytes
    retrying: bytes
    due_early: bytes
    failures: bytes  # offset, attempts, first, due; offset, ...
    skipped: int
    ahead: bytes | None = None


class GroupDump(msgspec.Struct, array_like=True):
    id: int
    name: str
    ephemeral: bool
    feeds: list[FeedDump]
    leases: list[LeaseDump]
    settled: list[msgspec.Raw]  # of the same shape
    paused: tuple[int | None, str | None, int] | None = None  # until, reason, since


class TopicDump(msgspec.Struct, array_like=True):
    id: int
    namespace: str
    name: str
    created: int
    config: TopicConfig
    partitions: list[PartitionDump]
    groups: list[GroupDump]
    next_partition: int
    window_since: int | None
    window_count: int
    dedup_ids: list[DedupId]  # of messages that the log no longer has
    dedup_forgotten: int = 0
    dedup_ends: list[int] = []


class CommitDump(msgspec.Struct, array_like=True):
    """Of a transaction whose commit has begun."""

    namespace: str
    name: str
    parts: list[str] | None
    topics: dict[int, int]
    number: int
    row: int
    firsts: list[tuple[int, int, int]]


class StateDump(msgspec.Struct, array_like=True):
    now: int
    epoch: int
    number: int
    topics: list[TopicDump]
    transactions: list[tuple[str, str, int]]  # what was staged comes from the log
    ended: list[tuple[str, str, int, bool]]
    producers: list[tuple[str, int, int, dict[int, bytes]]] = []  # at, done_below, answers
    commits: list[CommitDump] = []
    namespaces: list[tuple[str, Quota]] = []


_decoder = msgspec.msgpack.Decoder(StateDump)


def peek(data: bytes) -> StateDump:
    """What a snapshot says, for one who only wants to know."""
    return decode_stored(_decoder, data, "the snapshot of the state")
