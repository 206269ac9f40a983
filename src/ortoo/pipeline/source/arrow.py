"""From columns to Arrow, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ortoo.model.history import HistoryColumns, expand, group_name
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import Columns, join_columns
from ortoo.model.topic import DEFAULT_PRIORITY

from .origin import Range, StoredHistory
from .schema import HEADERS, Column

ROWS = 10_000  # of a batch, about: fewer cost Spark more than they hold
BYTES = 16 << 20  # of its values, about: more would only take room

_TIME = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": _TIME,
    HEADERS: pa.list_(pa.field("element", _HEADER)),
}

# What the dead-letter queue writes about each letter, and the column that tells it.
_LETTER = {
    "origin": "ortoo-origin",
    "origin_group": "ortoo-group",
    "reason": "ortoo-reason",
    "attempts": "ortoo-attempts",
    "error": "ortoo-error",
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, _TYPES[column.type]) for column in columns])


def message_batches(parts: Iterable[Columns], where: Range, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    for rows in _gathered(parts):
        yield pa.record_batch([_MESSAGE[column.name](rows, where) for column in columns], schema)


def _gathered(parts: Iterable[Columns]) -> Iterator[Columns]:
    """Put together until they make a batch."""
    held: list[Columns] = []
    count = size = 0
    for part in parts:
        held.append(part)
        count += len(part)
        size += sum(map(len, part.values))
        if count >= ROWS or size >= BYTES:
            yield join_columns(held)
            held, count, size = [], 0, 0
    if count:
        yield join_columns(held)


def _times(milliseconds: list[int]) -> pa.Array:
    return pa.array(np.array(milliseconds, np.int64) * 1000).view(_TIME)


def _ids(offsets: pa.Array, where: Range) -> pa.Array:
    return pc.binary_join_element_wise(f"{where.topic_id}.{where.partition}", offsets.cast(pa.string()), ".")


def _constant(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _offsets(rows: Columns) -> pa.Array:
    first, last = rows.offsets[0], rows.offsets[-1]
    if last - first + 1 == len(rows):  # none was deleted
        return pa.array(np.arange(first, last + 1, dtype=np.int64))
    return pa.array(rows.offsets, pa.int64())


def _keys(rows: Columns) -> pa.Array:
    return pa.nulls(len(rows), pa.binary()) if rows.keys is None else pa.array(rows.keys, pa.string()).cast(pa.binary())


def _headers(rows: Columns) -> pa.Array:
    """Null where a message has none."""
    kind = _TYPES[HEADERS]
    if rows.headers is None:
        return pa.nulls(len(rows), kind)
    given = [headers or {} for headers in rows.headers]
    counts = np.fromiter(map(len, given), np.int32, len(given))
    ends = np.concatenate([np.zeros(1, np.int32), counts.cumsum(dtype=np.int32)])
    names = pa.array(list(chain.from_iterable(given)), pa.string())
    values = pa.array([value for one in given for value in one.values()], pa.string()).cast(pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    starts = pa.array(ends, pa.int32(), mask=np.append(counts == 0, False))
    return pa.ListArray.from_arrays(starts, pairs, type=kind)


def _priorities(rows: Columns) -> pa.Array:
    if rows.priorities is None:
        return _constant(DEFAULT_PRIORITY, pa.int32(), len(rows))
    return pa.array(rows.priorities, pa.int32())


def _json(rows: Columns) -> pa.Array:
    return _constant(False, pa.bool_(), len(rows)) if rows.json is None else pa.array(rows.json, pa.bool_())


def _publishers(rows: Columns) -> pa.Array:
    if isinstance(rows.publishers, list):
        return pa.array(rows.publishers, pa.string())
    return _constant(rows.publishers, pa.string(), len(rows))


def _letter(name: str) -> Callable[[Columns, Range], pa.Array]:
    header = _LETTER[name]

    def column(rows: Columns, where: Range) -> pa.Array:
        values = [(headers or {}).get(header) for headers in rows.headers or [None] * len(rows)]
        array = pa.array(values, pa.string())
        return array.cast(pa.int32()) if name == "attempts" else array

    return column


_MESSAGE: dict[str, Callable[[Columns, Range], pa.Array]] = {
    "key": lambda rows, where: _keys(rows),
    "value": lambda rows, where: pa.array(rows.values, pa.binary()),
    "topic": lambda rows, where: _constant(where.topic, pa.string(), len(rows)),
    "partition": lambda rows, where: _constant(where.partition, pa.int32(), len(rows)),
    "offset": lambda rows, where: _offsets(rows),
    "timestamp": lambda rows, where: _times(rows.timestamps),
    "headers": lambda rows, where: _headers(rows),
    "priority": lambda rows, where: _priorities(rows),
    "id": lambda rows, where: _ids(_offsets(rows), where),
    "json": lambda rows, where: _json(rows),
    "publisher": lambda rows, where: _publishers(rows),
    **{name: _letter(name) for name in _LETTER},
}


def history_batches(
    parts: Iterable[StoredHistory], where: Range, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    for part in parts:
        for start, records in _runs(part):
            rows = _Rows(expand(records, start), part.groups)
            yield pa.record_batch([_HISTORY[column.name](rows, where) for column in columns], schema)


class _Rows(NamedTuple):
    columns: HistoryColumns
    groups: dict[int, str]


def _runs(part: StoredHistory) -> Iterator[tuple[int, list[HistoryRecord]]]:
    """One record may speak of thousands of messages: as many as make a batch, and the number of the first."""
    start = count = 0
    for at, record in enumerate(part.records):
        count += len(record.offsets)
        if count >= ROWS or at == len(part.records) - 1:
            yield part.start + start, part.records[start : at + 1]
            start, count = at + 1, 0


def _maybe_times(milliseconds: list[int | None]) -> pa.Array:
    return pc.multiply(pa.array(milliseconds, pa.int64()), 1000).view(_TIME)


def _plain(name: str, kind: pa.DataType) -> Callable[[_Rows, Range], pa.Array]:
    def column(rows: _Rows, where: Range) -> pa.Array:
        values: list[Any] = getattr(rows.columns, name)
        return pa.array(values, kind)

    return column


def _groups(rows: _Rows) -> pa.Array:
    names = {group: group_name(rows.groups, group) for group in set(rows.columns.group_ids)}
    return pa.array([names[group] for group in rows.columns.group_ids], pa.string())


_HISTORY: dict[str, Callable[[_Rows, Range], pa.Array]] = {
    "position": _plain("positions", pa.int64()),
    "topic": lambda rows, where: _constant(where.topic, pa.string(), len(rows.columns)),
    "partition": lambda rows, where: _constant(where.partition, pa.int32(), len(rows.columns)),
    "offset": _plain("offsets", pa.int64()),
    "id": lambda rows, where: _ids(pa.array(rows.columns.offsets, pa.int64()), where),
    "timestamp": lambda rows, where: _times(rows.columns.times),
    "event": _plain("events", pa.string()),
    "group": lambda rows, where: _groups(rows),
    "consumer": _plain("consumers", pa.string()),
    "lease": _plain("leases", pa.int64()),
    "reason": _plain("reasons", pa.string()),
    "error": _plain("errors", pa.string()),
    "due": lambda rows, where: _maybe_times(rows.columns.dues),
}
