"""Our own protocol, as values: what a client may say, what a server answers. `docs/protocol.md` is its norm.

client ─▶ server    [id, request]
server ─▶ client    [kind, id, body]
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from ortoo.model.commands import AnyCommand, Lease, Once, Publish
from ortoo.model.errors import (
    ConfigError,
    InvalidError,
    LeaseLostError,
    OrtooError,
    ProtocolError,
    RateLimitedError,
    error_of,
)
from ortoo.model.queries import AnyQuery
from ortoo.model.replies import LeasedRun
from ortoo.model.validation import in_words

from . import bounds
from .heads import read_id

PROTOCOL: Final = 1
FRAME_BYTES_MAX: Final = bounds.FRAME_BYTES_MAX
HELLO_BYTES_MAX: Final = 16 * 1024  # before a client is let in
ANSWER, ERROR, DELIVERY, GOODBYE = range(4)  # kinds of what a server sends

T = TypeVar("T")


class Hello(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    protocol: int
    client: str  # the program and its version, for the log
    token: str | None = None
    consumers: Annotated[
        list[str], Meta(max_length=1_000)
    ] = []  # who leased through an earlier connection, and is here again


class Welcome(msgspec.Struct, frozen=True):
    protocol: int
    server: str
    frame_bytes_max: int
    idle_ms: int  # a client silent for so long is taken for gone; Ping is a sign of life


class Ping(msgspec.Struct, frozen=True, tag=True):
    pass


class PublishOrWait(msgspec.Struct, frozen=True, tag=True):
    """A publish that waits for room in a topic that is full."""

    publish: Publish | Once
    wait_ms: int


class Subscribe(msgspec.Struct, frozen=True, tag=True):
    """Deliveries carry the id of this request, until it is answered: by an error, or when Unsubscribe has ended it."""

    lease: Lease
    credit: int


class Credit(msgspec.Struct, frozen=True, tag=True):
    """Not answered."""

    subscription: int
    credit: int


class Unsubscribe(msgspec.Struct, frozen=True, tag=True):
    """Not answered itself: the subscription is, and nothing is delivered after that."""

    subscription: int


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits for the answer to that lease or publish any more. Not answered itself; the other is, one way or another."""

    request: int


Request = Hello | Ping | PublishOrWait | Subscribe | Credit | Unsubscribe | Cancel | AnyQuery | AnyCommand


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    message: str
    lost: list[str] = []  # receipts, when the code is lease_lost
    retry_after: float | None = None  # seconds, when the code is rate_limited


def to_problem(error: OrtooError) -> Problem:
    lost = error.lost if isinstance(error, LeaseLostError) else []
    return Problem(error.code, str(error), lost, error.retry_after if isinstance(error, RateLimitedError) else None)


def to_error(problem: Problem) -> OrtooError:
    return error_of(problem.code, problem.message, problem.lost, problem.retry_after)


_requests = msgspec.msgpack.Decoder(tuple[int, Request])
_responses = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw])
problem_decoder = msgspec.msgpack.Decoder(Problem)
welcome_decoder = msgspec.msgpack.Decoder(Welcome)
delivery_decoder = msgspec.msgpack.Decoder(list[LeasedRun])
_UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class RefusedRequestError(InvalidError):
    """A request that can be answered, with an error: `id` names it."""

    def __init__(self, request_id: int, reason: OrtooError) -> None:
        super().__init__(str(reason))
        self.id = request_id
        self.reason = reason


def decode_request(body: memoryview) -> tuple[int, Request]:
    """RefusedRequestError when the request is wrong, ProtocolError when it is not even one.

    Each kind has its bounds, which are checked before anything is built; lists have some of their own.
    """
    reason: OrtooError
    try:
        bounds.check_bounds(body)
        return _requests.decode(body)
    except (ConfigError, InvalidError) as error:  # a topic's settings are checked as they are made
        reason = error
    except msgspec.ValidationError as error:
        reason = InvalidError(f"the request is malformed: {_malformed(error)}")
    except msgspec.DecodeError as error:
        raise ProtocolError(f"this is not msgpack: {error}") from None
    except _UNREADABLE as error:
        reason = InvalidError(f"the request is malformed: {error}")
    raise RefusedRequestError(read_id(body), reason)


def _malformed(error: msgspec.ValidationError) -> str:
    """A request comes in a pair, with its id."""
    words = in_words(error, "it")
    return words.removeprefix("[1].") if words.startswith("[1].") else words.replace("[1] ", "it ", 1)


def decode_response(body: memoryview) -> tuple[int, int, msgspec.Raw]:
    return decode_from_server(_responses, body)


def decode_from_server(decoder: msgspec.msgpack.Decoder[T], body: memoryview | msgspec.Raw) -> T:
    try:
        return decoder.decode(body)
    except (*_UNREADABLE, ConfigError) as error:
        raise ProtocolError(f"the server sent what this client does not understand: {error}") from None
