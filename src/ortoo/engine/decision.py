"""What deciding a command gives, and the draft of its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ortoo.model import limits
from ortoo.model.errors import InvalidError, NotFoundError, TooManyError
from ortoo.model.names import GroupId, MessageRef, TopicId, TopicName, check_name, is_inbox_name
from ortoo.model.records import Record, TopicCreated
from ortoo.model.shards import first_id_after
from ortoo.model.topic import TopicConfig, dlq_config

from .copies import Cost
from .quotas import check_stored, check_topics, may_add_topics, published_bytes, room_bytes
from .state import State
from .topic import Topic


class Decision(msgspec.Struct, gc=False):
    records: list[Record]
    reply: Any = None


class Draft:
    """The records of one decision as they are drafted. The state is only read; what the decision would create is held here."""

    __slots__ = (
        "acked",
        "copy_room",
        "created",
        "dedup_ids",
        "ends",
        "now",
        "number",
        "records",
        "state",
        "stored",
        "topic",
    )

    def __init__(self, state: State, now: int) -> None:
        self.state = state
        self.now = now
        self.number = state.number
        self.records: list[Record] = []
        self.acked: dict[TopicId, dict[GroupId, int]] = {}  # how many messages it acks: there is room for as many
        self.copy_room = state.soft.copy_room
        self.created: dict[TopicName, Topic] = {}
        self.stored: dict[str, int] = {}  # bytes that it publishes, by namespace, of those that are registered
        self.dedup_ids: dict[tuple[str, str], MessageRef] = {}  # drafted ones that a whole namespace shares
        self.topic: Topic | None = None  # whose turn it is, while due work is decided
        self.ends: dict[tuple[TopicId, int], int] = {}  # where the drafted appends leave each partition

    def reserve(self, topic: Topic, partition: int, count: int) -> int:
        """The offset of the first of `count` messages that this decision appends."""
        base = self.ends.get((topic.id, partition), topic.partitions[partition].end)
        self.ends[topic.id, partition] = base + count
        return base

    def copy(self, namespace: str, cost: Cost) -> None:
        """So much of what may be copied there is used up."""
        self.copy_room = self.copy_room.less(cost)
        if namespace in self.state.namespaces:
            self.stored[namespace] = self.stored.get(namespace, 0) + cost.likely
        self.state.soft.copied_bytes += cost.likely

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def next_topic(self) -> TopicId:
        if self.state.shard is None:
            return TopicId(self.next_number())
        self.number = first_id_after(self.number, self.state.shard)
        return TopicId(self.number)

    def next_group(self) -> GroupId:
        return GroupId(self.next_number())

    def find_topic(self, name: TopicName) -> Topic | None:
        return self.state.names.get(name) or self.created.get(name)

    def topic_for_publishing(self, name: TopicName) -> Topic:
        """Only publishing creates a topic by itself, when that is allowed."""
        topic = self.find_topic(name)
        if topic is not None:
            return topic
        if not self.state.auto_create:
            raise NotFoundError(f"there is no topic {str(name)!r}, and topics are not created by first use here")
        if is_inbox_name(name.name):
            raise NotFoundError(
                f"there is no topic {str(name)!r}: the requester that waited for the reply there is gone"
            )
        return self.create_topic(name, self.state.topic_defaults.config_for(name))

    def create_topic(self, name: TopicName, config: TopicConfig) -> Topic:
        check_name("a topic's name", name.name)
        check_name("a namespace", name.namespace)
        if len(self.state.topics) + len(self.created) >= limits.TOPICS_MAX:
            raise TooManyError(f"there are {limits.TOPICS_MAX} topics already; delete some first")
        if len(self.created) >= limits.NEW_TOPICS_MAX:
            raise TooManyError(f"one command makes at most {limits.NEW_TOPICS_MAX} topics; create the others first")
        check_topics(self.state, name.namespace, 1 + self._created_in(name.namespace))
        return self._create(name, config)

    def check_stored(self, namespace: str, since: int) -> None:
        """Whether the namespace may store what was drafted since there were so many records, with all before it."""
        if namespace in self.state.namespaces:
            new = self.stored.get(namespace, 0) + published_bytes(self.records[since:])
            check_stored(self.state, namespace, new)
            self.stored[namespace] = new

    def room_for_copies(self, namespace: str, wanted: int) -> int | None:
        """What the namespace may still store besides what was drafted, or at least so much; None: as much as it likes."""
        drafted = self.stored.get(namespace, 0)
        room = room_bytes(self.state, namespace, drafted + wanted)
        return None if room is None else max(0, room - drafted)

    def check_copies(self, namespace: str, size: int) -> None:
        """Whether the namespace may store copies that likely have so many bytes."""
        check_stored(self.state, namespace, self.stored.get(namespace, 0) + size)

    def may_create_dlq(self, name: TopicName) -> bool:
        return may_add_topics(self.state, name.namespace, 1 + self._created_in(name.namespace))

    def check_dlq(self, name: TopicName) -> None:
        check_topics(self.state, name.namespace, 1 + self._created_in(name.namespace))

    def _created_in(self, namespace: str) -> int:
        return sum(made.namespace == namespace for made in self.created)

    def create_dlq(self, name: TopicName, origin: Topic) -> Topic:
        """Its quota was asked before. It is beyond the count of all topics, for a lease that runs out has nobody to tell; and
        encrypted as soon as one of those whose dead letters it takes is."""
        return self._create(name, dlq_config(origin.config, self.needs_encrypted_dlq(name, origin)))

    def needs_encrypted_dlq(self, name: TopicName, origin: Topic) -> bool:
        return origin.config.encrypted or any(_secret_origins(self.state, name))

    def _create(self, name: TopicName, config: TopicConfig) -> Topic:
        record = TopicCreated(self.now, self.next_topic(), name.namespace, name.name, config)
        topic = Topic(record)
        check_secrecy(self.state, topic, config)
        self.records.append(record)
        self.created[name] = topic
        return topic


def _secret_origins(state: State, dlq: TopicName) -> Iterator[Topic]:
    """The encrypted topics whose dead letters go there."""
    for giver in state.dead_letters.get(dlq, ()):
        topic = state.topics[giver]
        if topic.config.encrypted and topic.name != dlq:
            yield topic


def check_secrecy(state: State, topic: Topic, config: TopicConfig) -> None:
    """What an encrypted topic gives up must not lie readable among its dead letters."""
    if config.encrypted and config.dlq:
        dlq = state.names.get(topic.dlq_name(config))
        if dlq is not None and dlq is not topic and not dlq.config.encrypted:
            raise InvalidError(
                f"the dead letters of an encrypted topic need an encrypted topic; {str(dlq.name)!r} is not"
            )
    if not config.encrypted and (secret := next(_secret_origins(state, topic.name), None)) is not None:
        raise InvalidError(
            f"{str(topic.name)!r} holds the dead letters of encrypted topic {str(secret.name)!r}; encrypt it"
        )
