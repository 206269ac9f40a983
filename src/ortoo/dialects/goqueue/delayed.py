"""Messages that are not due yet. When they are is asked of their traces: nothing else tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import time

import msgspec

from ortoo.broker.turns import Turns
from ortoo.dialects.durations import duration_text
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text
from ortoo.model.commands import DeleteMessage, Position
from ortoo.model.errors import NotFoundError
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.queries import GetTopic, GetTrace, ListMessages, Scan
from ortoo.model.replies import TopicInfo

from .shapes import DELAYED_MAX, Count, Offset
from .topics import name_of, to_number

_TRACE_UNITS = 5  # of a turn, for one trace


class DelayedQuery(msgspec.Struct):
    limit: Count = 100
    skip: Offset = 0


class DelayedMessage(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    deliver_at: str
    time_remaining: str
    state: str = "pending"


class DelayedList(msgspec.Struct):
    topic: str
    messages: list[DelayedMessage]
    count: int
    limit: int
    skip: int


class Cancelled(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    canceled: bool = True
    cancelled: bool = True


async def list_all(call: Call) -> DelayedList:
    query: DelayedQuery = call.query
    limit = min(query.limit, DELAYED_MAX)
    info = await call.link.ask(GetTopic(name_of(call)))
    found: list[DelayedMessage] = []
    skipped, turns = 0, Turns()
    async for ref in _candidates(call, info, min(query.skip + limit, DELAYED_MAX)):
        await turns.worked(_TRACE_UNITS)
        if (due := await _due(call, ref)) is None:
            continue
        if skipped < query.skip:
            skipped += 1
        elif len(found) < limit:
            found.append(_show(info.name, ref, due))
    return DelayedList(info.name, found, len(found), limit, query.skip)


async def _candidates(call: Call, info: TopicInfo, count: int) -> AsyncIterator[MessageRef]:
    """What a group waits for; of a topic without groups, the newest messages."""
    topic = TopicName(info.namespace, info.name)
    if info.groups:
        group = max(info.groups, key=lambda each: each.delayed)
        pages = await call.link.ask(ListMessages(topic, group.name, "delayed", count))
    else:
        share = max(1, count // len(info.partitions))
        pages = [
            await call.link.ask(Scan(topic, each.partition, Position(offset=max(0, each.end - share)), count=share))
            for each in info.partitions
            if each.messages
        ]
    for page in pages:
        for offset in page.columns.offsets:
            yield MessageRef(page.topic_id, page.partition, offset)


async def _due(call: Call, ref: MessageRef) -> float | None:
    """When it can be delivered first; None when that is past."""
    trace = await call.link.ask(GetTrace(ref))
    dues = [event.time for event in trace.events if event.what == "due"]
    return max(dues) if dues and max(dues) > time() else None


def _show(topic: str, ref: MessageRef, due: float) -> DelayedMessage:
    at = instant_text(round(due * 1000), digits=0)
    return DelayedMessage(topic, ref.partition, ref.offset, at, duration_text(max(0.0, due - time())))


async def show(call: Call) -> DelayedMessage:
    """By its offset only, as GoQueue asks: in the first partition that has one there which is delayed."""
    offset = to_number("offset", call.params["offset"])
    info = await call.link.ask(GetTopic(name_of(call)))
    turns = Turns()
    for each in info.partitions:
        if each.start <= offset < each.end:
            ref = MessageRef(info.id, each.partition, offset)
            await turns.worked(_TRACE_UNITS)
            if (due := await _known_due(call, ref)) is not None:
                return _show(info.name, ref, due)
    raise NotFoundError("delayed message not found")


async def _known_due(call: Call, ref: MessageRef) -> float | None:
    try:
        return await _due(call, ref)
    except NotFoundError:
        return None


async def cancel(call: Call) -> Cancelled:
    partition, offset = (to_number(name, call.params[name]) for name in ("partition", "offset"))
    info = await call.link.ask(GetTopic(name_of(call)))
    ref = MessageRef(info.id, partition, offset)
    if await _known_due(call, ref) is None:
        raise NotFoundError("delayed message not found or already delivered")
    await call.link.call(DeleteMessage(ref))
    return Cancelled(info.name, partition, offset)
