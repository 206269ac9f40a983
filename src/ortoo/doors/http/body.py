"""Reading a request's body: its size, its coding, its type, its JSON; whatever is wrong is said precisely."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ortoo.broker.budget import Budget, Share
from ortoo.model.errors import InvalidError
from ortoo.model.names import check_name

from .call import InNamespace
from .coding import DECODERS, RATIO_MAX, TooLarge, decode
from .counting import check_counts, could_have_many
from .problems import Refusal
from .services import ClientGone, Receive

_HIGH, _LOW = rb"\\u[dD][89abAB]\w\w", rb"\\u[dD][c-fC-F]\w\w"
_LONE_SURROGATE = re.compile(b"%b(?!%b)|%b(?<!%b%b)" % (_HIGH, _LOW, _LOW, _HIGH, _LOW))
_PATIENCE_SECONDS = 30.0  # in which so many bytes have to come, or the rest of the body
_PROGRESS_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024
_ROOM_SECONDS = 30.0  # a body waits for those of others


class BodyReader:
    """The body of one request, and its share of what all doors together may hold."""

    __slots__ = ("_bytes_max", "_hint", "_reading", "share")

    def __init__(self, budget: Budget, bytes_max: int) -> None:
        self.share = Share(budget, cut=self._cut)
        self._bytes_max = bytes_max
        self._hint = "send it in parts, or raise http.max_body_bytes"
        self._reading: asyncio.Timeout | None = None

    async def read(self, receive: Receive, headers: dict[bytes, bytes], bytes_max: int | None = None) -> bytes:
        """`bytes_max`: when the request may have less than others."""
        if bytes_max is not None and bytes_max < self._bytes_max:
            self._bytes_max, self._hint = bytes_max, "send several requests"
        self._check(int(headers.get(b"content-length", b"0")))  # digits, or the parser would have refused it
        body = await self._gather(receive)
        coding = headers.get(b"content-encoding")
        if coding is None or not body:
            return body
        async with self.share.unpacking(_ROOM_SECONDS):
            body = await self._unpack(coding, body)
            self.share.take(len(body))
        return body

    async def _unpack(self, coding: bytes, body: bytes) -> bytes:
        """In a thread: a few bytes may become very many."""
        try:
            return await asyncio.to_thread(decode, coding.decode("latin-1"), body, self._bytes_max)
        except TooLarge:
            limit = f"at most {self._bytes_max} bytes, and {RATIO_MAX} times what was sent, once decompressed"
            raise Refusal(413, f"a body has {limit}; send it in parts, or as it is") from None
        except LookupError:
            known = ", ".join(DECODERS)
            hint = [(b"accept-encoding", known.encode())]
            raise Refusal(415, f"content-encoding may be {known}, not {coding!r}", hint) from None
        except ValueError as error:
            raise InvalidError(f"the body cannot be decompressed: {error}") from None

    async def _gather(self, receive: Receive) -> bytes:
        """What has come counts; what was announced does not. Who comes to a halt, or nearly, is not waited for."""
        clock = asyncio.get_running_loop().time
        deadline, progress = clock() + _PATIENCE_SECONDS, 0
        parts: list[bytes] = []
        while True:
            try:
                async with asyncio.timeout_at(deadline) as self._reading:
                    message = await receive()
            except TimeoutError:
                raise Refusal(408, "the rest of the body did not come", [(b"connection", b"close")]) from None
            finally:
                self._reading = None
            if message["type"] == "http.disconnect":
                raise ClientGone
            part: bytes = message.get("body", b"")
            self.share.take(len(part))
            self.share.expect(message.get("more_body", False))
            self._check(self.share.bytes)
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts) if len(parts) > 1 else part
            progress += len(part)
            began = clock()
            await self.share.room(_ROOM_SECONDS)
            deadline += clock() - began  # it is we who did not read
            if progress >= _PROGRESS_BYTES:
                deadline, progress = clock() + _PATIENCE_SECONDS, 0

    def _cut(self) -> None:
        """Others need what is held here, and the rest does not come."""
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        return Refusal(413, f"a body has at most {self._bytes_max} bytes, once decompressed; {self._hint}")

    def close(self) -> None:
        self.share.close()


def check_content_type(headers: dict[bytes, bytes]) -> None:
    """JSON only. That also keeps out what a browser sends across sites without asking first."""
    given = headers.get(b"content-type")
    if given is None:
        return
    kind = given.partition(b";")[0].strip().lower()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise Refusal(415, f"send the body as content-type application/json, not {kind.decode('latin-1')}")


async def parse_body(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """A large one is read in several goes, so that others run in between."""
    pause = _pause if len(body) > _LARGE_BYTES else _no_pause
    try:
        if not body.isascii():
            await pause()
            body.decode()  # values are taken over unread, so that bad text in them would not be noticed
        await pause()
        if could_have_many(body):
            await pause()
            check_counts(body)
        await pause()
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise InvalidError(f"the body is not UTF-8: {error.reason} (byte {error.start})") from None
    except msgspec.DecodeError as error:  # malformed, with the position; or of the wrong type, with the path
        raise InvalidError(_explain(str(error), body)) from None
    except RecursionError:
        raise InvalidError("the body is nested too deeply") from None


async def _pause() -> None:
    await asyncio.sleep(0)


async def _no_pause() -> None:
    pass


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
