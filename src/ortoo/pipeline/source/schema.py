"""The tables and their columns. Names and types are those of Spark's Kafka source, where it has the column."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from ortoo.model.errors import InvalidError


class Column(NamedTuple):
    name: str
    ddl: str  # as Spark writes the type
    arrow: pa.DataType


TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))

_BINARY, _STRING = ("binary", pa.binary()), ("string", pa.string())
_INT, _LONG = ("int", pa.int32()), ("bigint", pa.int64())
_TIME = ("timestamp", TIMESTAMP)

_MESSAGES = (
    Column("key", *_BINARY),
    Column("value", *_BINARY),
    Column("topic", *_STRING),
    Column("partition", *_INT),
    Column("offset", *_LONG),
    Column("timestamp", *_TIME),
    Column("headers", "array<struct<key:string,value:binary>>", HEADERS),
    Column("priority", *_INT),
    Column("id", *_STRING),
)
_DEAD_LETTERS = (
    *_MESSAGES,
    Column("origin", *_STRING),
    Column("origin_group", *_STRING),
    Column("reason", *_STRING),
    Column("attempts", *_INT),
    Column("error", *_STRING),
)
_HISTORY = (
    Column("position", *_LONG),
    Column("topic", *_STRING),
    Column("partition", *_INT),
    Column("offset", *_LONG),
    Column("id", *_STRING),
    Column("timestamp", *_TIME),
    Column("event", *_STRING),
    Column("group", *_STRING),
    Column("consumer", *_STRING),
    Column("lease", *_LONG),
    Column("reason", *_STRING),
    Column("error", *_STRING),
    Column("due", *_TIME),
)
TABLES = {"messages": _MESSAGES, "history": _HISTORY, "dead_letters": _DEAD_LETTERS}
_ON_DEMAND = (Column("json", "boolean", pa.bool_()),)  # only who names it gets it


def ddl(table: str, headers: bool = True) -> str:
    return ", ".join(f"`{column.name}` {column.ddl}" for column in TABLES[table] if headers or column.name != "headers")


def chosen(table: str, schema: StructType) -> tuple[Column, ...]:
    """The columns that a user's schema names: Spark hands no projection down, so this is the way to read less."""
    known = {column.name: column for column in TABLES[table]}
    if table != "history":
        known |= {column.name: column for column in _ON_DEMAND}
    columns = []
    for field in schema.fields:
        column = known.get(field.name)
        if column is None:
            close = get_close_matches(field.name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise InvalidError(f"table {table!r} has no column {field.name!r}; {hint}")
        if field.dataType.simpleString() != column.ddl:
            raise InvalidError(
                f"column {field.name!r} is {column.ddl}, not {field.dataType.simpleString()}; cast it afterwards"
            )
        columns.append(column)
    if not columns:
        raise InvalidError(f"the schema names no column; table {table!r} has {', '.join(known)}")
    return tuple(columns)
