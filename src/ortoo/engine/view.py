"""Looking at the state without changing it: infos, states of single messages, counts."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

from ortoo.model import limits
from ortoo.model.latency import Latency, Recent, Sum
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import GroupInfo, MessageState, PartitionInfo, TopicInfo
from ortoo.model.topic import DEFAULT_PRIORITY

from .feed import Feed
from .group import Group
from .partition import Partition
from .topic import Topic

_FRESH_COUNTED = 1_000


def topic_info(topic: Topic, groups: list[GroupInfo]) -> TopicInfo:
    """With what was looked up of each group: there may be more of them than one turn may look at."""
    partitions = [
        PartitionInfo(
            p.index, p.start, p.settled_end, p.settled_end - p.start - len(p.deleted), p.bytes_held, p.archived
        )
        for p in topic.partitions
    ]
    return TopicInfo(
        topic.name.namespace,
        topic.name.name,
        topic.id,
        topic.config,
        topic.dlq_name().name,
        topic.created / 1000,
        max((group.backlog for group in groups if not group.ephemeral), default=topic.messages()),
        topic.messages(),
        sum(partition.bytes for partition in partitions),
        partitions,
        groups,
    )


def group_info(group: Group, now: int | None = None) -> GroupInfo:
    """With its latencies, if it is said when now is."""
    counts = {"ready": 0, "delayed": 0, "leased": 0, "blocked": 0}
    feeds = list(group.feeds.looks())
    for feed in feeds:
        delayed, blocked = len(delayed_in(feed)), count_blocked(feed)
        counts["leased"] += len(feed.leased)
        counts["delayed"] += delayed
        counts["blocked"] += blocked
        counts["ready"] += feed.backlog() - len(feed.leased) - delayed - blocked
    members, pause = group.look_at_members(), group.paused
    return GroupInfo(
        group.name,
        sum(counts.values()),
        **counts,
        dead=sum(len(feed.dead) for feed in feeds),
        skipped=sum(feed.skipped for feed in feeds),
        leases=len(group.leases),
        ephemeral=group.ephemeral,
        cursors=[feed.floor for feed in feeds],
        consumers={consumer: members.owned(consumer) for consumer in sorted(members.alive_until)},
        paused=pause is not None,
        paused_until=None if pause is None or pause.until is None else pause.until / 1000,
        reason=None if pause is None else pause.reason,
        delivery_latency=_latency(group.delivery_times, now),
        ack_latency=_latency(group.ack_times, now),
    )


def _latency(recent: Recent | None, now: int | None) -> Latency | None:
    if recent is None or now is None:
        return None
    found = Sum(now)
    found.add(recent)
    return found.latency()


class Latencies:
    """Of several groups together: from publishing to the first delivery, and from there to the ack."""

    __slots__ = ("_ack", "_delivery")

    def __init__(self, now: int) -> None:
        self._delivery, self._ack = Sum(now), Sum(now)

    def add(self, group: Group) -> int:
        """How much there was to add."""
        return self._delivery.add(group.delivery_times) + self._ack.add(group.ack_times)

    def found(self) -> tuple[Latency | None, Latency | None]:
        return self._delivery.latency(), self._ack.latency()


def delayed_in(feed: Feed) -> OffsetSet:
    """Not due yet, or waiting for a retry."""
    partition = feed.partition
    delayed = feed.unsettled(partition.delayed.within(0, partition.settled_end)) if partition.delayed else OffsetSet()
    return (delayed - feed.due_early) | feed.retrying


def blocked_in(feed: Feed, keys: Iterable[int] | None = None) -> OffsetSet:
    """Behind an unsettled message of their key, of one of these or of any, or of their partition. Fresh messages are not looked
    at: they count as ready."""
    if feed.keys is not None:
        waiting, found = feed.keys.waiting, array("Q")
        for key in list(waiting) if keys is None else keys:
            if key in waiting and feed.keys.held(key):
                found.extend(waiting[key].next(0, len(waiting[key]), 1 << 63))
        return OffsetSet(found)
    if feed.fifo and feed.is_held:
        return feed.ready.get(DEFAULT_PRIORITY, OffsetSet()).copy()
    return OffsetSet()


def count_blocked(feed: Feed) -> int:
    """Of many fresh messages only the first are looked at; the others count as ready."""
    fresh = len(_fresh(feed, _FRESH_COUNTED, is_blocked=True))
    if feed.keys is not None:
        return fresh + feed.keys.blocked
    return fresh + (len(feed.ready.get(DEFAULT_PRIORITY, ())) if feed.fifo and feed.is_held else 0)


def oldest_pending(group: Group) -> int | None:
    """When the oldest message that the group has not settled was published; None when it has settled all."""
    times = [
        feed.partition.timeline.time_of(max(feed.floor, feed.partition.start))
        for feed in group.feeds.looks()
        if feed.backlog()
    ]
    return min(times, default=None)


class Load(NamedTuple):
    """What a group has before it. `oldest`: since when the first of what is due could be delivered, about: when it was published
    or, where it was delayed, came due; None when there is nothing."""

    backlog: int
    leased: int
    oldest: int | None


def group_load(group: Group) -> Load:
    """The least that is worth knowing, and cheap: this is looked at once a second."""
    backlog = leased = 0
    oldest: int | None = None
    for feed in group.feeds.unsettled():
        if count := feed.backlog():
            backlog += count
            leased += len(feed.leased)
            since = _due_since(feed)
            if since is not None:
                oldest = since if oldest is None else min(oldest, since)
    return Load(backlog, leased, oldest)


def _due_since(feed: Feed) -> int | None:
    """Of what is not settled. What is to come later does not wait yet: None where that is all."""
    partition = feed.partition
    floor = max(feed.floor, partition.start)
    is_due = floor not in partition.delayed or floor in feed.due_early
    if is_due and floor not in partition.delayed_then_due.offsets:
        return partition.timeline.about(floor)
    fresh = OffsetSet.span(max(feed.cursor, partition.start), partition.settled_end)
    return _since(partition, (feed.open | fresh) - (partition.delayed - feed.due_early))


def _since(partition: Partition, due: OffsetSet) -> int | None:
    """The dates of what was delayed ascend, as those of publishing do: the first of each is the oldest."""
    if not due:
        return None
    dates, first = partition.delayed_then_due, due.first()
    if first not in dates.offsets:
        return partition.timeline.about(first)
    others = due - dates.offsets
    came_due = dates.date_of(first)
    return min(came_due, partition.timeline.about(others.first())) if others else came_due


def log_load(topic: Topic) -> Load:
    """The same for a topic without groups: everything that the log has."""
    times = [_since(log, OffsetSet.span(log.start, log.settled_end) - log.delayed) for log in topic.partitions]
    return Load(topic.messages(), 0, min((since for since in times if since is not None), default=None))


def offsets_in_state(
    feed: Feed, state: MessageState, count: int | None = None, waiting: OffsetSet | None = None
) -> OffsetSet:
    """With `count` the lowest so many, found among a bounded number of fresh messages. `waiting`: those that are blocked, where
    somebody has looked for them already, in turns."""
    if state in ("blocked", "ready"):
        waiting = blocked_in(feed) if waiting is None else waiting & feed.open
    scanned = None if count is None else limits.SCAN_MESSAGES_MAX
    partition = feed.partition
    match state:
        case "leased":
            found = feed.leased.copy()
        case "delayed":
            found = delayed_in(feed)
        case "blocked":
            assert waiting is not None
            found = waiting
            found.update(_fresh(feed, scanned, is_blocked=True))
        case "dead":
            found = feed.dead.copy()
        case "ready":
            assert waiting is not None
            found = feed.open - feed.leased - delayed_in(feed) - waiting - feed.unsorted
            found.update(_fresh(feed, scanned, is_blocked=False))
        case "done":
            past = OffsetSet.span(partition.start, feed.cursor) if feed.cursor > partition.start else OffsetSet()
            past.update(feed.ahead)
            found = past - feed.open - feed.dead - partition.gone_for(feed.group)
    return found if count is None else found.take(count)


def fresh_blocked(feed: Feed, scanned: int) -> OffsetSet:
    """Those of the first fresh messages, so many, that would be blocked if the feed had looked at them."""
    return _fresh(feed, scanned, is_blocked=True)


def page_in_state(
    feed: Feed, state: MessageState, start: int, count: int, waiting: OffsetSet
) -> tuple[OffsetSet, int | None]:
    """The lowest so many from `start` on, and where the next ones begin, or may begin; None when there are no more. `waiting`:
    those that are blocked, or were a few turns ago."""
    found, after = OffsetSet(), None
    if state in ("ready", "blocked"):
        fresh = _not_looked_at(feed)
        fresh = fresh.within(start, fresh.last() + 1) if fresh else fresh
        if len(fresh) > limits.SCAN_MESSAGES_MAX:
            after = fresh[limits.SCAN_MESSAGES_MAX]
            fresh = fresh.within(start, after)
        found = _of_fresh(feed, fresh, None, is_blocked=state == "blocked")
        waiting = waiting & (feed.open - feed.leased)
        if state == "blocked":
            found.update(waiting)
        else:
            found.update(feed.open - feed.leased - delayed_in(feed) - waiting - feed.unsorted)
    else:
        found = offsets_in_state(feed, state)
    found = found.within(start, (found.last() + 1 if found else start) if after is None else after)
    if len(found) <= count:
        return found, after
    return found.take(count), found[count]


def seek_preview(feed: Feed, start: int, until: int | None) -> tuple[int, int]:
    """How many messages a seek to `start` would have delivered, and how many that wait now it would leave behind. With `until`
    just that stretch comes again."""
    partition = feed.partition
    end = partition.settled_end if until is None else until
    again = OffsetSet.span(start, end) if start < end else OffsetSet()
    kept = feed.open.within(start, end) if start < end else OffsetSet()
    again.subtract(partition.gone_for(feed.group))
    again.update(kept - partition.expired - partition.deleted)
    if until is not None or start <= partition.start:
        return len(again), 0
    return len(again), len(feed.unsettled(OffsetSet.span(partition.start, start)))


def _fresh(feed: Feed, scanned: int | None, *, is_blocked: bool) -> OffsetSet:
    """Fresh messages that would be blocked, or would not, if the feed had looked at them. It still has not."""
    return _of_fresh(feed, _not_looked_at(feed), scanned, is_blocked=is_blocked)


def _not_looked_at(feed: Feed) -> OffsetSet:
    """Those that a seek made deliverable, and that are not sorted yet, are as good as fresh."""
    partition = feed.partition
    start = max(feed.cursor, partition.start)
    fresh = OffsetSet()
    if start < partition.visible:
        fresh = OffsetSet.span(start, partition.visible) - partition.delayed
        fresh.subtract(partition.gone_for(feed.group))
        fresh.subtract(feed.dead)
        fresh.subtract(feed.ahead)
    fresh.update(feed.unsorted)
    return fresh


def _of_fresh(feed: Feed, fresh: OffsetSet, scanned: int | None, *, is_blocked: bool) -> OffsetSet:
    partition = feed.partition
    if not fresh:
        return fresh
    if feed.fifo:
        return fresh if feed.is_held == is_blocked else OffsetSet()
    if feed.keys is None or not feed.is_held:
        return OffsetSet() if is_blocked else fresh
    offsets, fronts = (fresh if scanned is None else fresh.take(scanned)).to_array(), feed.keys.fronts
    keys = partition.keys.of(offsets)
    return OffsetSet(
        [offset for offset, key in zip(offsets, keys, strict=True) if (fronts.get(key, 0) < 0) == is_blocked]
    )


def state_of(feed: Feed, offset: int) -> MessageState | None:
    """None where the group has nothing to do with it: not visible yet, gone, or meant for another."""
    partition = feed.partition
    one = OffsetSet([offset])
    if offset >= partition.settled_end:
        return None
    if offset in feed.leased:
        return "leased"
    is_pending = bool(feed.unsettled(one))
    if offset in feed.retrying or (is_pending and offset in partition.delayed and offset not in feed.due_early):
        return "delayed"
    if offset in feed.dead:
        return "dead"
    if is_pending:
        if offset >= max(feed.cursor, partition.visible) and offset not in feed.ahead:
            return None
        return "blocked" if _is_blocked(feed, offset) else "ready"
    is_past = partition.start <= offset < feed.cursor or offset in feed.ahead
    return "done" if is_past and offset not in partition.gone_for(feed.group) else None


def _is_blocked(feed: Feed, offset: int) -> bool:
    if feed.keys is None:
        return feed.fifo and feed.is_held
    return feed.keys.held(feed.partition.keys.at(offset)) > 0
