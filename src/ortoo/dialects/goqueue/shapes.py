"""What GoQueue's clients send and what they read, as its server, its clients and its load tests write it.

Fields that are not known are passed over, as Go does.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ortoo.model import limits

PAGE_MAX = 1_000  # messages that one poll or one read answers with
DELAYED_MAX = 1_000
TRACES_MAX = 1_000
Duration = str | int | float
Count = Annotated[int, Meta(ge=1, le=2**62)]
Offset = Annotated[int, Meta(ge=0, le=2**62)]


class AnyQuery(msgspec.Struct):
    """No parameter is known, and none is refused."""


# -- topics


class NewTopic(msgspec.Struct):
    """`partitions` and `config` are what its load tests send."""

    name: str = ""
    num_partitions: int | None = None
    retention_hours: Annotated[int, Meta(le=1_000_000)] | None = None
    partitions: int | None = None
    config: dict[str, int | float | str] | None = None


class TopicMade(msgspec.Struct):
    name: str
    partitions: int
    created: bool = True


class TopicNames(msgspec.Struct):
    topics: list[str]


class Range(msgspec.Struct):
    earliest: int
    latest: int


class TopicDetails(msgspec.Struct):
    name: str
    partitions: int
    num_partitions: int
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[str, Range]


class TopicDeleted(msgspec.Struct):
    name: str
    deleted: bool = True


# -- messages


class NewMessage(msgspec.Struct, gc=False):
    value: str
    key: str | None = None
    partition: int | None = None
    delay: Duration | None = None
    deliver_at: str | None = msgspec.field(default=None, name="deliverAt")
    priority: str | int | None = None
    headers: dict[str, str] | None = None


class PublishBody(msgspec.Struct):
    messages: Annotated[list[NewMessage], Meta(max_length=limits.BATCH_MESSAGES_MAX)] = []


class Published(msgspec.Struct, omit_defaults=True, gc=False):
    partition: int
    offset: int
    priority: str = ""
    delayed: bool = False
    deliver_at: str = msgspec.field(default="", name="deliverAt")
    error: str = ""


class PublishedList(msgspec.Struct):
    results: list[Published]


class ReadQuery(msgspec.Struct):
    offset: Offset = 0
    limit: Count = 100


class ReadMessage(msgspec.Struct, gc=False, omit_defaults=True):
    """`encoding` is "base64" where the bytes of the value are no text."""

    offset: int
    timestamp: str
    value: str
    priority: str
    key: str | None = None
    headers: dict[str, str] | None = None
    encoding: str = ""


# -- groups


class JoinBody(msgspec.Struct):
    client_id: str = ""
    topics: list[str] = []
    session_timeout: Duration | None = None


class Joined(msgspec.Struct):
    """With the names that its server gives, and those that its clients read. `leader` is the id of the leader, for that one."""

    member_id: str
    generation: int
    leader_id: str
    partitions: list[int]
    members: list[str]
    leader: str
    assigned_partitions: list[str]
    rebalance_required: bool = False


class MemberBody(msgspec.Struct):
    member_id: str = ""
    generation: int | None = None


class Beat(msgspec.Struct):
    status: str = "ok"
    rebalance_required: bool = False
    state: str = "stable"


class Left(msgspec.Struct):
    status: str = "left"
    left: bool = True


class PollQuery(msgspec.Struct):
    """`max_messages` is what its clients send, and they read a list; with `limit`, or neither, the answer is by partition."""

    member_id: str = ""
    generation: int | None = None
    timeout: str = "30s"
    limit: Count | None = None
    max_messages: Count | None = None


class ConsumeQuery(msgspec.Struct):
    """Of its load tests: the timeout in milliseconds."""

    group: str = ""
    timeout: Annotated[int, Meta(ge=0, le=2**62)] = 0
    limit: Count = 100


class PolledMessage(msgspec.Struct, gc=False, omit_defaults=True):
    topic: str
    partition: int
    offset: int
    timestamp: str
    value: str
    priority: str
    receipt_handle: str
    attempt: int
    key: str | None = None
    headers: dict[str, str] | None = None
    encoding: str = ""


class ConsumedMessage(msgspec.Struct, gc=False, omit_defaults=True):
    """As its load tests read it: the timestamp in milliseconds, and an id to acknowledge by."""

    id: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    value: str
    priority: str
    receipt_handle: str
    attempt: int
    key: str | None = None
    headers: dict[str, str] | None = None
    encoding: str = ""


class GroupQuery(msgspec.Struct):
    topic: str | None = None


class TopicPartition(msgspec.Struct):
    topic: str
    partition: int


class MemberDetails(msgspec.Struct):
    id: str
    member_id: str
    client_id: str
    assigned_partitions: list[TopicPartition]
    partitions: list[str]


class GroupDetails(msgspec.Struct):
    id: str
    group_id: str
    state: str
    generation: int
    topics: list[str]
    members: list[MemberDetails]


class GroupSummary(msgspec.Struct):
    id: str
    state: str
    members: int
    generation: int
    topics: list[str]


class GroupNames(msgspec.Struct):
    """Its clients read the names; `details` is what its server answered in their place."""

    groups: list[str]
    details: list[GroupSummary]


class GroupDeleted(msgspec.Struct):
    group: str
    group_id: str
    deleted: bool = True


class OffsetsAnswer(msgspec.Struct):
    group_id: str
    topics: dict[str, dict[str, int]]
    offsets: dict[str, dict[str, int]]
    generation: int = 1


class OffsetCommit(msgspec.Struct):
    topic: str
    partition: Offset
    offset: Offset


class CommitBody(msgspec.Struct):
    """Offsets by topic and partition, or as a list, which its Go client sends."""

    member_id: str = ""
    generation: int | None = None
    offsets: dict[str, dict[str, Offset]] | list[OffsetCommit] = {}


class Committed(msgspec.Struct):
    group: str
    offsets: dict[str, dict[str, int]]
    status: str = "committed"
    committed: bool = True


class ResetBody(msgspec.Struct):
    topic: str = ""
    partition: int | None = None
    strategy: str = "earliest"
    timestamp: str | None = None


class OffsetReset(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class ResetAnswer(msgspec.Struct):
    group_id: str
    reset_count: int
    new_offsets: list[OffsetReset]


# -- settling


class SettleBody(msgspec.Struct):
    """One handle, or a list of them; its load tests call the handle `messageId`."""

    receipt_handle: str = ""
    receipt_handles: Annotated[list[str], Meta(max_length=PAGE_MAX)] | None = None
    message_id: str = msgspec.field(default="", name="messageId")
    reason: str | None = None
    delay: Duration | None = None
    timeout: Duration | None = None
    extension_seconds: int | float | None = None


class SettledMessage(msgspec.Struct, omit_defaults=True):
    """Each of its clients reads another word for what went well."""

    success: bool
    topic: str
    partition: int
    offset: int
    action: str | UnsetType = UNSET
    acknowledged: bool | UnsetType = UNSET
    requeued: bool | UnsetType = UNSET
    rejected: bool | UnsetType = UNSET
    extended: bool | UnsetType = UNSET
    delivery_count: int | UnsetType = UNSET
    next_visible_at: str | UnsetType = UNSET
    dlq_topic: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    new_deadline: str | UnsetType = UNSET
    extended_by: float | UnsetType = UNSET


class SettleResult(msgspec.Struct, omit_defaults=True, gc=False):
    receipt_handle: str
    success: bool
    error: str = ""


class SettleResults(msgspec.Struct):
    success: bool
    results: list[SettleResult]
