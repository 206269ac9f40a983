"""Deciding what becomes of topics and groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ortoo.model import limits
from ortoo.model.access import ANY
from ortoo.model.commands import (
    ChangeTopic,
    CreateGroup,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    Heartbeat,
    Leave,
    MarkArchived,
    PurgeTopic,
    Seek,
)
from ortoo.model.errors import ExistsError, InvalidError, NotFoundError
from ortoo.model.masking import check_unmasked, unmask_settings
from ortoo.model.names import TopicId, check_name
from ortoo.model.records import Archived, GroupDeleted, GroupSought, TopicChanged, TopicDeleted, TopicPurged
from ortoo.model.topic import TopicConfig, differing_settings, topic_config

from .alarms import MembersDue
from .bury import Death, bury
from .decision import Decision, Draft, check_secrecy
from .group import Group
from .lease import draft_group, resolve
from .picker import Budget
from .publish import check_healthy
from .quotas import check_groups
from .settle import give_up_lease
from .state import State
from .topic import Topic

_LEAVE_COST = 20  # of leaving one group, in messages


def decide_create_topic(state: State, command: CreateTopic, now: int) -> Decision:
    found = state.names.get(command.topic)
    check_unmasked(command.config.dlq_webhook)
    if found is None:
        draft = Draft(state, now)
        topic = draft.create_topic(command.topic, command.config)
        return Decision(draft.records, topic.id)
    if not command.exist_ok or found.config != command.config:
        raise ExistsError(f"topic {str(command.topic)!r} exists already{_contrast(found.config, command.config)}")
    return Decision([], found.id)


def _contrast(found: TopicConfig, wanted: TopicConfig) -> str:
    differing = differing_settings(found, wanted)
    if not differing:
        return ""
    return f", with other settings: {'; '.join(differing)}. Change them with update_topic, ensure_topic or `ortoo topics set`"


def decide_change_topic(state: State, command: ChangeTopic, now: int) -> Decision:
    topic = state.usable_topic(command.topic)
    old = topic.config
    new = topic_config(unmask_settings(command.changes, old), old)
    if new.ordering != old.ordering:
        raise InvalidError("the ordering of a topic cannot be changed: what is in flight was promised the old one")
    if new.partitions < old.partitions:
        raise InvalidError(f"partitions can be increased only; topic {str(topic.name)!r} has {old.partitions}")
    if new.partitions > old.partitions and new.ordering == "key" and not new.allow_reorder:
        raise InvalidError(
            "more partitions move keys to other partitions, out of order with what they hold; set allow_reorder"
        )
    check_secrecy(state, topic, new)
    if old.encrypted and not new.encrypted:
        raise InvalidError(
            "encryption cannot be switched off: what was written under it would lie open; make another topic"
        )
    return Decision([TopicChanged(now, topic.id, new)] if new != old else [], topic.id)


def decide_delete_topic(state: State, command: DeleteTopic, now: int) -> Decision:
    topic = _meant(state.topic(command.topic), command.if_id)
    return Decision([TopicDeleted(now, topic.id)], topic.id)


def decide_purge_topic(state: State, command: PurgeTopic, now: int) -> Decision:
    topic = _meant(state.usable_topic(command.topic), command.if_id)
    return Decision([TopicPurged(now, topic.id)], topic.messages())


def _meant(topic: Topic, id: TopicId | None) -> Topic:
    if id is not None and topic.id != id:
        raise NotFoundError(
            f"topic {str(topic.name)!r} with id {id} is gone; another was made under its name, with id {topic.id}"
        )
    return topic


def decide_mark_archived(state: State, command: MarkArchived, now: int) -> Decision:
    """A mark never goes back: who comes late with a lower one changes nothing."""
    topic = state.usable_topic(command.topic)
    ends = [partition.archived for partition in topic.partitions]
    for index, end in command.ends.items():
        if not 0 <= index < len(ends):
            raise InvalidError(f"topic {str(topic.name)!r} has partitions 0 to {len(ends) - 1}, not {index}")
        check_healthy(topic, index)
        durable = topic.partitions[index].durable
        if not 0 <= end <= durable:
            raise InvalidError(f"partition {index} can be archived up to offset {durable}, not {end}")
        ends[index] = max(ends[index], end)
    is_news = ends != [partition.archived for partition in topic.partitions]
    return Decision([Archived(now, topic.id, ends)] if is_news else [], ends)


def decide_create_group(state: State, command: CreateGroup, now: int) -> Decision:
    topic = state.usable_topic(command.topic)
    found = topic.group_names.get(command.group)
    if found is not None:
        raise ExistsError(f"topic {str(topic.name)!r} has a group {command.group!r} already; seek moves it")
    check_groups(state, topic.name.namespace, 1)
    draft = Draft(state, now)
    group = draft_group(draft, topic, command.group, command.start, command.ephemeral)
    return Decision(draft.records, group.id)


def decide_delete_group(state: State, command: DeleteGroup, now: int) -> Decision:
    topic = state.usable_topic(command.topic)
    group = state.group(topic, command.group)
    return Decision([GroupDeleted(now, topic.id, group.id)], group.id)


def decide_seek(state: State, command: Seek, now: int) -> Decision:
    topic = state.usable_topic(command.topic)
    group = state.group(topic, command.group)
    cursors = [resolve(partition, command.position) for partition in topic.partitions]
    untils = None
    if command.until is not None:
        ends = [resolve(partition, command.until) for partition in topic.partitions]
        untils = [max(cursor, end) for cursor, end in zip(cursors, ends, strict=True)]
    return Decision([GroupSought(now, topic.id, group.id, cursors, untils)], cursors)


def decide_heartbeat(state: State, command: Heartbeat, now: int) -> Decision:
    topic = state.usable_topic(command.topic)
    group = state.group(topic, command.group)
    check_name("a consumer's name", command.consumer)
    if command.session_ms is not None and not 1 <= command.session_ms <= limits.LEASE_MS_MAX:
        hours = limits.LEASE_MS_MAX // 3_600_000
        raise InvalidError(f"a session lasts 1 ms to {hours} hours, not {command.session_ms} ms")
    group.members.check_consumer_limit(command.consumer)
    joined = group.members.touch(command.consumer, now, command.session_ms)
    if joined:
        state.note_joined(topic, group, [command.consumer])
        if topic.config.is_fifo:
            group.members.rebalance(len(group.feeds), group.held_partitions, now)
    state.soft.alarms.set(MembersDue(topic.id, group.id), group.members.next_deadline())
    return Decision([], group.members.owned(command.consumer))


def decide_leave(state: State, command: Leave, now: int) -> Decision:
    """Answered with True when the consumer has more to leave than may be done in one turn: then it has to be asked again."""
    draft, budget, has_left = Draft(state, now), Budget(limits.DUE_PER_TURN), False
    for topic, group in _groups_left(state, command):
        if budget.left <= 0:
            break
        has_left |= leave(draft, topic, group, [command.consumer], budget)
        budget.left -= _LEAVE_COST + (len(group.feeds) if topic.config.is_fifo else 0)
    is_going_on = has_left or bool(draft.records)  # else it would be the same again
    return Decision(draft.records, True if budget.left <= 0 and is_going_on else None)


def _groups_left(state: State, command: Leave) -> Iterator[tuple[Topic, Group]]:
    """Only what the consumer has to do with is looked at, whatever there is besides."""
    for namespace in _namespaces_left(state, command):
        for topic, group in state.groups_of(command.consumer, namespace):
            if command.topic in (None, topic.name) and command.group in (None, group.name):
                grants = command.grants
                if grants is None or any(grant.allows("read", topic.name) for grant in grants):
                    yield topic, group


def _namespaces_left(state: State, command: Leave) -> Iterable[str]:
    if command.topic is not None:
        return (command.topic.namespace,)
    granted = None if command.grants is None else dict.fromkeys(grant.namespace for grant in command.grants)
    if granted is not None and ANY not in granted:
        return granted
    joined, held = state.soft.joined.namespaces(command.consumer), state.lease_groups.whereabouts
    return dict.fromkeys([*joined, *held.namespaces(command.consumer)])


def leave(draft: Draft, topic: Topic, group: Group, consumers: Collection[str], budget: Budget) -> bool:
    """The consumers' leases return, uncounted, as many as the budget allows; their partitions go to the others; an ephemeral
    group goes with its last. Returns whether any of them was a member."""
    alive = group.look_at_members().alive_until
    if group.ephemeral and alive and alive.keys() <= set(consumers):  # who they are is forgotten with the record
        draft.records.append(GroupDeleted(draft.now, topic.id, group.id))
        return True
    known = group.members.remove(consumers)
    draft.state.note_left(topic, group, consumers)
    deaths: list[Death] = []
    for lease in draft.state.leases_of(topic, group, consumers):
        if budget.left <= 0:
            break
        deaths.extend(give_up_lease(draft, topic, group, lease, "left", budget=budget))
    bury(draft, topic, deaths)
    if known and topic.config.is_fifo:
        group.members.rebalance(len(group.feeds), lambda: _held_by_others(group, consumers), draft.now)
        draft.state.soft.reassigned.add(topic.name)
        draft.state.soft.alarms.set(MembersDue(topic.id, group.id), group.members.next_deadline())
    return known


def _held_by_others(group: Group, consumers: Collection[str]) -> dict[int, str]:
    return {partition: who for partition, who in group.held_partitions().items() if who not in consumers}
