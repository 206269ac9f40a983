"""A partition's history as rows: what each record says of each of its messages, in the words of a trace.

Histories are long, so this goes record by record, never message by message: a record's words are the same for all of its
messages.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from . import records as r
from .replies import HistoryPage, TraceKind

_EVENTS: dict[type, TraceKind] = {
    r.Leased: "delivered",
    r.Acked: "acknowledged",
    r.Released: "released",
    r.Dropped: "dropped",
    r.DeadLettered: "dead-lettered",
    r.Redriven: "redriven",
    r.Hastened: "retried now",
    r.Deleted: "deleted",
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
        columns.reasons.extend([reason_of(record)] * count)
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


def to_events(page: HistoryPage) -> list[HistoryEvent]:
    columns = expand(r.decode_history(page.records), page.start)
    names = {group: group_name(page.groups, group) for group in set(columns.group_ids)}
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
