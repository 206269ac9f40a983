"""Everything that can be asked of a queue, declared once, for doors, clients and meters.

Scopes are declared here and not enforced yet: whoever has the token may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from . import commands as c
from . import queries as q
from .decoding import decode_stored
from .errors import ConfigError, ExistsError, FullError, LeaseLostError, NotFoundError, OrtooError, TooManyError
from .keys import KeysInfo, RotatedKey
from .metrics import MetricFigures
from .names import GroupId, MessageRef, TopicId
from .offsets import to_plain
from .replies import HistoryPage, LeasedRun, MessageFound, Page, Placed, Settled, Stats, TopicInfo, Trace

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")  # each takes those before it along
Family = Literal["publish", "lease", "settle", "transact", "admin", "read"]
FAMILIES: tuple[Family, ...] = ("publish", "lease", "settle", "transact", "admin", "read")


class Operation(NamedTuple):
    family: Family  # what it is counted among
    scope: Scope  # what whoever asks for it must be allowed to do
    answer: Any  # its type
    errors: tuple[type[OrtooError], ...] = ()  # that it may be refused with, besides those that anything may be


_UNKNOWN = (NotFoundError,)
OPERATIONS: dict[type, Operation] = {
    c.Publish: Operation("publish", "write", Placed, (NotFoundError, FullError, TooManyError)),
    c.Lease: Operation("lease", "read", list[LeasedRun], (NotFoundError, TooManyError)),
    c.Settle: Operation("settle", "read", Settled),
    c.Extend: Operation("settle", "read", Settled),
    c.Heartbeat: Operation("admin", "read", list[int], _UNKNOWN),
    c.Leave: Operation("admin", "read", bool | None, _UNKNOWN),  # what a broker's caller gets is None
    c.CreateGroup: Operation("admin", "read", GroupId, (NotFoundError, ExistsError, TooManyError)),
    c.Transact: Operation("transact", "write", list[Placed], (NotFoundError, LeaseLostError, FullError)),
    c.Begin: Operation("transact", "write", None, (ExistsError, TooManyError)),
    c.Stage: Operation("transact", "write", int, (NotFoundError, ExistsError, TooManyError, FullError)),
    c.Commit: Operation("transact", "write", int, (NotFoundError, ExistsError, FullError)),
    c.Abort: Operation("transact", "write", None, (NotFoundError, ExistsError)),
    c.CreateTopic: Operation("admin", "admin", TopicId, (ConfigError, ExistsError, TooManyError)),
    c.ChangeTopic: Operation("admin", "admin", TopicId, (ConfigError, NotFoundError)),
    c.DeleteTopic: Operation("admin", "admin", TopicId, _UNKNOWN),
    c.PurgeTopic: Operation("admin", "admin", int, _UNKNOWN),
    c.MarkArchived: Operation("admin", "admin", list[int], _UNKNOWN),
    c.DeleteGroup: Operation("admin", "admin", GroupId, _UNKNOWN),
    c.Seek: Operation("admin", "admin", list[int], _UNKNOWN),
    c.DeleteMessage: Operation("admin", "admin", MessageRef, _UNKNOWN),
    c.RetryNow: Operation("admin", "admin", int, _UNKNOWN),
    c.DeadLetter: Operation("admin", "admin", int, _UNKNOWN),
    c.Redrive: Operation("admin", "admin", MessageRef, _UNKNOWN),
    c.RotateKey: Operation("admin", "admin", RotatedKey, (ConfigError, ExistsError)),
    c.Reencrypt: Operation("admin", "admin", None, (ConfigError, NotFoundError)),
    q.ListTopics: Operation("read", "read", list[TopicInfo]),
    q.GetTopic: Operation("read", "read", TopicInfo, _UNKNOWN),
    q.GetStats: Operation("read", "read", Stats),
    q.GetMetrics: Operation("read", "read", MetricFigures),
    q.GetKeys: Operation("read", "admin", KeysInfo, (ConfigError,)),
    q.Scan: Operation("read", "read", Page, _UNKNOWN),
    q.GetOffsets: Operation("read", "read", list[int], _UNKNOWN),
    q.ScanHistory: Operation("read", "read", HistoryPage, _UNKNOWN),
    q.GetMessage: Operation("read", "read", MessageFound, _UNKNOWN),
    q.ListMessages: Operation("read", "read", list[Page], _UNKNOWN),
    q.GetTrace: Operation("read", "read", Trace, _UNKNOWN),
}

_decoders = {kind: msgspec.msgpack.Decoder(operation.answer) for kind, operation in OPERATIONS.items()}
encode_answer = msgspec.msgpack.Encoder(enc_hook=to_plain).encode


def operation_of(request: c.AnyCommand | q.Query[Any]) -> Operation:
    return OPERATIONS[type(request.command if isinstance(request, c.Once) else request)]


def widest_scope(kinds: Iterable[type]) -> Scope | None:
    """What whoever asks for all of these must be allowed to do."""
    return max((OPERATIONS[kind].scope for kind in kinds), key=SCOPES.index, default=None)


def answer_decoder(kind: type) -> msgspec.msgpack.Decoder[Any]:
    return _decoders[kind]


def decode_answer(command: c.Command, data: bytes) -> Any:
    """Of one that was stored."""
    return decode_stored(_decoders[type(c.unwrap(command))], data, "an answer")
