"""Messages from a file or standard input: a line each, or a JSON object each, as they come."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import typer

from ortoo.model.errors import InvalidError
from ortoo.model.limits import MESSAGE_BYTES_MAX
from ortoo.model.message import Message
from ortoo.model.validation import in_words

from . import parse

_CHUNK_BYTES = 1 << 20
_BATCH_MESSAGES = 1000


class JsonLine(msgspec.Struct, forbid_unknown_fields=True):
    """One line of `--jsonl`. The fields in the second half are what `consume --json` tells besides, and are not used."""

    value: Any = msgspec.UNSET
    value_base64: str | None = None
    key: str | None = None
    headers: dict[str, str] | None = None
    priority: int | str | None = None
    delay: float | str | None = None
    deliver_at: float | str | None = None
    ttl: float | str | None = None
    dedup_id: str | None = None
    partition: int | None = None
    is_json: bool = False

    id: Any = None
    namespace: Any = None
    topic: Any = None
    offset: Any = None
    timestamp: Any = None
    attempt: Any = None
    group: Any = None
    publisher: Any = None


def read_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Whatever lines are there, as soon as they are there, without their ends; so that a slow source is not held up."""
    begun: list[bytes] = []  # parts of a line whose end has not come yet
    begun_bytes = 0
    while chunk := stream.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # every buffered stream has it
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join([*begun, whole[0]])
            begun, begun_bytes = [], 0
            for start in range(0, len(whole), _BATCH_MESSAGES):
                yield whole[start : start + _BATCH_MESSAGES]
        if rest:
            begun.append(rest)
            begun_bytes += len(rest)
            if begun_bytes > MESSAGE_BYTES_MAX:
                raise InvalidError(f"a line is longer than {MESSAGE_BYTES_MAX} bytes, which no topic takes")
    if begun:
        yield [b"".join(begun)]


class JsonLines:
    """Turns lines into messages; `defaults` hold where a line says nothing."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self._defaults = defaults
        self._decoder = msgspec.json.Decoder(JsonLine)
        self._number = 0

    def to_messages(self, lines: list[bytes]) -> list[Message]:
        messages = []
        for line in lines:
            self._number += 1
            if line.strip():
                try:
                    messages.append(self._to_message(self._decoder.decode(line)))
                except msgspec.ValidationError as error:
                    raise InvalidError(f"line {self._number}: {in_words(error)}") from None
                except (msgspec.MsgspecError, ValueError, InvalidError) as error:
                    raise InvalidError(f"line {self._number}: {error}") from None
                except typer.BadParameter as error:
                    raise InvalidError(f"line {self._number}: {error.message}") from None
        return messages

    def _to_message(self, line: JsonLine) -> Message:
        given = {
            "key": line.key,
            "headers": line.headers,
            "priority": line.priority,
            "delay": _seconds(line.delay, parse.duration),
            "deliver_at": _seconds(line.deliver_at, parse.instant),
            "ttl": _seconds(line.ttl, parse.duration),
            "dedup_id": line.dedup_id,
            "partition": line.partition,
        }
        fields = {**self._defaults, **{name: value for name, value in given.items() if value is not None}}
        return Message(_value(line), **fields)


def _seconds(given: float | str | None, parser: Any) -> Any:
    return parser(given) if isinstance(given, str) else given


def _value(line: JsonLine) -> Any:
    if line.value_base64 is not None:
        try:
            return base64.b64decode(line.value_base64, validate=True)
        except binascii.Error as error:
            raise InvalidError(f"value_base64 is not base64: {error}") from None
    if line.value is msgspec.UNSET:
        raise InvalidError("there is neither value nor value_base64")
    if isinstance(line.value, dict | list) or (isinstance(line.value, str) and not line.is_json):
        return line.value
    return msgspec.json.encode(line.value)
