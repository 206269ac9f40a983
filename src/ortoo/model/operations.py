"""Everything that can be asked of a queue, declared once, for doors, clients, meters and authorisation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from . import commands as c
from . import queries as q
from .access import SCOPES, Scope
from .browsing import GroupsFound, SearchFound, SeekPreview, StateFound, TopicsFound
from .decoding import decode_stored
from .errors import (
    ConfigError,
    ExistsError,
    FullError,
    LeaseLostError,
    NotFoundError,
    OrtooError,
    RateLimitedError,
    TooManyError,
)
from .inspection import ConsumersFound, DelayedCounts, Explanation, LeasesFound, LocksFound, Strip
from .keys import KeysInfo, RotatedKey
from .live import Activity, Overview
from .metrics import MetricFigures
from .names import GroupId, MessageRef, TopicId
from .offsets import to_plain
from .oneself import Me
from .pipelines import PipelinesFound
from .replies import (
    HistoryPage,
    IdState,
    KeysFound,
    LeasedRun,
    MessageFound,
    NamespaceInfo,
    Page,
    Placed,
    Settled,
    Stats,
    TopicInfo,
    Trace,
)
from .series import Series
from .shards import ShardInfo
from .shown_settings import ShownSettings

Family = Literal["publish", "lease", "settle", "transact", "admin", "read"]
FAMILIES: tuple[Family, ...] = ("publish", "lease", "settle", "transact", "admin", "read")


# What an operation is about, and so where its scope is needed:
About = Literal[
    "topic",  # the topic that it names
    "settings",  # the same, and the topic for dead letters that the settings name
    "topics",  # one topic, or all of a namespace that have some labels
    "runs",  # the topics of what was leased
    "ids",  # the topics of messages that are named by where they lie, and those in which a dedup id is looked for
    "message",  # the topic of a message
    "redrive",  # those of a dead letter and of its original
    "transact",  # the topics that are published to, and with `read` those of what is acked
    "stage",  # the topic that is published to, and its namespace
    "namespace",  # any topic of the namespace that it names
    "server",  # the whole queue: only who may do everything may do this
    "oneself",  # whoever asks: everybody may
    "anything",  # whatever whoever asks may see: the answer has no more
]


class Operation(NamedTuple):
    family: Family  # what it is counted among
    scope: Scope  # what whoever asks for it must be allowed to do
    answer: Any  # its type
    errors: tuple[type[OrtooError], ...] = ()  # that it may be refused with, besides those that anything may be
    about: About = "topic"


_UNKNOWN = (NotFoundError,)
OPERATIONS: dict[type, Operation] = {
    c.Publish: Operation("publish", "write", Placed, (NotFoundError, FullError, TooManyError, RateLimitedError)),
    c.Lease: Operation("lease", "read", list[LeasedRun], (NotFoundError, TooManyError), about="topics"),
    c.Settle: Operation("settle", "read", Settled, (FullError, TooManyError), about="runs"),
    c.Extend: Operation("settle", "read", Settled, about="runs"),
    c.SettleById: Operation("settle", "read", list[IdState], about="ids"),
    c.ExtendById: Operation("settle", "read", list[IdState], about="ids"),
    c.Heartbeat: Operation("admin", "read", list[int], _UNKNOWN),
    c.Leave: Operation("admin", "read", bool | None, _UNKNOWN, about="anything"),  # what a broker's caller gets is None
    c.CreateGroup: Operation("admin", "read", GroupId, (NotFoundError, ExistsError, TooManyError)),
    c.Transact: Operation(
        "transact",
        "write",
        list[Placed],
        (NotFoundError, LeaseLostError, FullError, TooManyError, RateLimitedError),
        about="transact",
    ),
    c.Begin: Operation("transact", "write", None, (ExistsError, TooManyError), about="namespace"),
    c.Stage: Operation(
        "transact", "write", int, (NotFoundError, ExistsError, TooManyError, FullError, RateLimitedError), about="stage"
    ),
    c.Commit: Operation(
        "transact", "write", int, (NotFoundError, ExistsError, FullError, TooManyError), about="namespace"
    ),
    c.Abort: Operation("transact", "write", None, (NotFoundError, ExistsError), about="namespace"),
    c.CreateTopic: Operation("admin", "admin", TopicId, (ConfigError, ExistsError, TooManyError), about="settings"),
    c.ChangeTopic: Operation("admin", "admin", TopicId, (ConfigError, NotFoundError), about="settings"),
    c.DeleteTopic: Operation("admin", "admin", TopicId, _UNKNOWN),
    c.PurgeTopic: Operation("admin", "admin", int, _UNKNOWN),
    c.MarkArchived: Operation("admin", "admin", list[int], _UNKNOWN),
    c.DeleteGroup: Operation("admin", "admin", GroupId, _UNKNOWN),
    c.Seek: Operation("admin", "admin", list[int], _UNKNOWN),
    c.PauseGroup: Operation("admin", "admin", None, _UNKNOWN),
    c.ResumeGroup: Operation("admin", "admin", None, _UNKNOWN),
    c.DeleteMessage: Operation("admin", "admin", MessageRef, _UNKNOWN, about="message"),
    c.RetryNow: Operation("admin", "admin", int, _UNKNOWN, about="message"),
    c.DeadLetter: Operation("admin", "admin", int, _UNKNOWN, about="message"),
    c.Redrive: Operation("admin", "admin", MessageRef, _UNKNOWN, about="redrive"),
    c.RotateKey: Operation("admin", "admin", RotatedKey, (ConfigError, ExistsError), about="server"),
    c.Reencrypt: Operation("admin", "admin", None, (ConfigError, NotFoundError), about="server"),
    c.SetNamespace: Operation("admin", "admin", None, (TooManyError,), about="server"),
    c.DeleteNamespace: Operation("admin", "admin", None, (NotFoundError, ExistsError), about="server"),
    c.ReportRun: Operation("admin", "write", None, (RateLimitedError, FullError), about="namespace"),
    c.ForgetPipeline: Operation("admin", "admin", None, _UNKNOWN, about="namespace"),
    q.ListPipelines: Operation("read", "read", PipelinesFound, about="anything"),
    q.ListNamespaces: Operation("read", "read", list[NamespaceInfo], about="anything"),
    q.ListTopics: Operation("read", "read", list[TopicInfo], about="anything"),
    q.BrowseTopics: Operation("read", "read", TopicsFound, about="anything"),
    q.BrowseGroups: Operation("read", "read", GroupsFound, _UNKNOWN),
    q.GetTopic: Operation("read", "read", TopicInfo, _UNKNOWN),
    q.GetStats: Operation("read", "read", Stats, about="anything"),
    q.GetMe: Operation("read", "read", Me, about="oneself"),
    q.GetSettings: Operation("read", "admin", ShownSettings, (ConfigError,), about="server"),
    q.ListShards: Operation("read", "admin", list[ShardInfo], about="server"),
    q.GetMetrics: Operation("read", "read", MetricFigures, about="anything"),
    q.GetSeries: Operation("read", "read", Series, (NotFoundError, ConfigError), about="anything"),
    q.GetOverview: Operation("read", "read", Overview, (ConfigError,), about="anything"),
    q.GetActivity: Operation("read", "read", Activity, (ConfigError,), about="anything"),
    q.GetKeys: Operation("read", "admin", KeysInfo, (ConfigError,), about="server"),
    q.Scan: Operation("read", "read", Page, _UNKNOWN),
    q.GetOffsets: Operation("read", "read", list[int], _UNKNOWN),
    q.ScanHistory: Operation("read", "read", HistoryPage, _UNKNOWN),
    q.GetMessage: Operation("read", "read", MessageFound, _UNKNOWN, about="message"),
    q.ListMessages: Operation("read", "read", list[Page], _UNKNOWN),
    q.ListKeys: Operation("read", "read", KeysFound, _UNKNOWN),
    q.GetTrace: Operation("read", "read", Trace, _UNKNOWN, about="message"),
    q.Search: Operation("read", "read", SearchFound, _UNKNOWN),
    q.BrowseMessages: Operation("read", "read", StateFound, _UNKNOWN),
    q.PreviewSeek: Operation("read", "admin", SeekPreview, _UNKNOWN),  # as the seek itself
    q.FindMessages: Operation("read", "read", list[MessageRef | None], about="ids"),
    q.ExplainMessage: Operation("read", "read", Explanation, _UNKNOWN, about="message"),
    q.ListLeases: Operation("read", "read", LeasesFound, _UNKNOWN),
    q.ListLocks: Operation("read", "read", LocksFound, _UNKNOWN),
    q.ListConsumers: Operation("read", "read", ConsumersFound, _UNKNOWN),
    q.GetStrip: Operation("read", "read", Strip, _UNKNOWN),
    q.GetDelayed: Operation("read", "read", DelayedCounts, _UNKNOWN),
}

_decoders = {kind: msgspec.msgpack.Decoder(operation.answer) for kind, operation in OPERATIONS.items()}
encode_answer = msgspec.msgpack.Encoder(enc_hook=to_plain).encode


def operation_of(request: c.AnyCommand | q.Query[Any]) -> Operation:
    return OPERATIONS[type(request.command if isinstance(request, c.Once) else request)]


def scopes_of(kinds: Iterable[type]) -> tuple[Scope, ...]:
    """What whoever asks for all of these must be allowed to do. An admin may do everything."""
    needed = {OPERATIONS[kind].scope for kind in kinds}
    return ("admin",) if "admin" in needed else tuple(scope for scope in SCOPES if scope in needed)


def answer_decoder(kind: type) -> msgspec.msgpack.Decoder[Any]:
    return _decoders[kind]


def decode_answer(command: c.Command, data: bytes) -> Any:
    """Of one that was stored."""
    return decode_stored(_decoders[type(c.unwrap(command))], data, "an answer")
