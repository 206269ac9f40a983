"""Committed offsets: where a group is in each partition."""

from __future__ import annotations

from ortoo.dialects.callers import namespace_of
from ortoo.dialects.times import parse_instant
from ortoo.doors.http.answers import Refusal
from ortoo.doors.http.call import Call
from ortoo.model.commands import END, START, Position, Seek
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic
from ortoo.model.replies import TopicInfo

from .groups import in_group
from .shapes import GroupQuery, OffsetReset, OffsetsAnswer, ResetAnswer, ResetBody
from .topics import all_topics


async def show(call: Call) -> OffsetsAnswer:
    query: GroupQuery = call.query
    infos = [await _topic(call, query.topic)] if query.topic else await all_topics(call)
    group = call.params["group"]
    found: dict[str, dict[str, int]] = {}
    for info in infos:
        for each in info.groups:
            if each.name == group:
                found[info.name] = {str(index): cursor for index, cursor in enumerate(each.cursors)}
    return OffsetsAnswer(group, found, found)


async def _topic(call: Call, topic: str) -> TopicInfo:
    return await call.link.ask(GetTopic(TopicName(namespace_of(call.link), topic)))


async def reset(call: Call) -> ResetAnswer:
    """What its command line asks for: the whole group, in one topic, to another place."""
    body: ResetBody = call.body
    group = call.params["group"]
    if not body.topic:
        raise InvalidError("topic is required - at `$.topic`")
    if body.partition is not None and body.partition > 0:
        raise Refusal(501, "a group is moved in all partitions of a topic; leave partition out", code="unsupported")
    info = await _topic(call, body.topic)
    in_group([info], group)
    moved: list[int] = await call.link.call(Seek(TopicName(info.namespace, info.name), group, _position(body)))
    rows = [OffsetReset(info.name, index, offset) for index, offset in enumerate(moved)]
    return ResetAnswer(group, len(rows), rows)


def _position(body: ResetBody) -> Position:
    match body.strategy:
        case "earliest":
            return START
        case "latest":
            return END
        case "timestamp" if body.timestamp:
            return Position(time=parse_instant("timestamp", body.timestamp))
    raise InvalidError("strategy is earliest, latest, or timestamp with a timestamp - at `$.strategy`")
