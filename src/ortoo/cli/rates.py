"""From two looks at a queue: what is there, and how fast it moves. Pure; `top` draws it."""

from __future__ import annotations

import msgspec

from ortoo.model.replies import GroupInfo, Stats, TopicInfo


class Sample(msgspec.Struct, frozen=True):
    """One look."""

    time: float
    stats: Stats
    topics: list[TopicInfo]


class GroupView(msgspec.Struct, frozen=True):
    name: str
    backlog: int
    ready: int
    delayed: int
    leased: int
    blocked: int
    dead: int
    leases: int
    consumers: int
    out_per_second: float  # messages the group has finished with


class TopicView(msgspec.Struct, frozen=True):
    name: str
    depth: int
    messages: int
    bytes: int
    leased: int
    dead: int
    in_per_second: float
    out_per_second: float
    groups: list[GroupView]


class View(msgspec.Struct, frozen=True):
    """What `top` shows. The rates of the whole queue come from its counters, so they hold for every namespace."""

    time: float
    seconds: float  # between the looks
    depth: int
    leases: int
    waiters: int
    transactions: int
    published_per_second: float
    delivered_per_second: float
    acked_per_second: float
    retried_per_second: float
    dead_lettered_per_second: float
    topics: list[TopicView]
    problems: list[str]


def compare(before: Sample, after: Sample) -> View:
    seconds = max(after.time - before.time, 0.001)
    earlier = {topic.id: topic for topic in before.topics}
    counters, then = msgspec.structs.asdict(after.stats.counters), msgspec.structs.asdict(before.stats.counters)

    def rate(name: str) -> float:
        return _rate(counters[name], then[name], seconds)

    return View(
        after.time,
        seconds,
        after.stats.depth,
        after.stats.leases,
        after.stats.waiters,
        after.stats.transactions,
        rate("published"),
        rate("delivered"),
        rate("acked"),
        rate("retried"),
        rate("dead_lettered"),
        [_topic(earlier.get(topic.id), topic, seconds) for topic in after.topics],
        after.stats.problems,
    )


def _rate(now: int, before: int, seconds: float) -> float:
    """Never below zero: a server that began anew counts from nothing."""
    return max(now - before, 0) / seconds


def _topic(before: TopicInfo | None, topic: TopicInfo, seconds: float) -> TopicView:
    earlier = {group.name: group for group in before.groups} if before is not None else {}
    end = _end(topic)
    end_before = end if before is None else _end(before)
    groups = [_group(earlier.get(group.name), group, end_before, end, seconds) for group in topic.groups]
    return TopicView(
        topic.name,
        topic.depth,
        topic.messages,
        topic.bytes,
        sum(group.leased for group in topic.groups),
        sum(group.dead for group in topic.groups),
        _rate(end, end_before, seconds),
        sum(group.out_per_second for group in groups),
        groups,
    )


def _end(topic: TopicInfo) -> int:
    return sum(partition.end for partition in topic.partitions)


def _group(before: GroupInfo | None, group: GroupInfo, end_before: int, end: int, seconds: float) -> GroupView:
    """Finished is what was published and is no longer pending."""
    finished = end - group.backlog
    finished_before = finished if before is None else end_before - before.backlog
    return GroupView(
        group.name,
        group.backlog,
        group.ready,
        group.delayed,
        group.leased,
        group.blocked,
        group.dead,
        group.leases,
        len(group.consumers),
        _rate(finished, finished_before, seconds),
    )
