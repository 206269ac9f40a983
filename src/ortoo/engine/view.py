"""Looking at the state without changing it: infos, states of single messages, counts."""

from __future__ import annotations

from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import GroupInfo, MessageState, PartitionInfo, TopicInfo
from ortoo.model.topic import ANY_PRIORITY

from .feed import Feed
from .group import Group
from .topic import Topic


def topic_info(topic: Topic) -> TopicInfo:
    partitions = [
        PartitionInfo(p.index, p.start, p.end, p.end - p.start - len(p.deleted), p.bytes_held, p.archived)
        for p in topic.partitions
    ]
    return TopicInfo(
        topic.name.namespace,
        topic.name.name,
        topic.id,
        topic.config,
        topic.dlq_name().name,
        topic.created / 1000,
        topic.depth(),
        topic.messages(),
        sum(partition.bytes for partition in partitions),
        partitions,
        [group_info(group) for group in topic.groups.values()],
    )


def group_info(group: Group) -> GroupInfo:
    counts = {"ready": 0, "delayed": 0, "leased": 0, "blocked": 0}
    for feed in group.feeds:
        delayed, blocked = len(delayed_in(feed)), count_blocked(feed)
        counts["leased"] += len(feed.leased)
        counts["delayed"] += delayed
        counts["blocked"] += blocked
        counts["ready"] += feed.backlog() - len(feed.leased) - delayed - blocked
    members = group.members
    return GroupInfo(
        group.name,
        sum(counts.values()),
        **counts,
        dead=sum(len(feed.dead) for feed in group.feeds),
        skipped=sum(feed.skipped for feed in group.feeds),
        leases=len(group.leases),
        ephemeral=group.ephemeral,
        cursors=[feed.floor for feed in group.feeds],
        consumers={consumer: members.owned(consumer) for consumer in sorted(members.alive_until)},
    )


def delayed_in(feed: Feed) -> OffsetSet:
    """Not due yet, or waiting for a retry."""
    delayed = feed.unsettled(feed.partition.delayed) if feed.partition.delayed else OffsetSet()
    return (delayed - feed.early) | feed.retrying


def blocked_in(feed: Feed) -> OffsetSet:
    """Behind an unsettled message of their key or partition. Fresh messages are not looked at: they count as ready."""
    if feed.keys is not None:
        return OffsetSet(
            offset
            for state in feed.keys.states.values()
            if state.held and state.waiting
            for offset in state.waiting.items[state.waiting.start :]
        )
    if feed.fifo and feed.is_held:
        return feed.ready.get(ANY_PRIORITY, OffsetSet()).copy()
    return OffsetSet()


def count_blocked(feed: Feed) -> int:
    if feed.keys is not None:
        return sum(len(state.waiting) for state in feed.keys.states.values() if state.held and state.waiting)
    return len(feed.ready.get(ANY_PRIORITY, ())) if feed.fifo and feed.is_held else 0


def oldest_pending(group: Group) -> int | None:
    """When the oldest message that the group has not settled was published; None when it has settled all."""
    times = [
        feed.partition.timeline.time_of(max(feed.floor, feed.partition.start)) for feed in group.feeds if feed.backlog()
    ]
    return min(times, default=None)


def offsets_in_state(feed: Feed, state: MessageState) -> OffsetSet:
    partition = feed.partition
    feed.admit(partition.visible)  # so that fresh messages have found their place
    match state:
        case "leased":
            return feed.leased.copy()
        case "delayed":
            return delayed_in(feed)
        case "blocked":
            return blocked_in(feed)
        case "dead":
            return feed.dead.copy()
        case "ready":
            return feed.open - feed.leased - delayed_in(feed) - blocked_in(feed)
        case "done":
            past = OffsetSet.span(partition.start, feed.cursor) if feed.cursor > partition.start else OffsetSet()
            return past - feed.open - feed.dead - partition.gone_for(feed.group)


def message_states(topic: Topic, partition: int, offset: int) -> dict[str, MessageState]:
    """The state of one message in each group."""
    states: dict[str, MessageState] = {}
    order: tuple[MessageState, ...] = ("leased", "delayed", "blocked", "dead", "ready", "done")
    for group in topic.groups.values():
        for state in order:
            if offset in offsets_in_state(group.feeds[partition], state):
                states[group.name] = state
                break
    return states
