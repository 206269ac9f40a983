"""How many messages a body has, and how many headers they have, before anything is built of it.

Lists are checked against their bounds once they are built, and in JSON millions of things fit into a few bytes. So a body that
could have too many of them is looked through first, which builds nothing but a counter. How many braces and quotes there are
tells which bodies could, and takes next to no time; most cannot.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ortoo.model import limits
from ortoo.model.errors import InvalidError

_MESSAGES_MAX = limits.BATCH_MESSAGES_MAX
_QUOTES_MAX = 400_000  # what ten thousand messages with some headers have
_HEADER_QUOTES_MAX = 4 * limits.HEADERS_MAX
_SLICE_BYTES = 1024 * 1024
_NOTHING = Raw(b"null")


class _Message(msgspec.Struct):
    """Decoding one counts it; its value is passed over."""

    headers: Raw = _NOTHING

    def __post_init__(self) -> None:
        _count.messages += 1
        if _count.messages > _MESSAGES_MAX:
            raise InvalidError(f"a request has at most {_MESSAGES_MAX} messages; send more requests")
        text = bytes(self.headers)
        quotes = text.count(b'"') - text.count(b'\\"')
        if quotes > _HEADER_QUOTES_MAX:
            raise InvalidError(f"a message has at most {limits.HEADERS_MAX} headers")
        _count.quotes += quotes
        if _count.quotes > 4 * limits.BATCH_HEADERS_MAX:
            most = limits.BATCH_HEADERS_MAX
            raise InvalidError(f"a publish has at most {most} headers in all; send fewer messages at once")


class _Publish(msgspec.Struct):
    messages: list[_Message] = []

    def __post_init__(self) -> None:
        _count.publishes += 1
        if _count.publishes > _MESSAGES_MAX:
            raise InvalidError(f"a transaction has at most {_MESSAGES_MAX} publishes")


class _Body(msgspec.Struct):
    """What a publish, a stage and a transaction have in common."""

    messages: list[_Message] = []
    publishes: list[_Publish] = []


class _Count:
    messages = 0
    publishes = 0
    quotes = 0  # of their headers


_count = _Count()  # of the body that is being looked through; that is done in one go
_look_through = msgspec.json.Decoder(_Body).decode


def could_have_many(body: bytes) -> bool:
    """Whether its counts have to be checked."""
    return len(body) > _MESSAGES_MAX and (
        _has_more(body, b"{", _MESSAGES_MAX + 1) or _has_more(body, b'"', _QUOTES_MAX)
    )


def check_counts(body: bytes) -> None:
    """InvalidError when it has more than any request may have. What is wrong in another way is found when it is read."""
    _count.messages = _count.publishes = _count.quotes = 0
    try:
        _look_through(body)
    except (msgspec.DecodeError, RecursionError):
        pass


def _has_more(body: bytes, sign: bytes, most: int) -> bool:
    found = 0
    for at in range(0, len(body), _SLICE_BYTES):
        found += body.count(sign, at, at + _SLICE_BYTES)
        if found > most:
            return True
    return False
