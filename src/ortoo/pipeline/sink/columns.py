"""Which columns a DataFrame may have to be written, and of which types. Refused here, nothing has been written yet."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegralType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from ortoo.model.errors import InvalidError

_TEXT = (StringType, CharType, VarcharType)
ALLOWED = ("value", "key", "headers", "priority", "delay", "deliver_at", "ttl", "partition", "topic")
_GIVEN_BY_THE_QUEUE = ("offset", "timestamp", "id", "json")
_PUBLISHER = "publisher"  # of what was read. The server tells who writes, so it is left out
_TYPES = {
    "value": ((*_TEXT, BinaryType), "a string or binary"),
    "key": ((*_TEXT, BinaryType), "a string, or binary that is UTF-8"),
    "priority": ((*_TEXT, IntegralType), "a whole number, or a string: high, normal or low"),
    "delay": ((NumericType,), "a number of seconds"),
    "deliver_at": ((NumericType, TimestampType), "a timestamp, or a number of seconds since 1970"),
    "ttl": ((NumericType,), "a number of seconds"),
    "partition": ((IntegralType,), "a whole number"),
    "topic": (_TEXT, "a string"),
}
_HEADERS = "map<string,string>, or array<struct<key:string,value:binary>> with string or binary values"


class Column(NamedTuple):
    name: str  # as in ALLOWED
    place: int


def check_columns(schema: StructType, topic: str | None) -> list[Column]:
    """Where each column is. `topic` is the one for all rows, if there is one; a column of that name is then left out."""
    found: dict[str, Column] = {}
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name == _PUBLISHER:
            continue
        if name not in ALLOWED:
            raise InvalidError(_unknown(field.name, [field.name.lower() for field in schema.fields]))
        if name in found:
            raise InvalidError(f"there are two columns {name!r}; rename or drop one")
        found[name] = Column(name, place)
        _check_type(name, field.dataType)
    if "value" not in found:
        raise InvalidError("there is no column 'value', the message itself; " + _MAKE_VALUE)
    if topic is not None:
        found.pop("topic", None)
    elif "topic" not in found:
        raise InvalidError("name the topic to write to: .option('topic', 'orders'), or a column 'topic'")
    return list(found.values())


_MAKE_VALUE = "make one of the others with df.selectExpr('to_json(struct(*)) AS value')"


def _unknown(name: str, present: list[str]) -> str:
    ours = [column for column in present if column in _GIVEN_BY_THE_QUEUE]
    if name.lower() in ours:
        dropped = ", ".join(map(repr, ours))
        return f"{name!r} is given to a message by the queue and cannot be written; use df.drop({dropped})"
    close = get_close_matches(name.lower(), ALLOWED, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    more = "" if "value" in present else "; " + _MAKE_VALUE
    return f"{name!r} is not a column of a message; {hint}There are {', '.join(ALLOWED)}{more}"


def _check_type(name: str, kind: DataType) -> None:
    if name == "headers":
        if not _are_headers(kind):
            raise InvalidError(f"column 'headers' is {_HEADERS}; this one is {kind.simpleString()}")
        return
    kinds, words = _TYPES[name]
    if isinstance(kind, kinds) or (name != "value" and isinstance(kind, NullType)):
        return
    hint = ""
    if name == "value":
        nested = isinstance(kind, StructType | MapType | ArrayType)
        hint = "; write it as to_json(struct(*)), or to_json(value)" if nested else "; use CAST(value AS STRING)"
    elif kind.typeName() == "timestamp_ntz":
        hint = "; use CAST(deliver_at AS TIMESTAMP), which knows the time zone"
    raise InvalidError(f"column {name!r} is {words}; this one is {kind.simpleString()}{hint}")


def _are_headers(kind: DataType) -> bool:
    if isinstance(kind, NullType):
        return True
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, _TEXT) and isinstance(kind.valueType, (*_TEXT, BinaryType))
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name.lower(): field.dataType for field in kind.elementType.fields}
    if fields.keys() != {"key", "value"}:
        return False
    return isinstance(fields["key"], _TEXT) and isinstance(fields["value"], (*_TEXT, BinaryType))
