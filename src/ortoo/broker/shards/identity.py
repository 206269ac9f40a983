"""Which shard a store has, kept in the store itself: the labels of a topic that nobody sees.

A queue that was opened with two stores must not be opened with one of them, with three, or with two of other queues: topics would
be looked for where they are not, and made again there. So the first opening writes down the number of each store and of how many,
and a name for the set; the first store also keeps that all of them were there. A store that is empty after that is one that was
lost, or is not mounted.
"""

from __future__ import annotations

from secrets import token_hex
from typing import NamedTuple

from ortoo.broker.broker import Broker
from ortoo.engine.state import State
from ortoo.model.access import SHARD_NAMESPACE
from ortoo.model.commands import ChangeTopic, CreateTopic
from ortoo.model.errors import ConfigError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.records import TopicCreated
from ortoo.model.topic import TopicConfig

_TOPIC = TopicName(SHARD_NAMESPACE, "shard")
_MOVE = "to change the number of shards, move the queue to new stores (ortoo shards move)"


class Identity(NamedTuple):
    shard: int
    shards: int
    queue: str  # a name for the stores that belong together
    is_complete: bool  # all of them were there once; only the first keeps that

    @property
    def labels(self) -> dict[str, str]:
        shown = {"shard": str(self.shard), "shards": str(self.shards), "queue": self.queue}
        return {**shown, "complete": "true"} if self.is_complete else shown


def _config_of(identity: Identity) -> TopicConfig:
    return TopicConfig(partitions=1, dlq=False, labels=identity.labels)


def shard_created(identity: Identity, at: int, topic: TopicId) -> TopicCreated:
    """For a store that is made by other means than its first opening."""
    return TopicCreated(at, topic, *_TOPIC, _config_of(identity))


def identity_of(state: State) -> Identity | None:
    """None of a store that is no shard, or not yet."""
    topic = state.names.get(_TOPIC)
    if topic is None:
        return None
    labels = topic.config.labels
    try:
        return Identity(int(labels["shard"]), int(labels["shards"]), labels["queue"], "complete" in labels)
    except (KeyError, ValueError):
        raise ConfigError(
            f"the labels of {str(_TOPIC)!r}, which tell what shard a store is, are damaged: {labels}"
        ) from None


def check_alone(state: State) -> None:
    """For a store that is opened as a whole queue."""
    found = identity_of(state)
    if found is not None:
        raise ConfigError(
            f"this store is shard {found.shard} of {found.shards}: open it together with the others, in the order of their "
            f"numbers; {_MOVE}"
        )


def check_place(state: State, shard: int, shards: int, store: str) -> Identity | None:
    """Whether a store may be that shard; None where it is new."""
    found = identity_of(state)
    if found is None:
        if state.topics:
            raise ConfigError(f"{store} holds a queue that is not sharded; {_MOVE}")
        return None
    if found.shards != shards:
        raise ConfigError(
            f"{store} is shard {found.shard} of {found.shards}, and {shards} stores are named; name all {found.shards}; {_MOVE}"
        )
    if found.shard != shard:
        raise ConfigError(
            f"{store} is shard {found.shard} of {shards}, and is named as the {_ordinal(shard)}: name the stores in the order "
            "of their shards"
        )
    return found


def _ordinal(shard: int) -> str:
    names = ("first", "second", "third", "fourth")
    return names[shard] if shard < len(names) else f"{shard + 1}th"


def check_set(found: list[Identity | None], stores: list[str]) -> None:
    """Whether these belong together, and none is missing."""
    known = [one for one in found if one is not None]
    if not known:
        return
    for one in known:
        if one.queue != known[0].queue:
            raise ConfigError(f"{stores[one.shard]} and {stores[known[0].shard]} are shards of different queues")
    is_complete = found[0] is None or found[0].is_complete
    for shard, its in enumerate(found):
        if its is None and (is_complete or any(later is not None for later in found[shard + 1 :])):
            raise ConfigError(
                f"shard {shard}, {stores[shard]}, is empty, and the queue had it: is the disk mounted, is it the right "
                "database? Bring it back, or restore it from a backup"
            )


async def write_set(brokers: list[Broker], found: list[Identity | None]) -> None:
    """What is new is written, one after the other; then that all are there."""
    known = next((one for one in found if one is not None), None)
    queue = known.queue if known is not None else token_hex(8)
    for shard, broker in enumerate(brokers):
        if found[shard] is None:
            identity = Identity(shard, len(brokers), queue, is_complete=False)
            await broker.call(CreateTopic(_TOPIC, _config_of(identity)))
    if found[0] is None or not found[0].is_complete:
        identity = Identity(0, len(brokers), queue, is_complete=True)
        await brokers[0].call(ChangeTopic(_TOPIC, {"labels": identity.labels}))
