"""Topics, and their partitions read without a group."""

from __future__ import annotations

import msgspec

from ortoo.dialects.callers import namespace_of
from ortoo.dialects.rendering import columns_in_parts, write_list
from ortoo.doors.http.answers import Streaming
from ortoo.doors.http.call import Call
from ortoo.model.commands import CreateTopic, DeleteTopic, Position
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName, is_inbox
from ortoo.model.queries import GetTopic, ListTopics, Scan
from ortoo.model.replies import Columns, TopicInfo
from ortoo.model.topic import DEFAULT_PRIORITY

from . import priorities
from .settings import topic_settings
from .shapes import (
    PAGE_MAX,
    NewTopic,
    Range,
    ReadMessage,
    ReadQuery,
    TopicDeleted,
    TopicDetails,
    TopicMade,
    TopicNames,
)
from .texts import to_instants, to_texts

NODE = "ortoo"


class PartitionPlace(msgspec.Struct):
    partition: int
    leader: str = NODE
    replicas: tuple[str, ...] = (NODE,)
    isr: tuple[str, ...] = (NODE,)


class Partitions(msgspec.Struct):
    topic: str
    partitions: list[PartitionPlace]


def name_of(call: Call) -> TopicName:
    return TopicName(namespace_of(call.link), call.params["topic"])


async def create(call: Call) -> TopicMade:
    body: NewTopic = call.body
    if not body.name:
        raise InvalidError("name is required")
    config = topic_settings(body)
    await call.link.call(CreateTopic(TopicName(namespace_of(call.link), body.name), config, exist_ok=False))
    return TopicMade(body.name, config.partitions)


async def all_topics(call: Call) -> list[TopicInfo]:
    """Those of the caller's namespace, without the inboxes of clients."""
    found = await call.link.ask(ListTopics(namespace_of(call.link)))
    return [info for info in found if not is_inbox(info.config.labels)]


async def list_all(call: Call) -> TopicNames:
    return TopicNames([info.name for info in await all_topics(call)])


async def show(call: Call) -> TopicDetails:
    info = await call.link.ask(GetTopic(name_of(call)))
    offsets = {str(each.partition): Range(each.start, each.end) for each in info.partitions}
    return TopicDetails(info.name, len(offsets), len(offsets), info.messages, info.bytes, offsets)


async def delete(call: Call) -> TopicDeleted:
    topic = name_of(call)
    await call.link.call(DeleteTopic(topic))
    return TopicDeleted(topic.name)


async def partitions(call: Call) -> Partitions:
    """There is one node, which has them all."""
    info = await call.link.ask(GetTopic(name_of(call)))
    return Partitions(info.name, [PartitionPlace(each.partition) for each in info.partitions])


async def read(call: Call) -> bytes | Streaming:
    query: ReadQuery = call.query
    partition = to_number("partition", call.params["partition"])
    start = Position(offset=query.offset)
    page = await call.link.ask(Scan(name_of(call), partition, start, count=min(query.limit, PAGE_MAX)))
    after = b',"next_offset":%d}' % page.next_offset
    return write_list(b'{"messages":', columns_in_parts(page.columns), _render, after)


def to_number(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError(f"{what} must be a number, not {text[:40]!r}")
    return int(text)


def _render(columns: Columns) -> list[ReadMessage]:
    count = len(columns)
    texts, encodings = to_texts(columns.values)
    given = columns.priorities or [DEFAULT_PRIORITY] * count
    return list(
        map(
            ReadMessage,
            columns.offsets,
            to_instants(columns.timestamps),
            texts,
            map(priorities.name_of, given),
            columns.keys or [None] * count,
            columns.headers or [None] * count,
            encodings,
        )
    )
