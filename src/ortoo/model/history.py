"""A partition's history as rows: what each record says of each of its messages, in the words of a trace.

Histories are long, so this goes record by record, never message by message: a record's words are the same for all of its
messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from . import records as r
from .decoding import decode_stored
from .replies import TraceKind

_EVENTS: dict[type, TraceKind] = {
    r.Leased: "delivered",
    r.Acked: "acknowledged",
    r.Released: "released",
    r.Dropped: "dropped",
    r.DeadLettered: "dead-lettered",
    r.Redriven: "redriven",
    r.Hastened: "retried now",
    r.Deleted: "deleted",
    r.Superseded: "superseded",
    r.Skipped: "skipped",
}
_FAILURES: dict[r.RetryReason, TraceKind] = {"nack": "nacked", "expired": "lease expired"}


def event_of(record: r.HistoryRecord) -> TraceKind:
    return _FAILURES[record.reason] if isinstance(record, r.Retried) else _EVENTS[type(record)]


def reason_of(record: r.HistoryRecord) -> str | None:
    if isinstance(record, r.Skipped):
        return "retention"
    return getattr(record, "reason", None)


def group_name(names: Mapping[int, str], group: int | None) -> str | None:
    return None if group is None else names.get(group, f"(deleted group {group})")


class HistoryColumns(msgspec.Struct, frozen=True):
    """Rows in the order of their records, and of the offsets within each; one for each message of each record."""

    positions: list[int]  # the record's number
    offsets: list[int]
    times: list[int]  # ms since the epoch
    events: list[TraceKind]
    group_ids: list[int | None]
    consumers: list[str | None]
    leases: list[int | None]
    reasons: list[str | None]
    errors: list[str | None]
    dues: list[int | None]  # ms: when the lease runs out, or when what failed comes back

    def __len__(self) -> int:
        return len(self.offsets)


def expand(records: list[r.HistoryRecord], start: int) -> HistoryColumns:
    """`start` is the number of the first record."""
    columns = HistoryColumns([], [], [], [], [], [], [], [], [], [])
    for position, record in enumerate(records, start):
        offsets = record.offsets if isinstance(record, r.Retried) else record.offsets.to_array().tolist()
        count = len(offsets)
        columns.positions.extend([position] * count)
        columns.offsets.extend(offsets)
        columns.times.extend([record.at] * count)
        columns.events.extend([event_of(record)] * count)
        columns.group_ids.extend([getattr(record, "group", None)] * count)
        columns.consumers.extend([getattr(record, "consumer", None)] * count)
        columns.leases.extend([getattr(record, "lease", None)] * count)
        columns.reasons.extend(record.refs() if isinstance(record, r.Superseded) else [reason_of(record)] * count)
        columns.errors.extend([getattr(record, "error", None)] * count)
        columns.dues.extend(record.dues if isinstance(record, r.Retried) else [getattr(record, "until", None)] * count)
    return columns


class HistoryEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened to one message. Several may share a position: those that happened together."""

    position: int
    offset: int
    time: float
    what: TraceKind
    group: str | None = None
    consumer: str | None = None
    lease: int | None = None
    reason: str | None = None
    error: str | None = None
    until: float | None = None


def to_events(records: list[r.HistoryRecord], start: int, groups: Mapping[int, str]) -> list[HistoryEvent]:
    """`start` is the number of the first record, `groups` are the names of those that are there still."""
    columns = expand(records, start)
    names = {group: group_name(groups, group) for group in set(columns.group_ids)}
    return list(
        map(
            HistoryEvent,
            columns.positions,
            columns.offsets,
            [time / 1000 for time in columns.times],
            columns.events,
            [names[group] for group in columns.group_ids],
            columns.consumers,
            columns.leases,
            columns.reasons,
            columns.errors,
            [None if due is None else due / 1000 for due in columns.dues],
        )
    )


def first_records(records: Iterable[r.HistoryRecord], most: int) -> list[r.HistoryRecord]:
    """Those that speak of so many messages together, and no more; but one at least. They stay whole, for who goes on does so
    behind the last position it was told."""
    found: list[r.HistoryRecord] = []
    count = 0
    for record in records:
        count += len(record.offsets)
        if found and count > most:
            break
        found.append(record)
    return found


def split(record: r.HistoryRecord, most: int) -> Iterator[r.HistoryRecord]:
    """The same in parts of at most so many messages: it may speak of millions."""
    count = len(record.offsets)
    if count <= most:
        yield record
        return
    for start in range(0, count, most):
        part: dict[str, object] = {"offsets": record.offsets[start : start + most]}
        if isinstance(record, r.Retried):
            part["dues"] = record.dues[start : start + most]
        elif isinstance(record, r.Superseded):
            part["by"] = record.by[start : start + most]
        yield msgspec.structs.replace(record, **part)


_ONE = b"\x91"  # how a list of one begins
_pieces_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])


def encode_record(record: r.HistoryRecord) -> bytes:
    return r.encode_records([record])[len(_ONE) :]


def join_encoded(records: list[bytes]) -> bytes:
    """What encode_records gives for all of them."""
    return msgspec.msgpack.encode(list(map(msgspec.Raw, records)))


def each_of(data: bytes) -> Iterator[r.HistoryRecord]:
    """The records of a page one by one, for whoever may not need them all."""
    for piece in decode_stored(_pieces_decoder, data, "a history"):
        yield r.decode_history(_ONE + bytes(piece))[0]
