"""What goes over the wire as JSON. The description at /openapi.json is made from these types, and so are the checks.

`value` is kept as the exact bytes that were sent (msgspec.Raw) and is never looked into. Bytes that are not JSON travel as
`value_base64`; msgspec writes and reads bytes that way by itself.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from ortoo.model import limits
from ortoo.model.names import DEFAULT_GROUP
from ortoo.model.replies import MessageState
from ortoo.model.topic import DEFAULT_PRIORITY

from .call import InNamespace

Count = Annotated[int, Meta(ge=1, le=limits.BATCH_MESSAGES_MAX)]
Wait = Annotated[float, Meta(ge=0, le=limits.WAIT_MS_MAX / 1000, description="Seconds to wait for the first message")]
Seconds = Annotated[float, Meta(ge=0, le=1e10)]
Offset = Annotated[int, Meta(ge=0, le=2**62)]
Cut = Annotated[int, Meta(ge=0, le=limits.MESSAGE_BYTES_MAX, description="Of larger values, only so many bytes")]
Instant = Annotated[float, Meta(ge=-1e11, le=1e11, description="Seconds since 1970, UTC")]
BODY_BYTES_MAX = 128 * 1024  # of a request that carries no messages: all settings of a topic, and its labels escaped
LIST_BYTES_MAX = 2 * 1024 * 1024  # of one that names messages: ten thousand receipts, and as much again
Receipt = Annotated[str, Meta(description="Names one delivery of one message", examples=["7.3.1099511627781.2.41"])]
Receipts = Annotated[list[Receipt], Meta(max_length=limits.BATCH_MESSAGES_MAX)]
Start = Literal["all", "new"]


class Input(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Misspelt names are refused rather than ignored."""


# -- messages


class NewMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message to publish. Give `value` (any JSON, kept byte for byte) or `value_base64` (any bytes)."""

    value: Raw | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET
    key: str | None = None
    headers: dict[str, str] | None = None
    priority: int | Literal["high", "normal", "low"] = DEFAULT_PRIORITY
    delay: float | None = None
    deliver_at: float | None = None
    ttl: float | None = None
    dedup_id: str | None = None
    partition: int | None = None


Messages = Annotated[list[NewMessage], Meta(min_length=1, max_length=limits.BATCH_MESSAGES_MAX)]


class PublishBody(NewMessage, gc=True, kw_only=True, forbid_unknown_fields=True):
    """`messages`; or the fields of one message, which then need no list."""

    messages: Messages | UnsetType = UNSET
    wait: Annotated[float, Meta(ge=0, le=limits.WAIT_MS_MAX / 1000, description="Seconds to wait for room")] = 0.0


class Placement(msgspec.Struct, gc=False):
    """Where a published message lies; with `duplicate`, where the first one with its dedup_id lies."""

    id: str
    partition: int
    offset: int
    duplicate: bool


class Placements(msgspec.Struct):
    results: list[Placement]


class MessageView(msgspec.Struct, gc=False):
    """A message. `receipt` and `group` are there when it was leased; `value` when it is JSON, else `value_base64`; `publisher`
    when the server knows who published it; `due` and `expires`, in seconds since 1970, of one looked at by its id or state.
    `value_bytes`, how large the value is, where it was cut: what `value_base64` has is then its beginning."""

    id: str
    topic: str
    namespace: str
    partition: int
    offset: int
    timestamp: float
    key: str | None
    headers: dict[str, str]
    priority: int
    attempt: int
    value: Raw | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET
    group: str | UnsetType = UNSET
    receipt: str | UnsetType = UNSET
    publisher: str | UnsetType = UNSET
    due: float | UnsetType = UNSET
    expires: float | UnsetType = UNSET
    value_bytes: int | UnsetType = UNSET


class MessageList(msgspec.Struct):
    messages: list[MessageView]


class MessagePage(msgspec.Struct):
    """`next` goes on where this page ends; null at the end of what there was when the first page was asked for."""

    messages: list[MessageView]
    next: str | None


class MessageDetail(msgspec.Struct):
    """One message, and its state in each group."""

    message: MessageView
    states: dict[str, MessageState]


# -- leasing and settling


class LeaseBody(Input):
    max_messages: Count = 1
    wait: Wait = 0.0
    lease: Seconds | None = None
    consumer: str | None = None
    partition: Offset | None = None
    key: str | None = None
    auto_ack: bool = False
    start: Start | None = "all"
    max_keys: Count | None = None


class LeaseAnywhereBody(LeaseBody, kw_only=True):
    """Across every topic that has these labels, the most urgent topic first."""

    labels: dict[str, str]
    group: str = DEFAULT_GROUP


class SettleBody(Input):
    """`error` is for nack and reject, `delay` for nack, `seconds` for extend."""

    receipts: Receipts
    error: str | None = None
    delay: Seconds | None = None
    seconds: Seconds | None = None


class SettleResult(msgspec.Struct, gc=False):
    """`error` is null, or a code: `lease_lost` for a stale receipt, `invalid` for one that is none."""

    receipt: str
    ok: bool
    error: str | None


class SettleResults(msgspec.Struct, omit_defaults=True):
    """`revoked`: receipts of the same leases whose messages went back in line behind the ones settled."""

    results: list[SettleResult]
    revoked: list[str] = []


# -- single messages and dead letters


class RetryBody(Input):
    group: str | None = None


class DeadLetterBody(Input):
    group: str | None = None
    error: str | None = None


# -- transactions and requests


class TransactionPublish(Input):
    topic: str
    messages: Messages
    namespace: str | None = None


class TransactionBody(Input):
    """Acks and publishes that happen together or not at all."""

    acks: Receipts = []
    publishes: Annotated[list[TransactionPublish], Meta(max_length=limits.BATCH_MESSAGES_MAX)] = []


class BeginBody(Input):
    timeout: Seconds = 3600.0


class TransactionView(msgspec.Struct):
    name: str
    namespace: str


class StageBody(TransactionPublish, kw_only=True):
    """`part` names who stages; a commit may choose among parts."""

    part: str


class CommitBody(Input):
    parts: Annotated[list[str], Meta(max_length=limits.BATCH_MESSAGES_MAX)] | None = None


class RequestBody(Input):
    value: Raw | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET
    key: str | None = None
    headers: dict[str, str] | None = None
    timeout: Annotated[float, Meta(ge=0, le=limits.WAIT_MS_MAX / 1000)] = 5.0


LISTING = (SettleBody, CommitBody)
CARRYING = (PublishBody, TransactionBody, StageBody, RequestBody)  # messages: as large as `http.max_body_bytes` allows


# -- queries


class ReplayQuery(InNamespace, kw_only=True):
    from_offset: Offset | None = None
    from_time: Instant | None = None
    to_offset: Offset | None = None
    to_time: Instant | None = None
    partition: Offset | None = None
    limit: Count = 100
    next: str | None = None
    format: Literal["json", "ndjson"] | None = None
    value_bytes: Cut | None = None


class OffsetsQuery(InNamespace, kw_only=True):
    """The first of each partition, the one that the next message gets (the default), or the first since a time."""

    at: Literal["start", "end"] | None = None
    time: Instant | None = None


class HistoryQuery(InNamespace, kw_only=True):
    """`limit` counts positions; what happened to several messages at once shares one. An answer has at most 10,000 events, unless
    a single position has more."""

    partition: Offset = 0
    from_position: Offset = 0
    limit: Count = 100


class StateQuery(InNamespace, kw_only=True):
    state: MessageState = "ready"
    limit: Count = 100


class AnalyticsQuery(InNamespace, kw_only=True):
    topic: str | None = None
    group: str | None = None
    since: Annotated[Instant | None, Meta(description="Hours that end after this; seconds since 1970, UTC")] = None
    until: Annotated[Instant | None, Meta(description="Hours that begin before this; seconds since 1970, UTC")] = None


class DeadLettersQuery(InNamespace, kw_only=True):
    group: str | None = None
    limit: Count = 1000
    next: str | None = None
    value_bytes: Cut | None = None


class MessageQuery(InNamespace, kw_only=True):
    value_bytes: Cut | None = None
