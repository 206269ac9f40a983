"""The brokers of all shards: which one has a topic, which of them can be asked, and what there is to tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from ortoo.broker.broker import Broker
from ortoo.engine import Engine
from ortoo.engine.topic import Topic
from ortoo.model.errors import ClosedError, ConfigError, OrtooError, UnavailableError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.shards import SHARDS_MAX, shard_made_in, shard_of


class ShardBrokers:
    def __init__(self, brokers: Sequence[Broker], stores: Sequence[str]) -> None:
        if not 1 <= len(brokers) <= SHARDS_MAX:
            raise ConfigError(f"a queue has 1 to {SHARDS_MAX} shards, not {len(brokers)}")
        self.brokers = list(brokers)
        self.stores = [*stores] or [f"store {number}" for number in range(len(brokers))]
        self.first = self.brokers[0]
        self.shares_dedup = len(self.brokers) == 1  # ids of a whole namespace are known to all shards
        self.away: dict[int, OrtooError] = {}  # shards that could not be opened yet, and why

    # -- which one

    def of(self, topic: TopicName) -> Broker:
        return self.at(shard_of(topic, len(self.brokers)))

    def of_id(self, topic: TopicId) -> Broker:
        return self.at(self.shard_of_id(topic))

    def shard_of_id(self, topic: TopicId) -> int:
        """An id carries the shard that its topic was made in; one that was moved since is looked for. What is found nowhere may
        be in a shard that cannot be asked now, if there is one."""
        made_in = shard_made_in(topic, len(self.brokers))
        if topic in self.brokers[made_in].engine.state.topics:
            return made_in
        for shard, broker in enumerate(self.brokers):
            if topic in broker.engine.state.topics:
                return shard
        closed = (
            shard for shard, broker in enumerate(self.brokers) if shard in self.away or broker.refusal is not None
        )
        return next(closed, made_in)

    def at(self, shard: int) -> Broker:
        if shard in self.away:
            raise UnavailableError(f"{self.why_not(shard)}; try again")
        return self.brokers[shard]

    def why_not(self, shard: int) -> str:
        """A shard takes nothing."""
        why = self.away.get(shard) or self.brokers[shard].refusal
        return f"shard {shard}, {self.stores[shard]}, is not open: {why}"

    def open_ones(self) -> list[Broker]:
        return [broker for shard, broker in enumerate(self.brokers) if shard not in self.away]

    def taking(self) -> list[Broker]:
        """Those that can be asked now: one at least, or an error that tells why not."""
        found = [broker for broker in self.open_ones() if broker.refusal is None]
        if not found:
            raise self._refusal_of_all()
        return found

    def _refusal_of_all(self) -> OrtooError:
        refusal = self.brokers[0].refusal
        if isinstance(refusal, ClosedError) and 0 not in self.away:
            return refusal.with_traceback(None)
        return UnavailableError(f"{self.why_not(0)}; try again")

    def find_topic(self, name: TopicName) -> Topic | None:
        return self.brokers[shard_of(name, len(self.brokers))].find_topic(name)

    def topic_by_id(self, topic: TopicId) -> Topic | None:
        return self._engine_of_id(topic).state.topics.get(topic)

    def _engine_of_id(self, topic: TopicId) -> Engine:
        return self.brokers[self.shard_of_id(topic)].engine

    @property
    def makes_topics(self) -> bool:
        return self.first.engine.state.auto_create

    # -- how they do

    @property
    def is_working(self) -> bool:
        return all(broker.is_working for broker in self.open_ones())

    @property
    def refusal(self) -> OrtooError | None:
        """Why nothing at all is taken now."""
        refusals = [broker.refusal for broker in self.brokers]
        return refusals[0] if all(refusal is not None for refusal in refusals) else None

    def problems(self) -> list[str]:
        if len(self.brokers) == 1:
            return self.first.problems()
        found = list[str]()
        for shard, (broker, store) in enumerate(zip(self.brokers, self.stores, strict=True)):
            if shard in self.away or broker.refusal is not None:
                found.append(self.why_not(shard))
            found += [f"shard {shard}, {store}: {problem}" for problem in broker.problems()]
        return found

    def full(self) -> str | None:
        """Why no store takes more messages."""
        told = [broker.full() for broker in self.open_ones()]
        return told[0] if told and all(why is not None for why in told) else None
