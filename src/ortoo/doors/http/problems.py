"""Errors as problem documents (RFC 9457): the one map from errors to statuses, and the bytes that go out."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from ortoo.model import errors

Headers = list[tuple[bytes, bytes]]

# Total: every class of the tree has its own line, and a test holds it to that. 4xx when the request is at fault, 429 when a
# limit is reached, 5xx when the server cannot do what was rightly asked.
STATUS: dict[type[errors.OrtooError], int] = {
    errors.OrtooError: 500,
    errors.RequestError: 400,
    errors.InvalidError: 400,
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

CONTENT_TYPE = b"application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong. `code` is stable; `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    lost: list[str] | None = None  # with lease_lost: the receipts that were stale


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
    return Problem(f"/docs#{error.code}", title, status_of(error), str(error), error.code, lost)


def unexpected() -> Problem:
    """For what should not happen: the log has the story, the client is told no internals."""
    return Problem("/docs#error", "Internal Server Error", 500, "the server failed; its log tells more", "error")


def problem_headers(error: errors.OrtooError | Refusal | None, status: int) -> Headers:
    headers = list(error.headers) if isinstance(error, Refusal) else []
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="ortoo"'))
    if status in (429, 503):
        headers.append((b"retry-after", b"1"))
    return headers


encode_problem = msgspec.json.Encoder().encode
