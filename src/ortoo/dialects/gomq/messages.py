"""Messages as GoMQ writes them: what is published, and the lines in which deliveries come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from ortoo.dialects import ids
from ortoo.doors.times import instant_text, parse_duration
from ortoo.model import limits
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.errors import InvalidError
from ortoo.model.names import MessageRef
from ortoo.model.replies import LeasedRun
from ortoo.model.topic import DEFAULT_PRIORITY
from ortoo.model.validation import in_words

PRIORITY_MAX = 10  # and the most urgent; for us the lowest number is
_REASONS = {"attempts": "max_retries", "ttl": "expired", "max_wait": "expired"}  # the others keep their names


class _Published(msgspec.Struct, gc=False):
    payload: str
    headers: Annotated[dict[str, str], Meta(max_length=limits.HEADERS_MAX)] | None = None
    priority: Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] | None = None
    ttl: str | None = None
    delay: str | None = None


class _Bare(msgspec.Struct, gc=False):
    """The same of a message that is nothing but its payload."""

    payload: bytes
    headers: None = None
    priority: None = None
    ttl: None = None
    delay: None = None


class _Delivered(msgspec.Struct, gc=False):
    id: str
    source: str
    name: str
    payload: str
    headers: dict[str, str]
    priority: int
    timestamp: str


class _Looked(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Published).decode
_look = msgspec.json.Decoder(_Looked).decode


def to_outgoing(texts: list[bytes]) -> Outgoing:
    """A message each: an object with a payload is one in full, anything else is the payload itself."""
    messages = [_read(text) for text in texts]
    outgoing = Outgoing(
        [_bytes(message.payload) for message in messages],
        headers=[message.headers or None for message in messages],
        priorities=[PRIORITY_MAX - (message.priority or 0) for message in messages],
        ttls=[_seconds("ttl", message.ttl) for message in messages],
        delays=[_seconds("delay", message.delay) for message in messages],
    )
    check_outgoing(outgoing)
    return outgoing


def _bytes(payload: str | bytes) -> bytes:
    return payload.encode() if isinstance(payload, str) else payload


def _read(text: bytes) -> _Published | _Bare:
    if not text.lstrip().startswith(b"{"):
        return _Bare(text)
    try:
        if bytes(_look(text).payload) in (b"", b"null"):
            return _Bare(text)
    except (msgspec.DecodeError, RecursionError):
        return _Bare(text)  # no JSON, or not GoMQ's
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"invalid message: {in_words(error)}") from None


def _seconds(what: str, text: str | None) -> float | None:
    """A time to live of nothing is none, as is an empty one."""
    return (parse_duration(what, text) or None) if text else None


def to_lines(run: LeasedRun, source: str, name: str) -> Iterator[bytes]:
    """One for each message of the run, as it is called by the client."""
    taken, columns = run.taken, run.columns
    count = len(columns)
    headers = columns.headers or [None] * count
    priorities = columns.priorities or [DEFAULT_PRIORITY] * count
    rows = zip(columns.offsets, columns.values, headers, priorities, columns.timestamps, strict=True)
    instants = {stamp: instant_text(stamp, digits=0) for stamp in set(columns.timestamps)}
    for offset, value, own, priority, stamp in rows:
        found = _Delivered(
            ids.to_uuid(MessageRef(taken.topic_id, taken.partition, offset)),
            source,
            name,
            value.decode(errors="replace"),
            _headers(own, name, instants[stamp]),
            min(PRIORITY_MAX, max(0, PRIORITY_MAX - priority)),
            instants[stamp],
        )
        yield b"MESSAGE %b\n" % _encode(found)


def _headers(own: dict[str, str] | None, name: str, instant: str) -> dict[str, str]:
    """Those of a dead letter are told by the names that GoMQ has for them."""
    if not own:
        return {}
    if "ortoo-origin" not in own:
        return own
    found = {header: value for header, value in own.items() if not header.startswith("ortoo-")}
    reason = own.get("ortoo-reason", "")
    found["x-death-reason"] = _REASONS.get(reason, reason)
    found["x-original-queue"] = name.removesuffix("-dlq").removesuffix(".dlq")
    found["x-delivery-count"] = own.get("ortoo-attempts", "")
    found["x-death-time"] = instant
    if "ortoo-error" in own:
        found["x-error"] = own["ortoo-error"]
    return found
