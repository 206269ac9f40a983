"""Deciding what becomes of delivered messages: ack, nack, reject, release, extend, and leases that run out.

Where order matters, a message that goes back in line takes the later ones of its key (or partition) in the same lease with
it: they are revoked, uncounted, or they would overtake it.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ortoo.model import limits
from ortoo.model.commands import Extend, Run, Settle
from ortoo.model.errors import InvalidError
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Acked, DeathReason, Extended, Record, Released, ReleaseReason, Retried, RetryReason
from ortoo.model.replies import Settled

from .alarms import MembersDue
from .bury import Death, bury
from .decision import Decision, Draft
from .feed import Feed
from .group import Group
from .keys import NO_KEY
from .leases import LeaseState
from .picker import Budget
from .publish import check_healthy
from .retry import backoff_ms
from .state import State
from .topic import Topic

_SEARCHED_KEYS = 8  # of more it is quicker to look at the whole lease
_SEARCHED_SPAN = 16  # how far apart, on average, messages of a lease may lie for that
_ALL_SETTLED = Settled()
_LEASE_COST = 20  # of what a lease holds of one partition, in messages


class Held:
    """The part of a run that its receipts still hold."""

    __slots__ = ("feed", "group", "lease", "offsets", "topic")

    def __init__(self, topic: Topic, group: Group, lease: LeaseState, feed: Feed, offsets: OffsetSet) -> None:
        self.topic = topic
        self.group = group
        self.lease = lease
        self.feed = feed
        self.offsets = offsets

    @property
    def partition(self) -> int:
        return self.feed.partition.index


def find_held(state: State, run: Run, *, has_failed: bool = False) -> tuple[Held | None, list[int]]:
    """What of the run is still held, and which offsets are lost. What this very lease has acked before is neither, unless it is
    said to have failed: then nobody should believe that it comes again."""
    topic = state.topics.get(run.topic)
    if topic is not None and 0 <= run.partition < len(topic.partitions):
        check_healthy(topic, run.partition)  # before anything is called lost
    group = topic.groups.get(run.group) if topic else None
    lease = group.lease(run.lease) if group else None
    if topic is None or group is None or lease is None or not 0 <= run.partition < len(group.feeds):
        return None, list(run.offsets)
    held = lease.held.get(run.partition)
    if len(run.offsets) == 1 and held and run.offsets[0] in held and not run.through:  # as mostly, one by one
        return Held(topic, group, lease, group.feeds[run.partition], OffsetSet(run.offsets)), []
    asked = OffsetSet.of(run.offsets)
    mine = asked & held if held else OffsetSet()
    lost: list[int] = []
    if len(mine) != len(asked):
        rest = asked - mine
        if not has_failed and run.partition in lease.acked:
            rest.subtract(lease.acked[run.partition])
        lost = list(rest)
    if run.through and held and asked:
        mine = held.within(0, asked.last() + 1)
    return Held(topic, group, lease, group.feeds[run.partition], mine) if mine else None, lost


def decide_settle(state: State, command: Settle, now: int) -> Decision:
    if command.delay_ms is not None and not 0 <= command.delay_ms <= limits.DELAY_MS_MAX:
        raise InvalidError(f"a retry may be delayed by 0 to {limits.DELAY_MS_MAX} ms, not {command.delay_ms}")
    check_runs(command.runs)
    has_failed = command.outcome in ("nack", "reject")
    found = [find_held(state, run, has_failed=has_failed) for run in command.runs]
    lost = [missing for _, missing in found]
    if command.outcome == "ack":
        acked: list[Record] = [ack(held, now) for held, _ in found if held is not None]
        return Decision(acked, Settled(lost) if any(lost) else _ALL_SETTLED)
    error = command.error[: limits.ERROR_CHARS_MAX] if command.error else None
    draft = Draft(state, now)
    revoked: list[list[int]] = []
    deaths: dict[Topic, list[Death]] = {}
    for held, _ in found:
        revoked.append([])
        if held is None:
            continue
        if command.outcome == "reject":
            fallen = _rejected(held, error)
        else:
            line = in_line(held)
            revoked[-1].extend(line.later)
            if command.outcome == "release":
                fallen = _release(draft, held, line)
            else:
                fallen = fail(draft, held, line, "nack", error, command.delay_ms)
        deaths.setdefault(held.topic, []).extend(fallen)
    for topic, fallen in deaths.items():
        bury(draft, topic, fallen, refuse=True)
    return Decision(draft.records, Settled(lost if any(lost) else None, revoked if any(revoked) else None))


def check_runs(runs: list[Run]) -> None:
    """A lease and partition may be settled only once per decision."""
    if len(runs) > 1 and len({(run.topic, run.group, run.lease, run.partition) for run in runs}) != len(runs):
        raise InvalidError("the same lease and partition is named by two runs; put its offsets into one")


def ack(held: Held, now: int) -> Record:
    return Acked(now, held.topic.id, held.group.id, held.partition, held.lease.id, held.offsets)


def _attempt(feed: Feed, offset: int) -> int:
    past = feed.failures.get(offset)
    return past.attempts + 1 if past else 1


def _rejected(held: Held, error: str | None) -> list[Death]:
    return [
        Death(held.group, held.partition, offset, "rejected", _attempt(held.feed, offset), error)
        for offset in held.offsets
    ]


class Line(NamedTuple):
    """Of messages that go back in line, the first of each key; and all later ones of those keys in the lease."""

    firsts: OffsetSet
    later: OffsetSet


def fail(
    draft: Draft, held: Held, line: Line, reason: RetryReason, error: str | None, delay_ms: int | None
) -> list[Death]:
    """Drafts the retry of failed deliveries; returns those that have had their last."""
    config, feed, lease, now = held.topic.config, held.feed, held.lease, draft.now
    offsets, dues, deaths = [], [], []
    expired = set(line.firsts & feed.partition.expired)
    superseded = set(line.firsts & feed.partition.deleted)
    for offset in line.firsts:
        past = feed.failures.get(offset)
        attempt, first = (past.attempts + 1, past.first) if past else (1, lease.at)
        if offset in superseded:
            deaths.append(Death(held.group, held.partition, offset, "superseded", attempt, error))
        elif offset in expired:
            deaths.append(Death(held.group, held.partition, offset, "ttl", attempt, error))
        elif attempt >= config.max_attempts:
            deaths.append(Death(held.group, held.partition, offset, "attempts", attempt, error))
        elif now - first >= config.total_timeout * 1000:
            deaths.append(Death(held.group, held.partition, offset, "timeout", attempt, error))
        else:
            wait = delay_ms if delay_ms is not None else backoff_ms(config, attempt, held.partition, offset)
            offsets.append(offset)
            dues.append(now + wait)
    ids = (held.topic.id, held.group.id, held.partition, lease.id)
    if offsets:
        draft.records.append(Retried(now, *ids, offsets, dues, lease.at, reason, error))
    return deaths + put_back(draft, Held(held.topic, held.group, lease, feed, line.later), "revoked")


def _release(draft: Draft, held: Held, line: Line) -> list[Death]:
    whose = (held.topic, held.group, held.lease, held.feed)
    return put_back(draft, Held(*whose, line.firsts), "release") + put_back(draft, Held(*whose, line.later), "revoked")


def put_back(draft: Draft, held: Held, reason: ReleaseReason) -> list[Death]:
    """Drafts the return of deliveries, uncounted; returns those that have outlived their time to live meanwhile, or that a later
    message superseded."""
    feed = held.feed
    superseded = held.offsets & feed.partition.deleted
    over = (held.offsets & feed.partition.expired) - superseded
    back = held.offsets - over - superseded
    if back:
        ids = (held.topic.id, held.group.id, held.partition, held.lease.id)
        draft.records.append(Released(draft.now, *ids, back, reason))
    ends: list[tuple[DeathReason, OffsetSet]] = [("ttl", over), ("superseded", superseded)]
    return [
        Death(held.group, held.partition, offset, reason, _attempt(feed, offset) - 1, None)
        for reason, offsets in ends
        for offset in offsets
    ]


def in_line(held: Held) -> Line:
    feed = held.feed
    everything = held.lease.held[held.partition]
    if feed.fifo:
        first = held.offsets.first()
        return Line(OffsetSet([first]), everything.within(first + 1, everything.last() + 1))
    if feed.keys is None or not feed.partition.keys:
        return Line(held.offsets, OffsetSet())
    array = _of_same_keys(held, everything).to_array()
    keys = feed.partition.keys.of(array)
    if len(set(keys)) == len(keys):  # none comes twice
        return Line(held.offsets, OffsetSet())
    asked = set(held.offsets)
    firsts, later, stopped = list[int](), list[int](), set[int]()
    for offset, key in zip(array, keys, strict=True):
        if key in stopped:
            later.append(offset)
        elif offset in asked:
            firsts.append(offset)
            if key != NO_KEY:
                stopped.add(key)
    return Line(OffsetSet(firsts), OffsetSet(later))


def _of_same_keys(held: Held, everything: OffsetSet) -> OffsetSet:
    """Those of the lease that share their keys with messages that go back in line, and perhaps others.

    All of a key that is delivered is in one lease. So where a key holds no more than is asked for, there are no others; and
    those of a few keys are searched for.
    """
    feed, asked = held.feed, held.offsets.to_array()
    assert feed.keys is not None
    column, held_of = feed.partition.keys, feed.keys.held
    keys = Counter(column.of(asked))
    keys.pop(NO_KEY, None)
    more = [key for key, count in keys.items() if held_of(key) > count]
    if not more:
        return held.offsets
    first, last = asked[0], everything.last()
    if len(more) > _SEARCHED_KEYS or last - first > _SEARCHED_SPAN * len(everything):
        return everything
    found = OffsetSet([offset for key in more for offset in column.find(key, first, last + 1)])
    return (found & everything) | held.offsets


def give_up_lease(
    draft: Draft,
    topic: Topic,
    group: Group,
    lease: LeaseState,
    reason: ReleaseReason,
    only: int | None = None,
    budget: Budget | None = None,
) -> list[Death]:
    """Everything the lease holds, or holds of one partition, returns uncounted, as far as the budget allows.

    Returns what cannot return: it has expired.
    """
    deaths: list[Death] = []
    for partition, held in lease.held.items():
        if only is not None and partition != only:
            continue
        offsets = held
        if budget is not None:
            if budget.left <= 0:
                break
            offsets = held.take(budget.left)
            budget.left -= _LEASE_COST + len(offsets)
        deaths.extend(put_back(draft, Held(topic, group, lease, group.feeds[partition], offsets), reason))
    return deaths


def expire_lease(draft: Draft, topic: Topic, group: Group, lease: LeaseState, count: int) -> list[Death]:
    """The lease ran out: its deliveries failed, so many of them at least. Returns those that were the last."""
    deaths: list[Death] = []
    for partition, offsets in lease.held.items():
        if count <= 0:
            break
        if topic.partitions[partition].quarantine_reason is not None:
            continue
        held = Held(topic, group, lease, group.feeds[partition], offsets.take(count))
        count -= len(held.offsets)
        deaths.extend(fail(draft, held, in_line(held), "expired", "the lease ran out", None))
    return deaths


def _keep_alive(state: State, held: Held, now: int) -> None:
    """An extension is a sign of life; after a restart it may be the first one of the consumer."""
    topic, group = held.topic, held.group
    if group.members.touch(held.lease.consumer, now):
        state.note_joined(topic, group, [held.lease.consumer])
        if topic.config.is_fifo:
            group.members.rebalance(len(group.feeds), group.held_partitions, now)
    state.soft.alarms.set(MembersDue(topic.id, group.id), group.members.next_deadline())


def decide_extend(state: State, command: Extend, now: int) -> Decision:
    """Extends whole leases: messages leased together stay together."""
    if command.lease_ms is not None and not 1 <= command.lease_ms <= limits.LEASE_MS_MAX:
        raise InvalidError(f"a lease lasts 1 ms to {limits.LEASE_MS_MAX // 3_600_000} hours, not {command.lease_ms} ms")
    records: list[Record] = []
    lost: list[list[int]] = []
    extended = set()
    for run in command.runs:
        held, missing = find_held(state, run)
        lost.append(missing)
        if held is None or run.lease in extended:
            continue
        extended.add(run.lease)
        until = now + (command.lease_ms or round(held.topic.config.lease * 1000))
        _keep_alive(state, held, now)
        records.append(Extended(now, held.topic.id, held.group.id, held.lease.id, until))
    return Decision(records, Settled(lost if any(lost) else None))
