"""Committed offsets: where a group is in each partition.

To commit an offset is to acknowledge every message before it. What is settled stays so: a lower offset changes nothing, and to go
back there is `reset`.
"""

from __future__ import annotations

from ortoo.client.by_id import settle_by_id
from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.answers import Refusal
from ortoo.doors.http.call import Call
from ortoo.doors.times import parse_instant
from ortoo.model.commands import END, START, Lease, Position, Run, Seek, Settle, SettleById
from ortoo.model.errors import InvalidError
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.queries import GetTopic
from ortoo.model.replies import TopicInfo

from . import members
from .groups import in_group
from .shapes import CommitBody, Committed, GroupQuery, OffsetReset, OffsetsAnswer, ResetAnswer, ResetBody
from .topics import all_topics, to_number

_COMMITTED_MAX = 100_000  # messages that one request acknowledges
_LEASED_AT_ONCE = 1_000


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


# -- committing


async def commit(call: Call) -> Committed:
    body: CommitBody = call.body
    if not body.member_id:
        raise InvalidError("member_id is required")
    if not body.offsets:
        raise InvalidError("offsets are required")
    member, wanted = members.parse(body.member_id), _by_topic(body)
    group, plans = call.params["group"], []
    for topic, ends in wanted.items():
        info = await _topic(call, topic)
        plans.append((info, _ranges(info, in_group([info], group)[0][1].cursors, ends)))
    if sum(len(some) for _, ranges in plans for some in ranges.values()) > _COMMITTED_MAX:
        raise InvalidError(f"a commit acknowledges at most {_COMMITTED_MAX} messages; commit in steps, or reset")
    for info, ranges in plans:
        for partition, offsets in ranges.items():
            if offsets:
                await _acknowledge(call, info, member.consumer, partition, offsets)
    told = {topic: {str(partition): end for partition, end in ends.items()} for topic, ends in wanted.items()}
    return Committed(group, told)


def _by_topic(body: CommitBody) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    if isinstance(body.offsets, dict):
        for topic, ends in body.offsets.items():
            found[topic] = {to_number("a partition", text): end for text, end in ends.items()}
    else:
        for each in body.offsets:
            found.setdefault(each.topic, {})[each.partition] = each.offset
    return found


def _ranges(info: TopicInfo, cursors: list[int], ends: dict[int, int]) -> dict[int, range]:
    for partition, end in ends.items():
        if partition >= len(info.partitions) or end > info.partitions[partition].end:
            raise InvalidError(f"topic {info.name!r} has no offset {end} in partition {partition}")
    return {partition: range(cursors[partition], end) for partition, end in ends.items()}


async def _acknowledge(call: Call, info: TopicInfo, consumer: str, partition: int, offsets: range) -> None:
    """Whoever holds them; what nobody holds is leased first."""
    group = call.params["group"]
    ids = [MessageRef(info.id, partition, offset) for offset in offsets]
    states = await settle_by_id(call.link.call, SettleById("ack", [*ids], group, info.namespace, info.name))
    lease = Lease(
        topic=info.name,
        namespace=info.namespace,
        group=group,
        consumer=consumer,
        max_messages=_LEASED_AT_ONCE,
        partition=partition,
        start=None,
    )
    left = states.count("lost")
    while left > 0 and (taken := await _take(call, lease, offsets)):
        left -= taken


async def _take(call: Call, lease: Lease, offsets: range) -> int:
    """How many of them were there to be taken: what is delayed is not, or what somebody else has by now."""
    count = 0
    for run in await call.link.lease(lease):
        taken = run.taken
        ids = (taken.topic_id, taken.group_id, taken.lease, taken.partition)
        if mine := [offset for offset in taken.offsets if offset in offsets]:
            await call.link.call(Settle("ack", [Run(*ids, mine)]))
            count += len(mine)
        if others := [offset for offset in taken.offsets if offset not in offsets]:
            await call.link.call(Settle("release", [Run(*ids, others)]))
    return count


async def reset(call: Call) -> ResetAnswer:
    """What its command line asks for: the whole group, in one topic, to another place."""
    body: ResetBody = call.body
    group = call.params["group"]
    if not body.topic:
        raise InvalidError("topic is required")
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
    raise InvalidError("strategy is earliest, latest, or timestamp with a timestamp")
