"""Consumer groups: joining, heartbeats, leaving, and what there is. A group of GoQueue spans topics, so it is ours in each.

Messages are leased one by one, by whoever asks: partitions are not handed out, and nothing is ever rebalanced. A member is
told of every partition, and the generation stays the same.
"""

from __future__ import annotations

from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.doors.times import parse_duration
from ortoo.model import limits
from ortoo.model.commands import CreateGroup, DeleteGroup, Heartbeat, Leave
from ortoo.model.errors import ExistsError, InvalidError, NotFoundError
from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic
from ortoo.model.replies import GroupInfo, TopicInfo

from . import members
from .shapes import (
    Beat,
    GroupDeleted,
    GroupDetails,
    GroupNames,
    GroupSummary,
    JoinBody,
    Joined,
    Left,
    MemberBody,
    MemberDetails,
    PollQuery,
    TopicPartition,
)
from .topics import all_topics

GENERATION = 1
_SESSION_SECONDS = 30.0


async def join(call: Call) -> Joined:
    """A new group begins with the oldest message."""
    body: JoinBody = call.body
    if not body.client_id:
        raise InvalidError("client_id is required")
    topics = list(dict.fromkeys(body.topics))
    if not 1 <= len(topics) <= members.TOPICS_MAX:
        raise InvalidError(f"at least one topic is required, and at most {members.TOPICS_MAX}")
    member_id, member = members.new(body.client_id, topics, _session_ms(body))
    infos = [await call.link.ask(GetTopic(TopicName(namespace_of(call.link), topic))) for topic in topics]
    for info in infos:
        await _make_group(call, info)
    return await _assigned(call, member_id, member, infos)


def _session_ms(body: JoinBody) -> int:
    given = body.session_timeout
    seconds = _SESSION_SECONDS if given in (None, "") else parse_duration("session_timeout", str(given))
    if not 0.001 <= seconds <= limits.LEASE_MS_MAX / 1000:
        raise InvalidError(f"session_timeout lies between 1ms and {limits.LEASE_MS_MAX // 3_600_000}h")
    return round(seconds * 1000)


async def _make_group(call: Call, info: TopicInfo) -> None:
    group = call.params["group"]
    if any(each.name == group for each in info.groups):
        return
    try:
        await call.link.call(CreateGroup(TopicName(info.namespace, info.name), group))
    except ExistsError:
        pass  # somebody else was first


async def _assigned(call: Call, member_id: str, member: members.Member, infos: list[TopicInfo]) -> Joined:
    group, places, others = call.params["group"], [], {member.consumer}
    for info in infos:
        beat = Heartbeat(TopicName(info.namespace, info.name), group, member.consumer, member.session_ms)
        owned: list[int] = await call.link.call(beat)
        places += [(info.name, index) for index in (owned if info.config.is_fifo else range(len(info.partitions)))]
        others |= {name for each in info.groups if each.name == group for name in each.consumers}
    leader = min(others)
    is_leader = leader == member.consumer
    return Joined(
        member_id,
        GENERATION,
        member_id if is_leader else leader,
        sorted({index for _, index in places}),
        [member_id, *sorted(others - {member.consumer})],
        member_id if is_leader else "",
        [f"{topic}-{index}" for topic, index in places],
    )


def _member(text: str) -> members.Member:
    if not text:
        raise InvalidError("member_id is required")
    return members.parse(text)


async def heartbeat(call: Call) -> Beat:
    body: MemberBody = call.body
    member = _member(body.member_id)
    for topic in member.topics:
        name = TopicName(namespace_of(call.link), topic)
        await call.link.call(Heartbeat(name, call.params["group"], member.consumer, member.session_ms))
    return Beat()


async def leave(call: Call) -> Left:
    """What it has leased goes back at once, uncounted."""
    body: MemberBody = call.body
    member = _member(body.member_id)
    for topic in member.topics:
        name = TopicName(namespace_of(call.link), topic)
        await call.link.call(Leave(member.consumer, name, call.params["group"]))
    return Left()


async def assignment(call: Call) -> Joined:
    query: PollQuery = call.query
    member = _member(query.member_id)
    infos = [await call.link.ask(GetTopic(TopicName(namespace_of(call.link), topic))) for topic in member.topics]
    return await _assigned(call, query.member_id, member, infos)


# -- what there is


def in_group(infos: list[TopicInfo], group: str) -> list[tuple[TopicInfo, GroupInfo]]:
    found = [(info, each) for info in infos for each in info.groups if each.name == group]
    if not found:
        raise NotFoundError(f"group {group!r} not found")
    return found


async def list_all(call: Call) -> GroupNames:
    topics: dict[str, list[str]] = {}
    consumers: dict[str, set[str]] = {}
    for info in await all_topics(call):
        for group in info.groups:
            topics.setdefault(group.name, []).append(info.name)
            consumers.setdefault(group.name, set()).update(group.consumers)
    details = [
        GroupSummary(name, _state(consumers[name]), len(consumers[name]), GENERATION, topics[name])
        for name in sorted(topics)
    ]
    return GroupNames(sorted(topics), details)


def _state(consumers: object) -> str:
    return "stable" if consumers else "empty"


async def show(call: Call) -> GroupDetails:
    group = call.params["group"]
    places: dict[str, list[TopicPartition]] = {}
    found = in_group(await all_topics(call), group)
    for info, each in found:
        for consumer, owned in each.consumers.items():
            indexes = owned if info.config.is_fifo else range(len(info.partitions))
            places.setdefault(consumer, []).extend(TopicPartition(info.name, index) for index in indexes)
    shown = [
        MemberDetails(name, name, members.client_of(name), some, [f"{place.topic}-{place.partition}" for place in some])
        for name, some in sorted(places.items())
    ]
    return GroupDetails(group, group, _state(shown), GENERATION, [info.name for info, _ in found], shown)


async def delete(call: Call) -> GroupDeleted:
    group = call.params["group"]
    for info, _ in in_group(await all_topics(call), group):
        await call.link.call(DeleteGroup(TopicName(info.namespace, info.name), group))
    return GroupDeleted(group, group)
