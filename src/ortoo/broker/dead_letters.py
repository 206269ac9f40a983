"""Finds the dead letters among the records of a commit, for whoever wants to be told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ortoo.engine import Engine
from ortoo.engine.topic import Topic
from ortoo.model.names import MessageRef, TopicId
from ortoo.model.notices import DeadLetterNotice
from ortoo.model.records import Origin, Published, Record

from .commits import tell

Listener = Callable[[list[DeadLetterNotice]], None]


class Teller(Protocol):
    engine: Engine
    on_dead_letters: list[Listener]


def tell_dead_letters(broker: Teller, records: list[Record]) -> None:
    """Called for each commit, so it is quick about those without dead letters."""
    if not broker.on_dead_letters:
        return
    topics, notices = broker.engine.state.topics, []
    for record in records:
        if type(record) is Published and record.origins:
            for offset, origin in enumerate(record.origins, record.base):
                ref = MessageRef(record.topic, record.partition, offset)
                if (notice := _notice(topics, ref, origin, record.at)) is not None:
                    notices.append(notice)
    if notices:
        tell(broker.on_dead_letters, notices)


def _notice(topics: Mapping[TopicId, Topic], ref: MessageRef, origin: Origin, at: int) -> DeadLetterNotice | None:
    topic, dlq = topics.get(origin.message.topic), topics.get(ref.topic)
    if origin.reason == "redriven" or topic is None or dlq is None or topic.config.dlq_webhook is None:
        return None
    webhook = topic.config.dlq_webhook
    return DeadLetterNotice(webhook, topic.name.name, topic.name.namespace, dlq.name.name, ref, origin, at)
