"""Deciding what time alone has made due. One alarm at a time, so that each decision sees the state the last one left.

("delays", topic, partition)           delayed messages come due
("retries", topic, partition, group)   failed messages come back
("expiries", topic, partition)         times to live and longest waits run out
("leases",)                            leases run out
("members", topic, group)              consumers fall silent; partitions that move are handed over
("window", topic)                      a window buffer closes
("unparked",)                          consumers that waited for many topics wait no longer
("transactions",)                      named transactions time out, and are forgotten
("dedup",)                             ids that are shared no longer are forgotten
("retention", topic, partition)        the logs are trimmed, from that partition on, and old dedup ids forgotten
"""

from __future__ import annotations

from ortoo.model import limits
from ortoo.model.names import INBOX_LABELS, GroupId, LeaseId, TopicId
from ortoo.model.records import CameDue, Expired, GroupDeleted, TopicDeleted, TransactionEnded, WindowClosed

from .admin import leave
from .alarms import Alarm
from .bury import Death, bury, how_many_expire
from .decision import Slate
from .group import Group
from .leases import LeaseState
from .picker import Budget
from .retention import retain
from .settle import expire_lease, give_up_lease
from .state import State
from .topic import Topic
from .wheel import Pair, Wheel

_TRANSACTION_COST = 5  # of one that times out, in messages


def decide_due(slate: Slate, alarm: Alarm, budget: Budget) -> None:
    """What the alarm is about, or as much of it as the budget allows; then the alarm is set again, and due at once."""
    state = slate.state
    kind, ids = str(alarm[0]), [int(part) for part in alarm[1:]]
    budget.left -= 1
    if kind in _GLOBAL:
        _GLOBAL[kind](slate, budget)
    else:
        topic = state.topics.get(TopicId(ids[0]))
        if topic is not None and not _is_troubled(topic, kind, ids):  # else deleted since the alarm was set
            slate.topic = topic
            _OF_TOPIC[kind](slate, topic, ids[1:], budget)


def _is_troubled(topic: Topic, kind: str, ids: list[int]) -> bool:
    """Nothing is decided of a partition that the store cannot vouch for."""
    if topic.suspended is not None:
        return True
    if kind in ("delays", "retries", "expiries"):
        return topic.partitions[ids[1]].trouble is not None
    return kind != "retention" and topic.trouble is not None


def _look(wheel: Wheel, slate: Slate, alarm: Alarm, budget: Budget, cost: int = 1) -> tuple[list[Pair], Pair | None]:
    """What of the wheel is due, as much as the budget allows at that cost a message; and if that is not all, the last."""
    due, is_all = wheel.due(slate.now, max(1, budget.left // cost))
    budget.left = budget.left - len(due) * cost if is_all else 0
    if not due:  # no record, whose applying would set it
        slate.state.alarms.set(alarm, wheel.next())
    return due, None if is_all or not due else due[-1]


def _delays(slate: Slate, topic: Topic, ids: list[int], budget: Budget) -> None:
    partition = topic.partitions[ids[0]]
    alarm = ("delays", topic.id, partition.index)
    due, upto = _look(partition.delays, slate, alarm, budget, 1 + len(topic.groups))
    if due:
        slate.records.append(CameDue(slate.now, topic.id, partition.index, None, upto))


def _retries(slate: Slate, topic: Topic, ids: list[int], budget: Budget) -> None:
    group = topic.groups.get(GroupId(ids[1]))
    if group is None:
        return
    due, upto = _look(group.feeds[ids[0]].retries, slate, ("retries", topic.id, ids[0], group.id), budget)
    if due:
        slate.records.append(CameDue(slate.now, topic.id, ids[0], group.id, upto))


def _expiries(slate: Slate, topic: Topic, ids: list[int], budget: Budget) -> None:
    partition = topic.partitions[ids[0]]
    alarm = ("expiries", topic.id, partition.index)
    due, upto = _look(partition.expiries, slate, alarm, budget, 1 + 2 * len(topic.groups))
    if not due:
        return
    count, again_ms = how_many_expire(slate, topic, partition, [item >> 1 for _, item in due])
    if again_ms is not None:
        due, upto, budget.left = due[:count], due[count - 1], 0
    if not due:
        slate.state.alarms.set(alarm, slate.now + (again_ms or 0))
        return
    expired, evicted = partition.expiring(due)
    slate.records.append(Expired(slate.now, topic.id, partition.index, upto))
    deaths: list[Death] = []
    for group in topic.groups.values():
        feed = group.feeds[partition.index]
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
    bury(slate, topic, deaths, has_room=True)


def _members(slate: Slate, topic: Topic, ids: list[int], budget: Budget) -> None:
    group = topic.groups.get(GroupId(ids[0]))
    if group is None:
        return
    members = group.members
    looked_at = members.looked_at
    silent = members.silent(slate.now)
    budget.left -= members.looked_at - looked_at
    busy = {lease.consumer for lease in group.leases_of(silent)}
    for consumer in busy:
        members.touch(consumer, slate.now)  # a lease held counts as life
    if gone := silent - busy:
        leave(slate, topic, group, gone, budget)  # they hold nothing
        if slate.records and isinstance(slate.records[-1], GroupDeleted):
            return
    until = slate.state.opened + limits.SESSION_TIMEOUT_MS  # so long its consumer has to come back after a restart
    if group.ephemeral and not members.alive_until and until > slate.now:
        slate.state.alarms.set(("members", topic.id, group.id), until)
        return
    if group.ephemeral and not members.alive_until:
        slate.records.append(GroupDeleted(slate.now, topic.id, group.id))
        return
    for partition, deadline in list(members.moving.items()):
        if deadline <= slate.now:
            _revoke(slate, topic, group, partition)
            members.hand_over(partition)
            slate.state.shifted.add(topic.name)
    slate.state.alarms.set(("members", topic.id, group.id), members.next_deadline())


def _revoke(slate: Slate, topic: Topic, group: Group, partition: int) -> None:
    deaths: list[Death] = []
    for lease in group.holding(partition):
        deaths.extend(give_up_lease(slate, topic, group, lease, "revoked", only=partition))
    bury(slate, topic, deaths)


def _window(slate: Slate, topic: Topic, _: list[int], __: Budget) -> None:
    since, seconds = topic.window_since, topic.config.window_seconds
    if since is None:
        return
    closes = since + round(seconds * 1000)
    if closes <= slate.now or not seconds:
        slate.records.append(WindowClosed(slate.now, topic.id))
    else:
        slate.state.alarms.set(("window", topic.id), closes)


def _leases(slate: Slate, budget: Budget) -> None:
    """A lease expires as one, unless it is too large for the budget: then the rest of it follows."""
    state = slate.state
    deaths: dict[Topic, list[Death]] = {}
    begun: list[tuple[Topic, LeaseState]] = []
    dying: dict[Topic, list[LeaseState]] = {}
    seen: set[int] = set()
    due, is_all = state.leases_due.due(slate.now, max(1, budget.left))
    for pair in due:
        state.leases_due.pop(slate.now, pair)
        topic, group, lease = state.find_lease(LeaseId(pair[1]))
        if topic is None or group is None or lease is None or topic.suspended is not None:
            continue
        if lease.id in seen:  # extended: it is there twice
            continue
        seen.add(lease.id)
        if lease.until > slate.now:  # extended since
            state.leases_due.add(lease.until, lease.id)
            continue
        slate.topic = topic
        count = max(1, budget.left)
        if fallen := expire_lease(slate, topic, group, lease, count):
            deaths.setdefault(topic, []).extend(fallen)
            dying.setdefault(topic, []).append(lease)
        held = sum(len(offsets) for p, offsets in lease.held.items() if topic.partitions[p].trouble is None)
        if held > count:
            begun.append((topic, lease))
        budget.left -= held
        if budget.left <= 0:
            break
    if not is_all:
        budget.left = 0
    stuck: dict[Topic, int] = {}
    for topic, fallen in deaths.items():
        slate.topic = topic
        if (again_ms := bury(slate, topic, fallen)) is not None:
            stuck[topic] = slate.now + again_ms
    for topic, when in stuck.items():  # at once they would be stuck again, and nobody else would have a turn
        for lease in dying[topic]:
            state.leases_due.add(when, lease.id)
    for topic, lease in begun:
        state.leases_due.add(stuck.get(topic, lease.until), lease.id)
    state.alarms.set(("leases",), state.leases_due.next())


def _transactions(slate: Slate, budget: Budget) -> None:
    state = slate.state
    left = []
    for (namespace, name), transaction in state.transactions.items():
        if transaction.commit is not None:  # it is certain to be committed
            continue
        if transaction.until <= slate.now and budget.left > 0:
            budget.left -= _TRANSACTION_COST
            slate.records.append(TransactionEnded(slate.now, namespace, name, committed=False))
        else:
            left.append(transaction.until)
    state.alarms.set(("transactions",), min(left, default=None))


def _is_abandoned(state: State, topic: Topic, now: int) -> bool:
    """The inbox of a client that went without a word: nobody consumes it, and whoever would has had time to come back."""
    if topic.config.labels != INBOX_LABELS or now < max(topic.created, state.opened) + limits.SESSION_TIMEOUT_MS:
        return False
    return not any(group.members.alive_until for group in topic.groups.values())


def _retention(slate: Slate, topic: Topic, ids: list[int], budget: Budget) -> None:
    if _is_abandoned(slate.state, topic, slate.now):
        slate.records.append(TopicDeleted(slate.now, topic.id))
        return
    records, rest = retain(topic, ids[0], slate.now, budget)
    slate.records.extend(records)
    if rest is None and slate.state.prune_dedup_ids(
        topic, slate.now, max(1, budget.left)
    ):  # nobody can see these any more
        budget.left, rest = 0, len(topic.partitions)
    if rest is None:
        slate.state.alarms.set(("retention", topic.id, 0), slate.now + limits.RETENTION_INTERVAL_MS)
    else:
        slate.state.alarms.set(("retention", topic.id, rest), slate.now)


def _dedup(slate: Slate, budget: Budget) -> None:
    """Ids of topics that were deleted, or share them no longer, are forgotten by those they were shared with."""
    budget.left -= slate.state.unshare_dedup_ids(max(1, budget.left))
    slate.state.alarms.set(("dedup",), slate.now if slate.state.unshared else None)


def _unparked(slate: Slate, budget: Budget) -> None:
    state = slate.state
    while state.unparking and budget.left > 0:
        budget.left -= state.unpark(slate.now, budget.left)
    state.alarms.set(("unparked",), slate.now if state.unparking else None)


_GLOBAL = {"leases": _leases, "transactions": _transactions, "dedup": _dedup, "unparked": _unparked}
_OF_TOPIC = {
    "delays": _delays,
    "retries": _retries,
    "expiries": _expiries,
    "members": _members,
    "window": _window,
    "retention": _retention,
}
