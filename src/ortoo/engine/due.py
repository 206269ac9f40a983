"""Deciding what time alone has made due. One alarm at a time, so that each decision sees the state the last one left.

("delays", topic, partition)           delayed messages come due
("retries", topic, partition, group)   failed messages come back
("expiries", topic, partition)         times to live and longest waits run out
("leases",)                            leases run out
("members", topic, group)              consumers fall silent; partitions that move are handed over
("window", topic)                      a window buffer closes
("transactions",)                      named transactions time out, and are forgotten
("retention",)                         the logs are trimmed
"""

from __future__ import annotations

from ortoo.model import limits
from ortoo.model.names import GroupId, LeaseId, TopicId
from ortoo.model.records import CameDue, Expired, GroupDeleted, TransactionEnded, WindowClosed

from .admin import leave
from .alarms import Alarm
from .bury import Death, bury
from .decision import Slate
from .group import Group
from .retention import retain
from .settle import expire_lease, give_up_lease
from .state import State
from .topic import Topic


def decide_due(state: State, alarm: Alarm, now: int) -> Slate:
    slate = Slate(state, now)
    kind, ids = str(alarm[0]), [int(part) for part in alarm[1:]]
    if kind in ("leases", "transactions", "retention"):
        _GLOBAL[kind](slate)
    else:
        topic = state.topics.get(TopicId(ids[0]))
        if topic is not None and not _is_troubled(topic, kind, ids):  # else deleted since the alarm was set
            _OF_TOPIC[kind](slate, topic, ids[1:])
    return slate


def _is_troubled(topic: Topic, kind: str, ids: list[int]) -> bool:
    """Nothing is decided of a partition that the store cannot vouch for."""
    if kind in ("delays", "retries", "expiries"):
        return topic.partitions[ids[1]].trouble is not None
    return topic.trouble is not None


def _delays(slate: Slate, topic: Topic, ids: list[int]) -> None:
    partition = topic.partitions[ids[0]]
    if partition.delays.is_due(slate.now):
        slate.records.append(CameDue(slate.now, topic.id, partition.index))
    else:
        slate.state.alarms.set(("delays", topic.id, partition.index), partition.delays.next())


def _retries(slate: Slate, topic: Topic, ids: list[int]) -> None:
    group = topic.groups.get(GroupId(ids[1]))
    if group is None:
        return
    feed = group.feeds[ids[0]]
    if feed.retries.is_due(slate.now):
        slate.records.append(CameDue(slate.now, topic.id, ids[0], group.id))
    else:
        slate.state.alarms.set(("retries", topic.id, ids[0], group.id), feed.retries.next())


def _expiries(slate: Slate, topic: Topic, ids: list[int]) -> None:
    partition = topic.partitions[ids[0]]
    expired, evicted = partition.expiring(slate.now)
    if not partition.expiries.is_due(slate.now):
        slate.state.alarms.set(("expiries", topic.id, partition.index), partition.expiries.next())
        return
    slate.records.append(Expired(slate.now, topic.id, partition.index))
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
    bury(slate, topic, deaths)


def _members(slate: Slate, topic: Topic, ids: list[int]) -> None:
    group = topic.groups.get(GroupId(ids[0]))
    if group is None:
        return
    members = group.members
    silent = members.silent(slate.now)
    busy = {lease.consumer for lease in group.leases_of(silent)}
    for consumer in busy:
        members.touch(consumer, slate.now)  # a lease held counts as life
    if gone := silent - busy:
        leave(slate, topic, group, gone)
        if slate.records and isinstance(slate.records[-1], GroupDeleted):
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


def _window(slate: Slate, topic: Topic, _: list[int]) -> None:
    since, seconds = topic.window_since, topic.config.window_seconds
    if since is None:
        return
    closes = since + round(seconds * 1000)
    if closes <= slate.now or not seconds:
        slate.records.append(WindowClosed(slate.now, topic.id))
    else:
        slate.state.alarms.set(("window", topic.id), closes)


def _leases(slate: Slate) -> None:
    state = slate.state
    deaths: dict[Topic, list[Death]] = {}
    for item in dict.fromkeys(item for _, item in state.leases_due.pop(slate.now)):  # an extended one is there twice
        topic, group, lease = state.find_lease(LeaseId(item))
        if topic is None or group is None or lease is None:
            continue
        if lease.until > slate.now:  # extended since
            state.leases_due.add(lease.until, lease.id)
        else:
            deaths.setdefault(topic, []).extend(expire_lease(slate, topic, group, lease))
    for topic, fallen in deaths.items():
        bury(slate, topic, fallen)
    state.alarms.set(("leases",), state.leases_due.next())


def _transactions(slate: Slate) -> None:
    state = slate.state
    for (namespace, name), transaction in state.transactions.items():
        if transaction.until <= slate.now:
            slate.records.append(TransactionEnded(slate.now, namespace, name, committed=False))
    left = [transaction.until for transaction in state.transactions.values() if transaction.until > slate.now]
    state.alarms.set(("transactions",), min(left, default=None))


def _retention(slate: Slate) -> None:
    for topic in slate.state.topics.values():
        slate.records.extend(retain(topic, slate.now))
    if slate.state.topics:
        slate.state.alarms.set(("retention",), slate.now + limits.RETENTION_INTERVAL_MS)


_GLOBAL = {"leases": _leases, "transactions": _transactions, "retention": _retention}
_OF_TOPIC = {
    "delays": _delays,
    "retries": _retries,
    "expiries": _expiries,
    "members": _members,
    "window": _window,
}
