"""Member ids: who consumes, which topics, and how long its session lasts, written into the id itself.

A poll names the group and the member only, so the id tells the rest: it works on every connection, and after a restart.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated
from uuid import uuid4

import msgspec
from msgspec import Meta

from ortoo.model import limits
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import check_name

TOPICS_MAX = 32  # that one member polls
_CHARS_MAX = 12_000  # of an id: it travels in a query
_NONCE_CHARS = 8


class _Content(msgspec.Struct, array_like=True, frozen=True):
    topics: Annotated[list[str], Meta(min_length=1, max_length=TOPICS_MAX)]
    session_ms: Annotated[int, Meta(ge=1, le=limits.LEASE_MS_MAX)]


class Member(msgspec.Struct, frozen=True):
    """`consumer` is its name among ours."""

    consumer: str
    topics: list[str]
    session_ms: int

    @property
    def client(self) -> str:
        return client_of(self.consumer)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Content).decode


def new(client: str, topics: list[str], session_ms: int) -> tuple[str, Member]:
    """The id of one who joins, and what it stands for."""
    consumer = f"{client}-{uuid4().hex[:_NONCE_CHARS]}"
    if len(consumer.encode(errors="replace")) > limits.NAME_BYTES_MAX:
        raise InvalidError(f"client_id has at most {limits.NAME_BYTES_MAX - _NONCE_CHARS - 1} bytes")
    check_name("client_id", consumer)
    content = urlsafe_b64encode(_encode(_Content(topics, session_ms))).decode().rstrip("=")
    return f"{consumer}.{content}", Member(consumer, topics, session_ms)


def parse(text: str) -> Member:
    consumer, _, content = text.rpartition(".")
    if consumer and len(text) <= _CHARS_MAX:
        try:
            found = _decode(urlsafe_b64decode(content + "=" * (-len(content) % 4)))
            return Member(check_name("member_id", consumer), found.topics, found.session_ms)
        except (ValueError, msgspec.DecodeError, InvalidError):
            pass
    raise NotFoundError("member not found; join the group, and send member_id as it was answered")


def client_of(consumer: str) -> str:
    """What the client called itself, as far as that can be content: names of other consumers stay as they are."""
    client, _, nonce = consumer.rpartition("-")
    is_ours = len(nonce) == _NONCE_CHARS and all(char in "0123456789abcdef" for char in nonce)
    return client if client and is_ours else consumer
