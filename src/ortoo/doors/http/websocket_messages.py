"""What a client may say on a WebSocket, and what it is told. README.md beside this file shows a conversation."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ortoo.model import limits
from ortoo.model.live import Sort
from ortoo.model.names import DEFAULT_GROUP, DEFAULT_NAMESPACE

from .answers import Problem
from .live import First, Limit, Match
from .shapes import (
    BODY_BYTES_MAX,
    LIST_BYTES_MAX,
    Count,
    Messages,
    MessageView,
    Offset,
    Placement,
    Receipts,
    Seconds,
    SettleResult,
    Start,
)

Credit = Annotated[int, Meta(ge=0, le=1_000_000)]
Name = Annotated[str, Meta(max_length=limits.NAME_BYTES_MAX)]


class ClientMessage(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """`ref` comes back with the answer, so that a client can tell which of its messages it belongs to."""

    ref: Name | UnsetType = UNSET


class Subscribe(ClientMessage, tag="subscribe"):
    """Messages come as long as there is credit; each one costs one. `max_messages` bounds a single delivery."""

    id: Name
    topic: str | None = None
    labels: dict[str, str] | None = None
    group: str = DEFAULT_GROUP
    namespace: str = DEFAULT_NAMESPACE
    credit: Credit = 0
    max_messages: Count = 100
    lease: Seconds | None = None
    consumer: str | None = None
    partition: Offset | None = None
    key: str | None = None
    auto_ack: bool = False
    start: Start | None = "all"


class Grant(ClientMessage, tag="credit"):
    id: Name
    credit: Credit


class Unsubscribe(ClientMessage, tag="unsubscribe"):
    id: Name


class Settling(ClientMessage):
    receipts: Receipts


class Ack(Settling, tag="ack"):
    pass


class AckThrough(Settling, tag="ack_through"):
    pass


class Nack(Settling, tag="nack"):
    error: str | None = None
    delay: Seconds | None = None


class Reject(Settling, tag="reject"):
    error: str | None = None


class Release(Settling, tag="release"):
    pass


class Extend(Settling, tag="extend"):
    seconds: Seconds | None = None


class PublishTo(ClientMessage, tag="publish"):
    topic: str
    messages: Messages
    namespace: str = DEFAULT_NAMESPACE


class Watch(ClientMessage, tag="watch"):
    """An overview, and each second what changed in it."""

    id: Name
    sort: Sort = "backlog"
    match: Match | None = None
    namespace: str | None = None
    limit: Limit = 100
    offset: First = 0


class Unwatch(ClientMessage, tag="unwatch"):
    id: Name


class TailTopic(ClientMessage, tag="tail"):
    """Messages that come from now on and match, without a group; at most `rate` a second."""

    id: Name
    topic: str
    namespace: str = DEFAULT_NAMESPACE
    filter: str = ""
    rate: Annotated[int, Meta(ge=1, le=limits.TAIL_RATE_MAX)] = limits.TAIL_RATE
    value_bytes: Annotated[int, Meta(ge=0, le=limits.MESSAGE_BYTES_MAX)] | None = None  # of larger values


class Untail(ClientMessage, tag="untail"):
    id: Name


Looking = Watch | Unwatch | TailTopic | Untail
Command = Subscribe | Grant | Unsubscribe | Ack | AckThrough | Nack | Reject | Release | Extend | PublishTo | Looking
decode_command = msgspec.json.Decoder(Command)


class Kind(msgspec.Struct):
    type: str = ""

    @property
    def bytes_max(self) -> int | None:
        """None: as large as any."""
        if self.type == "publish":
            return None
        return LIST_BYTES_MAX if self.type in _SETTLING else BODY_BYTES_MAX


_SETTLING = {kind.__struct_config__.tag for kind in (Ack, AckThrough, Nack, Reject, Release, Extend)}
decode_kind = msgspec.json.Decoder(Kind)


class ServerMessage(msgspec.Struct, tag_field="type", kw_only=True):
    ref: str | UnsetType = UNSET


class Subscribed(ServerMessage, tag="subscribed"):
    id: str


class Unsubscribed(ServerMessage, tag="unsubscribed"):
    id: str


class Delivered(ServerMessage, tag="messages"):
    messages: list[MessageView]  # before what a client chose: they are filled in where the first empty list stands
    id: str


class TailedMessage(ServerMessage, tag="tailed", kw_only=True):
    """The first one says that it has begun. `dropped`: came too fast, or matched and are not shown."""

    messages: list[MessageView] = []
    id: str
    dropped: int = 0
    matched: int = 0


class LookEnded(ServerMessage):
    id: str


class Unwatched(LookEnded, tag="unwatched"):
    pass


class Untailed(LookEnded, tag="untailed"):
    pass


class SettledMessage(ServerMessage, tag="settled", omit_defaults=True):
    results: list[SettleResult]
    revoked: list[str] = []


class PublishedMessage(ServerMessage, tag="published"):
    results: list[Placement]


class ErrorMessage(ServerMessage, tag="error"):
    """The members of a problem document. `id`: the subscription that has ended with it, if one has."""

    title: str
    status: int
    detail: str
    code: str
    id: str | UnsetType = UNSET
    retry_after: float | UnsetType = UNSET


def to_error(problem: Problem, ref: str | UnsetType, id: str | UnsetType) -> ErrorMessage:
    told = {name: getattr(problem, name) for name in ("title", "status", "detail", "code")}
    return ErrorMessage(ref=ref, id=id, retry_after=problem.retry_after or UNSET, **told)


encode_told = msgspec.json.Encoder().encode
