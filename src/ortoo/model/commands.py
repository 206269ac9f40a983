"""What can be asked of the queue, in the imperative. A command says what is wanted; the engine decides what happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from . import limits
from .access import Grant
from .batch import Outgoing
from .names import DEFAULT_GROUP, DEFAULT_NAMESPACE, GroupId, LeaseId, LeaseRef, MessageRef, TopicId, TopicName
from .namespaces import NO_QUOTA, Quota
from .pipelines import RunReport
from .topic import TopicConfig

Outcome = Literal["ack", "nack", "reject", "release"]
MessageId = MessageRef | str  # where a message lies, or its dedup id


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in every partition of a topic: its start, its end, an offset, or the first message at or after a time."""

    at: Literal["start", "end"] = "start"
    offset: int | None = None
    time: float | None = None


START = Position("start")
END = Position("end")


class Run(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Messages of one lease from one partition: receipts, gathered. `through` means all of the lease up to the last offset."""

    topic: TopicId
    group: GroupId
    lease: LeaseId
    partition: int
    offsets: Annotated[Sequence[int], Meta(max_length=limits.RECEIPTS_MAX)]  # a range where there is no gap
    through: bool = False


Runs = Annotated[list[Run], Meta(max_length=limits.RUNS_MAX)]  # here and below: what comes as bytes is bounded unbuilt
MessageIds = Annotated[list[MessageId], Meta(max_length=limits.BATCH_MESSAGES_MAX)]


class CreateTopic(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: TopicName
    config: TopicConfig
    exist_ok: bool = True  # a topic with the very same config counts as made
    named: list[str] | None = (
        None  # settings that were asked for: for the others a server may have defaults; all when None
    )


class ChangeTopic(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: TopicName
    changes: dict[str, Any]  # settings by name; the others stay as they are


class DeleteTopic(msgspec.Struct, frozen=True, tag=True, gc=False):
    """With `if_id`, only if that is its id, and not that of another that was made under the same name."""

    topic: TopicName
    if_id: TopicId | None = None


class PurgeTopic(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The same condition."""

    topic: TopicName
    if_id: TopicId | None = None


class MarkArchived(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Messages below these offsets, by partition, are kept elsewhere: retention that waits for that may remove them."""

    topic: TopicName
    ends: Annotated[dict[int, int], Meta(max_length=limits.PARTITIONS_MAX)]


class CreateGroup(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: TopicName
    group: str
    start: Position = START
    ephemeral: bool = False


class DeleteGroup(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: TopicName
    group: str


class Seek(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Moves a group. With `until`, makes only [position, until) deliverable again and leaves the rest as it is."""

    topic: TopicName
    group: str
    position: Position
    until: Position | None = None


class Publish(msgspec.Struct, frozen=True, tag=True, gc=False, omit_defaults=True):
    """`publisher` and `known` are set by the server, see broker/stamping.py: what a client writes there counts for nothing."""

    topic: TopicName
    batch: Outgoing
    publisher: str | None = None
    known: dict[int, MessageRef] | None = None  # rows that were published before, on another server or shard, and where


class Lease(msgspec.Struct, frozen=True, tag=True, kw_only=True, gc=False):
    topic: str | None = None
    labels: Annotated[dict[str, str], Meta(max_length=limits.LABELS_MAX)] | None = (
        None  # in the place of a topic: every topic that has them
    )
    namespace: str = DEFAULT_NAMESPACE
    group: str = DEFAULT_GROUP
    consumer: str
    max_messages: int = 1
    lease_ms: int | None = None  # the topic's own when None
    wait_ms: int = 0  # the consumer counts as alive while it waits
    partition: int | None = None
    key: str | None = None
    auto_ack: bool = False
    start: Position | None = START  # where the group begins if this lease makes it; None: it must be there already
    keys_max: int | None = None  # of so many different keys at most, key by key; a message without a key counts as one


class Settle(msgspec.Struct, frozen=True, tag=True, gc=False):
    outcome: Outcome
    runs: Runs
    error: str | None = None
    delay_ms: int | None = None  # nack only; the backoff policy when None

    @property
    def is_failure(self) -> bool:
        return self.outcome in ("nack", "reject")


class Extend(msgspec.Struct, frozen=True, tag=True, gc=False):
    runs: Runs
    lease_ms: int | None = None  # counted from now


class SettleById(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Settles messages without their receipts, whoever holds them: for protocols whose clients know none."""

    outcome: Outcome
    ids: MessageIds
    group: str = DEFAULT_GROUP
    namespace: str = DEFAULT_NAMESPACE
    topic: str | None = None  # any of the namespace when None
    error: str | None = None
    delay_ms: int | None = None  # nack only; the backoff policy when None
    lease: LeaseRef | None = None  # only what this one holds, whatever `group` says

    @property
    def is_failure(self) -> bool:
        return self.outcome in ("nack", "reject")


class ExtendById(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Extends the leases that hold these messages, whoever has them."""

    ids: MessageIds
    group: str = DEFAULT_GROUP
    namespace: str = DEFAULT_NAMESPACE
    topic: str | None = None
    lease_ms: int | None = None  # counted from now


class Transact(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Acks and publishes that happen together or not at all."""

    acks: Runs
    publishes: Annotated[list[Publish], Meta(max_length=limits.BATCH_MESSAGES_MAX)]


class Begin(msgspec.Struct, frozen=True, tag=True, gc=False):
    transaction: str
    namespace: str = DEFAULT_NAMESPACE
    timeout_ms: int = 3_600_000


class Stage(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Adds messages to a named transaction. `part` names who stages, so that a commit can leave out a failed attempt."""

    transaction: str
    part: str
    publish: Publish
    namespace: str = DEFAULT_NAMESPACE


class Commit(msgspec.Struct, frozen=True, tag=True, gc=False):
    transaction: str
    parts: Annotated[list[str], Meta(max_length=limits.BATCH_MESSAGES_MAX)] | None = None  # all when None
    namespace: str = DEFAULT_NAMESPACE


class Abort(msgspec.Struct, frozen=True, tag=True, gc=False):
    transaction: str
    namespace: str = DEFAULT_NAMESPACE


class Heartbeat(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: TopicName
    group: str
    consumer: str
    session_ms: int | None = None


class Leave(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A consumer goes; its leases return, uncounted. Without a topic: from every group it is in, as far as these grants let it
    read; without grants, everywhere."""

    consumer: str
    topic: TopicName | None = None
    group: str | None = None
    grants: Annotated[tuple[Grant, ...], Meta(max_length=limits.GRANTS_MAX)] | None = None


class PauseGroup(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Delivers nothing to the group's consumers, for so long, or until it is resumed. What they have can be settled."""

    topic: TopicName
    group: str
    for_ms: int | None = None
    reason: str | None = None


class ResumeGroup(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: TopicName
    group: str


class DeleteMessage(msgspec.Struct, frozen=True, tag=True, gc=False):
    message: MessageRef


class RetryNow(msgspec.Struct, frozen=True, tag=True, gc=False):
    message: MessageRef
    group: str | None = None  # every group when None


class DeadLetter(msgspec.Struct, frozen=True, tag=True, gc=False):
    message: MessageRef
    group: str | None = None
    error: str | None = None


class Redrive(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Makes the original of a dead letter deliverable again for the group that failed it, and removes the copy."""

    copy: MessageRef
    origin: MessageRef
    group: str
    key: str | None = None  # of the dead letter, for the order of what is published when the original is gone


class SetNamespace(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Registers a namespace, or gives one that is another quota: this one, in place of all of the old one."""

    namespace: str
    quota: Quota = NO_QUOTA


class DeleteNamespace(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Only one without topics."""

    namespace: str


class RotateKey(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Makes a key of that name, which encrypts from now on; where keys cannot be made, only reads them again. To do it twice is
    to do it once, for the name is given."""

    key: str


class Reencrypt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """What older keys encrypted is written anew with the current one, beside everything else. Answered when it has begun."""

    topics: Annotated[list[TopicName], Meta(max_length=limits.TOPICS_MAX)] | None = None  # all when None
    bytes_per_second: int = limits.REENCRYPT_BYTES_PER_SECOND


class ReportRun(msgspec.Struct, frozen=True, tag=True, gc=False):
    """How a job of the pipeline does. To say it twice is to say it once."""

    namespace: str
    job: str
    report: RunReport
    reporter: str | None = None  # as the server knows them: what a client says here counts for nothing


class ForgetPipeline(msgspec.Struct, frozen=True, tag=True, gc=False):
    """What a job has reported; of all who reported one of that name when `reporter` is None."""

    namespace: str
    job: str
    reporter: str | None = None


PlainCommand = (
    CreateTopic
    | ChangeTopic
    | DeleteTopic
    | PurgeTopic
    | MarkArchived
    | CreateGroup
    | DeleteGroup
    | Seek
    | PauseGroup
    | ResumeGroup
    | Publish
    | Lease
    | Settle
    | Extend
    | SettleById
    | ExtendById
    | Transact
    | Begin
    | Stage
    | Commit
    | Abort
    | Heartbeat
    | Leave
    | DeleteMessage
    | RetryNow
    | DeadLetter
    | Redrive
    | SetNamespace
    | DeleteNamespace
)


ById = SettleById | ExtendById


class Once(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A command that may be sent again when its answer did not arrive: it happens once, and each time is answered the same.

    A producer numbers what it sends and says below which number it has all answers, so that those can be forgotten.
    """

    producer: str
    sequence: int
    done_below: int
    command: PlainCommand


Command = PlainCommand | Once
KeyCommand = RotateKey | Reencrypt  # for the store alone: the engine decides nothing, and no record tells of it
PipelineCommand = ReportRun | ForgetPipeline  # for what the broker keeps of jobs: the engine sees messages alone
Aside = KeyCommand | PipelineCommand  # never numbered: to do these twice is to do them once
AnyCommand = Command | Aside


def unwrap(command: Command) -> PlainCommand:
    """What is wanted, however often it is sent."""
    return command.command if type(command) is Once else command  # type: ignore[return-value]
