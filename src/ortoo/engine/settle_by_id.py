"""Settling without receipts: messages that are named by where they lie, or by their dedup ids.

A message is leased once at a time in a group, so its name and the group say which lease is meant: the current one, whoever
holds it. What is found becomes runs, and is settled as with receipts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

from ortoo.model import limits
from ortoo.model.commands import ById, Extend, ExtendById, MessageId, Run, Settle, SettleById
from ortoo.model.errors import InvalidError
from ortoo.model.names import MessageRef, TopicId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import IdState

from .decision import Decision
from .group import Group
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
    known = DedupIds(command.group, (named for named in command.ids if isinstance(named, str)))
    if known.wanted:
        for topic in topics_of(state, command.namespace, command.topic, command.group):
            known.look_into(topic, now)
    refs = [_ref_of(named, known) for named in command.ids]
    places: dict[tuple[int, int], dict[int, MessageRef]] = {}
    for ref in filter(None, refs):
        place = ref[:2]
        if place not in places:
            places[place] = {}
        places[place][ref.offset] = ref
    runs: list[Run] = []
    sorted_out: list[_Sorted] = []
    for (topic_id, partition), asked in places.items():
        holder = state.topics.get(TopicId(topic_id))
        if holder is not None and _is_meant(holder, command) and 0 <= partition < len(holder.partitions):
            check_healthy(holder, partition)  # before anything is called lost
            sorted_out.append(_sort(holder, partition, asked, command.group, runs))
    if sum(len(run.offsets) for run in runs) == len(refs):  # as mostly: each is leased, and named once
        return Leased(["settled"] * len(refs), runs, refs)
    found: dict[MessageRef, IdState] = {}
    for some in sorted_out:
        found.update(some.states())
    return Leased(_states(refs, found), runs, refs)


def _ref_of(named: MessageId, known: DedupIds) -> MessageRef | None:
    return known.refs.get(named) if isinstance(named, str) else named


def _is_meant(topic: Topic, command: ById) -> bool:
    return topic.name.namespace == command.namespace and command.topic in (None, topic.name.name)


class _Sorted:
    """Messages of one partition that are there, by what they are for the group now."""

    def __init__(
        self, asked: dict[int, MessageRef], offsets: OffsetSet, leased: OffsetSet, unsettled: OffsetSet
    ) -> None:
        self._asked = asked
        self._offsets = offsets
        self._leased = leased
        self._unsettled = unsettled

    def states(self) -> dict[MessageRef, IdState]:
        lost, done = self._unsettled - self._leased, self._offsets - self._unsettled
        found: dict[MessageRef, IdState] = {}
        for state, some in (("settled", self._leased), ("lost", lost), ("done", done)):
            found.update(dict.fromkeys(map(self._asked.__getitem__, some), cast(IdState, state)))
        return found


def _sort(topic: Topic, partition: int, asked: dict[int, MessageRef], name: str, runs: list[Run]) -> _Sorted:
    """And what of it is leased, as runs."""
    log = topic.partitions[partition]
    offsets = OffsetSet(asked).within(log.start, log.durable)
    group = topic.group_names.get(name)
    if group is None:
        offsets.subtract(log.deleted)
        return _Sorted(asked, offsets, OffsetSet(), offsets)
    feed = group.feeds.look(partition)
    if log.deleted:
        offsets.subtract(log.deleted - feed.leased)  # who holds what was superseded since may settle it
    leased: OffsetSet = feed.leased & offsets
    for lease in group.holders.find(partition, leased) if leased else ():
        held = lease.held.get(partition)
        if held is None:
            continue
        mine = [held.first()] if len(held) == 1 else (leased & held).to_array().tolist()  # as with many leases mostly
        if mine and mine[0] in leased:
            runs.append(Run(topic.id, group.id, lease.id, partition, mine))
    return _Sorted(asked, offsets, leased, feed.unsettled(offsets))


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
    """Which messages some dedup ids mean, topic by topic. Two topics may have the same id: then that which is leased counts."""

    def __init__(self, group: str | None, ids: Iterable[str]) -> None:
        self.wanted = set(ids)
        self.refs: dict[str, MessageRef] = {}
        self._group = group
        self._homes: dict[str, Topic] = {}

    @property
    def missing(self) -> set[str]:
        return self.wanted - self.refs.keys()

    def look_into(self, topic: Topic, now: int) -> None:
        """What the topic remembers. It costs no more than what is wanted, or what there is."""
        window_ms = topic.dedup_window_ms
        for dedup_id in topic.dedup.seen.keys() & self.wanted:
            ref = topic.dedup.find(dedup_id, now, window_ms)
            if ref is not None:
                self.add(dedup_id, ref, topic)

    def add(self, dedup_id: str, ref: MessageRef, topic: Topic) -> None:
        before = self.refs.get(dedup_id)
        if before is None or (
            not is_leased(self._homes[dedup_id], self._group, before) and is_leased(topic, self._group, ref)
        ):
            self.refs[dedup_id] = ref
            self._homes[dedup_id] = topic

    def add_leased(self, dedup_id: str, ref: MessageRef, topic: Topic) -> None:
        """Only if it is."""
        if is_leased(topic, self._group, ref):
            self.add(dedup_id, ref, topic)


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
