"""Messages as users see them: `Message` on the way in, `Received` on the way out."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar, overload

import msgspec

from .errors import InvalidError, InvalidValueError
from .json_values import Value, read_json
from .names import GroupId, LeaseId, TopicId, TopicName
from .topic import DEFAULT_PRIORITY
from .units import Duration, Time

CORRELATION_ID = "correlation-id"
REPLY_TO = "reply-to"

T = TypeVar("T")

PRIORITY_NAMES = {"high": 0, "normal": 5, "low": 9}


class Message(msgspec.Struct, gc=False):
    """One message to publish.

    `value` is bytes, taken as they are, or a str, stored as UTF-8, or is stored as JSON: a dict, list, tuple, number, bool, None,
    dataclass, msgspec Struct or pydantic model.
    """

    value: Value
    key: str | None = None
    headers: dict[str, str] | None = None
    priority: int | str = DEFAULT_PRIORITY
    delay: Duration | None = None  # seconds, or a timedelta
    deliver_at: Time | None = None  # seconds since 1970, or a datetime
    ttl: Duration | None = None
    dedup_id: str | None = None
    partition: int | None = None


class Settler(Protocol):
    """What a leased message needs of the queue it came from."""

    def ack(self, messages: Received, /) -> Awaitable[None]: ...
    def nack(
        self, messages: Received, /, error: str | None = None, delay: Duration | None = None
    ) -> Awaitable[None]: ...
    def reject(self, messages: Received, /, error: str | None = None) -> Awaitable[None]: ...
    def release(self, messages: Received, /) -> Awaitable[None]: ...
    def extend(self, messages: Received, /, seconds: Duration | None = None) -> Awaitable[None]: ...


class LateAcks(Protocol):
    """Who takes acks that are not waited for."""

    def add(self, message: Received, /) -> None: ...


class Delivery:
    """What the messages of one lease from one partition have in common, kept once."""

    __slots__ = ("group", "group_id", "late", "lease", "partition", "queue", "receipt_prefix", "topic", "topic_id")

    def __init__(
        self,
        topic: TopicName,
        topic_id: TopicId,
        partition: int,
        group: str | None = None,
        group_id: GroupId = GroupId(0),  # noqa: B008 - a number
        lease: LeaseId = LeaseId(0),  # noqa: B008 - a number
        queue: Settler | None = None,
        late: LateAcks | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.group = group
        self.group_id = group_id
        self.lease = lease
        self.queue = queue
        self.late = late
        self.receipt_prefix = f"{topic_id}.{group_id}.{lease}.{partition}."


class Received(msgspec.Struct, gc=False):
    """A message that was leased, read or looked at."""

    value: bytes
    key: str | None
    headers_or_none: dict[str, str] | None
    priority: int
    timestamp_ms: int
    is_json: bool
    attempt: int
    offset: int
    delivery: Delivery
    publisher: str | None = None  # who published it, as the server knows; None where nobody had to say who they are
    due_ms: int | None = None  # of one that was looked at, and is not due yet
    expires_ms: int | None = None  # the same, if it expires

    @property
    def id(self) -> str:
        return f"{self.delivery.topic_id}.{self.delivery.partition}.{self.offset}"

    @property
    def topic(self) -> str:
        return self.delivery.topic.name

    @property
    def namespace(self) -> str:
        return self.delivery.topic.namespace

    @property
    def partition(self) -> int:
        return self.delivery.partition

    @property
    def group(self) -> str | None:
        return self.delivery.group

    @property
    def timestamp(self) -> float:
        """When it was published, in seconds since the epoch."""
        return self.timestamp_ms / 1000

    @property
    def due(self) -> float | None:
        """When it comes due, in seconds since the epoch; of a message that was looked at, by its id or its state."""
        return None if self.due_ms is None else self.due_ms / 1000

    @property
    def expires(self) -> float | None:
        """When it outlives its time to live, or its longest wait; the same."""
        return None if self.expires_ms is None else self.expires_ms / 1000

    @property
    def headers(self) -> dict[str, str]:
        return self.headers_or_none or {}

    @property
    def correlation_id(self) -> str | None:
        return self.headers.get(CORRELATION_ID)

    @property
    def reply_to(self) -> str | None:
        return self.headers.get(REPLY_TO)

    @property
    def receipt(self) -> str:
        """Names this delivery of the message; ack, nack and the others take it in the place of the message."""
        if self.delivery.lease == 0:
            raise InvalidError(f"message {self.id} was read, not leased, so there is nothing to settle")
        return f"{self.delivery.receipt_prefix}{self.offset}"

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, model: type[T]) -> T: ...
    @overload
    def json(self, model: Any) -> Any: ...
    def json(self, model: Any = Any) -> Any:
        """The value, decoded from JSON. With `model`, as a dataclass, msgspec Struct, TypedDict, pydantic model or other type.

        InvalidValueError when it is not JSON, or does not fit. Raised by a worker's handler, it dead-letters the message at
        once: a retry would change nothing.
        """
        try:
            return read_json(self.value, model)
        except InvalidError as error:
            raise InvalidValueError(f"the value of message {self.id} {error}", self.id) from None

    # These hand on what the queue returns: something to await, or from a blocking queue nothing, for it is done by then.

    def ack(self) -> Awaitable[None]:
        return self._queue().ack(self)

    def ack_nowait(self) -> None:
        """Acks without waiting until that is confirmed: the fast way to ack one by one, also from other threads.

        A lease that was lost meanwhile is told later, by a LeaseLostError: with the next message of the loop that this one
        came from, or when that ends, or when the queue is closed.
        """
        if self.delivery.late is None:
            raise InvalidError(f"message {self.id} was read, not leased, so there is nothing to settle")
        self.delivery.late.add(self)

    def nack(self, error: str | None = None, delay: Duration | None = None) -> Awaitable[None]:
        return self._queue().nack(self, error=error, delay=delay)

    def reject(self, error: str | None = None) -> Awaitable[None]:
        return self._queue().reject(self, error=error)

    def release(self) -> Awaitable[None]:
        return self._queue().release(self)

    def extend(self, seconds: Duration | None = None) -> Awaitable[None]:
        return self._queue().extend(self, seconds)

    def _queue(self) -> Settler:
        if self.delivery.queue is None:
            raise InvalidError(f"message {self.id} was read, not leased, so there is nothing to settle")
        return self.delivery.queue
