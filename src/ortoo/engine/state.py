"""The whole state of the queue, and how to find things in it. replay.py changes it; what no record tells is in soft.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from ortoo.model import limits
from ortoo.model.errors import NotFoundError, UnavailableError
from ortoo.model.names import LEASES_PER_EPOCH, GroupId, LeaseId, MessageRef, TopicId, TopicName
from ortoo.model.namespaces import Quota
from ortoo.model.replies import Counters
from ortoo.model.topic import TopicConfig
from ortoo.model.topic_defaults import NO_DEFAULTS, TopicDefaults

from .alarms import LeasesRunOut, MembersDue, SharedIdsOutdated
from .dedup import Known, SharedIds
from .group import Group
from .leases import LeaseState
from .partition import Partition
from .producers import Producers
from .shares import Shares
from .soft import Label, Soft
from .topic import Topic, TopicCounters
from .transaction import Name, Place, StagedBytes, Transaction, namespace_of
from .wheel import Wheel
from .whereabouts import LeaseGroups

_FEW = 1_024  # pairs of a wheel that are not worth sweeping
_NO_GROUP = (TopicId(0), GroupId(0)), "", ""


class State:
    __slots__ = (
        "auto_create",
        "dead_letters",
        "dedups",
        "ended",
        "epoch",
        "labelled",
        "lease_groups",
        "lease_number",
        "names",
        "namespaces",
        "now",
        "number",
        "opened",
        "producers",
        "shard",
        "soft",
        "staged",
        "topic_defaults",
        "topics",
        "transactions",
    )

    def __init__(
        self, auto_create: bool = True, shard: int | None = None, topic_defaults: TopicDefaults = NO_DEFAULTS
    ) -> None:
        self.auto_create = auto_create
        self.topic_defaults = topic_defaults  # of topics that first use makes
        self.shard = shard  # that ids of topics carry; None where there is only one store
        self.now = 0
        self.epoch = 0
        self.opened = 0  # when this epoch began
        self.number = 0  # the last given to a topic or group; never given again
        self.lease_number = 0  # the last given in this epoch
        self.topics: dict[TopicId, Topic] = {}
        self.names: dict[TopicName, Topic] = {}
        self.dead_letters: dict[TopicName, set[TopicId]] = {}  # dead-letter topic -> those that give theirs to it
        self.labelled: dict[tuple[str, Label | None], dict[TopicId, Topic]] = {}  # by namespace and label; None: all
        self.namespaces: dict[str, Quota] = {}  # those that are registered
        self.dedups: dict[str, SharedIds] = {}  # by namespace, for topics that share them
        self.transactions: Shares[Name, Transaction] = Shares(namespace_of)
        self.staged = StagedBytes()
        self.ended: Shares[Name, tuple[int, bool]] = Shares(namespace_of)  # (when, committed), oldest first
        self.producers = Producers()
        self.lease_groups = LeaseGroups()
        self.soft = Soft()

    def past_counters(self) -> Counters:
        """Of topics that were deleted since the queue was opened. With those of all that were there at that moment, counted
        one after the other, it makes a total that never goes down."""
        return msgspec.structs.replace(self.soft.past)

    def reset_counters(self) -> None:
        self.soft.past, self.soft.past_topics, self.soft.past_groups = Counters(), TopicCounters(), None
        for topic in self.topics.values():
            topic.counters, topic.gone_groups, topic.gone_ephemeral = TopicCounters(), None, None
            for group in topic.groups.values():
                group.counts = group.delivery_times = group.ack_times = None

    def next_lease(self, ahead: int = 0) -> LeaseId:
        return LeaseId(self.epoch * LEASES_PER_EPOCH + self.lease_number + 1 + ahead)

    def topic(self, name: TopicName) -> Topic:
        topic = self.names.get(name)
        if topic is None:
            raise NotFoundError(f"there is no topic {str(name)!r}; publish to it or create it first")
        return topic

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.id] = self.names[topic.name] = topic
        self._index(topic)

    def change_topic(self, topic: Topic, config: TopicConfig) -> None:
        self._unindex(topic)
        topic.change(config)
        self._index(topic)

    def remove_topic(self, topic: TopicId) -> Topic:
        removed = self.topics.pop(topic)
        del self.names[removed.name]
        self.soft.alarms.forget_topic(topic)
        self._unindex(removed)
        return removed

    def _index(self, topic: Topic) -> None:
        self.soft.labelled_in_order.clear()
        if topic.config.dlq:
            self.dead_letters.setdefault(topic.dlq_name(), set()).add(topic.id)
        for label in (None, *topic.config.labels.items()):
            self.labelled.setdefault((topic.name.namespace, label), {})[topic.id] = topic

    def _unindex(self, topic: Topic) -> None:
        self.soft.labelled_in_order.clear()
        if topic.config.dlq:
            givers = self.dead_letters[topic.dlq_name()]
            givers.discard(topic.id)
            if not givers:
                del self.dead_letters[topic.dlq_name()]
        for label in (None, *topic.config.labels.items()):
            same = self.labelled[topic.name.namespace, label]
            del same[topic.id]
            if not same:
                del self.labelled[topic.name.namespace, label]

    def is_dlq(self, name: TopicName) -> bool:
        """Whether some topic's dead letters go there."""
        return name in self.dead_letters

    def config_of(self, name: TopicName) -> TopicConfig | None:
        topic = self.names.get(name)
        return None if topic is None else topic.config

    def topics_in(self, namespace: str) -> Collection[Topic]:
        return self.labelled.get((namespace, None), {}).values()

    def topics_labelled(self, namespace: str, labels: Collection[Label]) -> Collection[Topic]:
        """All topics with these labels, and others: those with the rarest of them. Without any, the whole namespace."""
        found = [self.labelled.get((namespace, label), {}) for label in labels or (None,)]
        return min(found, key=len).values()

    def unpark(self, now: int, most: int) -> int:
        """Consumers that wait no longer have their session's time to come again, in so many groups; returns in how many."""
        consumer, waiting = self.soft.unparking[0]
        some = waiting[-most:]
        del waiting[-most:]
        for topic, group in some:
            self.unpark_in(topic, group, consumer, now)
        if not waiting:
            self.soft.unparking.popleft()
        return len(some)

    def unpark_in(self, topic: Topic, group: Group, consumer: str, now: int) -> None:
        group.members.unpark(consumer, now)
        self.soft.alarms.set(MembersDue(topic.id, group.id), group.members.alive_until.get(consumer))

    def usable_topic(self, name: TopicName) -> Topic:
        topic = self.topic(name)
        if topic.quarantine_reason is not None:
            raise UnavailableError(f"topic {str(name)!r} is quarantined: {topic.quarantine_reason}")
        return topic

    def topic_by_id(self, topic: TopicId) -> Topic:
        found = self.topics.get(topic)
        if found is None:
            raise unknown_topic(topic)
        return found

    def group(self, topic: Topic, name: str) -> Group:
        group = topic.group_names.get(name)
        if group is None:
            raise NotFoundError(f"topic {str(topic.name)!r} has no group {name!r}")
        return group

    def message(self, ref: MessageRef) -> tuple[Topic, Partition]:
        """The place of a message that the log has, durably."""
        topic = self.topic_by_id(ref.topic)
        if ref.partition < len(topic.partitions):
            partition = topic.partitions[ref.partition]
            if partition.quarantine_reason is not None:
                raise UnavailableError(
                    f"partition {ref.partition} of {str(topic.name)!r} is quarantined: {partition.quarantine_reason}"
                )
            if partition.start <= ref.offset < partition.durable and ref.offset not in partition.deleted:
                return topic, partition
        raise NotFoundError(
            f"there is no message {ref}; it never was, is not durable yet, was deleted, or retention removed it"
        )

    def watch_lease(self, lease: LeaseId, until: int) -> None:
        """It runs out then, unless it is settled or extended: what the wheel has of those is swept away in time."""
        self.soft.leases_due.add(until, lease)
        self.soft.alarms.set(LeasesRunOut(), until)
        if len(self.soft.leases_due) > 2 * len(self.lease_groups) + _FEW:
            self.soft.leases_due.sweep(64, self._is_watched)

    def _is_watched(self, until: int, lease: int) -> bool:
        found = self.find_lease(LeaseId(lease))[2]
        return found is not None and found.until <= until  # later, where its dead letters had to wait for room

    def find_lease(self, lease: LeaseId) -> tuple[Topic | None, Group | None, LeaseState | None]:
        topic_id, group_id = self.lease_groups.get(lease, _NO_GROUP)[0]
        topic = self.topics.get(topic_id)
        group = topic.groups.get(group_id) if topic else None
        return topic, group, group.leases.get(lease) if group else None

    def leases_of(self, topic: Topic, group: Group, consumers: Iterable[str]) -> list[LeaseState]:
        held, namespace, place = self.lease_groups.whereabouts, topic.name.namespace, (topic.id, group.id)
        found = [lease for one in consumers for lease in held.places(one, namespace).get(place, ())]
        return [group.leases[lease] for lease in found]

    def note_joined(self, topic: Topic, group: Group, consumers: Iterable[str]) -> None:
        for consumer in consumers:
            self.soft.joined.add(consumer, topic.name.namespace, (topic.id, group.id))

    def note_left(self, topic: Topic, group: Group, consumers: Iterable[str]) -> None:
        for consumer in consumers:
            self.soft.joined.remove(consumer, topic.name.namespace, (topic.id, group.id))

    def groups_of(self, consumer: str, namespace: str) -> list[tuple[Topic, Group]]:
        """Those that it has joined, or has leases of, always in the same order, also when it has left some meanwhile."""
        held, joined = self.lease_groups.whereabouts, self.soft.joined
        places = joined.places(consumer, namespace).keys() | held.places(consumer, namespace).keys()
        return [(self.topics[topic], self.topics[topic].groups[group]) for topic, group in sorted(places)]

    def rearm_leases(self, now: int) -> None:
        """Looks at every lease anew: those that had been taken out to be decided were not."""
        self.soft.leases_due = Wheel()
        self.soft.leases_due.now = now
        for _, group in self.groups():
            for lease in group.leases.values():
                self.soft.leases_due.add(max(lease.until, now), lease.id)
        self.soft.alarms.set(LeasesRunOut(), self.soft.leases_due.next())

    def note_ended(self, name: Name, at: int, committed: bool) -> None:
        """Those that ended too long ago, or too many ago, are remembered no more; the oldest first."""
        self.ended.pop(name, None)  # the oldest stay first, also when a name comes again
        self.ended[name] = (at, committed)
        while at - self.ended[oldest := next(iter(self.ended))][0] >= limits.TRANSACTION_REMEMBERED_MS:
            del self.ended[oldest]
        self.ended.drop_excess(namespace_of(name), limits.TRANSACTIONS_REMEMBERED_MAX)

    def promised(self, topic: TopicId) -> int:
        """Messages that transactions are certain to publish there, and have not yet."""
        commits = [transaction.commit for transaction in self.transactions.values() if transaction.commit is not None]
        return sum(commit.topics.get(topic, 0) for commit in commits)

    def hold(self, firsts: Iterable[tuple[Place, int]]) -> None:
        """Nobody sees what lies from there on until the transaction that begins there has ended."""
        for (topic, partition), first in firsts:
            log = self._log(topic, partition)
            if log is not None:
                log.held = first if log.held is None else min(log.held, first)

    def release(self, places: Collection[Place]) -> None:
        """A transaction has ended; others may hold something, too."""
        if not places:
            return
        commits = [transaction.commit for transaction in self.transactions.values() if transaction.commit is not None]
        holding = [*(commit.firsts for commit in commits), *self.soft.ending.values()]
        for place in places:
            log = self._log(*place)
            if log is not None:
                log.held = min((firsts[place] for firsts in holding if place in firsts), default=None)
                log.tell()

    def count_staged(self, transaction: Transaction, names: Iterable[TopicName]) -> None:
        """Something became of what it has staged for these."""
        for name in names:
            topic = self.names.get(name)
            left = transaction.bytes_left(name, None if topic is None else topic.id)
            if by := left - transaction.bytes.get(name, 0):
                transaction.bytes[name] = left
                self.staged.change(name, by)

    def drop_promises(self, topic: Topic) -> None:
        """It was deleted or purged: what transactions publish there is gone, also what they have not published yet."""
        for transaction in self.transactions.values():
            if transaction.commit is not None:
                transaction.commit.drop(topic.id)
                self.count_staged(transaction, [topic.name])
        for name, firsts in self.soft.ending.items():
            self.soft.ending[name] = {place: first for place, first in firsts.items() if place[0] != topic.id}

    def _log(self, topic: TopicId, partition: int) -> Partition | None:
        found = self.topics.get(topic)
        return found.partitions[partition] if found is not None and partition < len(found.partitions) else None

    def find_dedup_id(self, topic: Topic, dedup_id: str, now: int) -> MessageRef | None:
        """Where the first message with that id lies, if the topic, or one that it shares ids with, remembers it."""
        owner = self._sharing(topic, dedup_id) if topic.config.dedup_scope == "namespace" else topic
        return owner.dedup.find(dedup_id, now, owner.dedup_window_ms) if owner is not None else None

    def _sharing(self, topic: Topic, dedup_id: str) -> Topic | None:
        """Which topic of its namespace remembers that id for all. One that does so no longer may still be named for a while."""
        owner = self.topics.get(self.dedups.get(topic.name.namespace, {}).get(dedup_id, TopicId(0)))
        return owner if owner is not None and owner.config.dedup_scope == "namespace" else None

    def remember_dedup_ids(self, topic: Topic, ids: Collection[str], known: Iterable[Known]) -> None:
        """Each id once; none is older than those before. Where each key has its own, these are their names with the key."""
        topic.dedup.remember(ids, known, has_keys=topic.config.dedup_scope == "key")
        if topic.config.dedup_scope == "namespace":
            for dedup_id in ids:
                before = self._sharing(topic, dedup_id)
                if before is not None and before is not topic:
                    before.dedup.drop(dedup_id)
            self.dedups.setdefault(topic.name.namespace, {}).update(dict.fromkeys(ids, topic.id))

    def prune_dedup_ids(self, topic: Topic, now: int, limit: int | None = None) -> bool:
        """What is too old or too many, so many at most. Returns whether there may be more."""
        window_ms, most, partitions = topic.dedup_window_ms, topic.config.dedup_count, len(topic.partitions)
        gone = topic.dedup.prune(now, window_ms, most, limit, partitions=partitions)
        if gone and topic.config.dedup_scope == "namespace":
            self._unshare(topic.name.namespace, topic.id, gone)
        return len(gone) == limit

    def outdate_dedup_ids(self, topic: Topic, now: int) -> None:
        """What is forgotten stays so, though the topic may remember longer or more from now on."""
        topic.dedup.outdate(now, topic.dedup_window_ms)
        if len(topic.dedup.seen) > topic.config.dedup_count:  # it was lowered just now
            self.prune_dedup_ids(topic, now, limits.DEDUP_IDS_AT_ONCE)  # if there are more, they go with time

    def forget_dedup_ids(self, topic: Topic) -> None:
        """All of them. With whom they were shared finds them no more, and forgets them in time."""
        seen = topic.dedup.clear([partition.end for partition in topic.partitions])
        if seen:
            self.soft.unshared.append((topic.name.namespace, topic.id, seen))
            self.soft.alarms.set(SharedIdsOutdated(), self.now)

    def unshare_dedup_ids(self, limit: int) -> int:
        """So many ids at most, of those that `forget_dedup_ids` left; returns how many."""
        namespace, topic, seen = self.soft.unshared[0]
        gone = [seen.popitem()[0] for _ in range(min(limit, len(seen)))]
        self._unshare(namespace, topic, gone)
        if not seen:
            self.soft.unshared.popleft()
        return len(gone)

    def _unshare(self, namespace: str, topic: TopicId, gone: Iterable[str]) -> None:
        """The topic has forgotten these; another, or itself anew, may have published one of them since."""
        shared, owner = self.dedups.get(namespace), self.topics.get(topic)
        if shared is None:
            return
        known = owner.dedup.seen if owner is not None and owner.config.dedup_scope == "namespace" else {}
        for dedup_id in gone:
            if shared.get(dedup_id) == topic and dedup_id not in known:
                del shared[dedup_id]
        if not shared:
            del self.dedups[namespace]

    def groups(self) -> Iterator[tuple[Topic, Group]]:
        for topic in self.topics.values():
            for group in topic.groups.values():
                yield topic, group


def unknown_topic(topic: TopicId) -> NotFoundError:
    return NotFoundError(f"the topic with id {topic} does not exist any more")
