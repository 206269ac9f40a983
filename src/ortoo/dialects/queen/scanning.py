"""Walking through the messages of a queue as they lie there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.commands import Position
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.queries import GetTopic, Scan
from ortoo.model.replies import Page

from .options import DEFAULT_PARTITION

_PAGE = 1_000


async def each_message(link: AuthorizedLink, topic: TopicName, partition: str) -> AsyncIterator[MessageRef]:
    """All of one of Queen's partitions, up to what there was at the beginning."""
    async for page in each_page(link, topic):
        for offset, key in zip(page.columns.offsets, keys_of(page), strict=True):
            if key == partition:
                yield MessageRef(page.topic_id, page.partition, offset)


async def each_page(link: AuthorizedLink, topic: TopicName) -> AsyncIterator[Page]:
    info = await link.ask(GetTopic(topic))
    for log in info.partitions:
        position, until = Position(offset=log.start), Position(offset=log.end)
        while True:
            page = await link.ask(Scan(topic, log.partition, position, until, _PAGE))
            yield page
            if page.next_offset >= min(page.end, log.end):
                break
            position = Position(offset=page.next_offset)
            await asyncio.sleep(0)


def keys_of(page: Page) -> list[str]:
    keys = page.columns.keys or [None] * len(page.columns)
    return [key or DEFAULT_PARTITION for key in keys]
