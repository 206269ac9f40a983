"""What happened to a message, from its history here. What clients would add to it themselves is not kept."""

from __future__ import annotations

from typing import Any

import msgspec

from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.queries import FindMessages, GetStats, GetTrace
from ortoo.model.replies import TraceEvent

from .acking import Finder
from .observing import LookQuery, Pagination, shown_group
from .places import queue_of

_NAMES_SHOWN = 50
_NOT_KEPT = (
    "traces of one's own are not kept here: what the queue did with a message is recorded by itself, "
    "see GET /api/v1/traces/PARTITION/TRANSACTION; push anything else to a queue, or log it"
)
TRACING = (FindMessages, GetTrace, GetStats)
_encode = msgspec.json.Encoder().encode


class TraceBody(msgspec.Struct, rename="camel"):
    transaction_id: str | None = None
    partition_id: str | None = None


class Recorded(msgspec.Struct):
    success: bool
    error: str


class TraceView(msgspec.Struct, rename="camel"):
    id: str
    event_type: str
    data: dict[str, Any]
    consumer_group: str | None
    worker_id: str | None
    created_at: str
    trace_names: list[str]


class TraceNames(msgspec.Struct, rename="camel"):
    trace_names: list[str]
    total: int
    pagination: Pagination


async def record(call: Call) -> Recorded:
    """Clients call this while they handle a message, repeat what ends in a 5xx, and go on when it says that it failed."""
    body: TraceBody = call.body
    call.link.check(GetStats())
    if not body.transaction_id or not body.partition_id:
        raise InvalidError("transactionId and partitionId are required")
    return Recorded(False, _NOT_KEPT)


async def of_message(call: Call) -> bytes:
    """The oldest first; none where nothing is known of the message."""
    call.link.check(GetStats())
    given, partition = call.params["transaction_id"], call.params["partition_id"]
    queue = queue_of(call.link, partition, namespace_of(call.link))
    if queue is None:
        return _encode([])
    [ref] = await Finder(call.link).refs([given], partition, queue, None)
    name = None if ref is None else call.link.name_of(ref.topic)
    if ref is None or name is None or name.name != queue:
        return _encode([])
    try:
        trace = await call.link.ask(GetTrace(ref))
    except NotFoundError:
        return _encode([])
    return _encode([_view(trace.id, number, event) for number, event in enumerate(trace.events)])


def _view(message: str, number: int, event: TraceEvent) -> TraceView:
    plain: dict[str, Any] = msgspec.to_builtins(event)
    data: dict[str, Any] = {name: plain[name] for name in ("attempt", "reason", "error", "publisher") if name in plain}
    if event.until is not None:
        data["until"] = instant_text(round(event.until * 1000))
    return TraceView(
        f"{message}#{number}",
        event.what,
        data,
        None if event.group is None else shown_group(event.group),
        event.consumer,
        instant_text(round(event.time * 1000)),
        [],
    )


async def by_name(call: Call) -> bytes:
    call.link.check(GetStats())
    return _encode([])


async def names(call: Call) -> TraceNames:
    query: LookQuery = call.query
    call.link.check(GetStats())
    return TraceNames([], 0, Pagination.of(query.page(_NAMES_SHOWN)))
