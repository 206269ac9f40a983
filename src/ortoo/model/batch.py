"""Batches as columns: one list per field, None where no message of the batch uses the field.

`Outgoing` is what a producer asks for (delays relative, partitions open); `Batch` is what the log keeps (instants absolute,
partition decided). Both travel whole from producer to log to consumer: nothing on the way looks at a message by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from . import limits
from .errors import InvalidError
from .json_values import Value, is_jsonable, is_model, write_json
from .message import PRIORITY_NAMES, Message, Received
from .topic import DEFAULT_PRIORITY
from .units import to_duration, to_instant

T = TypeVar("T")


_MOST = Meta(max_length=limits.BATCH_MESSAGES_MAX)
_Headers = Annotated[dict[str, str], Meta(max_length=limits.HEADERS_MAX)]


class Outgoing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What comes as bytes is bounded before it is built."""

    values: Annotated[list[bytes], _MOST]
    keys: Annotated[list[str | None], _MOST] | None = None
    headers: Annotated[list[_Headers | None], _MOST] | None = None
    priorities: Annotated[list[int], _MOST] | None = None
    json: Annotated[list[bool], _MOST] | None = None
    delays: Annotated[list[float | None], _MOST] | None = None
    deliver_ats: Annotated[list[float | None], _MOST] | None = None
    ttls: Annotated[list[float | None], _MOST] | None = None
    dedup_ids: Annotated[list[str | None], _MOST] | None = None
    partitions: Annotated[list[int | None], _MOST] | None = None

    def __len__(self) -> int:
        return len(self.values)


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    values: list[bytes]
    keys: list[str | None] | None = None
    headers: list[dict[str, str] | None] | None = None
    priorities: list[int] | None = None
    json: list[bool] | None = None
    dues: list[int] | None = None  # ms since the epoch; 0 is at once
    expires: list[int] | None = None  # ms since the epoch; 0 is never
    dedup_ids: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.values)


COLUMNS = ("keys", "headers", "priorities", "json", "dues", "expires", "dedup_ids")


def pick(batch: Batch, rows: Sequence[int]) -> Batch:
    """The batch of those rows, in that order."""
    columns = {name: pick_column(column, rows) for name in COLUMNS if (column := getattr(batch, name)) is not None}
    return Batch(pick_column(batch.values, rows), **columns)


def pick_column(column: Sequence[T], rows: Sequence[int]) -> list[T]:
    return list(itemgetter(*rows)(column)) if len(rows) > 1 else [column[row] for row in rows]


_BLANKS: dict[str, Any] = {"priorities": DEFAULT_PRIORITY, "json": False}


def join(batches: Sequence[Outgoing]) -> Outgoing:
    """One batch after the other."""
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, list[Any]] = {}
    for name in Outgoing.__struct_fields__:
        if any(getattr(batch, name) is not None for batch in batches):
            blank = _BLANKS.get(name)
            column: list[Any] = []
            for batch in batches:
                column.extend(getattr(batch, name) or [blank] * len(batch))
            columns[name] = column
    return Outgoing(**columns)


def cut(batch: Outgoing, start: int, stop: int) -> Outgoing:
    """Its rows from one to before another."""
    if start == 0 and stop >= len(batch):
        return batch
    columns = {name: getattr(batch, name) for name in Outgoing.__struct_fields__}
    return Outgoing(**{name: column[start:stop] for name, column in columns.items() if column is not None})


MESSAGE_OVERHEAD_BYTES = (
    32  # what a message costs beside those, at most, in a record or an answer: instants, priority, lengths
)


def content_bytes(
    values: list[bytes],
    keys: list[str | None] | None,
    headers: list[dict[str, str] | None] | None,
    values_bytes: int | None = None,
) -> int:
    """The bytes of values, keys and headers together, at C speed where there are no headers. `values_bytes`: of the values,
    where that is known."""
    size = sum(map(len, values)) if values_bytes is None else values_bytes
    if keys is not None:
        size += _text_bytes("".join(filter(None, keys)))
    if headers is not None:
        size += sum(map(_header_bytes, filter(None, headers)))
    return size


def message_sizes(
    values: list[bytes], keys: list[str | None] | None, headers: list[dict[str, str] | None] | None
) -> list[int]:
    """The same, message by message."""
    sizes = list(map(len, values))
    if keys is not None:
        sizes = [size + _text_bytes(key) if key else size for size, key in zip(sizes, keys, strict=True)]
    if headers is not None:
        sizes = [size + _header_bytes(one) if one else size for size, one in zip(sizes, headers, strict=True)]
    return sizes


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _header_bytes(headers: dict[str, str]) -> int:
    """With what their lengths take."""
    return _text_bytes("".join((*headers, *headers.values()))) + 6 * len(headers)


def size_of(batch: Outgoing) -> int:
    """The bytes it takes as a record; never fewer than it will be."""
    size = content_bytes(batch.values, batch.keys, batch.headers) + MESSAGE_OVERHEAD_BYTES * len(batch)
    return size + _text_bytes("".join(filter(None, batch.dedup_ids or ())))


_value, _headers, _priority = map(attrgetter, ("value", "headers", "priority"))
_key = attrgetter("key")
_rest = attrgetter("headers", "priority", "delay", "deliver_at", "ttl", "dedup_id", "partition")
_PLAIN = (None, DEFAULT_PRIORITY, None, None, None, None, None)
_OPTIONAL = {
    "keys": _key,
    "delays": attrgetter("delay"),
    "deliver_ats": attrgetter("deliver_at"),
    "ttls": attrgetter("ttl"),
    "dedup_ids": attrgetter("dedup_id"),
    "partitions": attrgetter("partition"),
}


def to_outgoing(messages: Iterable[Message | Value]) -> Outgoing:
    """Turns messages, or bare values, into columns, checking each field's type and size on the way."""
    listed = _as_list(messages)
    if list(map(type, listed)).count(bytes) == len(listed):  # bare values are a column already
        outgoing = Outgoing(listed.copy())
        check_outgoing(outgoing)
        return outgoing
    full = [message if isinstance(message, Message) else Message(message) for message in listed]
    return build_outgoing(full, *_values(list(map(_value, full))))


def build_outgoing(messages: Sequence[Any], values: list[bytes], json: list[bool] | None) -> Outgoing:
    """Of whatever has the fields of a Message, beside its value: the doors have types of their own."""
    if _are_plain(messages):
        keys = list(map(_key, messages))
        outgoing = Outgoing(values, None if keys.count(None) == len(keys) else keys, json=json)
    else:
        headers = list(map(_headers, messages))
        outgoing = Outgoing(
            values,
            headers=own_headers(headers) if any(headers) else None,
            priorities=_priorities(list(map(_priority, messages))),
            json=json,
            **_optional_columns(messages),
        )
    check_outgoing(outgoing)
    return outgoing


def own_headers(column: list[dict[str, str] | None]) -> list[dict[str, str] | None]:
    """Copies: what the producer, or another reader, does with his is not seen here."""
    return [dict(headers) if type(headers) is dict else headers for headers in column]


def _are_plain(messages: Sequence[Any]) -> bool:
    """Nothing but values and keys: the other columns need not be looked at one by one."""
    return (not messages or _rest(messages[0]) == _PLAIN) and list(map(_rest, messages)).count(_PLAIN) == len(messages)


_SINGLE = (bytes, bytearray, memoryview, str, Mapping)  # that can be walked, but are one value
_NO_BATCH = "a batch is a list of values or of ortoo.Message(value, key=...); publish() takes a single value"


def _as_list(messages: Iterable[Message | Value]) -> list[Any]:
    """Once and for all, because a generator can be walked only once."""
    if isinstance(messages, list):
        return messages
    if isinstance(messages, _SINGLE) or is_model(messages) or not isinstance(messages, Iterable):
        raise InvalidError(_NO_BATCH)
    return list(messages)


def _optional_columns(messages: Sequence[Any]) -> dict[str, list[Any]]:
    """Those of which at least one message has something, except for what must be looked into."""
    columns = {name: list(map(get, messages)) for name, get in _OPTIONAL.items()}
    return {name: _numbers(name, column) for name, column in columns.items() if column.count(None) != len(column)}


_TO_NUMBER = {"delays": to_duration, "deliver_ats": to_instant, "ttls": to_duration}
_NUMBERS = {int, float, type(None)}


def _numbers(name: str, column: list[Any]) -> list[Any]:
    """Durations and times may be timedeltas and datetimes."""
    if name not in _TO_NUMBER or set(map(type, column)) <= _NUMBERS:
        return column
    return list(map(_TO_NUMBER[name], column))


def _values(raw: list[Any]) -> tuple[list[bytes], list[bool] | None]:
    if set(map(type, raw)) <= {bytes}:
        return raw, None
    values, json = zip(*map(_value_bytes, raw), strict=True) if raw else ((), ())
    return list(values), list(json) if any(json) else None


class _Json(bytes):
    """A value that is JSON, and written already."""


def encode_value(value: Any) -> bytes:
    """Before it gets into a batch: it is turned into a column as the value itself would be."""
    encoded, is_json = _value_bytes(value)
    return _Json(encoded) if is_json else encoded


def _value_bytes(value: Any) -> tuple[bytes, bool]:
    """And whether they are JSON."""
    if isinstance(value, _Json):
        return bytes(value), True
    if isinstance(value, bytes):
        return value, False
    if isinstance(value, bytearray | memoryview):
        return bytes(value), False
    if isinstance(value, str):
        try:
            return value.encode(), False
        except UnicodeEncodeError:
            raise InvalidError("the value is not valid Unicode; publish bytes instead") from None
    if isinstance(value, Received):
        raise InvalidError("a message that was received cannot be published itself; publish its value")
    if isinstance(value, Message) or (isinstance(value, list | tuple) and Message in set(map(type, value))):
        raise InvalidError("publish() takes a value and its options; publish_many() takes a list of ortoo.Message")
    if is_jsonable(value):
        return write_json(value), True
    raise InvalidError(
        f"a value is bytes, a str, or what JSON can say (a dict, list, tuple, number, bool, None, dataclass, msgspec Struct or "
        f"pydantic model), not {type(value).__name__}"
    )


def _priorities(raw: list[int | str]) -> list[int] | None:
    if raw.count(DEFAULT_PRIORITY) == len(raw):
        return None
    if set(map(type, raw)) == {int}:
        return raw  # type: ignore[return-value]
    return [_priority_number(priority) for priority in raw]


def _priority_number(priority: Any) -> int:
    if isinstance(priority, str):
        if priority not in PRIORITY_NAMES:
            raise InvalidError(f"priority is a number or one of {', '.join(PRIORITY_NAMES)}, not {priority!r}")
        return PRIORITY_NAMES[priority]
    return int(priority) if isinstance(priority, int) else _wrong("priority", priority, "a number")


def check_outgoing(batch: Outgoing) -> None:
    """Refuses what no topic would take. Doors that build columns themselves call this too."""
    count = len(batch.values)
    if not 1 <= count <= limits.BATCH_MESSAGES_MAX:
        raise InvalidError(f"a batch has 1 to {limits.BATCH_MESSAGES_MAX} messages, this one has {count}")
    for name in batch.__struct_fields__:
        column = getattr(batch, name)
        if column is not None and len(column) != count:
            raise InvalidError(f"the column {name} has {len(column)} entries for {count} messages")
    if batch.keys:
        check_texts("key", batch.keys, limits.KEY_BYTES_MAX)
    if batch.dedup_ids:
        check_texts("dedup_id", batch.dedup_ids, limits.DEDUP_ID_BYTES_MAX)
    if batch.headers:
        if sum(map(len, filter(None, batch.headers))) > limits.BATCH_HEADERS_MAX:
            raise InvalidError(
                f"a publish has at most {limits.BATCH_HEADERS_MAX} headers in all; send fewer messages at once"
            )
        for headers in batch.headers:
            if headers:
                _check_headers(headers)
    if (
        batch.priorities
        and not limits.PRIORITY_MIN <= min(batch.priorities) <= max(batch.priorities) <= limits.PRIORITY_MAX
    ):
        raise InvalidError(f"priority is {limits.PRIORITY_MIN} to {limits.PRIORITY_MAX}, lower is sooner")
    for partition in batch.partitions or ():
        if partition is not None and type(partition) is not int:
            _wrong("partition", partition, "a number")
    _check_times(batch)


def _are_short_ascii(texts: list[str | None], bytes_max: int) -> bool:
    given = [text for text in texts if text is not None]
    return set(map(type, given)) == {str} and max(map(len, given)) <= bytes_max and "".join(given).isascii()


def check_texts(what: str, texts: list[str | None], bytes_max: int) -> None:
    if _are_short_ascii(texts, bytes_max):  # the usual case, at C speed
        return
    for text in texts:
        if text is None:
            continue
        if type(text) is not str:
            _wrong(what, text, "a string")
        # A character has at most four bytes, so only long texts need to be encoded to be measured; surrogates must not pass.
        if not text.isascii() or len(text) > bytes_max:
            _check_utf8(what, text, bytes_max)


def _check_utf8(what: str, text: str, bytes_max: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidError(f"{what} {text!r} is not valid Unicode") from None
    if size > bytes_max:
        raise InvalidError(f"a {what} has at most {bytes_max} bytes, this one has {size}")


def _are_plain_headers(headers: dict[Any, Any]) -> bool:
    """The usual case, at C speed."""
    try:
        text = "".join([*headers, *headers.values()])
    except TypeError:
        return False
    return len(text) <= limits.HEADER_BYTES_MAX and text.isascii()


def _check_headers(headers: Any) -> None:
    if not isinstance(headers, dict):
        _wrong("headers", headers, "a dict of strings")
    if len(headers) > limits.HEADERS_MAX:
        raise InvalidError(f"a message has at most {limits.HEADERS_MAX} headers, this one has {len(headers)}")
    if _are_plain_headers(headers):
        return
    for name, value in headers.items():
        check_texts("header", [name, value], limits.HEADER_BYTES_MAX)
        if name is None or value is None:
            _wrong("a header's name and value", None, "a string")
    if sum(_text_bytes(name) + _text_bytes(value) for name, value in headers.items()) > limits.HEADER_BYTES_MAX:
        raise InvalidError(f"the headers of a message have at most {limits.HEADER_BYTES_MAX} bytes together")


_DELAY_SECONDS_MAX = limits.DELAY_MS_MAX / 1000
_SECONDS_MAX = {"delay": _DELAY_SECONDS_MAX, "deliver_at": 1e11, "ttl": _DELAY_SECONDS_MAX}


def _check_times(batch: Outgoing) -> None:
    for what, column in (("delay", batch.delays), ("deliver_at", batch.deliver_ats), ("ttl", batch.ttls)):
        for seconds in column or ():
            if seconds is None:
                continue
            if type(seconds) not in (int, float) or seconds != seconds:  # noqa: PLR0124 - NaN
                _wrong(what, seconds, "a number of seconds")
            if not 0 <= seconds <= _SECONDS_MAX[what] or (what == "ttl" and seconds == 0):
                raise InvalidError(f"{what} must lie between 0 and {_SECONDS_MAX[what]:.0f} seconds, this is {seconds}")
    for delay, at in zip(batch.delays or (), batch.deliver_ats or (), strict=False):
        if delay is not None and at is not None:
            raise InvalidError("give delay or deliver_at, not both")


def _wrong(what: str, value: object, wanted: str) -> Any:
    raise InvalidError(f"{what} must be {wanted}, not {type(value).__name__}")
