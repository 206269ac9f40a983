"""The tables and their columns. Names and types are those of Spark's Kafka source, where it has the column."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from ortoo.model.errors import InvalidError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Column(NamedTuple):
    name: str
    type: str  # as Spark writes it


HEADERS = "array<struct<key:string,value:binary>>"

_OWN = (
    Column("key", "binary"),
    Column("value", "binary"),
    Column("topic", "string"),
    Column("partition", "int"),
    Column("offset", "bigint"),
    Column("timestamp", "timestamp"),
    Column("headers", HEADERS),
    Column("priority", "int"),
    Column("id", "string"),
)
_PUBLISHER = Column("publisher", "string")
_MESSAGES = (*_OWN, _PUBLISHER)
_DEAD_LETTERS = (
    *_OWN,
    Column("origin", "string"),
    Column("origin_group", "string"),
    Column("reason", "string"),
    Column("attempts", "int"),
    Column("error", "string"),
    _PUBLISHER,
)
_HISTORY = (
    Column("position", "bigint"),
    Column("topic", "string"),
    Column("partition", "int"),
    Column("offset", "bigint"),
    Column("id", "string"),
    Column("timestamp", "timestamp"),
    Column("event", "string"),
    Column("group", "string"),
    Column("consumer", "string"),
    Column("lease", "bigint"),
    Column("reason", "string"),
    Column("error", "string"),
    Column("due", "timestamp"),
)
TABLES = {"messages": _MESSAGES, "history": _HISTORY, "dead_letters": _DEAD_LETTERS}
_ON_DEMAND = (Column("json", "boolean"),)  # only who names it gets it


def ddl(table: str, headers: bool = True) -> str:
    return ", ".join(
        f"`{column.name}` {column.type}" for column in TABLES[table] if headers or column.name != "headers"
    )


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
        if field.dataType.simpleString() != column.type:
            raise InvalidError(
                f"column {field.name!r} is {column.type}, not {field.dataType.simpleString()}; cast it afterwards"
            )
        columns.append(column)
    if not columns:
        raise InvalidError(f"the schema names no column; table {table!r} has {', '.join(known)}")
    return tuple(columns)
