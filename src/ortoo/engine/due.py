"""Deciding what time alone has made due. One alarm at a time, so that each decision sees the state the last one left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortoo.model import limits
from ortoo.model.names import LeaseId, is_inbox
from ortoo.model.records import CameDue, Expired, GroupDeleted, TopicDeleted, TransactionEnded, WindowClosed

from .admin import leave
from .alarms import (
    Alarm,
    ConsumersUnparked,
    DelaysDue,
    ExpiriesDue,
    LatestDue,
    LeasesRunOut,
    MembersDue,
    PauseEnds,
    RetentionDue,
    RetriesDue,
    SharedIdsOutdated,
    TopicAlarm,
    TransactionsTimeOut,
    WindowCloses,
)
from .bury import Death, bury, how_many_expire
from .decision import Draft
from .group import Group
from .latest import is_behind, look, supersede
from .leases import LeaseState
from .pausing import end_pause
from .picker import Budget
from .retention import retain
from .settle import expire_lease, give_up_lease
from .state import State
from .topic import Topic
from .wheel import Pair, Wheel

_TRANSACTION_COST = 5  # of one that times out, in messages


def decide_due(draft: Draft, alarm: Alarm, budget: Budget) -> None:
    """What the alarm is about, or as much of it as the budget allows; then the alarm is set again, and due at once."""
    budget.left -= 1
    if not isinstance(alarm, TopicAlarm):
        _GLOBAL[type(alarm)](draft, budget)
        return
    topic = draft.state.topics.get(alarm.topic)
    if topic is not None and not _is_unusable(topic, alarm):  # else deleted since the alarm was set
        draft.topic = topic
        _OF_TOPIC[type(alarm)](draft, topic, alarm, budget)


def _is_unusable(topic: Topic, alarm: TopicAlarm) -> bool:
    """Nothing is decided of a partition that the store cannot vouch for."""
    if topic.suspended is not None:
        return True
    if isinstance(alarm, DelaysDue | RetriesDue | ExpiriesDue | LatestDue):
        return topic.partitions[alarm.partition].quarantine_reason is not None
    return not isinstance(alarm, RetentionDue) and topic.quarantine_reason is not None


def _look(wheel: Wheel, draft: Draft, alarm: Alarm, budget: Budget, cost: int = 1) -> tuple[list[Pair], Pair | None]:
    """What of the wheel is due, as much as the budget allows at that cost a message; and if that is not all, the last."""
    due, is_all = wheel.due(draft.now, max(1, budget.left // cost))
    budget.left = budget.left - len(due) * cost if is_all else 0
    if not due:  # no record, whose applying would set it
        draft.state.soft.alarms.set(alarm, wheel.next())
    return due, None if is_all or not due else due[-1]


def _delays(draft: Draft, topic: Topic, alarm: DelaysDue, budget: Budget) -> None:
    partition = topic.partitions[alarm.partition]
    if is_behind(topic):
        draft.state.soft.alarms.set(alarm, draft.now)  # after what is behind
        return
    due, upto = _look(partition.delays, draft, alarm, budget, 1 + len(topic.groups))
    if due:
        draft.records.append(CameDue(draft.now, topic.id, partition.index, None, upto))
    if due and topic.latest is not None:
        supersede(draft, topic, partition, [pair for pair in due if pair[1] in partition.delayed])


def _retries(draft: Draft, topic: Topic, alarm: RetriesDue, budget: Budget) -> None:
    group = topic.groups.get(alarm.group)
    if group is None:
        return
    due, upto = _look(group.feeds.look(alarm.partition).retries, draft, alarm, budget)
    if due:
        draft.records.append(CameDue(draft.now, topic.id, alarm.partition, group.id, upto))


def _expiries(draft: Draft, topic: Topic, alarm: ExpiriesDue, budget: Budget) -> None:
    partition = topic.partitions[alarm.partition]
    if (when := partition.delays.next()) is not None and when <= draft.now:  # each message comes due before it expires
        draft.state.soft.alarms.set(DelaysDue(topic.id, partition.index), when)
        draft.state.soft.alarms.set(alarm, draft.now)
        return
    due, upto = _look(partition.expiries, draft, alarm, budget, 1 + 2 * len(topic.groups))
    if not due:
        return
    count, again_ms = how_many_expire(draft, topic, partition, [item >> 1 for _, item in due])
    if again_ms is not None:
        due, upto, budget.left = due[:count], due[count - 1], 0
    if not due:
        draft.state.soft.alarms.set(alarm, draft.now + (again_ms or 0))
        return
    expired, evicted = partition.expiring(due)
    draft.records.append(Expired(draft.now, topic.id, partition.index, upto))
    deaths: list[Death] = []
    for group in topic.groups.values():
        feed = group.feeds.look(partition.index)
        over = feed.unsettled(expired) - feed.leased  # who holds one may finish it
        waited = feed.unsettled(evicted) - feed.leased - over
        for offset in over:
            past = feed.failures.get(offset)
            deaths.append(Death(group, partition.index, offset, "ttl", past.attempts if past else 0, None))
        deaths.extend(
            Death(group, partition.index, offset, "max_wait", 0, None)
            for offset in waited
            if offset not in feed.failures
        )
    bury(draft, topic, deaths, has_room=True)


def _members(draft: Draft, topic: Topic, alarm: MembersDue, budget: Budget) -> None:
    group = topic.groups.get(alarm.group)
    if group is None:
        return
    members = group.members
    looked_at = members.looked_at
    silent = members.silent(draft.now)
    budget.left -= members.looked_at - looked_at
    busy = {lease.consumer for lease in draft.state.leases_of(topic, group, silent)}
    for consumer in busy:
        members.touch(consumer, draft.now)  # a lease held counts as life
    if gone := silent - busy:
        leave(draft, topic, group, gone, budget)  # they hold nothing
        if draft.records and isinstance(draft.records[-1], GroupDeleted):
            return
    until = draft.state.opened + limits.SESSION_TIMEOUT_MS  # so long its consumer has to come back after a restart
    if group.ephemeral and not members.alive_until and until > draft.now:
        draft.state.soft.alarms.set(alarm, until)
        return
    if group.ephemeral and not members.alive_until:
        draft.records.append(GroupDeleted(draft.now, topic.id, group.id))
        return
    for partition, deadline in list(members.moving.items()):
        if deadline <= draft.now:
            _revoke(draft, topic, group, partition)
            members.hand_over(partition)
            draft.state.soft.reassigned.add(topic.name)
    draft.state.soft.alarms.set(alarm, members.next_deadline())


def _revoke(draft: Draft, topic: Topic, group: Group, partition: int) -> None:
    deaths: list[Death] = []
    for lease in group.holding(partition):
        deaths.extend(give_up_lease(draft, topic, group, lease, "revoked", only=partition))
    bury(draft, topic, deaths)


def _window(draft: Draft, topic: Topic, alarm: WindowCloses, _: Budget) -> None:
    since, seconds = topic.window_since, topic.config.window_seconds
    if since is None:
        return
    closes = since + round(seconds * 1000)
    if closes <= draft.now or not seconds:
        draft.records.append(WindowClosed(draft.now, topic.id))
    else:
        draft.state.soft.alarms.set(alarm, closes)


def _leases(draft: Draft, budget: Budget) -> None:
    """A lease expires as one, unless it is too large for the budget: then the rest of it follows."""
    state = draft.state
    deaths: dict[Topic, list[Death]] = {}
    begun: list[tuple[Topic, LeaseState]] = []
    dying: dict[Topic, list[LeaseState]] = {}
    seen: set[int] = set()
    due, is_all = state.soft.leases_due.due(draft.now, max(1, budget.left))
    for pair in due:
        state.soft.leases_due.pop(draft.now, pair)
        topic, group, lease = state.find_lease(LeaseId(pair[1]))
        if topic is None or group is None or lease is None or topic.suspended is not None:
            continue
        if lease.id in seen:  # extended: it is there twice
            continue
        seen.add(lease.id)
        if lease.until > draft.now:  # extended since
            state.soft.leases_due.add(lease.until, lease.id)
            continue
        draft.topic = topic
        count = max(1, budget.left)
        if fallen := expire_lease(draft, topic, group, lease, count):
            deaths.setdefault(topic, []).extend(fallen)
            dying.setdefault(topic, []).append(lease)
        held = sum(len(offsets) for p, offsets in lease.held.items() if topic.partitions[p].quarantine_reason is None)
        if held > count:
            begun.append((topic, lease))
        budget.left -= held
        if budget.left <= 0:
            break
    if not is_all:
        budget.left = 0
    stuck: dict[Topic, int] = {}
    for topic, fallen in deaths.items():
        draft.topic = topic
        if (again_ms := bury(draft, topic, fallen)) is not None:
            stuck[topic] = draft.now + again_ms
    for topic, when in stuck.items():  # at once they would be stuck again, and nobody else would have a turn
        for lease in dying[topic]:
            state.soft.leases_due.add(when, lease.id)
    for topic, lease in begun:
        state.soft.leases_due.add(stuck.get(topic, lease.until), lease.id)
    state.soft.alarms.set(LeasesRunOut(), state.soft.leases_due.next())


def _transactions(draft: Draft, budget: Budget) -> None:
    state = draft.state
    left = []
    for (namespace, name), transaction in state.transactions.items():
        if transaction.commit is not None:  # it is certain to be committed
            continue
        if transaction.until <= draft.now and budget.left > 0:
            budget.left -= _TRANSACTION_COST
            draft.records.append(TransactionEnded(draft.now, namespace, name, committed=False))
        else:
            left.append(transaction.until)
    state.soft.alarms.set(TransactionsTimeOut(), min(left, default=None))


def _is_abandoned(state: State, topic: Topic, now: int) -> bool:
    """The inbox of a client that went without a word: nobody consumes it, and whoever would has had time to come back."""
    if not is_inbox(topic.config.labels) or now < max(topic.created, state.opened) + limits.SESSION_TIMEOUT_MS:
        return False
    return not any(group.look_at_members().alive_until for group in topic.groups.values())


def _retention(draft: Draft, topic: Topic, alarm: RetentionDue, budget: Budget) -> None:
    if _is_abandoned(draft.state, topic, draft.now):
        draft.records.append(TopicDeleted(draft.now, topic.id))
        return
    records, rest = retain(topic, alarm.partition, draft.now, budget)
    draft.records.extend(records)
    if rest is None and draft.state.prune_dedup_ids(
        topic, draft.now, max(1, budget.left)
    ):  # nobody can see these any more
        budget.left, rest = 0, len(topic.partitions)
    if rest is None:
        draft.state.soft.alarms.set(RetentionDue(topic.id), draft.now + limits.RETENTION_INTERVAL_MS)
    else:
        draft.state.soft.alarms.set(RetentionDue(topic.id, rest), draft.now)


def _dedup(draft: Draft, budget: Budget) -> None:
    """Ids of topics that were deleted, or share them no longer, are forgotten by those they were shared with."""
    budget.left -= draft.state.unshare_dedup_ids(max(1, budget.left))
    draft.state.soft.alarms.set(SharedIdsOutdated(), draft.now if draft.state.soft.unshared else None)


def _unparked(draft: Draft, budget: Budget) -> None:
    state = draft.state
    while state.soft.unparking and budget.left > 0:
        budget.left -= state.unpark(draft.now, budget.left)
    state.soft.alarms.set(ConsumersUnparked(), draft.now if state.soft.unparking else None)


_GLOBAL: dict[type, Callable[[Draft, Budget], None]] = {
    LeasesRunOut: _leases,
    TransactionsTimeOut: _transactions,
    SharedIdsOutdated: _dedup,
    ConsumersUnparked: _unparked,
}
_OF_TOPIC: dict[type, Callable[[Draft, Topic, Any, Budget], None]] = {
    DelaysDue: _delays,
    RetriesDue: _retries,
    ExpiriesDue: _expiries,
    LatestDue: look,
    MembersDue: _members,
    WindowCloses: _window,
    PauseEnds: end_pause,
    RetentionDue: _retention,
}
