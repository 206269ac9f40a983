"""A reference model of the queue: one object per message and per delivery, every rule a scan, nothing lazy.

Each rule is written as the sentence of the semantics says it, so that it can be read against that page. What the semantics
leave open (which partition a message without a key goes to, who owns which partition, how far retention trims beyond what
must go) the model learns from the engine and only checks that it was allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from ortoo.engine.retry import backoff_ms
from ortoo.engine.transaction import share_bytes
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model.batch import Batch, Outgoing, join, message_sizes, size_of
from ortoo.model.errors import ExistsError, FullError, InvalidError, LeaseLostError, NotFoundError, TooManyError
from ortoo.model.names import (
    LEASES_PER_EPOCH,
    GroupId,
    LeaseId,
    LeaseRef,
    MessageRef,
    TopicId,
    TopicName,
    leases_from,
)
from ortoo.model.namespaces import Quota
from ortoo.model.records import DeathReason, Origin
from ortoo.model.replies import Counters, IdState, LeaseTaken, MessageState, Placed, Settled, Taken
from ortoo.model.topic import DEFAULT_PRIORITY, TopicConfig, dlq_config, topic_config

Place = tuple[int, int]  # partition, offset
DedupName = tuple[str, str | None]  # an id, and the key that it is of where each has its own

PENDING, LEASED, RETRYING, DONE, DEAD, GONE = "pending", "leased", "retrying", "done", "dead", "gone"
UNSETTLED = (PENDING, LEASED, RETRYING)


@dataclass
class Message:
    partition: int
    offset: int
    time: int
    key: str | None = None
    lane: int = DEFAULT_PRIORITY
    due: int = 0
    expires: int = 0
    evicts: int = 0
    size: int = 0
    only: GroupId | None = None  # a redriven copy is seen by one group
    delayed: bool = False
    expired: bool = False
    evicted: bool = False
    deleted: bool = False  # or superseded
    has_known_key: bool = False  # the log remembers keys where the order, or what is kept, asks for them
    empty: bool = False  # it deletes its key, where the topic keeps the latest only
    effect: tuple[int, int] | None = None  # when it became the latest of its key, where the topic keeps these only

    @property
    def place(self) -> Place:
        return self.partition, self.offset

    def is_gone_for(self, group: Group) -> bool:
        return self.deleted or self.expired or self.evicted or self.only not in (None, group.id)


@dataclass
class Delivery:
    """One message in one group."""

    message: Message
    state: str = PENDING
    failures: int = 0
    first: int = 0
    due: int = 0
    let_out: bool = False  # asked for by name, so the window buffer holds it no longer
    due_early: bool = False  # asked for by name while it was delayed

    @property
    def is_delayed(self) -> bool:
        return self.message.delayed and not self.due_early

    @property
    def came_in_time(self) -> bool:
        """Delivered before its longest wait was over, and not settled."""
        message = self.message
        return self.state in UNSETTLED and message.evicted and not message.expired and not message.deleted

    def reset(self, state: str) -> None:
        self.state, self.failures, self.first, self.due = state, 0, 0, 0

    @property
    def is_held(self) -> bool:
        """Delivered and not settled: what blocks a key or a partition."""
        return self.state in (LEASED, RETRYING)


@dataclass
class Lease:
    id: LeaseId
    consumer: str
    at: int
    until: int
    held: set[Place] = field(default_factory=set)
    acked: set[Place] = field(default_factory=set)


@dataclass
class Group:
    id: GroupId
    name: str
    ephemeral: bool = False
    created: int = 0
    deliveries: dict[Place, Delivery] = field(default_factory=dict)
    leases: dict[LeaseId, Lease] = field(default_factory=dict)  # also those wholly settled, to know a second ack
    skipped_in: dict[int, int] = field(default_factory=dict)  # by partition
    alive: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, int] = field(default_factory=dict)
    paused: tuple[int | None, str | None, int] | None = None  # until, reason, since

    def touch(self, consumer: str, now: int, session_ms: int | None = None) -> None:
        if session_ms is not None:
            self.sessions[consumer] = session_ms
        until = now + self.sessions.get(consumer, limits.SESSION_TIMEOUT_MS)
        self.alive[consumer] = max(until, self.alive.get(consumer, 0))

    def live_leases(self) -> list[Lease]:
        return [lease for lease in self.leases.values() if lease.held]

    def forget_leases(self) -> None:
        self.leases.clear()

    def unhold(self, place: Place) -> None:
        for lease in self.leases.values():
            lease.held.discard(place)

    def backlog(self) -> int:
        return sum(delivery.state in UNSETTLED for delivery in self.deliveries.values())

    def in_partition(self, partition: int) -> list[Delivery]:
        return [delivery for place, delivery in sorted(self.deliveries.items()) if place[0] == partition]


@dataclass
class Partition:
    index: int
    start: int = 0
    archived: int = 0
    end: int = 0
    windowed: int | None = None
    messages: dict[int, Message] = field(default_factory=dict)  # by offset, of those not trimmed
    cut: list[Message] = field(
        default_factory=list
    )  # trimmed, but published at one instant with the first that is there

    def is_in_window(self, offset: int) -> bool:
        return self.windowed is not None and offset >= self.windowed

    def resolve(self, position: c.Position) -> int:
        if position.offset is not None:
            return min(max(position.offset, self.start), self.end)
        if position.time is not None:
            ms = round(position.time * 1000)
            return min((offset for offset, message in self.messages.items() if message.time >= ms), default=self.end)
        return self.start if position.at == "start" else self.end


@dataclass
class Topic:
    id: TopicId
    name: TopicName
    config: TopicConfig
    partitions: list[Partition] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    dedup: dict[DedupName, tuple[int, MessageRef]] = field(default_factory=dict)
    window_since: int | None = None
    window_count: int = 0
    is_trimmed_early: bool = False  # before age would have
    homes: dict[tuple[int, str], int] = field(default_factory=dict)  # (partitions, key) -> partition

    def __post_init__(self) -> None:
        self.change(self.config)

    def dedup_name(self, dedup_id: str, key: str | None) -> DedupName:
        return dedup_id, key if self.config.dedup_scope == "key" else None

    def latest(self, dedup_id: str, now: int) -> MessageRef | None:
        """Of whatever key; of those of one instant, that which lies last."""
        found = [(at, ref) for (known, _), (at, ref) in self.live_dedup(now).items() if known == dedup_id]
        return max(found)[1] if found else None

    def live_dedup(self, now: int) -> dict[DedupName, tuple[int, MessageRef]]:
        window = self.config.dedup_window * 1000
        return {dedup_id: (at, ref) for dedup_id, (at, ref) in self.dedup.items() if now - at < window}

    def change(self, config: TopicConfig) -> None:
        if config.keep != self.config.keep:
            for message in self.messages():
                message.effect = None
        self.config = config
        while len(self.partitions) < config.partitions:
            self.partitions.append(Partition(len(self.partitions)))
        for partition in self.partitions:
            if not config.window_seconds:
                partition.windowed = None
            elif partition.windowed is None:
                partition.windowed = partition.end
        if not config.window_seconds:
            self.window_since, self.window_count = None, 0

    def close_window(self) -> None:
        self.window_since, self.window_count = None, 0
        for partition in self.partitions:
            if partition.windowed is not None:
                partition.windowed = partition.end

    def messages(self) -> list[Message]:
        return [message for partition in self.partitions for message in partition.messages.values()]

    def unlooked(self) -> list[Message]:
        """Messages that should have taken effect: there, due, with a key that is known, and for everybody."""
        return [
            message
            for message in self.messages()
            if self.config.keep == "latest"
            and message.effect is None
            and message.has_known_key
            and not (message.deleted or message.delayed or message.only)
        ]

    def kept(self) -> int:
        return sum(not message.deleted for message in self.messages())

    def depth(self, acks: Collection[Held] = ()) -> int:
        """Once these are acked, too."""
        backlogs = [
            group.backlog() - sum(len(held.places) for held in acks if held.group is group)
            for group in self.groups.values()
            if not group.ephemeral
        ]
        return max(backlogs) if backlogs else self.kept()

    def dlq_name(self) -> TopicName:
        return TopicName(self.name.namespace, self.config.dlq_topic or f"{self.name.name}.dlq")

    def is_hidden(self, delivery: Delivery) -> bool:
        """New messages become leasable when the window closes; redeliveries bypass it."""
        is_in_window = self.partitions[delivery.message.partition].is_in_window(delivery.message.offset)
        return is_in_window and delivery.state == PENDING and not delivery.let_out

    def same_line(self, one: Message, other: Message) -> bool:
        """Whether the order ties these two to each other."""
        if one.partition != other.partition or self.config.ordering == "none":
            return False
        if self.config.ordering == "key":
            return one.key is not None and one.key == other.key
        return True

    def is_waiting(self, delivery: Delivery) -> bool:
        """Deliverable, as far as time is concerned."""
        return delivery.state == PENDING and not delivery.is_delayed and not self.is_hidden(delivery)

    def is_blocked(self, group: Group, delivery: Delivery, mine: set[Place] | None = None) -> bool:
        """A key is blocked from the delivery of a message until that message is settled. `mine`: of this same lease."""
        return any(
            other.is_held and self.same_line(other.message, delivery.message)
            for place, other in group.deliveries.items()
            if mine is None or place not in mine
        )

    def is_eligible(self, group: Group, delivery: Delivery, mine: set[Place]) -> bool:
        """A message waits for earlier unsettled ones of its key."""
        if not self.is_waiting(delivery) or self.is_blocked(group, delivery, mine):
            return False
        return not any(
            self.is_waiting(other)
            and other.message.offset < delivery.message.offset
            and self.same_line(other.message, delivery.message)
            for other in group.deliveries.values()
        )

    def state_of(self, group: Group, delivery: Delivery) -> MessageState | None:
        message = delivery.message
        match delivery.state:
            case "leased":
                return "leased"
            case "retrying":
                return "delayed"
            case "dead":
                return "dead"
            case "done":
                return None if message.is_gone_for(group) else "done"
            case "gone":
                return None
        if delivery.is_delayed:
            return "delayed"
        if self.is_hidden(delivery):
            return None  # counted as ready, but not listed before its window closes
        return "blocked" if self.is_blocked(group, delivery) else "ready"


@dataclass
class Transaction:
    until: int
    parts: dict[str, list[c.Publish]] = field(default_factory=dict)
    staged: list[tuple[str, c.Publish]] = field(default_factory=list)

    def count(self) -> int:
        return sum(len(publish.batch) for publishes in self.parts.values() for publish in publishes)


@dataclass
class Death:
    group: Group
    place: Place
    reason: DeathReason
    attempts: int
    error: str | None


@dataclass
class Held:
    """The part of a run that its receipts still hold, and what it lost."""

    topic: Topic
    group: Group
    lease: Lease
    places: set[Place]


Owned = Callable[[TopicId, GroupId, str], list[int]]
Appended = dict[TopicName, list[tuple[int, Batch]]]


def _same_row(whole: Outgoing, row: int, part: Batch, at: int) -> bool:
    """The machine gives every message a header of its own."""
    assert whole.headers is not None
    assert part.headers is not None
    return whole.headers[row] == part.headers[at]


class Model:
    def __init__(self, now: int) -> None:
        self.epoch = 1
        self.opened = 0
        self.number = 0
        self.lease_number = leases_from(now)
        self.topics: dict[TopicName, Topic] = {}
        self.transactions: dict[tuple[str, str], Transaction] = {}
        self.ended: dict[tuple[str, str], tuple[int, bool]] = {}
        self.counters = Counters()
        self.effects = 0  # how many messages became the latest of their keys
        self.quota: Quota | None = None  # of the namespace, where it is registered
        self.stored = 0  # bytes before the command, as the records tell; counted by whoever asks
        self.copies: dict[MessageRef, Origin] = {}  # every dead letter and redriven copy, and where it came from

    # -- finding things

    def topic(self, name: TopicName) -> Topic:
        if name not in self.topics:
            raise NotFoundError("topic")
        return self.topics[name]

    def by_id(self, topic: TopicId) -> Topic | None:
        return next((found for found in self.topics.values() if found.id == topic), None)

    def group(self, topic: Topic, name: str) -> Group:
        if name not in topic.groups:
            raise NotFoundError("group")
        return topic.groups[name]

    def message(self, ref: MessageRef) -> tuple[Topic, Message]:
        topic = self.by_id(ref.topic)
        if topic is None or ref.partition >= len(topic.partitions):
            raise NotFoundError("message")
        message = topic.partitions[ref.partition].messages.get(ref.offset)
        if message is None or message.deleted:
            raise NotFoundError("message")
        return topic, message

    def groups(self) -> Iterator[tuple[Topic, Group]]:
        for topic in list(self.topics.values()):
            for group in list(topic.groups.values()):
                yield topic, group

    # -- topics and groups

    def create_topic(self, command: c.CreateTopic) -> TopicId:
        found = self.topics.get(command.topic)
        if found is None:
            self._check_topics(1)
            return self._new_topic(command.topic, command.config).id
        if not command.exist_ok or found.config != command.config:
            raise ExistsError("topic")
        return found.id

    # -- the quota

    def set_namespace(self, command: c.SetNamespace) -> None:
        self.quota = command.quota

    def delete_namespace(self) -> None:
        if self.topics:
            raise ExistsError("topics")
        if self.quota is None:
            raise NotFoundError("namespace")
        self.quota = None

    def _check_topics(self, new: int) -> None:
        """What is made by itself is never refused, and counts."""
        if self.quota is not None and self.quota.topics is not None and len(self.topics) + new > self.quota.topics:
            raise TooManyError("topics")

    def _check_groups(self, new: int) -> None:
        most = None if self.quota is None else self.quota.groups
        if new and most is not None and len(list(self.groups())) + new > most:
            raise TooManyError("groups")

    def _check_stored(self, new: int) -> None:
        most = None if self.quota is None else self.quota.stored_bytes
        if most is not None and self.stored + new > most:
            raise InvalidError("bytes") if new > most else FullError("bytes")

    def _new_topic(self, name: TopicName, config: TopicConfig) -> Topic:
        self._check_secrecy(name, config)
        self.number += 1
        topic = self.topics[name] = Topic(TopicId(self.number), name, config)
        return topic

    def _check_secrecy(self, name: TopicName, config: TopicConfig) -> None:
        """The dead letters of an encrypted topic lie in encrypted topics only."""
        dlq = self.topics.get(TopicName(name.namespace, config.dlq_topic or f"{name.name}.dlq"))
        if config.encrypted and config.dlq and dlq and dlq.name != name and not dlq.config.encrypted:
            raise InvalidError("secrecy")
        if not config.encrypted and self._takes_secrets(name):
            raise InvalidError("secrecy")

    def _takes_secrets(self, dlq: TopicName) -> bool:
        return any(
            topic.config.encrypted and topic.config.dlq and topic.dlq_name() == dlq != topic.name
            for topic in self.topics.values()
        )

    def change_topic(self, command: c.ChangeTopic, now: int) -> TopicId:
        topic = self.topic(command.topic)
        old = topic.config
        new = topic_config(command.changes, old)
        if new.ordering != old.ordering or new.partitions < old.partitions:
            raise InvalidError("change")
        if new.partitions > old.partitions and new.ordering == "key" and not new.allow_reorder:
            raise InvalidError("reorder")
        self._check_secrecy(topic.name, new)
        topic.dedup = topic.live_dedup(now) if new.dedup_scope == old.dedup_scope else {}
        topic.change(new)
        return topic.id

    def delete_topic(self, command: c.DeleteTopic) -> TopicId:
        topic = self.topics.pop(self.topic(command.topic).name)
        return topic.id

    def purge_topic(self, command: c.PurgeTopic) -> int:
        """The log starts at its end, receipts go stale."""
        topic = self.topic(command.topic)
        kept = topic.kept()
        for partition in topic.partitions:
            partition.start = partition.end
            partition.messages.clear()
        topic.close_window()
        for group in topic.groups.values():
            group.forget_leases()
            group.deliveries.clear()
        return kept

    def mark_archived(self, command: c.MarkArchived) -> list[int]:
        """All or none; never back."""
        partitions = self.topic(command.topic).partitions
        for index, end in command.ends.items():
            if index not in range(len(partitions)) or end not in range(partitions[index].end + 1):
                raise InvalidError("archived")
        for index, end in command.ends.items():
            partitions[index].archived = max(partitions[index].archived, end)
        return [partition.archived for partition in partitions]

    def create_group(self, command: c.CreateGroup, now: int) -> GroupId:
        topic = self.topic(command.topic)
        if command.group in topic.groups:
            raise ExistsError("group")
        self._check_groups(1)
        return self._new_group(topic, command.group, command.start, now, command.ephemeral).id

    def _new_group(self, topic: Topic, name: str, start: c.Position, now: int, ephemeral: bool = False) -> Group:
        self.number += 1
        group = topic.groups[name] = Group(GroupId(self.number), name, ephemeral, now)
        self._start_at(topic, group, [partition.resolve(start) for partition in topic.partitions])
        return group

    def _start_at(self, topic: Topic, group: Group, cursors: list[int]) -> None:
        for message in topic.messages():
            delivery = group.deliveries[message.place] = Delivery(message)
            if message.offset < cursors[message.partition]:
                delivery.state = DONE
            elif message.is_gone_for(group):
                delivery.state = GONE

    def delete_group(self, command: c.DeleteGroup) -> GroupId:
        topic = self.topic(command.topic)
        return topic.groups.pop(self.group(topic, command.group).name).id

    def pause(self, command: c.PauseGroup, now: int) -> None:
        group = self.group(self.topic(command.topic), command.group)
        group.paused = None if command.for_ms is None else now + command.for_ms, command.reason, now

    def resume(self, command: c.ResumeGroup) -> None:
        self.group(self.topic(command.topic), command.group).paused = None

    def pause_due(self, group: Group, now: int) -> None:
        if group.paused is not None and group.paused[0] is not None and group.paused[0] <= now:
            group.paused = None

    def seek(self, command: c.Seek) -> list[int]:
        """All receipts of the group go stale, attempts reset; a bounded seek leaves the rest."""
        topic = self.topic(command.topic)
        group = self.group(topic, command.group)
        cursors = [partition.resolve(command.position) for partition in topic.partitions]
        held = [place for lease in group.leases.values() for place in lease.held]
        group.forget_leases()
        if command.until is None:
            in_time = [place for place, delivery in group.deliveries.items() if delivery.came_in_time]
            self._start_at(topic, group, cursors)
            for place in in_time:
                if group.deliveries[place].state == GONE:
                    group.deliveries[place].state = PENDING
                    group.deliveries[place].let_out = True  # it was delivered before
            return cursors
        for place in held:
            delivery = group.deliveries[place]
            delivery.state = PENDING
            if delivery.message.expired or delivery.message.deleted:
                delivery.reset(GONE)
        untils = [partition.resolve(command.until) for partition in topic.partitions]
        for (partition, offset), delivery in group.deliveries.items():
            if cursors[partition] <= offset < untils[partition]:
                again = delivery.state in (DONE, DEAD) and not delivery.message.is_gone_for(group)
                if again and topic.partitions[partition].is_in_window(offset):
                    delivery.let_out = delivery.due_early = False  # as if it never had been delivered
                if again or delivery.state in (PENDING, RETRYING):
                    delivery.reset(PENDING)
        return cursors

    # -- publishing

    def publish(self, command: c.Publish, now: int, placed: Placed | None) -> Placed:
        topic = self._for_publishing(command.topic)
        self._check_stored(self._check_publish(topic, command.batch, now))
        assert placed is not None, "the engine refused what it should take"
        return self._place(self._made(topic), command.batch, now, placed)

    def _for_publishing(self, name: TopicName, ahead: int = 0) -> Topic:
        """Only publishing creates a topic by itself. Not made yet, for the publish may be refused; `ahead`: so many others of
        the same command are not made either."""
        if name not in self.topics:
            self._check_topics(1 + ahead)
            self._check_secrecy(name, TopicConfig())
        return self.topics.get(name) or Topic(TopicId(0), name, TopicConfig())

    def _made(self, topic: Topic) -> Topic:
        return self.topics.get(topic.name) or self._new_topic(topic.name, topic.config)

    def _check_fits(self, topic: Topic, batch: Outgoing) -> None:
        if max(map(len, batch.values)) > topic.config.max_message_bytes:
            raise InvalidError("size")
        if any(partition is not None and partition >= len(topic.partitions) for partition in batch.partitions or ()):
            raise InvalidError("partition")
        if topic.config.keep == "latest" and (batch.keys is None or None in batch.keys):
            raise InvalidError("a key is needed")

    def _check_publish(
        self, topic: Topic, batch: Outgoing, now: int, shared: Collection[str] = (), acks: Collection[Held] = ()
    ) -> int:
        """How many bytes it would publish. `shared`: dedup ids that the same command has published elsewhere."""
        self._check_fits(topic, batch)
        known = self._duplicates(topic, batch, now)
        ids = batch.dedup_ids or [None] * len(batch)
        if topic.config.dedup_scope != "namespace":
            shared = ()
        new = [row for row in range(len(batch)) if row not in known and ids[row] not in shared]
        if topic.config.max_depth is not None and topic.depth(acks) + len(new) > topic.config.max_depth:
            raise FullError("depth")
        sizes = message_sizes(batch.values, batch.keys, batch.headers)
        return sum(sizes[row] for row in new)

    def _sharing(self, topic: Topic) -> list[Topic]:
        """Those whose dedup ids count for a publish to this one."""
        if topic.config.dedup_scope != "namespace":
            return [topic]
        return [
            other
            for other in self.topics.values()
            if other.name.namespace == topic.name.namespace and other.config.dedup_scope == "namespace"
        ]

    def _known(self, topic: Topic, name: DedupName, now: int) -> MessageRef | None:
        """Remembered by the topic that published it, for the time and the count that this one is set to."""
        for other in self._sharing(topic):
            if (found := other.live_dedup(now).get(name)) is not None:
                return found[1]
        return None

    def _duplicates(self, topic: Topic, batch: Outgoing, now: int) -> dict[int, MessageRef | int]:
        """Rows whose dedup id is known, with the first message that had it or its row."""
        found: dict[int, MessageRef | int] = {}
        rows: dict[DedupName, int] = {}
        for row, dedup_id in enumerate(batch.dedup_ids or ()):
            if dedup_id is None:
                continue
            name = topic.dedup_name(dedup_id, batch.keys[row] if batch.keys else None)
            known = self._known(topic, name, now)
            if known is not None:
                found[row] = known
            elif name in rows:
                found[row] = rows[name]
            else:
                rows[name] = row
        return found

    def _place(self, topic: Topic, batch: Outgoing, now: int, placed: Placed) -> Placed:
        duplicates = self._duplicates(topic, batch, now)
        by_partition: dict[int, list[int]] = {}
        for row in range(len(batch)):
            if row not in duplicates:
                by_partition.setdefault(self._home(topic, batch, row, placed.partitions[row]), []).append(row)
        where: dict[int, MessageRef] = {}
        for partition, rows in sorted(by_partition.items()):
            for row in rows:
                message = self._append(topic, partition, now)
                self._fill(topic, message, batch, row)
                where[row] = MessageRef(topic.id, partition, message.offset)
            self._appended(topic, [topic.partitions[partition].messages[where[row].offset] for row in rows], now)
            self._remember(topic, batch, rows, where, now)
        for row, first in duplicates.items():
            where[row] = where[first] if isinstance(first, int) else first
        topics = [where[row].topic for row in range(len(batch))]
        return Placed(
            topic.id,
            [where[row].partition for row in range(len(batch))],
            [where[row].offset for row in range(len(batch))],
            [row in duplicates for row in range(len(batch))] if duplicates else None,
            topics if any(found != topic.id for found in topics) else None,
        )

    def _home(self, topic: Topic, batch: Outgoing, row: int, given: int) -> int:
        """A named partition, or one that depends on the key alone, or any."""
        named = batch.partitions[row] if batch.partitions else None
        if named is not None:
            return named
        assert 0 <= given < len(topic.partitions)
        key = batch.keys[row] if batch.keys else None
        if key is not None:
            assert topic.homes.setdefault((len(topic.partitions), key), given) == given, "a key moved"
        return given

    def _append(self, topic: Topic, index: int, now: int) -> Message:
        partition = topic.partitions[index]
        message = partition.messages[partition.end] = Message(index, partition.end, now)
        partition.end += 1
        return message

    def _fill(self, topic: Topic, message: Message, batch: Outgoing, row: int) -> None:
        config, now = topic.config, message.time
        message.key = batch.keys[row] if batch.keys else None
        message.has_known_key = message.key is not None and (config.ordering == "key" or config.keep == "latest")
        message.empty = config.keep == "latest" and not batch.values[row]
        message.lane = batch.priorities[row] if batch.priorities else DEFAULT_PRIORITY
        headers = batch.headers[row] if batch.headers else None
        message.size = message_sizes([batch.values[row]], [message.key], [headers])[0]
        delay = batch.delays[row] if batch.delays else None
        at = batch.deliver_ats[row] if batch.deliver_ats else None
        due = round(at * 1000) if at is not None else now + round((config.delay if delay is None else delay) * 1000)
        if due > now:
            message.due, message.delayed = due, True
        ttl = batch.ttls[row] if batch.ttls else None
        lives = config.ttl if ttl is None else ttl
        if lives is not None:
            message.expires = max(now, due) + round(lives * 1000)

    def _appended(self, topic: Topic, messages: list[Message], now: int) -> None:
        """What every append does, whatever is appended: groups see it, the longest wait and the window begin."""
        self.counters.published += len(messages)
        for message in messages:
            if topic.config.max_wait is not None:
                message.evicts = max(message.due, now) + round(topic.config.max_wait * 1000)
            for group in topic.groups.values():
                seen = not message.is_gone_for(group)
                group.deliveries[message.place] = Delivery(message, PENDING if seen else GONE)
        if topic.config.window_seconds:
            topic.window_count += len(messages)
            if topic.window_since is None:
                topic.window_since = now
            if topic.config.window_count and topic.window_count >= topic.config.window_count:
                topic.close_window()

    def _remember(self, topic: Topic, batch: Outgoing, rows: list[int], where: dict[int, MessageRef], now: int) -> None:
        """Remembered for a time and a count."""
        if not batch.dedup_ids:
            return
        for row in rows:
            dedup_id = batch.dedup_ids[row]
            if dedup_id is not None:
                name = topic.dedup_name(dedup_id, batch.keys[row] if batch.keys else None)
                for other in self._sharing(topic):
                    other.dedup.pop(name, None)
                topic.dedup[name] = (now, where[row])
        topic.dedup = topic.live_dedup(now)
        while len(topic.dedup) > topic.config.dedup_count:
            del topic.dedup[next(iter(topic.dedup))]

    # -- leasing

    def lease(self, command: c.Lease, now: int, reply: LeaseTaken | None, owned: Owned) -> None:
        topics = self._topics_to_lease(command)
        assert command.start is not None, "the machine never asks for a group that must exist"
        for topic in topics:
            if command.partition is not None and command.partition >= len(topic.partitions):
                raise InvalidError("partition")
            if (command.key or command.keys_max) is not None and topic.config.ordering != "key":
                raise InvalidError("key")
        self._check_groups(sum(command.group not in topic.groups for topic in topics))
        assert reply is not None, "the engine refused what it should take"
        wanted, keys_left = command.max_messages, command.keys_max
        left = list(reply.taken)
        for ahead, topic in enumerate(topics):
            group = topic.groups.get(command.group) or self._new_group(topic, command.group, command.start, now)
            group.touch(command.consumer, now)
            runs = [run for run in left if run.topic_id == topic.id]
            left = [run for run in left if run.topic_id != topic.id]
            number = LeaseId(self.epoch * LEASES_PER_EPOCH + self.lease_number + 1)
            lease = Lease(number, command.consumer, now, now + (command.lease_ms or round(topic.config.lease * 1000)))
            allowed = set(range(len(topic.partitions)))
            if topic.config.is_fifo:
                allowed &= set(owned(topic.id, group.id, command.consumer))
            if command.partition is not None:
                allowed &= {command.partition}
            if group.paused is not None:
                allowed.clear()
            if keys_left is None:
                self._check_taken(topic, group, lease, runs, wanted, allowed, command.key)
            else:
                keys_left -= self._check_keys_taken(topic, group, lease, runs, wanted, allowed, command.key, keys_left)
            if lease.held:
                lease.id = runs[0].lease  # numbers may be left out, never given twice
                assert number <= lease.id <= number + ahead
                self.lease_number = lease.id - self.epoch * LEASES_PER_EPOCH
                group.leases[lease.id] = lease
            wanted -= len(lease.held)
            self.counters.delivered += len(lease.held)
            if wanted <= 0 or keys_left == 0:
                break
        assert not left, "leased from a topic that was not asked for"

    def _topics_to_lease(self, command: c.Lease) -> list[Topic]:
        if command.topic is not None:
            return [self.topic(TopicName(command.namespace, command.topic))]
        wanted = (command.labels or {}).items()
        found = [
            topic
            for topic in self.topics.values()
            if topic.name.namespace == command.namespace and wanted <= topic.config.labels.items()
        ]
        return sorted(found, key=lambda topic: (topic.config.priority, topic.name))

    def _check_taken(
        self,
        topic: Topic,
        group: Group,
        lease: Lease,
        runs: list[Taken],
        wanted: int,
        allowed: set[int],
        key: str | None,
    ) -> None:
        """Each message in turn was the most urgent one that could be leased, and none was left that could have been."""

        def eligible() -> list[Message]:
            return [
                delivery.message
                for delivery in group.deliveries.values()
                if delivery.message.partition in allowed
                and (key is None or delivery.message.key == key)
                and topic.is_eligible(group, delivery, lease.held)
            ]

        for run in runs:
            assert (run.topic, run.group, run.group_id, run.lease) == (topic.name, group.name, group.id, runs[0].lease)
            for offset in run.offsets:
                choice = eligible()
                message = next((m for m in choice if m.place == (run.partition, offset)), None)
                assert message is not None, f"{run.partition}.{offset} may not be leased from {topic.name}"
                best = min((other.lane, other.time) for other in choice)
                assert (message.lane, message.time) == best, f"{message} is not the most urgent of {choice}"
                assert not any(
                    (other.lane, other.partition) == (message.lane, message.partition) and other.offset < offset
                    for other in choice
                ), "not FIFO within a lane"
                delivery = group.deliveries[message.place]
                assert (run.attempts or {}).get(offset, 1) == delivery.failures + 1
                delivery.state = LEASED
                lease.held.add(message.place)
        assert len(lease.held) <= wanted
        assert len(lease.held) == wanted or not eligible(), f"left behind: {eligible()}"

    def _check_keys_taken(
        self,
        topic: Topic,
        group: Group,
        lease: Lease,
        runs: list[Taken],
        wanted: int,
        allowed: set[int],
        key: str | None,
        keys_max: int,
    ) -> int:
        """The most urgent message came first; one key after the other, each as far as it could be leased. Returns how many."""

        def eligible() -> list[Message]:
            return [
                delivery.message
                for delivery in group.deliveries.values()
                if delivery.message.partition in allowed
                and (key is None or delivery.message.key == key)
                and topic.is_eligible(group, delivery, lease.held)
            ]

        def line(message: Message) -> tuple[int, str | int]:
            return message.partition, message.offset if message.key is None else message.key

        lines: list[tuple[int, str | int]] = []
        for run in runs:
            for offset in run.offsets:
                choice = eligible()
                message = next((m for m in choice if m.place == (run.partition, offset)), None)
                assert message is not None, f"{run.partition}.{offset} may not be leased from {topic.name}"
                if not lines:
                    assert (message.lane, message.time) == min((other.lane, other.time) for other in choice)
                if not lines or line(message) != lines[-1]:
                    assert not lines or lines[-1] not in map(line, choice), "a key was left before all of it was taken"
                    lines.append(line(message))
                delivery = group.deliveries[message.place]
                assert (run.attempts or {}).get(offset, 1) == delivery.failures + 1
                delivery.state = LEASED
                lease.held.add(message.place)
        assert len(set(lines)) == len(lines) <= keys_max
        assert len(lease.held) <= wanted
        rest = eligible()
        if len(lease.held) < wanted:
            assert not lines or lines[-1] not in map(line, rest), f"left behind: {rest}"
            assert len(lines) == keys_max or not rest, f"left behind: {rest}"
        return len(lines)

    # -- settling

    def settle(self, command: c.Settle, now: int) -> Settled:
        self._check_runs(command.runs)
        lost: list[list[int]] = []
        revoked: list[list[int]] = []
        deaths: dict[TopicId, list[Death]] = {}
        for run in command.runs:
            held, missing = self._find(run, has_failed=command.outcome in ("nack", "reject"))
            lost.append(missing)
            revoked.append([])
            if held is None:
                continue
            if command.outcome in ("nack", "release"):
                revoked[-1].extend(sorted(offset for _, offset in self._in_line(held)[1]))
            fallen = deaths.setdefault(held.topic.id, [])
            match command.outcome:
                case "ack":
                    self._ack(held)
                case "reject":
                    fallen.extend(
                        Death(held.group, place, "rejected", held.group.deliveries[place].failures + 1, command.error)
                        for place in held.places
                    )
                case "release":
                    fallen.extend(self._give_back(held, self._in_line(held)[0] | self._in_line(held)[1]))
                case "nack":
                    fallen.extend(self._fail(held, command.error, command.delay_ms, now))
        for topic_id, fallen in deaths.items():
            topic = self.by_id(topic_id)
            assert topic is not None
            self._bury(topic, fallen, now)
        return Settled(lost if any(lost) else None, revoked if any(revoked) else None)

    def _check_runs(self, runs: list[c.Run]) -> None:
        if len({(run.topic, run.group, run.lease, run.partition) for run in runs}) != len(runs):
            raise InvalidError("twice")

    def _find(self, run: c.Run, *, has_failed: bool = False) -> tuple[Held | None, list[int]]:
        topic = self.by_id(run.topic)
        group = next((g for g in topic.groups.values() if g.id == run.group), None) if topic else None
        lease = group.leases.get(run.lease) if group else None
        if topic is None or group is None or lease is None or not (lease.held or lease.acked):
            return None, sorted(set(run.offsets))
        named = {(run.partition, offset) for offset in run.offsets}
        lost = sorted(offset for _, offset in named - lease.held - (set() if has_failed else lease.acked))
        places = named & lease.held
        if run.through:
            places = {place for place in lease.held if place[0] == run.partition and place[1] <= max(run.offsets)}
        return Held(topic, group, lease, places) if places else None, lost

    def _ack(self, held: Held) -> None:
        for place in held.places:
            held.lease.held.discard(place)
            held.lease.acked.add(place)
            held.group.deliveries[place].reset(DONE)
        self.counters.acked += len(held.places)

    def _in_line(self, held: Held) -> tuple[set[Place], set[Place]]:
        """Those that go back by themselves, and the later ones of their keys in the same lease, which are revoked."""
        messages = {place: held.group.deliveries[place].message for place in held.lease.held}
        named, revoked = set(held.places), set[Place]()
        for place in sorted(held.lease.held):
            if any(
                earlier < place and held.topic.same_line(messages[earlier], messages[place])
                for earlier in named - revoked
            ):
                revoked.add(place)
        return named - revoked, revoked

    def _give_back(self, held: Held, places: set[Place]) -> list[Death]:
        """Release and revocation do not count. A message past its time to live is not delivered again."""
        deaths: list[Death] = []
        for place in places:
            delivery = held.group.deliveries[place]
            if delivery.message.deleted:
                deaths.append(Death(held.group, place, "superseded", delivery.failures, None))
            elif delivery.message.expired:
                deaths.append(Death(held.group, place, "ttl", delivery.failures, None))
            else:
                held.lease.held.discard(place)
                delivery.state = PENDING
                self.counters.released += 1
        return deaths

    def _fail(self, held: Held, error: str | None, delay_ms: int | None, now: int) -> list[Death]:
        """Expiry and nack count. `max_attempts` deliveries that fail, or the total timeout, are the end."""
        config = held.topic.config
        failed, revoked = self._in_line(held)
        deaths = self._give_back(held, revoked)
        for place in failed:
            delivery = held.group.deliveries[place]
            attempt = delivery.failures + 1
            first = delivery.first or held.lease.at
            reason: DeathReason | None = None
            if delivery.message.deleted:
                reason = "superseded"
            elif delivery.message.expired:
                reason = "ttl"
            elif attempt >= config.max_attempts:
                reason = "attempts"
            elif now - first >= config.total_timeout * 1000:
                reason = "timeout"
            if reason is not None:
                deaths.append(Death(held.group, place, reason, attempt, error))
                continue
            wait = backoff_ms(config, attempt, *place) if delay_ms is None else delay_ms
            delivery.failures, delivery.first, delivery.due = attempt, first, now + wait
            delivery.state = RETRYING if wait > 0 else PENDING
            held.lease.held.discard(place)
            self.counters.retried += 1
        return deaths

    def _bury(self, topic: Topic, deaths: list[Death], now: int) -> None:
        """Copied to the dead-letter topic when `dlq` is on; dropped and counted when it is off."""
        deaths = sorted(deaths, key=lambda d: (d.group.id, d.reason, d.error or "", d.place))
        is_dlq = any(other.config.dlq and other.dlq_name() == topic.name for other in self.topics.values())
        copied: list[Death] = []
        for death in deaths:
            death.group.unhold(death.place)
            expired, superseded = death.reason in ("ttl", "max_wait"), death.reason == "superseded"
            if topic.config.dlq and not is_dlq and not superseded and (not expired or topic.config.on_expire == "dlq"):
                death.group.deliveries[death.place].reset(DEAD)
                copied.append(death)
            else:
                death.group.deliveries[death.place].reset(DONE)
                self.counters.dropped += 1
        if not copied:
            return
        name = topic.dlq_name()
        dlq = self.topics.get(name) or self._new_topic(
            name, dlq_config(topic.config, topic.config.encrypted or self._takes_secrets(name))
        )
        copies = [self._append(dlq, 0, now) for _ in copied]
        self._appended(dlq, copies, now)
        self.counters.dead_lettered += len(copied)
        for death, copy in zip(copied, copies, strict=True):
            self.copies[MessageRef(dlq.id, 0, copy.offset)] = Origin(
                MessageRef(topic.id, *death.place), death.group.name, death.reason, death.attempts, death.error
            )

    def settle_by_id(self, command: c.ById, now: int) -> list[IdState]:
        """As with the receipts that the messages have now."""
        runs: dict[tuple[TopicId, GroupId, LeaseId, int], list[int]] = {}
        states = [self._find_by_id(named, command, runs, now) for named in command.ids]
        listed = [c.Run(*ids, sorted(offsets)) for ids, offsets in runs.items()]
        if isinstance(command, c.ExtendById):
            self.extend(c.Extend(listed, command.lease_ms), now)
        else:
            self.settle(c.Settle(command.outcome, listed, command.error, command.delay_ms), now)
        return states

    def _find_by_id(
        self,
        named: c.MessageId,
        command: c.ById,
        runs: dict[tuple[TopicId, GroupId, LeaseId, int], list[int]],
        now: int,
    ) -> IdState:
        ref = named
        if isinstance(ref, str):
            assert command.topic is not None, "the machine always names one"
            in_topic = self.topics.get(TopicName(command.namespace, command.topic))
            known = in_topic.latest(ref, now) if in_topic is not None else None
            if known is None:
                return "unknown"
            ref = known
        topic = self.by_id(ref.topic)
        if topic is None or command.topic not in (None, topic.name.name) or ref.partition >= len(topic.partitions):
            return "unknown"
        message = topic.partitions[ref.partition].messages.get(ref.offset)
        if isinstance(command, c.SettleById) and command.lease is not None:
            return self._find_held(command.lease, message, ref, runs)
        group = topic.groups.get(command.group)
        is_held = (
            group is not None and any(message.place in lease.held for lease in group.live_leases())
            if message
            else False
        )
        if message is None or (message.deleted and not is_held):
            return "unknown"
        if group is None:
            return "lost"
        for lease in group.live_leases():
            if message.place in lease.held:
                offsets = runs.setdefault((topic.id, group.id, lease.id, ref.partition), [])
                if ref.offset in offsets:
                    return "done"
                offsets.append(ref.offset)
                return "settled"
        return "lost" if group.deliveries[message.place].state in UNSETTLED else "done"

    def _find_held(
        self,
        named: LeaseRef,
        message: Message | None,
        ref: MessageRef,
        runs: dict[tuple[TopicId, GroupId, LeaseId, int], list[int]],
    ) -> IdState:
        """By that lease, and no other."""
        held, lost = self._find(c.Run(*named, ref.partition, [ref.offset]))
        is_other = named.topic != ref.topic
        if message is None or (message.deleted and (is_other or held is None)):
            return "unknown"
        if is_other or lost:
            return "lost"
        offsets = runs.get((*named, ref.partition), [])
        if held is None or ref.offset in offsets:
            return "done"
        runs.setdefault((*named, ref.partition), offsets).append(ref.offset)
        return "settled"

    def extend(self, command: c.Extend, now: int) -> Settled:
        lost: list[list[int]] = []
        for run in command.runs:
            held, missing = self._find(run)
            lost.append(missing)
            if held is not None:
                held.lease.until = now + (command.lease_ms or round(held.topic.config.lease * 1000))
                held.group.touch(held.lease.consumer, now)
        return Settled(lost if any(lost) else None)

    # -- transactions

    def transact(self, command: c.Transact, now: int, placed: list[Placed] | None) -> list[Placed]:
        self._check_runs(command.acks)
        found = [self._find(run) for run in command.acks]
        if any(lost for _, lost in found):
            raise LeaseLostError("lost")
        wholes = self._joined(command.publishes)
        stored, made, shared = 0, 0, set[str]()
        for name, whole in wholes.items():
            topic = self._for_publishing(name, made)
            stored += self._check_publish(topic, whole, now, shared, [held for held, _ in found if held is not None])
            self._check_stored(stored)
            made += name not in self.topics
            shared |= set(filter(None, whole.dedup_ids or ())) if topic.config.dedup_scope == "namespace" else set()
        assert placed is not None, "the engine refused what it should take"
        for held, _ in found:
            if held is not None:
                self._ack(held)
        replies: dict[TopicName, Placed] = {}
        for name, whole in wholes.items():
            parts = [part for part, publish in zip(placed, command.publishes, strict=True) if publish.topic == name]
            hint = Placed(parts[0].topic, [p for part in parts for p in part.partitions], [])
            replies[name] = self._place(self._made(self._for_publishing(name)), whole, now, hint)
        return self._split(command.publishes, replies)

    def _joined(self, publishes: list[c.Publish]) -> dict[TopicName, Outgoing]:
        batches: dict[TopicName, list[Outgoing]] = {}
        for publish in publishes:
            batches.setdefault(publish.topic, []).append(publish.batch)
        return {name: join(parts) for name, parts in batches.items()}

    def _split(self, publishes: list[c.Publish], wholes: dict[TopicName, Placed]) -> list[Placed]:
        at = dict.fromkeys(wholes, 0)
        replies: list[Placed] = []
        for publish in publishes:
            whole, start = wholes[publish.topic], at[publish.topic]
            upto = at[publish.topic] = start + len(publish.batch)
            duplicates = whole.duplicates[start:upto] if whole.duplicates else None
            topics = whole.topics[start:upto] if whole.topics else None
            partitions, offsets = whole.partitions[start:upto], whole.offsets[start:upto]
            replies.append(Placed(whole.topic, partitions, offsets, duplicates, topics))
        return replies

    def begin(self, command: c.Begin, now: int) -> None:
        name = (command.namespace, command.transaction)
        if self._outcome(name, now) is not None:
            raise ExistsError("ended")
        self.transactions.setdefault(name, Transaction(now + command.timeout_ms))

    def _outcome(self, name: tuple[str, str], now: int) -> bool | None:
        """Whether it was committed; remembered 7 days."""
        at, committed = self.ended.get(name, (-limits.TRANSACTION_REMEMBERED_MS, False))
        return committed if now - at < limits.TRANSACTION_REMEMBERED_MS else None

    def _open(self, namespace: str, name: str) -> Transaction:
        if (namespace, name) not in self.transactions:
            raise NotFoundError("transaction")
        return self.transactions[namespace, name]

    def stage(self, command: c.Stage) -> int:
        transaction = self._open(command.namespace, command.transaction)
        self._check_fits(self._for_publishing(command.publish.topic), command.publish.batch)
        is_new = all(
            (part, publish.topic) != (command.part, command.publish.topic) for part, publish in transaction.staged
        )
        self._check_stored(size_of(command.publish.batch) + is_new * share_bytes(command.part))
        transaction.parts.setdefault(command.part, []).append(command.publish)
        transaction.staged.append((command.part, command.publish))
        return transaction.count()

    def commit(self, command: c.Commit, now: int, slices: list[tuple[list[c.Publish], Appended]] | None) -> int:
        """All that was staged appears at once, in the order of staging; committing again is a no-op.

        Room must be there for all of it, whatever turns out to be published already."""
        name = (command.namespace, command.transaction)
        if self._outcome(name, now):
            return 0
        transaction = self._open(*name)
        chosen = [part for part in transaction.parts if command.parts is None or part in command.parts]
        wholes = self._joined([publish for part, publish in transaction.staged if part in chosen])
        made = 0
        for topic, whole in wholes.items():
            found = self._for_publishing(topic, made)
            made += topic not in self.topics
            self._check_fits(found, whole)
            if found.config.max_depth is not None and found.depth() + len(whole) > found.config.max_depth:
                raise FullError("depth")
        assert slices is not None, "the engine refused what it should take"
        for topic in wholes:
            self._made(self._for_publishing(topic))
        for publishes, appended in slices:
            for topic, part in self._joined(publishes).items():
                self._place(
                    self.topics[topic], part, now, self._learn(self.topics[topic], part, now, appended.get(topic, []))
                )
        assert self._joined([publish for publishes, _ in slices for publish in publishes]) == wholes
        self._end(name, now, committed=True)
        return sum(map(len, wholes.values()))

    def _learn(self, topic: Topic, whole: Outgoing, now: int, parts: list[tuple[int, Batch]]) -> Placed:
        """A commit's reply does not say where messages went; what is left over is told from what was appended."""
        duplicates = self._duplicates(topic, whole, now)
        left = [(partition, row, part) for partition, part in parts for row in range(len(part))]
        partitions: list[int] = []
        for row in range(len(whole)):
            found = None
            if row not in duplicates:
                found = next((entry for entry in left if _same_row(whole, row, entry[2], entry[1])), None)
                assert found is not None, "a staged message is missing"
                left.remove(found)
            partitions.append(found[0] if found else 0)
        assert not left, "more was appended than was staged"
        return Placed(topic.id, partitions, [])

    def abort(self, command: c.Abort, now: int) -> None:
        name = (command.namespace, command.transaction)
        if self._outcome(name, now) is False:
            return
        self._open(*name)
        self._end(name, now, committed=False)

    def _end(self, name: tuple[str, str], now: int, committed: bool) -> None:
        """The old are forgotten when the next one ends."""
        del self.transactions[name]
        self.ended.pop(name, None)
        self.ended[name] = (now, committed)
        self.ended = {n: e for n, e in self.ended.items() if now - e[0] < limits.TRANSACTION_REMEMBERED_MS}

    # -- consumers

    def heartbeat(self, command: c.Heartbeat, now: int) -> None:
        group = self.group(self.topic(command.topic), command.group)
        group.touch(command.consumer, now, command.session_ms)

    def leave(self, command: c.Leave, now: int) -> None:
        for topic, group in self.groups():
            if command.topic in (None, topic.name) and command.group in (None, group.name):
                self._leave(topic, group, command.consumer, now)

    def _leave(self, topic: Topic, group: Group, consumer: str, now: int) -> None:
        """Its leases return, uncounted; ephemeral groups vanish with their consumer."""
        known = group.alive.pop(consumer, None) is not None
        group.sessions.pop(consumer, None)
        if group.ephemeral and known and not group.alive:
            del topic.groups[group.name]
            return
        deaths: list[Death] = []
        for lease in group.live_leases():
            if lease.consumer == consumer:
                held = Held(topic, group, lease, set(lease.held))
                deaths.extend(self._give_back(held, held.places))
        self._bury(topic, deaths, now)

    # -- single messages

    def delete_message(self, command: c.DeleteMessage) -> MessageRef:
        self._delete(*self.message(command.message))
        return command.message

    def _delete(self, topic: Topic, message: Message) -> None:
        if message.delayed:  # it never comes due
            message.delayed, message.due = False, 0
        message.deleted = True
        for group in topic.groups.values():
            group.unhold(message.place)
            group.deliveries[message.place].reset(GONE)

    def retry_now(self, command: c.RetryNow, now: int) -> int:
        """Whatever it waits for, it becomes deliverable at once; a done one is delivered once more."""
        topic, message = self.message(command.message)
        groups = [self.group(topic, command.group)] if command.group is not None else list(topic.groups.values())
        groups = [group for group in groups if message.only in (None, group.id)]
        deaths: list[Death] = []
        for group in groups:
            delivery = group.deliveries[message.place]
            for lease in group.live_leases():
                if message.place in lease.held:  # the later ones of its key would overtake it
                    held = Held(topic, group, lease, {message.place})
                    deaths.extend(self._give_back(held, self._in_line(held)[1]))
            group.unhold(message.place)
            delivery.due_early = delivery.due_early or message.delayed
            if delivery.state in (DONE, DEAD, GONE):
                delivery.reset(PENDING)
            delivery.state = PENDING
            delivery.let_out = True
        self._bury(topic, deaths, now)
        return len(groups)

    def dead_letter(self, command: c.DeadLetter, now: int) -> int:
        topic, message = self.message(command.message)
        groups = [self.group(topic, command.group)] if command.group is not None else list(topic.groups.values())
        deaths = [
            Death(group, message.place, "moved", group.deliveries[message.place].failures, command.error)
            for group in groups
            if group.deliveries[message.place].state in UNSETTLED
        ]
        if not deaths:
            raise InvalidError("nothing to move")
        self._bury(topic, deaths, now)
        return len(deaths)

    def redrive(self, command: c.Redrive, now: int) -> MessageRef:
        """The original becomes deliverable again for that group only, attempts reset, and the copy is removed."""
        dlq, copy = self.message(command.copy)
        topic = self.by_id(command.origin.topic)
        if topic is None or command.origin.partition >= len(topic.partitions):
            raise NotFoundError("origin")
        self._check_groups(command.group not in topic.groups)
        partition = topic.partitions[command.origin.partition]
        if command.origin.offset >= partition.end:
            raise NotFoundError("origin")
        original = partition.messages.get(command.origin.offset)
        group = topic.groups.get(command.group) or self._new_group(topic, command.group, c.END, now)
        self._delete(dlq, copy)
        if original is not None and not original.deleted:
            delivery = group.deliveries[original.place]
            if delivery.state in (DONE, DEAD, GONE):
                delivery.reset(PENDING)
            delivery.let_out = True
            return command.origin
        again = self._append(topic, partition.index, now)
        again.only = group.id
        again.key = command.key
        self._appended(topic, [again], now)
        ref = MessageRef(topic.id, partition.index, again.offset)
        self.copies[ref] = Origin(command.copy, command.group, "redriven", 0, None)
        return ref

    # -- time

    def delays_due(self, topic: Topic, partition: int, now: int) -> None:
        due = [one for one in topic.partitions[partition].messages.values() if one.delayed and one.due <= now]
        for message in sorted(due, key=lambda message: (message.due, message.offset)):
            message.delayed = False
            self._take_effect(topic, message, message.due)

    # -- the latest of each key

    def latest_due(self, topic: Topic, partition: int) -> None:
        """Once durable, a message supersedes the earlier ones of its key."""
        for message in sorted(topic.unlooked(), key=lambda message: message.offset):
            if message.partition == partition:
                self._take_effect(topic, message, message.time)

    def _take_effect(self, topic: Topic, message: Message, at: int) -> None:
        if topic.config.keep != "latest" or not message.has_known_key or message.only:
            return
        self.effects += 1
        message.effect = (at, self.effects)
        same = [one for one in topic.messages() if one.key == message.key and one.effect and not one.deleted]
        for other in sorted(same, key=lambda one: one.effect or (0, 0))[:-1]:
            self._supersede(topic, other)

    def _supersede(self, topic: Topic, message: Message) -> None:
        """For every group: those not leased are done; a leased one stays with its holder."""
        message.deleted = True
        self.counters.superseded += 1
        for group in topic.groups.values():
            if group.deliveries[message.place].state != LEASED:
                group.deliveries[message.place].reset(GONE)

    def old_empties(self, topic: Topic, index: int, now: int) -> list[int]:
        """A message that deletes its key is removed by retention, unless somebody holds it."""
        cutoff = now - limits.EMPTY_VALUES_KEPT_MS
        held = {place for group in topic.groups.values() for lease in group.leases.values() for place in lease.held}
        return [
            offset
            for offset, message in sorted(topic.partitions[index].messages.items())
            if message.empty and not message.deleted and not message.delayed and message.place not in held
            if max(message.time, message.due) <= cutoff
        ]

    def remove_empties(self, topic: Topic, index: int, offsets: list[int]) -> dict[GroupId, list[int]]:
        skipped: dict[GroupId, list[int]] = {}
        for offset in offsets:
            message = topic.partitions[index].messages[offset]
            for group in topic.groups.values():
                if group.deliveries[message.place].state in UNSETTLED:
                    skipped.setdefault(group.id, []).append(offset)
                    group.skipped_in[index] = group.skipped_in.get(index, 0) + 1
                    self.counters.skipped += 1
            self._delete(topic, message)
        return skipped

    # -- what else time brings

    def retries_due(self, group: Group, partition: int, now: int) -> None:
        for delivery in group.in_partition(partition):
            if delivery.state == RETRYING and delivery.due <= now:
                delivery.state = PENDING

    def expiries_due(self, topic: Topic, partition: int, now: int) -> None:
        """Who holds an expired message may finish it; max_wait is a wait for the first delivery."""
        deaths: list[Death] = []
        for message in topic.partitions[partition].messages.values():
            if message.deleted:
                continue
            if message.expires and message.expires <= now and not message.expired:
                message.expired, message.delayed = True, False
                deaths.extend(
                    Death(group, message.place, "ttl", delivery.failures, None)
                    for group in topic.groups.values()
                    if (delivery := group.deliveries[message.place]).state in (PENDING, RETRYING)
                )
            if message.evicts and message.evicts <= now and not message.evicted:
                message.evicted = True
                ended = {(death.group.id, death.place) for death in deaths}
                deaths.extend(
                    Death(group, message.place, "max_wait", 0, None)
                    for group in topic.groups.values()
                    if (delivery := group.deliveries[message.place]).state == PENDING
                    and not delivery.failures
                    and (group.id, message.place) not in ended
                )
        self._bury(topic, deaths, now)

    def leases_due(self, now: int, order: list[TopicId]) -> None:
        """`order`: the topics in the order in which they buried, where nothing says which comes first."""
        for topic in sorted(self.topics.values(), key=lambda topic: topic.id in order and order.index(topic.id)):
            deaths: list[Death] = []
            for group in topic.groups.values():
                for lease in group.live_leases():
                    if lease.until <= now:
                        held = Held(topic, group, lease, set(lease.held))
                        deaths.extend(self._fail(held, "the lease ran out", None, now))
            self._bury(topic, deaths, now)

    def members_due(self, topic: Topic, group: Group, revoked: list[int], now: int) -> None:
        """A silent consumer leaves; a lease held counts as life. `revoked`: partitions whose grace is over."""
        for consumer, until in list(group.alive.items()):
            if until <= now:
                if any(lease.consumer == consumer for lease in group.live_leases()):
                    group.touch(consumer, now)
                else:
                    self._leave(topic, group, consumer, now)
        if group.name not in topic.groups:
            return
        if group.ephemeral and not group.alive:
            if now < self.opened + limits.SESSION_TIMEOUT_MS:
                return  # its consumer has time to come back
            del topic.groups[group.name]
            return
        deaths: list[Death] = []
        for lease in group.live_leases():
            held = Held(topic, group, lease, {place for place in lease.held if place[0] in revoked})
            deaths.extend(self._give_back(held, held.places))
        self._bury(topic, deaths, now)

    def window_due(self, topic: Topic, now: int) -> None:
        if topic.window_since is not None and topic.window_since + topic.config.window_seconds * 1000 <= now:
            topic.close_window()

    def transactions_due(self, now: int) -> None:
        for name, transaction in list(self.transactions.items()):
            if transaction.until <= now:
                self._end(name, now, committed=False)

    def trim(self, topic: Topic, index: int, start: int) -> dict[GroupId, list[int]]:
        """Trimmed messages count as skipped for slow groups: which, by group."""
        partition = topic.partitions[index]
        skipped: dict[GroupId, list[int]] = {}
        for offset in [offset for offset in partition.messages if offset < start]:
            partition.cut.append(partition.messages.pop(offset))
            for group in topic.groups.values():
                delivery = group.deliveries.pop((index, offset))
                group.unhold((index, offset))
                if delivery.state in UNSETTLED:
                    skipped.setdefault(group.id, []).append(offset)
                    group.skipped_in[index] = group.skipped_in.get(index, 0) + 1
                    self.counters.skipped += 1
        partition.start = start
        first = min(partition.messages.values(), key=lambda one: one.offset, default=None)
        partition.cut = [one for one in partition.cut if first is not None and one.time == first.time]
        return skipped

    def too_old(self, topic: Topic, index: int, now: int) -> int:
        """How far age trims: counted from publication or due time, whichever is later; never what is not due."""
        partition = topic.partitions[index]
        if topic.config.retention_seconds is None:
            return partition.start
        cutoff = now - topic.config.retention_seconds * 1000
        bound = partition.archived if topic.config.retention_waits_for_archive else partition.end
        for offset, message in sorted(partition.messages.items()):
            if message.delayed or max(message.time, message.due) > cutoff:
                return min(offset, max(bound, partition.start))
        return min(partition.end, max(bound, partition.start))

    def restart(self, now: int) -> None:
        """Consumers are remembered by nobody; everything else comes back."""
        self.epoch += 1
        self.opened = now
        self.lease_number = leases_from(now)
        for _, group in self.groups():
            group.alive.clear()
            group.sessions.clear()

    def overdue(self, now: int) -> list[str]:
        """What should have happened by now and has not."""
        found: list[str] = []
        for topic, group in self.groups():
            if group.paused is not None and group.paused[0] is not None and group.paused[0] <= now:
                found.append(f"paused {topic.name} {group.name}")
        for topic in self.topics.values():
            for message in topic.messages():
                if message in topic.unlooked():
                    found.append(f"not superseding {topic.name} {message}")
                if message.delayed and message.due <= now:
                    found.append(f"due {topic.name} {message}")
                if not message.deleted and not message.expired and 0 < message.expires <= now:
                    found.append(f"ttl {topic.name} {message}")
                if not message.deleted and not message.evicted and 0 < message.evicts <= now:
                    found.append(f"max_wait {topic.name} {message}")
            if topic.window_since is not None and topic.window_since + topic.config.window_seconds * 1000 <= now:
                found.append(f"window {topic.name}")
            for group in topic.groups.values():
                found.extend(f"retry {d}" for d in group.deliveries.values() if d.state == RETRYING and d.due <= now)
                found.extend(f"lease {lease}" for lease in group.live_leases() if lease.until <= now)
                found.extend(f"silent {consumer}" for consumer, until in group.alive.items() if until <= now)
        found.extend(f"transaction {n}" for n, transaction in self.transactions.items() if transaction.until <= now)
        return found
