"""Answers: what a handler may give back, errors as problem documents (RFC 9457), and compressing what goes out."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from http import HTTPStatus
from math import ceil
from typing import Protocol

import msgspec
import zstandard

from ortoo.model import errors

JSON = b"application/json"
EVENTS = b"text/event-stream"
Headers = list[tuple[bytes, bytes]]

WORTHWHILE_BYTES = 2_048  # below, the head of the answer weighs more than what is saved by compressing
_THREAD_BYTES = 256 * 1024  # above, compressing would keep everybody else waiting
_GZIP_WBITS = 31


def guarding_headers(is_tls: bool) -> Headers:
    """What every answer tells browsers: guess no type, tell no other site, keep nothing, show it in no other page."""
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"x-frame-options", b"DENY"),
    ]
    if is_tls:
        headers.append((b"strict-transport-security", b"max-age=31536000"))
    return headers


class Answer:
    """An answer that is complete. `body` is what goes out, before any compression unless `coding` says that it was done.

    `cache` is for what browsers may keep.
    """

    __slots__ = ("body", "cache", "coding", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        content_type: bytes = JSON,
        headers: Headers | None = None,
        *,
        coding: str | None = None,
        cache: bytes | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers or []
        self.coding = coding
        self.cache = cache


class Streaming:
    """An answer that is made while it is sent, as fast as the client reads. `ended` is called whatever becomes of it."""

    __slots__ = ("chunks", "content_type", "ended", "status")

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], content_type: bytes, ended: Callable[[], None] | None = None
    ) -> None:
        self.chunks = chunks
        self.content_type = content_type
        self.ended = ended
        self.status = 200


# A handler gives bytes (JSON already), a struct (to be written as JSON), None (204 No Content), or a whole answer.
Reply = bytes | msgspec.Struct | Answer | Streaming | None


# -- problems

# Total: every class of the tree has its own line, and a test holds it to that. 4xx when the request is at fault, 429 when a
# limit is reached, 5xx when the server cannot do what was rightly asked.
STATUS: dict[type[errors.OrtooError], int] = {
    errors.OrtooError: 500,
    errors.RequestError: 400,
    errors.InvalidError: 400,
    errors.InvalidValueError: 400,
    errors.NotFoundError: 404,
    errors.ExistsError: 409,
    errors.LeaseLostError: 409,
    errors.UnauthenticatedError: 401,
    errors.ForbiddenError: 403,
    errors.CapacityError: 503,
    errors.FullError: 503,
    errors.TooManyError: 429,
    errors.RateLimitedError: 429,
    errors.UnavailableError: 503,
    errors.ClosedError: 503,
    errors.NotOwnerError: 503,
    errors.StoreFailedError: 503,
    errors.OutcomeUnknownError: 500,
    errors.NoReplyError: 504,
    errors.ProtocolError: 400,
    errors.CorruptionError: 500,
    errors.ConfigError: 400,  # over HTTP it is always a topic's settings
}

PROBLEM_TYPE = b"application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong. `code` is stable; `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    lost: list[str] | None = None  # with lease_lost: the receipts that were stale
    retry_after: float | None = None  # with rate_limited: in how many seconds to try again


class Refusal(Exception):
    """What HTTP itself forbids, before the queue is asked."""

    def __init__(self, status: int, detail: str, headers: Headers | None = None, code: str = "invalid") -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or []
        self.code = code


def status_of(error: errors.OrtooError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def to_problem(error: errors.OrtooError | Refusal) -> Problem:
    if isinstance(error, Refusal):
        title = HTTPStatus(error.status).phrase
        return Problem(f"/docs#{error.code}", title, error.status, str(error), error.code)
    title = error.code.replace("_", " ").capitalize()
    lost = error.lost if isinstance(error, errors.LeaseLostError) else None
    wait = error.retry_after if isinstance(error, errors.RateLimitedError) else None
    return Problem(f"/docs#{error.code}", title, status_of(error), str(error), error.code, lost, wait)


def unexpected() -> Problem:
    """For what should not happen: the log has the story, the client is told no internals."""
    return Problem("/docs#error", "Internal Server Error", 500, "the server failed; its log tells more", "error")


def problem_headers(error: errors.OrtooError | Refusal | None, status: int) -> Headers:
    headers = list(error.headers) if isinstance(error, Refusal) else []
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="ortoo"'))
    if status in (429, 503):
        wait = getattr(error, "retry_after", None) or 1
        headers.append((b"retry-after", b"%d" % ceil(wait)))
    return headers


encode_problem = msgspec.json.Encoder().encode


# -- content codings


class Coder(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self, mode: int = ..., /) -> bytes: ...


def choose_coding(accept: bytes | None, codings: tuple[str, ...] = ("zstd", "gzip")) -> str | None:
    """The first of these codings that the client takes, or None."""
    if accept is None:
        return None
    taken: dict[str, bool] = {}
    for item in accept.decode("latin-1").lower().split(","):
        name, _, weight = item.partition(";")
        taken[name.strip()] = weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    for coding in codings:
        if taken.get(coding, taken.get("*", False)):
            return coding
    return None


def _coder(coding: str) -> tuple[Coder, int]:
    """A coder, and how it flushes what it has so far."""
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=1).compressobj(), zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return zlib.compressobj(1, zlib.DEFLATED, _GZIP_WBITS), zlib.Z_SYNC_FLUSH


def _compress(coding: str, body: bytes) -> bytes:
    coder, _ = _coder(coding)
    return coder.compress(body) + coder.flush()


async def compress(coding: str, body: bytes) -> bytes:
    if len(body) > _THREAD_BYTES:
        return await asyncio.to_thread(_compress, coding, body)
    return _compress(coding, body)


async def compress_stream(coding: str, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Each chunk can be read as soon as it is there."""
    coder, flush = _coder(coding)
    async for chunk in chunks:
        yield coder.compress(chunk) + coder.flush(flush)
    yield coder.flush()
