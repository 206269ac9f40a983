"""Reading a request's body: its size, its coding, its type, its JSON; whatever is wrong is said precisely."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import zstandard
from msgspec import Raw

from ortoo.broker.budget import Budget, Share
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.validation import in_words

from .answers import Refusal
from .call import ClientGone, Receive

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
            return await asyncio.to_thread(decompress, coding.decode("latin-1"), body, self._bytes_max)
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


async def parse_body(
    decoder: msgspec.json.Decoder[Any], body: bytes, check: Callable[[bytes], None] | None = None
) -> Any:
    """A large one is read in several goes, so that others run in between. `check` counts what is in it, in the place of ours."""
    pause = _pause if len(body) > _LARGE_BYTES else _no_pause
    try:
        if not body.isascii():
            await pause()
            body.decode()  # values are taken over unread, so that bad text in them would not be noticed
        await pause()
        if check is not None:
            check(body)
        elif could_have_many(body):
            await pause()
            check_counts(body)
        await pause()
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise InvalidError(f"the body is not UTF-8: {error.reason} (byte {error.start})") from None
    except msgspec.ValidationError as error:
        raise InvalidError(in_words(error, "the body")) from None
    except msgspec.DecodeError as error:  # malformed, with the position
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


# -- decompressing; nothing is ever unpacked beyond a bound

_GZIP_WBITS = 31
_ZSTD_WINDOW_MAX = 8 * 1024 * 1024  # what RFC 9659 lets a sender use
_PIECE_BYTES = 16 * 1024
_MEMBERS_MAX = 10_000
RATIO_MAX = 100  # what is unpacked to what came; beyond the first MiB, where a few bytes may well stand for many
_RATIO_FREE_BYTES = 1024 * 1024


class TooLarge(Exception):
    """It would be larger than allowed."""


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    """A gzip file may have several members. A little is fed at a time, because what a member leaves over is copied."""
    parts: list[bytes] = []
    room, members, at = bytes_max, 0, 0
    unzip = None
    while at < len(data):
        if unzip is None:
            members += 1
            if members > _MEMBERS_MAX:
                raise ValueError(f"it has more than {_MEMBERS_MAX} members")
            unzip = zlib.decompressobj(_GZIP_WBITS)
        piece = data[at : at + _PIECE_BYTES]
        part = unzip.decompress(piece, room + 1)
        room -= len(part)
        if room < 0:
            raise TooLarge
        parts.append(part)
        at += len(piece) - len(unzip.unused_data)
        if unzip.eof:
            unzip = None
    if unzip is not None:
        raise ValueError("it ends too early")
    return b"".join(parts)


def _unzstd(data: bytes, bytes_max: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).stream_reader(data, read_across_frames=True)
    body = reader.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise TooLarge
    return body


def _identity(data: bytes, bytes_max: int) -> bytes:
    return data


DECODERS: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gunzip, "zstd": _unzstd, "identity": _identity}


def decompress(coding: str, data: bytes, bytes_max: int) -> bytes:
    """LookupError for a coding that is not known, ValueError for data that is not in it."""
    room = min(bytes_max, max(_RATIO_FREE_BYTES, RATIO_MAX * len(data)))
    try:
        return DECODERS[coding.strip().lower()](data, room)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(str(error)) from None


# -- counting: how many messages a body has, how many headers they have, and how many receipts, before anything is built of it.
#
# Lists are checked against their bounds once they are built, and in JSON millions of things fit into a few bytes. So a body that
# could have too many of them is looked through first, which builds nothing but a counter. How many braces and quotes there are
# tells which bodies could, and takes next to no time; most cannot.
#
# Every quote is accounted for: it belongs to a text that is passed over, to a list or headers that are counted, or to one of the
# few names around them. What is left over when a field is there twice, of which only the last one is seen here, is refused.

_MESSAGES_MAX = limits.BATCH_MESSAGES_MAX
_QUOTES_MAX = 400_000  # what ten thousand messages with some headers have
_HEADER_QUOTES_MAX = 4 * limits.HEADERS_MAX
_NAME_QUOTES_MAX = 64  # of the fields of a message
_AROUND_QUOTES_MAX = 2_048  # of the names of topics, parts, groups and fields around the messages, in each publish
_NESTS_MAX = 1_000  # arrays and objects of a body that is read whatever it holds; there is one, of labels
_SLICE_BYTES = 1024 * 1024
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_NOTHING = Raw(b"null")
_TOO_MANY_TEXTS = "there are too many texts beside the messages, or a field is there twice"
_TOO_MANY_VALUES = "there are too many values in one request; send fewer at a time"


class _Message(msgspec.Struct):
    """Decoding one counts it; its texts are passed over."""

    headers: Raw = _NOTHING
    value: Raw = _NOTHING
    key: Raw = _NOTHING
    dedup_id: Raw = _NOTHING

    def __post_init__(self) -> None:
        _count.messages += 1
        if _count.messages > _MESSAGES_MAX:
            raise InvalidError(f"a request has at most {_MESSAGES_MAX} messages; send more requests")
        _count.header_quotes += _check_headers(self.headers)
        if _count.header_quotes > 4 * limits.BATCH_HEADERS_MAX:
            most = limits.BATCH_HEADERS_MAX
            raise InvalidError(f"a publish has at most {most} headers in all; send fewer messages at once")
        _pass_over(self.headers, self.value, self.key, self.dedup_id)


class _Publish(msgspec.Struct):
    messages: list[_Message] = []

    def __post_init__(self) -> None:
        _count.publishes += 1
        if _count.publishes > _MESSAGES_MAX:
            raise InvalidError(f"a transaction has at most {_MESSAGES_MAX} publishes")


class _Body(msgspec.Struct):
    """All that may be many, or long, in all bodies that may be large."""

    messages: list[_Message] = []
    publishes: list[_Publish] = []
    acks: Raw = _NOTHING
    receipts: Raw = _NOTHING
    ids: Raw = _NOTHING
    dedup_ids: Raw = _NOTHING
    parts: Raw = _NOTHING
    headers: Raw = _NOTHING  # from here on, of a request, which is one message; or of what is settled
    value: Raw = _NOTHING
    key: Raw = _NOTHING
    error: Raw = _NOTHING

    def __post_init__(self) -> None:
        for name in ("acks", "receipts", "ids", "dedup_ids", "parts"):
            if _quotes(getattr(self, name)) > 2 * _MESSAGES_MAX:
                raise InvalidError(f"a request has at most {_MESSAGES_MAX} {name}; send more requests")
        _check_headers(self.headers)
        _pass_over(*(getattr(self, name) for name in self.__struct_fields__[2:]))


class _Count:
    messages = 0
    publishes = 0
    header_quotes = 0
    passed = 0  # quotes that are accounted for


_count = _Count()  # of the body that is being looked through; that is done in one go
_look_through = msgspec.json.Decoder(_Body).decode


def could_have_many(body: bytes) -> bool:
    """Whether its counts have to be checked."""
    size = len(body)
    return (size > 3 * _MESSAGES_MAX and _has_more(body, b"{", _MESSAGES_MAX + 1)) or (  # with a bracket and a comma
        size > _QUOTES_MAX and _has_more(body, b'"', _QUOTES_MAX)
    )


def check_counts(body: bytes, otherwise: str = _TOO_MANY_TEXTS) -> None:
    """InvalidError when it has more than any request may have; or what reading it would raise, before much is built."""
    _count.messages = _count.publishes = _count.header_quotes = _count.passed = 0
    _look_through(body)
    names = _NAME_QUOTES_MAX * _count.messages + _AROUND_QUOTES_MAX * (1 + _count.publishes)
    if body.count(b'"') - _count.passed > _QUOTES_MAX + names:
        raise InvalidError(otherwise)


class _Item(msgspec.Struct):
    """Of a list, in a dialect. Decoding one counts it."""

    def __post_init__(self) -> None:
        _count.messages += 1
        if _count.messages > _MESSAGES_MAX:
            raise InvalidError(f"a request has at most {_MESSAGES_MAX} items; send more requests")


_look_through_list = msgspec.json.Decoder(list[_Item]).decode


def check_values(body: bytes) -> None:
    """The same for bodies of dialects, whose fields have other names."""
    if not could_have_many(body):
        return
    if body.lstrip()[:1] != b"[":
        check_counts(body, _TOO_MANY_VALUES)
        return
    _count.messages = 0
    _look_through_list(body)
    if _quotes(body) > _QUOTES_MAX + _NAME_QUOTES_MAX * _count.messages:
        raise InvalidError(_TOO_MANY_VALUES)


def check_nests(body: bytes) -> None:
    """InvalidError when it has more arrays and objects than are worth building, of a body that may have any."""
    if _nests(body) > _NESTS_MAX and _nests(_TEXT.sub(b"", body)) > _NESTS_MAX:
        raise InvalidError(f"there are more than {_NESTS_MAX} arrays and objects")


def _nests(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _quotes(raw: Raw | bytes) -> int:
    """Of texts, without those in them; of texts that end in a backslash, half."""
    text = bytes(raw)
    return text.count(b'"') - text.count(b'\\"')


def _check_headers(headers: Raw) -> int:
    quotes = _quotes(headers)
    if quotes > _HEADER_QUOTES_MAX:
        raise InvalidError(f"a message has at most {limits.HEADERS_MAX} headers")
    return quotes


def _pass_over(*texts: Raw) -> None:
    for text in texts:
        if text is not _NOTHING:
            _count.passed += bytes(text).count(b'"')


def _has_more(body: bytes, sign: bytes, most: int) -> bool:
    found = 0
    for at in range(0, len(body), _SLICE_BYTES):
        found += body.count(sign, at, at + _SLICE_BYTES)
        if found > most:
            return True
    return False
