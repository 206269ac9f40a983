"""Everything that can be asked of a queue, declared once, for doors, clients and meters.

Scopes are declared here and not enforced yet: whoever has the token may do everything.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from . import commands as c
from . import queries as q
from .decoding import decode_stored
from .metrics import MetricFigures
from .names import GroupId, MessageRef, TopicId
from .offsets import to_plain
from .replies import HistoryPage, LeasedRun, MessageFound, Page, Placed, Settled, Stats, TopicInfo, Trace

Scope = Literal["read", "write", "admin"]
Family = Literal["publish", "lease", "settle", "transact", "admin", "read"]
FAMILIES: tuple[Family, ...] = ("publish", "lease", "settle", "transact", "admin", "read")


class Operation(NamedTuple):
    family: Family  # what it is counted among
    scope: Scope  # what whoever asks for it must be allowed to do
    answer: Any  # its type


OPERATIONS: dict[type, Operation] = {
    c.Publish: Operation("publish", "write", Placed),
    c.Lease: Operation("lease", "read", list[LeasedRun]),
    c.Settle: Operation("settle", "read", Settled),
    c.Extend: Operation("settle", "read", Settled),
    c.Heartbeat: Operation("admin", "read", list[int]),
    c.Leave: Operation("admin", "read", bool | None),  # what a broker's caller gets is None
    c.CreateGroup: Operation("admin", "read", GroupId),
    c.Transact: Operation("transact", "write", list[Placed]),
    c.Begin: Operation("transact", "write", None),
    c.Stage: Operation("transact", "write", int),
    c.Commit: Operation("transact", "write", int),
    c.Abort: Operation("transact", "write", None),
    c.CreateTopic: Operation("admin", "admin", TopicId),
    c.ChangeTopic: Operation("admin", "admin", TopicId),
    c.DeleteTopic: Operation("admin", "admin", TopicId),
    c.PurgeTopic: Operation("admin", "admin", int),
    c.MarkArchived: Operation("admin", "admin", list[int]),
    c.DeleteGroup: Operation("admin", "admin", GroupId),
    c.Seek: Operation("admin", "admin", list[int]),
    c.DeleteMessage: Operation("admin", "admin", MessageRef),
    c.RetryNow: Operation("admin", "admin", int),
    c.DeadLetter: Operation("admin", "admin", int),
    c.Redrive: Operation("admin", "admin", MessageRef),
    q.ListTopics: Operation("read", "read", list[TopicInfo]),
    q.GetTopic: Operation("read", "read", TopicInfo),
    q.GetStats: Operation("read", "read", Stats),
    q.GetMetrics: Operation("read", "read", MetricFigures),
    q.Scan: Operation("read", "read", Page),
    q.GetOffsets: Operation("read", "read", list[int]),
    q.ScanHistory: Operation("read", "read", HistoryPage),
    q.GetMessage: Operation("read", "read", MessageFound),
    q.ListMessages: Operation("read", "read", list[Page]),
    q.GetTrace: Operation("read", "read", Trace),
}

_decoders = {kind: msgspec.msgpack.Decoder(operation.answer) for kind, operation in OPERATIONS.items()}
encode_answer = msgspec.msgpack.Encoder(enc_hook=to_plain).encode


def operation_of(request: c.Command | q.Query[Any]) -> Operation:
    return OPERATIONS[type(request.command if isinstance(request, c.Once) else request)]


def answer_decoder(kind: type) -> msgspec.msgpack.Decoder[Any]:
    return _decoders[kind]


def decode_answer(command: c.Command, data: bytes) -> Any:
    """Of one that was stored."""
    return decode_stored(_decoders[type(c.unwrap(command))], data, "an answer")
