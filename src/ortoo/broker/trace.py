"""A message's timeline, composed from its records."""

from __future__ import annotations

from ortoo.engine.partition import MAX_WAIT, TTL
from ortoo.engine.topic import Topic
from ortoo.model import records as r
from ortoo.model.history import event_of, group_name, reason_of
from ortoo.model.names import MessageRef
from ortoo.model.replies import Trace, TraceEvent, TraceKind


def compose(
    topic: Topic,
    ref: MessageRef,
    published: tuple[int, str | None] | None,
    history: list[r.HistoryRecord],
    now: int,
) -> Trace:
    """`published`: when, in ms, and by whom; None where that is not known any more."""
    names: dict[int, str] = {group.id: group.name for group in topic.groups.values()}
    events = []
    if published is not None:
        events.append(TraceEvent(published[0] / 1000, "published", publisher=published[1]))
    attempts: dict[int, int] = {}
    leases: dict[int, str] = {}
    for record in history:
        group = None if isinstance(record, r.Deleted) else group_name(names, record.group)
        events.append(_event(record, ref.offset, group, attempts, leases))
    events.extend(_planned(topic, ref, now))
    events.sort(key=lambda event: event.time)
    return Trace(str(ref), topic.name.name, topic.name.namespace, events)


def _event(
    record: r.HistoryRecord, offset: int, group: str | None, attempts: dict[int, int], leases: dict[int, str]
) -> TraceEvent:
    """For one message alone, so that it can be counted which delivery it is, and who held the lease."""
    time, what, reason = record.at / 1000, event_of(record), reason_of(record)
    match record:
        case r.Leased():
            attempt = attempts.get(record.group, 0) + 1
            leases[record.lease] = record.consumer
            again: TraceKind = what if attempt == 1 else "redelivered"
            return TraceEvent(time, again, group, record.consumer, attempt, until=record.until / 1000)
        case r.Retried():
            attempts[record.group] = attempt = attempts.get(record.group, 0) + 1
            due = record.dues[record.offsets.index(offset)] / 1000
            return TraceEvent(time, what, group, leases.get(record.lease), attempt, error=record.error, until=due)
        case r.Acked() | r.Released():
            return TraceEvent(time, what, group, leases.get(record.lease), reason=reason)
        case r.Dropped() | r.DeadLettered():
            return TraceEvent(time, what, group, reason=reason, error=record.error)
        case r.Redriven():
            attempts[record.group] = 0
            return TraceEvent(time, what, group)
        case r.Hastened() | r.Deleted() | r.Skipped():
            return TraceEvent(time, what, group, reason=reason)


def _planned(topic: Topic, ref: MessageRef, now: int) -> list[TraceEvent]:
    """What lies ahead: when it comes due, when it expires."""
    partition = topic.partitions[ref.partition]
    ahead: list[TraceEvent] = []
    if ref.offset in partition.delayed and (when := partition.delays.find(ref.offset)) is not None:
        ahead.append(TraceEvent(when / 1000, "due"))
    for kind, reason in ((TTL, "ttl"), (MAX_WAIT, "max_wait")):
        when = partition.expiries.find(ref.offset << 1 | kind)
        if when is not None and when > now:
            ahead.append(TraceEvent(when / 1000, "expires", reason=reason))
    return ahead
