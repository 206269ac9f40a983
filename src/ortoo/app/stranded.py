"""Dead letters that would come into another store than the topic that they are of, and could not be redriven from there.

Which topic that is, only their headers tell, so they are looked for before anything is moved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ortoo.broker.copies import GROUP, ORIGIN
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.access import SHARD_NAMESPACE
from ortoo.model.errors import ConfigError, InvalidError
from ortoo.model.names import TopicId, TopicName, parse_message_id
from ortoo.model.replies import filter_columns
from ortoo.model.shards import shard_of
from ortoo.ports import Contents

from .republished import how_many

_NAMED_MAX = 5


async def refuse_stranded(contents: Contents, states: Sequence[State], shards: int) -> None:
    """ConfigError when there are any."""
    topics = {topic.id: topic for state in states for topic in state.topics.values()}
    homes = {
        id: shard_of(topic.name, shards) for id, topic in topics.items() if topic.name.namespace != SHARD_NAMESPACE
    }
    found: dict[tuple[TopicName, TopicName], int] = {}
    for id in homes if len(set(homes.values())) > 1 else ():
        async for origin in _origins(contents, topics[id]):
            if homes.get(origin, homes[id]) != homes[id]:
                pair = topics[origin].name, topics[id].name
                found[pair] = found.get(pair, 0) + 1
    if found:
        raise ConfigError(_told(found, shards))


async def _origins(contents: Contents, topic: Topic) -> AsyncIterator[TopicId]:
    """Of what its messages say they are copies of. Copies lie in the first partition."""
    partition = topic.partitions[0]
    at = partition.start
    while at < partition.end:
        until = min(at + how_many(partition, at), partition.end)
        columns = filter_columns(await contents.scan(topic.id, 0, at, until - at), partition.deleted)
        for headers in columns.headers or ():
            if headers and ORIGIN in headers and GROUP in headers:
                try:
                    yield parse_message_id(headers[ORIGIN]).topic
                except InvalidError:  # anybody may publish such a header
                    continue
        at = until


def _told(found: dict[tuple[TopicName, TopicName], int], shards: int) -> str:
    which = [
        f"{count} of topic {str(origin)!r} in {where.name!r}"
        for (origin, where), count in list(found.items())[:_NAMED_MAX]
    ]
    more = " and others" if len(found) > _NAMED_MAX else ""
    return (
        f"dead letters would lie in another of {shards} shards than their topic, where they could not be redriven: "
        f"{', '.join(which)}{more}. Start the queue once more, make that the dlq_topic of the topic again, redrive or delete "
        "them (ortoo dlq), and set another dlq_topic; nothing was moved"
    )
