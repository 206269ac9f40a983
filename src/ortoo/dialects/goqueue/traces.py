"""What happened to messages, as GoQueue tells it. A trace id is where a message lies, in 32 hexadecimal digits."""

from __future__ import annotations

from time import time

import msgspec

from ortoo.broker.turns import Turns
from ortoo.dialects import ids
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, parse_instant
from ortoo.model.commands import Position
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import MessageRef, TopicName, parse_message_id
from ortoo.model.queries import GetStats, GetTrace, Scan
from ortoo.model.replies import Trace, TraceEvent, TraceKind

from .shapes import TRACES_MAX, Count
from .topics import all_topics

_TRACE_UNITS = 5  # of a turn, for one trace
_TOPICS_MAX = 100  # whose newest messages are looked at

# What its tracer calls these; the others keep our names.
_EVENTS: dict[TraceKind, str] = {
    "published": "publish.received",
    "due": "delay.scheduled",
    "delivered": "consume.delivered",
    "redelivered": "consume.redelivered",
    "nacked": "nack",
    "lease expired": "visibility.timeout",
    "acknowledged": "ack",
    "dead-lettered": "dlq.routed",
}


class TracesQuery(msgspec.Struct):
    limit: Count = 100
    topic: str | None = None
    partition: int = -1
    consumer_group: str | None = None
    start: str | None = None
    end: str | None = None
    status: str | None = None


class Span(msgspec.Struct, omit_defaults=True):
    span_id: str
    event_type: str
    type: str
    timestamp: str
    topic: str
    partition: int
    offset: int
    consumer_group: str | None = None
    consumer_id: str | None = None
    error: str | None = None
    details: str | None = None


class TraceView(msgspec.Struct, omit_defaults=True):
    """Its server calls them `spans`, its clients `events`."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    duration_ms: int
    status: str
    span_count: int
    spans: list[Span] = []
    events: list[Span] = []


class TraceList(msgspec.Struct):
    traces: list[TraceView]
    total: int


class TracerStats(msgspec.Struct):
    """Every message is traced, and its trace lasts as long as its history is kept."""

    traces_total: int
    traces_completed: int
    traces_error: int
    total_traces: int
    completed_traces: int
    error_traces: int
    enabled: bool = True
    sampling_rate: float = 1.0


async def show(call: Call) -> TraceView:
    ref = _parse(call.params["trace"])
    return _view(ref, await call.link.ask(GetTrace(ref)), with_spans=True)


def _parse(text: str) -> MessageRef:
    """An id of ours is understood, too."""
    if "." in text:
        return parse_message_id(text)
    digits = text.replace("-", "")
    if len(digits) != 32:
        raise InvalidError("invalid trace ID format: 32 hexadecimal digits")
    ref = ids.from_uuid("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))
    if ref is None:
        raise NotFoundError("trace not found")
    return ref


def _view(ref: MessageRef, trace: Trace, with_spans: bool) -> TraceView:
    now = time()
    events = [event for event in trace.events if event.time <= now]
    start, end = (events[0].time, events[-1].time) if events else (now, now)
    trace_id = ids.to_uuid(ref).replace("-", "")
    spans = [_span(trace_id, at, trace.topic, ref, event) for at, event in enumerate(events)] if with_spans else []
    return TraceView(
        trace_id,
        trace.topic,
        ref.partition,
        ref.offset,
        instant_text(round(start * 1000)),
        instant_text(round(end * 1000)),
        round((end - start) * 1000),
        _status(events),
        len(events),
        spans,
        spans,
    )


def _span(trace_id: str, at: int, topic: str, ref: MessageRef, event: TraceEvent) -> Span:
    kind = _EVENTS.get(event.what, event.what.replace(" ", "."))
    return Span(
        f"{trace_id[:12]}{at:04x}",
        kind,
        kind,
        instant_text(round(event.time * 1000)),
        topic,
        ref.partition,
        ref.offset,
        event.group,
        event.consumer,
        event.error,
        event.reason,
    )


def _status(events: list[TraceEvent]) -> str:
    happened = {event.what for event in events}
    if "dead-lettered" in happened or "dropped" in happened:
        return "error"
    return "completed" if "acknowledged" in happened else "pending"


async def search(call: Call) -> TraceList:
    """The newest messages that fit, newest first."""
    query: TracesQuery = call.query
    limit, turns = min(query.limit, TRACES_MAX), Turns()
    found: list[TraceView] = []
    for _, ref in await _newest(call, query, limit):
        await turns.worked(_TRACE_UNITS)
        try:
            trace = await call.link.ask(GetTrace(ref))
        except NotFoundError:
            continue  # gone since
        view = _view(ref, trace, with_spans=False)
        groups = {event.group for event in trace.events}
        if query.status in (None, "", view.status) and (not query.consumer_group or query.consumer_group in groups):
            found.append(view)
    return TraceList(found, len(found))


async def _newest(call: Call, query: TracesQuery, limit: int) -> list[tuple[int, MessageRef]]:
    """By the time when they were published. Of each partition, at most so many are looked at."""
    since = Position(time=parse_instant("start", query.start)) if query.start else None
    until = Position(time=parse_instant("end", query.end)) if query.end else None
    rows: list[tuple[int, MessageRef]] = []
    turns = Turns()
    topics = [info for info in await all_topics(call) if query.topic in (None, "", info.name) and info.messages]
    for info in topics[:_TOPICS_MAX]:
        for each in info.partitions:
            if query.partition not in (-1, each.partition) or not each.messages:
                continue
            start = since or Position(offset=max(each.start, each.end - limit))
            page = await call.link.ask(
                Scan(TopicName(info.namespace, info.name), each.partition, start, until, min(limit, TRACES_MAX))
            )
            refs = [MessageRef(page.topic_id, each.partition, offset) for offset in page.columns.offsets]
            rows += zip(page.columns.timestamps, refs, strict=True)
            if len(rows) > 4 * TRACES_MAX:
                rows = sorted(rows, reverse=True)[:limit]
            await turns.worked(_TRACE_UNITS)
    return sorted(rows, reverse=True)[:limit]


async def stats(call: Call) -> TracerStats:
    counters = (await call.link.ask(GetStats())).counters
    total, done, dead = counters.published, counters.acked, counters.dead_lettered
    return TracerStats(total, done, dead, total, done, dead)
