"""Answers queries about deliveries: who holds what, what waits for whom, how a log lies before a group.

All of it is told from the engine's state, in turns; each lease and each partition as it is when its turn comes. The engine knows
only hashes of keys, so what holds one is read for its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple

from ortoo.engine.feed import Feed
from ortoo.engine.group import Group
from ortoo.engine.leases import LeaseState
from ortoo.engine.strip import strip_feed, strip_log
from ortoo.engine.topic import Topic
from ortoo.engine.view import fresh_blocked
from ortoo.model import inspection as i
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.errors import InvalidError
from ortoo.model.names import LeaseId, TopicName

from .blocked import blocked_in_turns
from .due_times import count_delayed
from .explaining import explain
from .holding import Place, Shell, holder_of, read_keys
from .turns import Turns

_AT_ONCE = 1_000  # leases, or messages, that are looked at in a row
_LOOKED_AT = 20  # offsets that take as long as a unit of work
_COUNTED = 4  # buckets
_HELD_TOGETHER = 40  # messages whose keys are looked up


def find_group(broker: Shell, name: TopicName, group: str) -> tuple[Topic, Group]:
    topic = broker.state.topic(name)
    return topic, broker.state.group(topic, group)


def _check_count(count: int) -> None:
    if not 1 <= count <= limits.LISTED_MAX:
        raise InvalidError(f"count must be 1 to {limits.LISTED_MAX}, not {count}")


# -- leases


async def list_leases(broker: Shell, query: q.ListLeases) -> i.LeasesFound:
    _check_count(query.count)
    after = _parse_next(query.next)
    _, group = find_group(broker, query.topic, query.group)
    turns = Turns()
    first = LeaseId(0) if after is None else after[0]
    wanted: list[LeaseId] = []
    ids = list(group.leases)
    for at in range(0, len(ids), _AT_ONCE):  # they lie in the order of their numbers, but after a restart
        some = [lease for lease in ids[at : at + _AT_ONCE] if lease >= first]
        wanted = nsmallest(
            query.count + 2, [*wanted, *some]
        )  # the page before may have ended in the middle of the first
        await turns.worked(len(some) / _LOOKED_AT)
    rows: list[i.LeaseInfo] = []
    for lease in (group.leases.get(lease_id) for lease_id in wanted):
        if lease is None or len(rows) > query.count:  # settled meanwhile, or there are enough
            continue
        held = [partition for partition in sorted(lease.held) if after is None or (lease.id, partition) > after]
        rows += [_lease_info(group, lease, partition) for partition in held]
        await turns.worked(1 + sum(map(len, lease.held.values())) / _LOOKED_AT)
    shown = rows[: query.count]
    more = f"{shown[-1].lease}.{shown[-1].partition}" if len(rows) > len(shown) else None
    return i.LeasesFound(shown, len(group.leases), more)


def _lease_info(group: Group, lease: LeaseState, partition: int) -> i.LeaseInfo:
    held, failures = lease.held[partition], group.feeds.look(partition).failures
    attempt = (
        1 + max((failures[offset].attempts for offset in held if offset in failures), default=0) if failures else 1
    )
    return i.LeaseInfo(
        str(lease.id),
        lease.consumer,
        partition,
        held.first(),
        held.last(),
        len(held),
        lease.at / 1000,
        lease.until / 1000,
        attempt,
    )


def _parse_next(text: str | None) -> tuple[LeaseId, int] | None:
    if text is None:
        return None
    lease, _, partition = text.partition(".")
    if not (lease.isascii() and lease.isdigit() and partition.isascii() and partition.isdigit() and len(text) < 40):
        raise InvalidError("`next` is not a continuation; pass it as it came")
    return LeaseId(int(lease)), int(partition)


# -- locks


class _Lock(NamedTuple):
    waiting: int
    partition: int
    offset: int  # of the first message that holds it
    key: int | None  # its hash; None: the whole partition


async def list_locks(broker: Shell, query: q.ListLocks) -> i.LocksFound:
    _check_count(query.count)
    topic, group = find_group(broker, query.topic, query.group)
    turns = Turns()
    best: list[_Lock] = []
    total = 0
    for index in range(len(topic.partitions)):
        feed = group.feeds.look(index)
        found, held = _held_partition(feed) if feed.fifo else await _held_keys(feed, query.count, turns)
        total += held
        best = nlargest(query.count, [*best, *found], key=_length)
        await turns.worked(1 + len(best) / _COUNTED)
    places = [(lock.partition, lock.offset) for lock in best if lock.key is not None]
    names = await read_keys(broker, topic, places, turns)
    return i.LocksFound([_lock_info(topic, group, lock, names) for lock in best], total)


def _length(lock: _Lock) -> tuple[int, int, int]:
    return lock.waiting, -lock.partition, -lock.offset


def _held_partition(feed: Feed) -> tuple[list[_Lock], int]:
    held = feed.leased | feed.retrying
    if not held:
        return [], 0
    return [_Lock(feed.backlog() - len(held), feed.partition.index, held.first(), None)], 1


async def _held_keys(feed: Feed, count: int, turns: Turns) -> tuple[list[_Lock], int]:
    """Locks of the keys of what is leased, or waits for a retry: so many, those with the most messages behind them; and how many
    there are. Of the many keys that nobody waits behind, only the first are looked at."""
    order, keys = feed.keys, feed.partition.keys
    if order is None or not keys or not feed.is_held:
        return [], 0
    fresh = Counter(keys.of(fresh_blocked(feed, limits.SCAN_MESSAGES_MAX).to_array()))
    firsts: dict[int, int] = {}
    held = (feed.leased | feed.retrying).to_array()
    for end in range(len(held), 0, -_AT_ONCE):  # from the last on, so that the first of a key is what stays
        some = held[max(0, end - _AT_ONCE) : end]
        firsts.update(zip(reversed(keys.of(some)), reversed(some), strict=True))
        await turns.worked(len(some) / _HELD_TOGETHER)
    index, waiting, total = feed.partition.index, order.waiting, 0
    lone: list[tuple[int, int]] = []  # offsets and keys that nobody waits behind, the last first
    best: list[_Lock] = []
    places = list(firsts.items())
    for at in range(0, len(places), _AT_ONCE):
        locked = [(key, offset) for key, offset in places[at : at + _AT_ONCE] if order.fronts.get(key, 0) < 0]
        total += len(locked)
        some_best = [
            _Lock(len(waiting.get(key, ())) + fresh[key], index, offset, key)
            for key, offset in locked
            if key in waiting or key in fresh
        ]
        best = nlargest(count, [*best, *some_best], key=_length) if some_best else best
        if len(best) < count:
            lone = nsmallest(count, [*lone, *((offset, key) for key, offset in locked)])
        await turns.worked(len(locked) / _HELD_TOGETHER + len(some_best) / _COUNTED)
    known = {lock.key for lock in best}
    rest = [_Lock(0, index, offset, key) for offset, key in lone if key not in known]
    return best + rest[: count - len(best)], total


def _lock_info(topic: Topic, group: Group, lock: _Lock, names: dict[Place, str]) -> i.LockInfo:
    holder = holder_of(topic, group, lock.partition, lock.offset)
    state: i.LockState = "retrying" if holder is not None and holder.consumer is None else "leased"
    return i.LockInfo(names.get((lock.partition, lock.offset)), lock.partition, holder, state, lock.waiting)


# -- consumers


class _Held:
    """What a consumer has leased."""

    __slots__ = ("leases", "messages", "oldest")

    def __init__(self) -> None:
        self.leases = self.messages = 0
        self.oldest: int | None = None

    def add(self, lease: LeaseState) -> None:
        self.leases += 1
        self.messages += sum(map(len, lease.held.values()))
        self.oldest = lease.at if self.oldest is None else min(self.oldest, lease.at)


async def list_consumers(broker: Shell, query: q.ListConsumers) -> i.ConsumersFound:
    """Those that consume now, and those that only have leases, as after a restart."""
    _, group = find_group(broker, query.topic, query.group)
    turns = Turns()
    held: dict[str, _Held] = {}
    for lease in list(group.leases.values()):
        if lease.held:
            held.setdefault(lease.consumer, _Held()).add(lease)
        await turns.worked(len(lease.held) / 4)
    members, now = group.look_at_members(), broker.now()
    names = nsmallest(limits.CONSUMERS_MAX, members.alive_until.keys() | held.keys())
    found = []
    for name in names:
        has = held.get(name) or _Held()
        seen = None
        if (alive := members.alive_until.get(name)) is not None:
            session = members.session_ms.get(name, limits.SESSION_TIMEOUT_MS)
            seen = (now if name in members.parked else min(now, alive - session)) / 1000
        oldest = None if has.oldest is None else has.oldest / 1000
        found.append(i.ConsumerInfo(name, has.leases, has.messages, list(members.owned(name)), seen, oldest))
        await turns.worked(1)
    return i.ConsumersFound(found)


# -- the log


async def get_strip(broker: Shell, query: q.GetStrip) -> i.Strip:
    topic = broker.state.topic(query.topic)
    group = None if query.group is None else broker.state.group(topic, query.group)
    if not 1 <= query.width <= limits.STRIP_WIDTH_MAX:
        raise InvalidError(f"width must be 1 to {limits.STRIP_WIDTH_MAX} buckets, not {query.width}")
    indexes = range(len(topic.partitions))
    if query.partition is not None:
        if query.partition not in indexes:
            raise InvalidError(
                f"topic {str(query.topic)!r} has partitions 0 to {len(indexes) - 1}, not {query.partition}"
            )
        indexes = range(query.partition, query.partition + 1)
    most = max(1, min(query.width, limits.STRIP_BUCKETS_MAX // len(indexes)))
    turns, found = Turns(), []
    for index in indexes:
        log = topic.partitions[index]
        if group is None:
            strip = strip_log(log, most)
        else:
            feed = group.feeds.look(index)
            strip = strip_feed(feed, most, await blocked_in_turns(feed, turns))
        found.append(strip)
        await turns.worked(1 + len(strip.ready) / _COUNTED)
    return i.Strip(query.group, found)


async def get_delayed(broker: Shell, query: q.GetDelayed) -> i.DelayedCounts:
    topic = broker.state.topic(query.topic)
    return await count_delayed(topic, query.start, query.until, query.buckets, broker.now())


INSPECTORS: dict[type, Callable[[Shell, Any], Awaitable[Any]]] = {
    q.ExplainMessage: explain,
    q.ListLeases: list_leases,
    q.ListLocks: list_locks,
    q.ListConsumers: list_consumers,
    q.GetStrip: get_strip,
    q.GetDelayed: get_delayed,
}
