"""A message's timeline, composed from its records."""

from __future__ import annotations

from collections import deque

from ortoo.engine.partition import MAX_WAIT, TTL
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model import records as r
from ortoo.model.history import event_of, group_name, reason_of
from ortoo.model.names import MessageRef
from ortoo.model.replies import Trace, TraceEvent, TraceKind

from .turns import Turns

_LOOKED_THROUGH = 500  # offsets of a record, in the time of a short one


class Timeline:
    """Of one message. Its history may be long: it is taken in turns, and only the newest events are kept."""

    def __init__(self, topic: Topic, ref: MessageRef) -> None:
        self._topic = topic
        self._ref = ref
        self._names: dict[int, str] = {group.id: group.name for group in topic.groups.values()}
        self._events: deque[TraceEvent] = deque(maxlen=limits.TRACE_EVENTS_MAX)
        self._attempts: dict[int, int] = {}
        self._leases: dict[int, tuple[int, str]] = {}  # by group, the last one
        self._turns = Turns()
        self.count = 0

    async def add(self, history: list[r.HistoryRecord]) -> None:
        for record in history:
            group = None if isinstance(record, r.Deleted | r.Superseded) else group_name(self._names, record.group)
            self._events.append(_event(record, self._ref.offset, group, self._attempts, self._leases))
            self.count += 1
            await self._turns.worked(
                1 + (len(record.offsets) // _LOOKED_THROUGH if isinstance(record, r.Retried) else 0)
            )

    def finish(self, published: tuple[int, str | None] | None, now: int) -> Trace:
        """`published`: when, in ms, and by whom; None where that is not known any more."""
        events = [*self._events, *_planned(self._topic, self._ref, now)]
        if published is not None:
            events.insert(0, TraceEvent(published[0] / 1000, "published", publisher=published[1]))
        events.sort(key=lambda event: event.time)
        name = self._topic.name
        return Trace(str(self._ref), name.name, name.namespace, events, self.count - len(self._events))


def _event(
    record: r.HistoryRecord,
    offset: int,
    group: str | None,
    attempts: dict[int, int],
    leases: dict[int, tuple[int, str]],
) -> TraceEvent:
    """For one message alone, so that it can be counted which delivery it is, and who held the lease."""
    time, what, reason = record.at / 1000, event_of(record), reason_of(record)
    match record:
        case r.Leased():
            attempt = attempts.get(record.group, 0) + 1
            leases[record.group] = record.lease, record.consumer
            again: TraceKind = what if attempt == 1 else "redelivered"
            return TraceEvent(time, again, group, record.consumer, attempt, until=record.until / 1000)
        case r.Retried():
            attempts[record.group] = attempt = attempts.get(record.group, 0) + 1
            due = record.dues[record.offsets.index(offset)] / 1000
            return TraceEvent(time, what, group, _holder(leases, record), attempt, error=record.error, until=due)
        case r.Acked() | r.Released():
            return TraceEvent(time, what, group, _holder(leases, record), reason=reason)
        case r.Dropped() | r.DeadLettered():
            return TraceEvent(time, what, group, reason=reason, error=record.error)
        case r.Redriven():
            attempts[record.group] = 0
            return TraceEvent(time, what, group)
        case r.Superseded():
            return TraceEvent(time, what, reason=record.ref_for(offset))
        case r.Hastened() | r.Deleted() | r.Skipped():
            return TraceEvent(time, what, group, reason=reason)


def _holder(leases: dict[int, tuple[int, str]], record: r.Acked | r.Retried | r.Released) -> str | None:
    lease, consumer = leases.get(record.group, (None, None))
    return consumer if lease == record.lease else None


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
