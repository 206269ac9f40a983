"""Rows of Arrow batches as columns of messages, ready to be staged. Nothing here looks at a row by itself that need not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ortoo.model import limits
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.errors import InvalidError
from ortoo.model.message import PRIORITY_NAMES
from ortoo.model.topic import DEFAULT_PRIORITY

from .columns import Column

PIECE_BYTES_MAX = 4 * 1024 * 1024  # of one request; several are under way at a time


class Piece(NamedTuple):
    topic: str
    batch: Outgoing


def to_pieces(batch: pa.RecordBatch, columns: list[Column], topic: str | None) -> Iterator[Piece]:
    """`topic` is the one for all rows; None when each row names its own."""
    if batch.num_rows == 0:
        return
    found = {column.name: batch.column(column.place) for column in columns}
    rows = pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
    if topic is not None:
        yield from _cut(topic, rows)
        return
    for name, part in _by_topic(rows):
        yield from _cut(name, part)


def _by_topic(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    topics = rows.column("topic")
    if topics.null_count:
        raise InvalidError("a row's topic is null; fill the column 'topic', or give the option 'topic' for all rows")
    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))


def _cut(topic: str, rows: pa.RecordBatch) -> Iterator[Piece]:
    """In halves, until each fits into a request."""
    if rows.num_rows <= limits.BATCH_MESSAGES_MAX and (rows.nbytes <= PIECE_BYTES_MAX or rows.num_rows == 1):
        yield Piece(topic, _to_outgoing(rows))
        return
    half = rows.num_rows // 2
    yield from _cut(topic, rows.slice(0, half))
    yield from _cut(topic, rows.slice(half))


def _to_outgoing(rows: pa.RecordBatch) -> Outgoing:
    names = rows.schema.names
    values = rows.column("value")
    if values.null_count:
        raise InvalidError(_null_value(rows))
    columns: dict[str, list[Any]] = {}
    for name, (field, convert) in _CONVERSIONS.items():
        if name in names:
            column = rows.column(name)
            if column.null_count < len(column):  # a column that no message uses does not exist
                columns[field] = convert(column)
    outgoing = Outgoing(values.cast(pa.binary()).to_pylist(), **columns)
    check_outgoing(outgoing)
    return outgoing


def _null_value(rows: pa.RecordBatch) -> str:
    which = ""
    if "key" in rows.schema.names:
        first = pc.index(pc.is_null(rows.column("value")), True).as_py()
        which = f" (key {rows.column('key')[first].as_py()!r})"
    return (
        f"value is null in a row{which}; a message always has a value: "
        "use coalesce(value, '') for an empty one, or leave the row out"
    )


def _keys(column: pa.Array) -> list[str | None]:
    try:
        keys: list[str | None] = column.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:
        raise InvalidError("a key is not UTF-8; keys are text, use hex(key) or base64(key)") from None
    return keys


def _headers(column: pa.Array) -> list[dict[str, str] | None]:
    if pa.types.is_map(column.type):
        return [_named(pairs) if pairs else None for pairs in column.to_pylist()]
    key, value = (_field(column.type.value_type, name) for name in ("key", "value"))
    listed = ([(header[key], header[value]) for header in headers or ()] for headers in _structs(column))
    return [_named(pairs) if pairs else None for pairs in listed]


def _field(struct: pa.StructType, wanted: str) -> str:
    return next(str(field.name) for field in struct if field.name.lower() == wanted)


def _structs(column: pa.Array) -> list[list[dict[str, Any]] | None]:
    lists: list[list[dict[str, Any]] | None] = column.to_pylist()
    if any(header is None for headers in lists for header in headers or ()):
        raise InvalidError("a header is null; use array_compact(headers)")
    return lists


def _named(pairs: list[tuple[str | None, str | bytes | None]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        if name is None or value is None:
            raise InvalidError(f"header {name!r} is null; a header has a name and a value")
        if name in headers:
            raise InvalidError(f"header {name!r} is there twice; a message has one header of a name")
        try:
            headers[name] = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            raise InvalidError(f"header {name!r} is not UTF-8; headers are text, use hex or base64") from None
    return headers


def _priorities(column: pa.Array) -> list[int]:
    if pa.types.is_integer(column.type):
        numbers: list[int] = pc.fill_null(column, DEFAULT_PRIORITY).to_pylist()
        return numbers
    return [DEFAULT_PRIORITY if priority is None else _priority(priority) for priority in column.to_pylist()]


def _priority(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    if text.lower() not in PRIORITY_NAMES:
        raise InvalidError(f"priority is a number or one of {', '.join(PRIORITY_NAMES)}, not {text!r}")
    return PRIORITY_NAMES[text.lower()]


def _seconds(column: pa.Array) -> list[float | None]:
    seconds: list[float | None]
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        seconds = pc.divide(micros.cast(pa.float64(), safe=False), 1e6).to_pylist()
    else:
        seconds = column.cast(pa.float64(), safe=False).to_pylist()
    return seconds


def _numbers(column: pa.Array) -> list[int | None]:
    numbers: list[int | None] = column.to_pylist()
    return numbers


_CONVERSIONS: dict[str, tuple[str, Callable[[pa.Array], list[Any]]]] = {
    "key": ("keys", _keys),
    "headers": ("headers", _headers),
    "priority": ("priorities", _priorities),
    "delay": ("delays", _seconds),
    "deliver_at": ("deliver_ats", _seconds),
    "ttl": ("ttls", _seconds),
    "partition": ("partitions", _numbers),
}
