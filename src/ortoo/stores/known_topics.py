"""What a store has to know of topics: their names, how durable they are, and which of them are encrypted."""

from __future__ import annotations

from ortoo.model import records as r
from ortoo.model.names import TopicId, TopicName
from ortoo.model.topic import TopicConfig

_NOT_SECRET = (r.TopicCreated, r.TopicChanged, r.TopicDeleted)


class KnownTopics:
    def __init__(self) -> None:
        self.configs: dict[TopicId, TopicConfig] = {}
        self.names: dict[TopicId, TopicName] = {}

    def learn(self, record: r.Record) -> None:
        if isinstance(record, r.TopicCreated):
            self.configs[record.topic] = record.config
            self.names[record.topic] = TopicName(record.namespace, record.name)
        elif isinstance(record, r.TopicChanged):
            self.configs[record.topic] = record.config

    def secret_topic(self, record: r.Record) -> int:
        """The encrypted topic that a record speaks of, or 0."""
        if isinstance(record, _NOT_SECRET):
            return 0
        if isinstance(record, r.Staged):
            topic = next((topic for topic, name in self.names.items() if name == record.publish.topic), TopicId(0))
        else:
            topic = getattr(record, "topic", TopicId(0))
        return topic if self.is_secret(topic) else 0

    def is_secret(self, topic: TopicId) -> bool:
        config = self.configs.get(topic)
        return config is not None and config.encrypted

    def dedup_window_ms(self, topic: TopicId) -> int:
        return round(self.configs.get(topic, TopicConfig()).dedup_window * 1000)
