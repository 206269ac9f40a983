"""Reading a request's body: its size, its coding, its type, its JSON; whatever is wrong is said precisely."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ortoo.broker.gate import Budget
from ortoo.model.errors import InvalidError
from ortoo.model.names import check_name

from .call import InNamespace
from .coding import DECODERS, TooLarge, decode
from .desk import HangUp, Receive
from .problems import Refusal

_HIGH, _LOW = rb"\\u[dD][89abAB]\w\w", rb"\\u[dD][c-fC-F]\w\w"
_LONE_SURROGATE = re.compile(b"%b(?!%b)|%b(?<!%b%b)" % (_HIGH, _LOW, _LOW, _HIGH, _LOW))
_PATIENCE_SECONDS = 30.0  # between two pieces of a body


class Intake:
    """The body of one request, and its share of what all doors together may hold."""

    __slots__ = ("_budget", "_bytes_max", "_taken")

    def __init__(self, budget: Budget, bytes_max: int) -> None:
        self._budget = budget
        self._bytes_max = bytes_max
        self._taken = 0

    async def read(self, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        announced = int(headers.get(b"content-length", b"0"))  # digits, or the parser would have refused it
        self._check(announced)
        self._take(announced)
        body = await self._gather(receive)
        coding = headers.get(b"content-encoding")
        if coding is None or not body:
            return body
        try:
            # In a thread: a few bytes may become very many.
            body = await asyncio.to_thread(decode, coding.decode("latin-1"), body, self._bytes_max)
        except TooLarge:
            self._check(self._bytes_max + 1)
        except LookupError:
            known = ", ".join(DECODERS)
            hint = [(b"accept-encoding", known.encode())]
            raise Refusal(415, f"content-encoding may be {known}, not {coding!r}", hint) from None
        except ValueError as error:
            raise InvalidError(f"the body cannot be decompressed: {error}") from None
        self._take(len(body))
        return body

    async def _gather(self, receive: Receive) -> bytes:
        message = await receive()
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise HangUp
            part: bytes = message.get("body", b"")
            size += len(part)
            self._check(size)
            if size > self._taken:
                self._take(size - self._taken)
            if not message.get("more_body", False):
                break
            parts.append(part)
            try:
                message = await asyncio.wait_for(receive(), _PATIENCE_SECONDS)
            except TimeoutError:
                raise Refusal(408, "the rest of the body did not come", [(b"connection", b"close")]) from None
        return b"".join([*parts, part]) if parts else part

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise Refusal(413, f"a body has at most {self._bytes_max} bytes, once decompressed")

    def _take(self, size: int) -> None:
        self._budget.take(size)
        self._taken += size

    def close(self) -> None:
        self._budget.give_back(self._taken)


def check_content_type(headers: dict[bytes, bytes]) -> None:
    """JSON only. That also keeps out what a browser sends across sites without asking first."""
    given = headers.get(b"content-type")
    if given is None:
        return
    kind = given.partition(b";")[0].strip().lower()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise Refusal(415, f"send the body as content-type application/json, not {kind.decode('latin-1')}")


def parse_body(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        if not body.isascii():
            body.decode()  # values are taken over unread, so that bad text in them would not be noticed
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise InvalidError(f"the body is not UTF-8: {error.reason} (byte {error.start})") from None
    except msgspec.DecodeError as error:  # malformed, with the position; or of the wrong type, with the path
        raise InvalidError(_explain(str(error), body)) from None
    except RecursionError:
        raise InvalidError("the body is nested too deeply") from None


def _explain(error: str, body: bytes) -> str:
    """Of half a character, msgspec says something else, or too little."""
    is_vague = any(word in error for word in ("truncated", "escape", "surrogate"))
    lone = _LONE_SURROGATE.search(body) if is_vague else None
    return error if lone is None else f"{lone[0].decode()} is half a character (byte {lone.start()})"


def parse_query(kind: type[InNamespace], query: bytes) -> InNamespace:
    if not query:
        return kind()
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError as error:
        raise InvalidError(f"the query cannot be read: {error}") from None
    values = dict(pairs)
    for name in values.keys() - set(kind.__struct_fields__):
        raise InvalidError(f"there is no query parameter {name!r} here; there are {', '.join(kind.__struct_fields__)}")
    if len(values) != len(pairs):
        raise InvalidError("a query parameter is given twice")
    try:
        parsed = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidError(f"query: {error}") from None
    check_name("a namespace", parsed.namespace)
    return parsed
