"""A commit, as one call of the function `append`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ortoo.model import records as r
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord, encode_records
from ortoo.stores.disk.commit import encode_commit
from ortoo.stores.disk.crypto import KeyRing, Sealed

from .catalog import Catalog, Small, bounds, is_small
from .rows import Row, encode_row, in_rows, in_stretches, of_records
from .shells import shell_of

APPEND = f"select append({', '.join(f'${at}' for at in range(1, 34))})"
STAGED = 256  # a flag of a commit: it has something that was staged
_NO_HISTORY: tuple[list[Any], ...] = tuple([] for _ in range(9))
_APART = (
    "gaps",
    "commit",
    "ends",
    "body",
)  # what a new row has none of, what all of them share, and what is sent as one
_SENT = [at for at, name in enumerate(Row._fields) if name not in _APART]


class HistoryRow(NamedTuple):
    topic: int
    partition: int
    number: int
    events: int
    first: int
    last: int
    key_name: str | None
    nonce: bytes | None
    records: bytes


class Commit(NamedTuple):
    number: int
    arguments: tuple[Any, ...]  # of the function, behind the term
    rows: list[Row]
    histories: list[HistoryRow]
    size: int

    def told(self) -> tuple[int, int, bytes]:
        """As a row of the table `commits`: its number, flags, records."""
        number, _, flags, body = self.arguments[:4]
        return number, flags, body

    def softly(self) -> Commit:
        """The same, for who makes it durable later."""
        number, _, *rest = self.arguments
        return self._replace(arguments=(number, True, *rest))

    def note(self, catalog: Catalog) -> None:
        """Rows that are worth merging, now that they are there."""
        for row in self.rows:
            if is_small(row.messages, row.size):
                small = catalog.log(TopicId(row.topic), row.partition).small
                small.append(Small(row.base, row.until, row.messages, row.size, self.number))
        for one in self.histories:
            small = catalog.history(TopicId(one.topic), one.partition).small
            small.append(Small(one.number, one.number + one.events, one.events, len(one.records), self.number))


def encode(number: int, records: Sequence[r.Record], soft: bool, catalog: Catalog, ring: KeyRing) -> Commit:
    rows: list[Row] = []
    for stretch in in_stretches([record for record in records if type(record) is r.Published]):
        topic, partition = stretch[0].topic, stretch[0].partition
        sealing = ring if catalog.is_secret(topic) else None
        rows += [encode_row(topic, partition, one, sealing) for one in in_rows(of_records(stretch, number))]
    histories = list(_history(records, catalog, ring))
    shells = [shell_of(record) for record in records]
    _, body, flags = encode_commit(number, shells, catalog.secret_topic, ring)
    if any(type(record) is r.Staged for record in records):
        flags |= STAGED
    happened = [list(one) for one in zip(*histories, strict=True)] if histories else _NO_HISTORY
    size = len(body) + sum([row.size for row in rows])
    return Commit(number, (number, soft, flags, body, *_columns(rows), *happened), rows, histories, size)


def _columns(rows: Sequence[Row]) -> list[Any]:
    """Each field as an array. Bodies and ends are sent as one each, with where those of a row begin: to take arrays of large
    values apart costs more than all the rest."""
    columns: list[Any] = [[row[at] for row in rows] for at in _SENT]
    bodies, ends = [row.body for row in rows], [row.ends or b"" for row in rows]
    sizes, lengths = list(map(len, bodies)), list(map(len, ends))
    return [*columns, _joined(bodies), _starts(sizes), sizes, _joined(ends), _starts(lengths)]


def commit_of(arguments: Sequence[Any]) -> Commit:
    """From what the function is given."""
    number, _, _, body, *rest = arguments
    columns, happened = rest[: -len(_NO_HISTORY)], rest[-len(_NO_HISTORY) :]
    rows = list(_rows(number, columns))
    histories = [HistoryRow(*one) for one in zip(*happened, strict=True)]
    return Commit(number, tuple(arguments), rows, histories, len(body) + sum([row.size for row in rows]))


def _rows(number: int, columns: Sequence[Any]) -> Iterator[Row]:
    """The other way round than `_columns`."""
    *sent, bodies, starts, sizes, ends, ends_at = columns
    for at in range(len(starts)):
        fields = {Row._fields[place]: column[at] for place, column in zip(_SENT, sent, strict=True)}
        mine = ends[ends_at[at] : ends_at[at] + 4 * fields["messages"]] if fields["key_name"] is None else None
        body = bodies[starts[at] : starts[at] + sizes[at]]
        yield Row(**fields, gaps=None, commit=number, ends=mine, body=body)


def _joined(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _starts(sizes: list[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]


def _history(records: Sequence[r.Record], catalog: Catalog, ring: KeyRing) -> list[HistoryRow]:
    """One row for each partition that the commit speaks of."""
    found: dict[tuple[TopicId, int], list[HistoryRecord]] = {}
    for record in records:
        if isinstance(record, r.HISTORY_RECORDS):
            found.setdefault((record.topic, record.partition), []).append(record)
    rows = []
    for (topic, partition), some in found.items():
        known = catalog.histories.get((topic, partition))
        number = 0 if known is None else known.end
        rows.append(history_row(topic, partition, number, some, ring if catalog.is_secret(topic) else None))
    return rows


def history_row(
    topic: int, partition: int, number: int, records: list[HistoryRecord], ring: KeyRing | None
) -> HistoryRow:
    """`ring` where the topic is encrypted."""
    data, sealed = encode_records(list(records)), None
    if ring is not None:
        sealed, data = ring.seal(data, history_context(topic, partition, number))
    key = Sealed("", b"") if sealed is None else sealed
    place = (topic, partition, number, len(records), *bounds(records))
    return HistoryRow(*place, key.key or None, key.nonce or None, data)


def history_context(topic: int, partition: int, number: int) -> bytes:
    """Binds encrypted history to its place."""
    return f"history rows {topic}.{partition}.{number}".encode()
