"""Gathers single publishes: all that are made in one turn of the event loop travel as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ortoo.model import limits
from ortoo.model.batch import to_outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import CapacityError, RequestError
from ortoo.model.message import Message
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed, Sent

Entry = tuple[Message, asyncio.Future[Sent]]


class Gatherer:
    def __init__(self, send: Callable[[Publish], Awaitable[Placed]]) -> None:
        self._send = send
        self._open: dict[TopicName, list[Entry]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, topic: TopicName, message: Message) -> asyncio.Future[Sent]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sent] = loop.create_future()
        batch = self._open.get(topic)
        if batch is None:
            batch = self._open[topic] = []
            loop.call_soon(self._flush, topic, batch)
        batch.append((message, future))
        if len(batch) == limits.BATCH_MESSAGES_MAX:
            self._flush(topic, batch)
        return future

    def _flush(self, topic: TopicName, batch: list[Entry]) -> None:
        if self._open.get(topic) is batch:
            del self._open[topic]
            task = asyncio.get_running_loop().create_task(self._publish(topic, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _publish(self, topic: TopicName, batch: list[Entry]) -> None:
        try:
            placed = await self._send(Publish(topic, to_outgoing([message for message, _ in batch])))
        except (RequestError, CapacityError) as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                for entry in batch:  # nothing happened; find out whose fault it was
                    await self._publish(topic, [entry])
            return
        except BaseException as error:  # whatever it is, it is the callers' to know
            _fail(batch, error)
            return
        for (_, future), sent in zip(batch, to_sent(placed), strict=True):
            if not future.done():
                future.set_result(sent)

    async def drain(self) -> None:
        """Returns when everything gathered has been answered."""
        for topic, batch in list(self._open.items()):
            self._flush(topic, batch)
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _fail(batch: list[Entry], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)


def to_sent(placed: Placed) -> list[Sent]:
    count = len(placed.offsets)
    topics = placed.topics or [placed.topic] * count
    return list(map(Sent, topics, placed.partitions, placed.offsets, placed.duplicates or [False] * count))
