"""How many messages a body has, how many headers they have, and how many receipts, before anything is built of it.

Lists are checked against their bounds once they are built, and in JSON millions of things fit into a few bytes. So a body that
could have too many of them is looked through first, which builds nothing but a counter. How many braces and quotes there are
tells which bodies could, and takes next to no time; most cannot.

Every quote is accounted for: it belongs to a text that is passed over, to a list or headers that are counted, or to one of the
few names around them. What is left over when a field is there twice, of which only the last one is seen here, is refused.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from ortoo.model import limits
from ortoo.model.errors import InvalidError

_MESSAGES_MAX = limits.BATCH_MESSAGES_MAX
_QUOTES_MAX = 400_000  # what ten thousand messages with some headers have
_HEADER_QUOTES_MAX = 4 * limits.HEADERS_MAX
_NAME_QUOTES_MAX = 64  # of the fields of a message
_AROUND_QUOTES_MAX = 2_048  # of the names of topics, parts, groups and fields around the messages, in each publish
_NESTS_MAX = 1_000  # arrays and objects of a body that is read whatever it holds; there is one, of labels
_SLICE_BYTES = 1024 * 1024
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_NOTHING = Raw(b"null")


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
    parts: Raw = _NOTHING
    headers: Raw = _NOTHING  # from here on, of a request, which is one message; or of what is settled
    value: Raw = _NOTHING
    key: Raw = _NOTHING
    error: Raw = _NOTHING

    def __post_init__(self) -> None:
        for name in ("acks", "receipts", "ids", "parts"):
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
    return len(body) > _MESSAGES_MAX and (
        _has_more(body, b"{", _MESSAGES_MAX + 1) or _has_more(body, b'"', _QUOTES_MAX)
    )


def check_counts(body: bytes) -> None:
    """InvalidError when it has more than any request may have; or what reading it would raise, before much is built."""
    _count.messages = _count.publishes = _count.header_quotes = _count.passed = 0
    _look_through(body)
    names = _NAME_QUOTES_MAX * _count.messages + _AROUND_QUOTES_MAX * (1 + _count.publishes)
    if body.count(b'"') - _count.passed > _QUOTES_MAX + names:
        raise InvalidError("there are too many texts beside the messages, or a field is there twice")


def check_nests(body: bytes) -> None:
    """InvalidError when it has more arrays and objects than are worth building, of a body that may have any."""
    if _nests(body) > _NESTS_MAX and _nests(_TEXT.sub(b"", body)) > _NESTS_MAX:
        raise InvalidError(f"there are more than {_NESTS_MAX} arrays and objects")


def _nests(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _quotes(raw: Raw) -> int:
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
