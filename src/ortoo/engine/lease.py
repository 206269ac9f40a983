"""Deciding a lease: the most urgent lane across all partitions first, and within a lane the oldest message first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ortoo.model import limits
from ortoo.model.batch import check_texts
from ortoo.model.commands import Lease, Position
from ortoo.model.errors import InvalidError, NotFoundError, TooManyError
from ortoo.model.names import LeaseId, TopicName, check_labels, check_name, is_inbox
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import GroupCreated, Leased
from ortoo.model.replies import LeaseTaken, Taken

from .alarms import ConsumersUnparked, MembersDue
from .decision import Decision, Draft
from .group import Group
from .keys import key_hash
from .order import Order, OrderByHeads
from .partition import Partition
from .picker import Budget, Picker
from .picking import count_keys, pick, pick_by_key
from .quotas import check_groups
from .state import State
from .topic import Topic

_GROUP_COST = 40  # of making a group, for each partition, in messages
_UNPARKED_AT_ONCE = 8  # topics that a poll waited for
_ORDERS_MAX = 64  # sets of labels whose topics are remembered in order


def decide_lease(state: State, command: Lease, now: int) -> Decision:
    check_lease(command)
    state.soft.joining.clear()
    draft = Draft(state, now)
    taken: list[Taken] = []
    wanted, keys_left = command.max_messages, command.keys_max
    budget = Budget(limits.SCAN_MESSAGES_MAX)
    topics = _topics(state, command)
    for topic in topics:  # before any: a lease that is refused is no sign of life
        check_lease_of(topic, command)
    if command.start is not None and command.namespace in state.namespaces:
        check_groups(state, command.namespace, sum(command.group not in topic.group_names for topic in topics))
    for number, topic in enumerate(topics):
        if budget.left <= 0 and command.group not in topic.group_names:  # with the next try
            break
        found = _lease_from(draft, topic, command, state.next_lease(number), wanted, keys_left, budget)
        taken.extend(found)
        wanted -= sum(len(run.offsets) for run in found)
        if keys_left is not None:
            keys_left -= count_keys(topic.partitions, found)
        if wanted <= 0 or keys_left == 0:
            break
    return Decision(draft.records, LeaseTaken(taken, more=budget.left <= 0 and not taken))


def check_lease(command: Lease) -> None:
    if not 1 <= command.max_messages <= limits.BATCH_MESSAGES_MAX:
        raise InvalidError(f"max_messages must be 1 to {limits.BATCH_MESSAGES_MAX}, not {command.max_messages}")
    if command.lease_ms is not None and not 1 <= command.lease_ms <= limits.LEASE_MS_MAX:
        raise InvalidError(f"a lease lasts 1 ms to {limits.LEASE_MS_MAX // 3_600_000} hours, not {command.lease_ms} ms")
    if command.keys_max is not None and not 1 <= command.keys_max <= limits.BATCH_MESSAGES_MAX:
        raise InvalidError(f"keys_max must be 1 to {limits.BATCH_MESSAGES_MAX}, not {command.keys_max}")
    if (command.topic is None) == (command.labels is None):
        raise InvalidError("name a topic to lease from, or the labels of several, and not both")
    check_name("a consumer's name", command.consumer)
    check_texts("key", [command.key], limits.KEY_BYTES_MAX)
    if command.labels is not None:
        check_labels(command.labels)


def _topics(state: State, command: Lease) -> list[Topic]:
    if command.topic is not None:
        return [state.usable_topic(TopicName(command.namespace, command.topic))]
    found = topics_in_order(state, command.namespace, frozenset((command.labels or {}).items()))
    return [topic for topic in found if topic.quarantine_reason is None]


def topics_in_order(state: State, namespace: str, labels: frozenset[tuple[str, str]]) -> list[Topic]:
    """Those with these labels, the most urgent first. Remembered until a topic comes, goes or changes."""
    found = state.soft.labelled_in_order.get((namespace, labels))
    if found is None:
        meant = [topic for topic in state.topics_labelled(namespace, labels) if _is_meant(state, topic, labels)]
        found = sorted(meant, key=lambda topic: (topic.config.priority, topic.name))
        if len(state.soft.labelled_in_order) >= _ORDERS_MAX:
            state.soft.labelled_in_order.clear()
        state.soft.labelled_in_order[namespace, labels] = found
    return found


def is_wanted(state: State, topic: Topic, labels: Collection[tuple[str, str]]) -> bool:
    """Whether a lease by these labels looks at the topic."""
    return topic.quarantine_reason is None and _is_meant(state, topic, labels)


def _is_meant(state: State, topic: Topic, labels: Collection[tuple[str, str]]) -> bool:
    """Without any label a lease means what others work with: the whole namespace, but not dead letters and answers."""
    config = topic.config
    if labels:
        return all(config.labels.get(name) == value for name, value in labels)
    return not state.is_dlq(topic.name) and not is_inbox(config.labels)


def _lease_from(
    draft: Draft,
    topic: Topic,
    command: Lease,
    lease: LeaseId,
    wanted: int,
    keys_max: int | None,
    budget: Budget,
) -> list[Taken]:
    group = topic.group_names.get(command.group)
    if group is None:
        if command.start is None:
            raise NotFoundError(f"topic {str(topic.name)!r} has no group {command.group!r} any more")
        budget.left -= _GROUP_COST * (2 + len(topic.partitions))
        group = draft_group(draft, topic, command.group, command.start)
        draft.state.soft.joining[topic.id, group.name] = group.members
    _join(draft, topic, group, command)
    if group.paused is not None:
        return []
    runs = pick(_order(topic, group, command, budget), wanted)
    if keys_max is not None:
        runs = pick_by_key(group.feeds, runs, wanted, keys_max, budget)
    if not runs:
        return []
    until = draft.now + (command.lease_ms or round(topic.config.lease * 1000))
    together: dict[int, OffsetSet] = {}
    for partition, offsets in runs:
        if partition in together:
            together[partition].update(OffsetSet.ascending(offsets))
        else:
            together[partition] = OffsetSet.ascending(offsets)
    now, consumer = draft.now, command.consumer
    for partition, taken in together.items():
        draft.records.append(Leased(now, topic.id, group.id, partition, lease, consumer, until, taken))
    return [
        Taken(
            topic.name, topic.id, group.name, group.id, lease, partition, offsets, _attempts(group, partition, offsets)
        )
        for partition, offsets in runs
    ]


def _attempts(group: Group, partition: int, offsets: Sequence[int]) -> dict[int, int] | None:
    failures = group.feeds[partition].failures
    if not failures:
        return None
    return {offset: failures[offset].attempts + 1 for offset in offsets if offset in failures} or None


def check_lease_of(topic: Topic, command: Lease) -> None:
    group = topic.group_names.get(command.group)
    if group is not None:
        group.look_at_members().check_consumer_limit(command.consumer)
    if command.partition is not None and not 0 <= command.partition < len(topic.partitions):
        raise InvalidError(f"topic {str(topic.name)!r} has partitions 0 to {len(topic.partitions) - 1}")
    is_by_key = command.key is not None or command.keys_max is not None
    if is_by_key and topic.config.ordering != "key":
        raise InvalidError(
            f"leasing by key needs ordering='key'; topic {str(topic.name)!r} has {topic.config.ordering!r}"
        )


def _join(draft: Draft, topic: Topic, group: Group, command: Lease) -> None:
    """Leasing is a sign of life, and joins the group."""
    members, alarm = group.members, MembersDue(topic.id, group.id)
    joined = members.touch(command.consumer, draft.now)
    if joined and group.id in topic.groups:  # else with the record that makes the group
        draft.state.note_joined(topic, group, [command.consumer])
    draft.state.soft.alarms.set(alarm, members.alive_until[command.consumer])
    feeds = group.feeds
    if topic.config.is_fifo:
        if joined or len(members.target) != len(feeds):
            members.rebalance(len(feeds), group.held_partitions, draft.now)
            draft.state.soft.alarms.set(alarm, members.next_deadline())
        for partition in [partition for partition in members.moving if not feeds[partition].leased]:
            members.hand_over(partition)


def _order(topic: Topic, group: Group, command: Lease, budget: Budget) -> Order:
    """Of the feeds this consumer may find something in."""
    feeds = group.feeds
    if not topic.config.is_fifo and command.partition is None and command.key is None:
        return OrderByHeads(feeds, topic.news, budget)
    eligible = group.members.owned(command.consumer) if topic.config.is_fifo else list(range(len(feeds)))
    if command.partition is not None:
        eligible = [command.partition] if command.partition in eligible else []
    key = None if command.key is None else key_hash(command.key)
    some = [feeds[index] for index in eligible if feeds.look(index).may_have_some()]
    return Order({feed.partition.index: Picker(feed, budget, key) for feed in some})


def park(state: State, command: Lease) -> Callable[[int], None]:
    """Returns what ends it. Where it waits for many topics that is due work, for many may stop waiting at once."""
    waiting = [
        (topic, group)
        for topic in _topics(state, command)
        if (group := topic.group_names.get(command.group)) is not None
    ]
    for _, group in waiting:
        group.members.park(command.consumer)

    def unpark(now: int) -> None:
        if len(waiting) <= _UNPARKED_AT_ONCE:
            for topic, group in waiting:
                state.unpark_in(topic, group, command.consumer, now)
        else:
            state.soft.unparking.append((command.consumer, waiting))
            state.soft.alarms.set(ConsumersUnparked(), now)

    return unpark


def draft_group(draft: Draft, topic: Topic, name: str, start: Position, ephemeral: bool = False) -> Group:
    """A group as it will be once the record is applied, to decide the rest of the command on."""
    check_name("a group's name", name)
    if len(topic.groups) >= limits.GROUPS_MAX:
        raise TooManyError(f"topic {str(topic.name)!r} has {limits.GROUPS_MAX} groups already; delete some first")
    cursors = [resolve(partition, start) for partition in topic.partitions]
    record = GroupCreated(draft.now, topic.id, draft.next_group(), name, cursors, ephemeral)
    draft.records.append(record)
    return Group(record.group, name, topic.config.ordering, topic.partitions, cursors, ephemeral)


def resolve(partition: Partition, position: Position) -> int:
    """The offset a position means in one partition."""
    end = partition.settled_end
    if position.offset is not None:
        return min(max(position.offset, partition.start), end)
    if position.time is not None:
        found = partition.timeline.first_at(round(position.time * 1000))
        return end if found is None else min(max(found, partition.start), end)
    return partition.start if position.at == "start" else end
