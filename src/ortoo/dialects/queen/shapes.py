"""What clients of Queen send, and what they are answered. Names are theirs; None and what is left out mean the same."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from ortoo.model import limits
from ortoo.model.errors import InvalidError

ITEMS_MAX = limits.BATCH_MESSAGES_MAX
_SMALL_BYTES = 256 * 1024  # a body that has no more cannot have too much of anything to build
_NOTHING = Raw(b"null")


class AnyQuery(msgspec.Struct):
    """Of a route that takes no parameters: what else is there is passed over."""


# -- configuring

Whole = Annotated[int, Meta(ge=0, le=2**62)]
Seconds = Annotated[float, Meta(ge=0, le=100 * 366 * 86_400)]


class OptionsSent(msgspec.Struct, rename="camel", frozen=True):
    """What a client wants of a queue; options.py has what the rest means."""

    lease_time: Seconds | None = None
    max_size: Whole | None = None
    ttl: Seconds | None = None
    retry_limit: Annotated[int, Meta(ge=0, le=999_999)] | None = None
    retry_delay: Whole | None = None
    dead_letter_queue: bool | None = None
    dlq_after_max_retries: bool | None = None
    priority: Annotated[int, Meta(ge=-(2**62), le=2**62)] | None = None
    delayed_processing: Seconds | None = None
    window_buffer: Seconds | None = None
    retention_seconds: Seconds | None = None
    completed_retention_seconds: Seconds | None = None
    partition_retention_seconds: Seconds | None = None
    retention_enabled: bool | None = None
    encryption_enabled: bool | None = None
    max_wait_time_seconds: Seconds | None = None


class ConfigureBody(msgspec.Struct):
    queue: str | None = None
    namespace: str | None = None
    task: str | None = None
    partition: str | None = None
    options: OptionsSent | None = None


class Configured(msgspec.Struct):
    queue: str
    namespace: str | None
    task: str | None
    configured: bool
    options: dict[str, Any]
    partition: str | UnsetType = UNSET


# -- pushing


class Item(msgspec.Struct, rename={"transaction_id": "transactionId", "trace_id": "traceId"}, gc=False):
    """`data` stands for `payload` where only that is there."""

    queue: str | None = None
    partition: str | None = None
    payload: Raw | UnsetType = UNSET
    transaction_id: str | None = None
    trace_id: str | None = None
    data: Raw | UnsetType = UNSET


class PushBody(msgspec.Struct):
    items: list[Item] | None = None
    config: Raw | UnsetType = UNSET  # clients of the first generation send it; it says nothing of the messages


class PushResult(msgspec.Struct, rename={"transaction_id": "transactionId", "trace_id": "traceId"}, gc=False):
    id: str
    transaction_id: str
    trace_id: str | None
    status: str


class LaterPushResult(msgspec.Struct, rename={"transaction_id": "transactionId"}, gc=False):
    index: int
    message_id: str
    transaction_id: str
    status: str


class PushResults(msgspec.Struct):
    messages: list[PushResult]


# -- popping


class PopQuery(msgspec.Struct, rename="camel"):
    batch: int | None = None
    wait: bool = False
    timeout: int = 30_000
    consumer_group: str | None = None
    consumer_group_too: str | None = msgspec.field(default=None, name="consumer_group")
    subscription_mode: str | None = None
    subscription_from: str | None = None
    auto_ack: bool = False
    partitions: int | None = None
    namespace: str | None = None
    task: str | None = None
    autopilot: bool = False
    conflation: bool = False

    @property
    def group(self) -> str | None:
        return self.consumer_group or self.consumer_group_too or None


class Popped(msgspec.Struct, rename="camel", gc=False):
    id: str
    transaction_id: str
    trace_id: str | None
    queue: str
    partition: str
    data: Raw
    payload: Raw
    retry_count: int
    priority: int
    created_at: str
    consumer_group: str | None
    partition_id: str
    lease_id: str | None
    producer_sub: str | None
    options: Raw


# -- acking


class Ack(
    msgspec.Struct,
    rename={
        "transaction_id": "transactionId",
        "partition_id": "partitionId",
        "lease_id": "leaseId",
        "consumer_group": "consumerGroup",
    },
    gc=False,
):
    transaction_id: str | None = None
    status: str | None = None
    error: str | None = None
    partition_id: str | None = None
    lease_id: str | None = None
    consumer_group: str | None = None


class AckBatchBody(msgspec.Struct, rename="camel"):
    acknowledgments: list[Ack] | None = None
    consumer_group: str | None = None


class ExtendBody(msgspec.Struct):
    seconds: Annotated[float, Meta(gt=0, le=limits.LEASE_MS_MAX / 1000)] | None = None


# -- transactions


class TransactionStep(Ack, gc=False):
    """`push` with items, or `ack` with the fields of one."""

    type: str | None = None
    items: list[Item] | None = None


class TransactionBody(msgspec.Struct, rename="camel"):
    operations: list[TransactionStep] | None = None
    required_leases: list[str] | None = None
    kv: Raw | UnsetType = UNSET  # of newer servers of Queen
    timers: Raw | UnsetType = UNSET


# -- looking at messages


class MessagesQuery(msgspec.Struct, rename="camel"):
    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    status: str | None = None
    consumer_group: str | None = None
    limit: int = 100
    offset: int = 0


class DlqQuery(msgspec.Struct, rename="camel"):
    queue: str | None = None
    consumer_group: str | None = None
    partition: str | None = None
    begins: str | None = msgspec.field(default=None, name="from")
    ends: str | None = msgspec.field(default=None, name="to")
    limit: int = 100
    offset: int = 0


class PartitionQuery(msgspec.Struct):
    partition: str | None = None


class GroupQuery(msgspec.Struct, rename="camel"):
    consumer_group: str | None = None


# -- counting, before anything is built: in a large body there may be very many of everything


class _Counted(msgspec.Struct):
    """Decoding one counts it."""

    def __post_init__(self) -> None:
        _count.things += 1
        if _count.things > ITEMS_MAX:
            raise InvalidError(f"a request has at most {ITEMS_MAX} messages; send more requests")


class _CountedStep(_Counted):
    items: list[_Counted] | None = None


class _CountedBody(msgspec.Struct):
    items: list[_Counted] | None = None
    acknowledgments: list[_Counted] | None = None
    operations: list[_CountedStep] | None = None
    leases: Raw = msgspec.field(default=_NOTHING, name="requiredLeases")

    def __post_init__(self) -> None:
        if bytes(self.leases).count(b'"') > 2 * ITEMS_MAX:
            raise InvalidError(f"a transaction has at most {ITEMS_MAX} leases")


class _Count:
    things = 0


_count = _Count()  # of the body that is being looked through; that is done in one go
_look_through = msgspec.json.Decoder(_CountedBody).decode


def check_counts(body: bytes) -> None:
    """InvalidError when it has more than any request may have; or what reading it would raise."""
    if len(body) > _SMALL_BYTES:
        _count.things = 0
        _look_through(body)
