"""The JSON of topics, their groups, and the consumers of these."""

from __future__ import annotations

from typing import Literal, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from ortoo.model.history import HistoryEvent
from ortoo.model.replies import GroupInfo, PartitionInfo
from ortoo.model.topic import TopicConfig

from .shapes import Input, Instant, Offset, Seconds


class TopicSettings(TopicConfig, frozen=True, kw_only=True, omit_defaults=False):
    """All settings of a topic, the defaults too; docs/topic-settings.md says what each one means."""


class NewTopic(TopicConfig, frozen=True, kw_only=True):
    """A name, and any topic settings beside it; what is left out has its default."""

    name: str
    exist_ok: bool = True


# All may be left out, and none has a default: whoever fills in defaults would change what he did not name.
TopicChanges = msgspec.defstruct(
    "TopicChanges",
    [(name, hint | UnsetType, UNSET) for name, hint in get_type_hints(TopicConfig).items()],
    namespace={"__doc__": "The settings to change; the others stay."},
    forbid_unknown_fields=True,
    kw_only=True,
)


class TopicView(msgspec.Struct):
    """`config`, `partitions` and `groups` are left out of a brief view."""

    namespace: str
    name: str
    id: int
    config: TopicSettings | UnsetType
    dlq: str
    created: float
    depth: int
    messages: int
    bytes: int
    partitions: list[PartitionInfo] | UnsetType
    groups: list[GroupInfo] | UnsetType


class TopicList(msgspec.Struct):
    """By namespace and name. A page ends early where topics have many partitions and groups."""

    topics: list[TopicView]
    next: str | None


class Affected(msgspec.Struct):
    """How many messages it was."""

    messages: int


class Offsets(msgspec.Struct):
    """One for each partition."""

    offsets: list[int]


class HistoryList(msgspec.Struct):
    """`next` is the position to go on from, whether there is more by now or not; `end` is where the history ends."""

    events: list[HistoryEvent]
    next: int
    end: int


class ArchivedBody(Input):
    """By partition: messages below that offset are kept elsewhere."""

    ends: dict[Offset, Offset]


class NewGroup(Input):
    """Where it begins: `start`, or an `offset`, or a `time`; "all" when none is given, "new" for an ephemeral one."""

    start: Literal["all", "new", "start", "end"] | None = None
    offset: Offset | None = None
    time: Instant | None = None
    ephemeral: bool = False


class SeekBody(Input):
    """Where to: `to`, or an `offset`, or a `time`. With `to_offset` or `to_time`, just that stretch comes again."""

    to: Literal["all", "new", "start", "end"] | None = None
    offset: Offset | None = None
    time: Instant | None = None
    to_offset: Offset | None = None
    to_time: Instant | None = None


class GroupList(msgspec.Struct):
    """By name."""

    groups: list[GroupInfo]
    next: str | None


class HeartbeatBody(Input):
    consumer: str
    session: Seconds | None = None


class Owned(msgspec.Struct):
    """The partitions that the consumer owns, where order is by partition."""

    partitions: list[int]


class LeaveBody(Input):
    consumer: str


class LeaveAnywhereBody(Input):
    """From every group, or from those of one topic, or from one."""

    consumer: str
    topic: str | None = None
    group: str | None = None
