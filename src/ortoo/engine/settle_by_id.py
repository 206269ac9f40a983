"""Settling without receipts: messages that are named by where they lie, or by their dedup ids.

A message is leased once at a time in a group, so its name and the group say which lease is meant: the current one, whoever
holds it. What is found becomes runs, and is settled as with receipts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, cast

from ortoo.model import limits
from ortoo.model.commands import ById, Extend, ExtendById, MessageId, Run, Settle, SettleById
from ortoo.model.errors import InvalidError
from ortoo.model.names import MessageRef, TopicId, TopicName, refs_of
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import IdState

from .decision import Decision
from .dedup import split
from .group import Group
from .leases import LeaseState
from .publish import check_healthy
from .settle import decide_extend, decide_settle
from .state import State
from .topic import Topic


def decide_settle_by_id(state: State, command: SettleById, now: int) -> Decision:
    found = find_leased(state, command, now)
    settle = Settle(command.outcome, found.bounded_runs(), command.error, command.delay_ms)
    return Decision(decide_settle(state, settle, now).records, found.states)


def decide_extend_by_id(state: State, command: ExtendById, now: int) -> Decision:
    found = find_leased(state, command, now)
    return Decision(decide_extend(state, Extend(found.bounded_runs(), command.lease_ms), now).records, found.states)


class Leased:
    """What the ids of a command mean: the state of each if all goes well, and what has to be settled for that."""

    def __init__(self, states: list[IdState], runs: list[Run], refs: list[MessageRef | None]) -> None:
        self.states = states
        self.runs = runs
        self.refs = refs

    def bounded_runs(self) -> list[Run]:
        if len(self.runs) > limits.RUNS_MAX:
            most = f"at most {limits.RUNS_MAX} leases and partitions"
            raise InvalidError(
                f"these messages are of {len(self.runs)} leases and partitions, a command settles {most}"
            )
        return self.runs


def find_leased(state: State, command: ById, now: int) -> Leased:
    holder = holder_of(state, command)
    known = DedupIds(command.group, (named for named in command.ids if isinstance(named, str)), holder)
    if known.wanted:
        for each in topics_of(state, command.namespace, command.topic, command.group):
            known.look_into(each, now)
    refs: list[MessageRef | None] = cast(Any, command.ids)
    if known.wanted:
        refs = [_ref_of(named, known) for named in command.ids]
    runs: list[Run] = []
    sorted_out: list[_Sorted] = []
    for (topic_id, partition), asked in _by_place(refs).items():
        topic = state.topics.get(TopicId(topic_id))
        if topic is not None and _is_meant(topic, command) and 0 <= partition < len(topic.partitions):
            check_healthy(topic, partition)  # before anything is called lost
            if holder is None:
                sorted_out.append(_sort(topic, partition, asked, command.group, runs))
            else:
                sorted_out.append(_sort_held(topic, partition, asked, holder, runs))
    if sum(len(run.offsets) for run in runs) == len(refs):  # as mostly: each is leased, and named once
        return Leased(["settled"] * len(refs), runs, refs)
    found: dict[MessageRef, IdState] = {}
    for some in sorted_out:
        found.update(some.states())
    return Leased(_states(refs, found), runs, refs)


class Holder(NamedTuple):
    """A lease that is named. One that has ended holds nothing."""

    topic: Topic | None
    group: Group | None
    lease: LeaseState | None

    def holds(self, ref: MessageRef) -> bool:
        held = None if self.lease is None else self.lease.held.get(ref.partition)
        return held is not None and self.topic is not None and ref.topic == self.topic.id and ref.offset in held


def holder_of(state: State, command: ById) -> Holder | None:
    named = command.lease if isinstance(command, SettleById) else None
    if named is None:
        return None
    topic = state.topics.get(named.topic)
    group = None if topic is None else topic.groups.get(named.group)
    return Holder(topic, group, None if group is None else group.lease(named.lease))


def _by_place(refs: list[MessageRef | None]) -> dict[tuple[int, int], Sequence[int]]:
    """The offsets, by topic and partition."""
    columns = list(zip(*filter(None, refs), strict=True))
    if not columns:
        return {}
    topics, partitions, offsets = columns
    if topics.count(topics[0]) == partitions.count(partitions[0]) == len(offsets):  # as mostly
        return {(topics[0], partitions[0]): offsets}
    places: dict[tuple[int, int], list[int]] = {}
    for topic, partition, offset in zip(*columns, strict=True):
        if (topic, partition) not in places:
            places[topic, partition] = []
        places[topic, partition].append(offset)
    return dict(places)


def _ref_of(named: MessageId, known: DedupIds) -> MessageRef | None:
    return known.refs.get(named) if isinstance(named, str) else named


def _is_meant(topic: Topic, command: ById) -> bool:
    return topic.name.namespace == command.namespace and command.topic in (None, topic.name.name)


class _Sorted:
    """Messages of one partition that are there, by what they are for the group now."""

    def __init__(
        self, topic: TopicId, partition: int, offsets: OffsetSet, leased: OffsetSet, unsettled: OffsetSet
    ) -> None:
        self._place = topic, partition
        self._offsets = offsets
        self._leased = leased
        self._unsettled = unsettled

    def states(self) -> dict[MessageRef, IdState]:
        lost, done = self._unsettled - self._leased, self._offsets - self._unsettled
        found: dict[MessageRef, IdState] = {}
        for state, some in (("settled", self._leased), ("lost", lost), ("done", done)):
            found.update(dict.fromkeys(refs_of(*self._place, some), cast(IdState, state)))
        return found


def _sort(topic: Topic, partition: int, asked: Sequence[int], name: str, runs: list[Run]) -> _Sorted:
    """And what of it is leased, as runs."""
    group = topic.group_names.get(name)
    if group is None:
        offsets = _there(topic, partition, asked)
        return _Sorted(topic.id, partition, offsets, OffsetSet(), offsets)
    feed = group.feeds.look(partition)
    offsets = _there(topic, partition, asked, feed.leased)
    leased: OffsetSet = feed.leased & offsets
    for lease in group.holders.find(partition, leased) if leased else ():
        held = lease.held.get(partition)
        if held is None:
            continue
        mine = [held.first()] if len(held) == 1 else (leased & held).to_array().tolist()  # as with many leases mostly
        if mine and mine[0] in leased:
            runs.append(Run(topic.id, group.id, lease.id, partition, mine))
    return _Sorted(topic.id, partition, offsets, leased, feed.unsettled(offsets))


def _sort_held(topic: Topic, partition: int, asked: Sequence[int], holder: Holder, runs: list[Run]) -> _Sorted:
    """The same for one lease: what it does not hold is lost, but for what it has acked."""
    if holder.topic is not topic or holder.group is None or holder.lease is None:
        offsets = _there(topic, partition, asked)
        return _Sorted(topic.id, partition, offsets, OffsetSet(), offsets)
    held, acked = holder.lease.held.get(partition), holder.lease.acked.get(partition)
    offsets = _there(topic, partition, asked, held)
    leased = held & offsets if held else OffsetSet()
    if leased:
        runs.append(Run(topic.id, holder.group.id, holder.lease.id, partition, leased.to_array().tolist()))
    return _Sorted(topic.id, partition, offsets, leased, offsets - acked if acked else offsets)


def _there(topic: Topic, partition: int, asked: Sequence[int], held: OffsetSet | None = None) -> OffsetSet:
    """Those that the log still has; and who holds what was superseded since may settle it."""
    log = topic.partitions[partition]
    offsets = OffsetSet(asked).within(log.start, log.durable)
    if log.deleted:
        offsets.subtract(log.deleted - held if held else log.deleted)
    return offsets


def _states(refs: list[MessageRef | None], found: dict[MessageRef, IdState]) -> list[IdState]:
    """In the order that was asked for. One that is named again was settled by then."""
    states: list[IdState] = []
    seen: set[MessageRef] = set()
    for ref in refs:
        state = "unknown" if ref is None else found.get(ref, "unknown")
        if state == "settled" and ref is not None:
            state = "done" if ref in seen else state
            seen.add(ref)
        states.append(state)
    return states


# -- dedup ids


def topics_of(state: State, namespace: str, topic: str | None, group: str | None) -> list[Topic]:
    """Where a dedup id may be: in the one that is named, or in all of the namespace that have the group and are well."""
    if topic is not None:
        found = state.names.get(TopicName(namespace, topic))
        return [] if found is None else [found]
    return [
        each
        for each in state.topics_in(namespace)
        if each.quarantine_reason is None and (group is None or group in each.group_names)
    ]


class DedupIds:
    """Which messages some dedup ids mean, topic by topic. Two topics may have the same id, and a topic have it again past its
    window: then that which is leased counts, by the one who is named where one is."""

    def __init__(self, group: str | None, ids: Iterable[str], holder: Holder | None = None) -> None:
        self.wanted = set(ids)
        self._have_keys = any(split(name)[1] is not None for name in self.wanted)
        self.refs: dict[str, MessageRef] = {}
        self._group = group
        self._holder = holder
        self._homes: dict[str, Topic] = {}

    @property
    def missing(self) -> set[str]:
        return self.wanted - self.refs.keys()

    def look_into(self, topic: Topic, now: int) -> None:
        """What the topic remembers. It costs no more than what is wanted, or what there is."""
        found = self._remembered(topic, now)
        if not self.refs:
            self.refs, self._homes = found, dict.fromkeys(found, topic)
            return
        for dedup_id, ref in found.items():
            self._add(dedup_id, ref, topic)

    def _remembered(self, topic: Topic, now: int) -> dict[str, MessageRef]:
        find, window_ms = topic.dedup.find_many, topic.dedup_window_ms
        if topic.config.dedup_scope == "key" or not self._have_keys:
            return find(self.wanted, now, window_ms)
        plain = {
            name: split(name)[0] for name in self.wanted
        }  # an id is one message there, whatever key it is named with
        found = find(set(plain.values()), now, window_ms)
        return {name: found[dedup_id] for name, dedup_id in plain.items() if dedup_id in found}

    def _add(self, dedup_id: str, ref: MessageRef, topic: Topic) -> None:
        before = self.refs.get(dedup_id)
        if before is None or (not self._is_leased(self._homes[dedup_id], before) and self._is_leased(topic, ref)):
            self.refs[dedup_id] = ref
            self._homes[dedup_id] = topic

    def add_leased(self, dedup_id: str, ref: MessageRef, topic: Topic) -> None:
        """Only if it is, and of the key that is named."""
        if self._is_leased(topic, ref) and _has_key(topic, ref, split(dedup_id)[1]):
            self._add(dedup_id, ref, topic)

    def _is_leased(self, topic: Topic, ref: MessageRef) -> bool:
        return is_leased(topic, self._group, ref) if self._holder is None else self._holder.holds(ref)


def _has_key(topic: Topic, ref: MessageRef, key: int | None) -> bool:
    return (
        key is None or topic.config.dedup_scope != "key" or topic.partitions[ref.partition].keys.at(ref.offset) == key
    )


def is_leased(topic: Topic, group: str | None, ref: MessageRef) -> bool:
    found: Group | None = None if group is None else topic.group_names.get(group)
    if found is None or topic.partitions[ref.partition].quarantine_reason is not None:
        return False
    return ref.offset in found.feeds.look(ref.partition).leased


def leased_in(topic: Topic, group: str) -> Collection[tuple[int, OffsetSet]]:
    """By partition, what is leased in a group and can be read."""
    found = topic.group_names.get(group)
    if found is None:
        return ()
    return [
        (partition.index, feed.leased)
        for partition in topic.partitions
        if partition.quarantine_reason is None
        and not found.feeds.is_untouched(partition.index)
        and (feed := found.feeds.look(partition.index)).leased
    ]
