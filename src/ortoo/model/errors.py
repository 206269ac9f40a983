"""Every error Ortoo raises, as one tree ordered by whose fault it is and what to do about it.

    OrtooError
    ├── RequestError          the request is at fault; sending it again changes nothing
    │   ├── InvalidError          invalid            a value is malformed or out of bounds
    │   │   └── InvalidValueError                        the value of a message is not what its reader expects
    │   ├── NotFoundError         not_found          the topic, group, message or transaction does not exist
    │   ├── ExistsError           exists             it is there already, and different
    │   ├── LeaseLostError        lease_lost         the receipt is stale; the message went, or will go, to another consumer
    │   ├── UnauthenticatedError  unauthenticated
    │   └── ForbiddenError        forbidden
    ├── CapacityError         there is no room now; try again later
    │   ├── FullError             full               the topic has reached its max_depth, or its namespace its quota
    │   ├── TooManyError          too_many           a limit of limits.py, or a quota, is reached
    │   └── RateLimitedError      rate_limited       more was published in a minute than a namespace may
    ├── UnavailableError      the queue cannot serve now; try again, perhaps elsewhere
    │   ├── ClosedError           closed             the queue is closed or closing
    │   ├── NotOwnerError         not_owner
    │   └── StoreFailedError      store_failed       the store refused before anything was written
    ├── OutcomeUnknownError   outcome_unknown    the write may or may not have happened; retry with a dedup_id
    ├── NoReplyError          no_reply           nobody answered a request in time
    ├── ProtocolError         protocol           a peer sent bytes that the protocol does not allow
    ├── CorruptionError       corruption         stored bytes are not what was written
    └── ConfigError           config             a setting is unknown or out of bounds

The codes are stable: doors put them on the wire and users may match on them.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar


class OrtooError(Exception):
    """Anything that went wrong in Ortoo. `code` is stable, the message says what to do."""

    code: ClassVar[str] = "error"


class RequestError(OrtooError):
    code = "request"


class InvalidError(RequestError):
    code = "invalid"


class InvalidValueError(InvalidError):
    """The value of message `message_id` is not JSON, or does not fit the type that it was read as. No server answers with it."""

    def __init__(self, message: str, message_id: str) -> None:
        super().__init__(message)
        self.message_id = message_id


class NotFoundError(RequestError):
    code = "not_found"


class ExistsError(RequestError):
    code = "exists"


class LeaseLostError(RequestError):
    """Some receipts were stale. What could be settled was settled; `lost` names the receipts that could not."""

    code = "lease_lost"

    def __init__(self, message: str, lost: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lost = list(lost)


class UnauthenticatedError(RequestError):
    code = "unauthenticated"


class ForbiddenError(RequestError):
    code = "forbidden"


class CapacityError(OrtooError):
    code = "capacity"


class FullError(CapacityError):
    code = "full"


class TooManyError(CapacityError):
    code = "too_many"


class RateLimitedError(CapacityError):
    """Too much at a time. `retry_after` says in how many seconds to come again, where that is known."""

    code = "rate_limited"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnavailableError(OrtooError):
    code = "unavailable"


class ClosedError(UnavailableError):
    code = "closed"


class NotOwnerError(UnavailableError):
    code = "not_owner"


class StoreFailedError(UnavailableError):
    code = "store_failed"
    is_certain = False  # that nothing was written; else nobody knows what was


class OutcomeUnknownError(OrtooError):
    code = "outcome_unknown"


class NoReplyError(OrtooError):
    code = "no_reply"


class ProtocolError(OrtooError):
    code = "protocol"


class CorruptionError(OrtooError):
    code = "corruption"


class ConfigError(OrtooError):
    code = "config"


def _tree(kind: type[OrtooError]) -> Iterator[type[OrtooError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


ERRORS = {kind.code: kind for kind in _tree(OrtooError) if "code" in vars(kind)}


def error_of(code: str, message: str, lost: Sequence[str] = (), retry_after: float | None = None) -> OrtooError:
    """The error that a server named by its code. One of a newer server that is not known here is a plain OrtooError."""
    kind = ERRORS.get(code, OrtooError)
    if kind is RateLimitedError:
        return RateLimitedError(message, retry_after)
    return LeaseLostError(message, lost) if kind is LeaseLostError else kind(message)
