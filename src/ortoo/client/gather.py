"""Gathers what callers do one by one: all publishes, or acks, of one turn of the event loop travel as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ortoo.model import limits
from ortoo.model.batch import to_outgoing
from ortoo.model.commands import Publish, Run, Settle
from ortoo.model.errors import CapacityError, RequestError
from ortoo.model.message import Message
from ortoo.model.names import LeaseId, TopicName
from ortoo.model.replies import Placed, Sent, Settled

from .settling import merge_runs

Entry = tuple[Message, asyncio.Future[Sent]]
Acking = tuple[list[Run], asyncio.Future[Settled]]


class Gatherer:
    """Publishes, a batch per topic. `linger`: seconds to wait for more before a batch leaves."""

    def __init__(self, send: Callable[[Publish], Awaitable[Placed]], linger: float = 0.0) -> None:
        self._send = send
        self._linger = linger
        self._open: dict[TopicName, list[Entry]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, topic: TopicName, message: Message) -> asyncio.Future[Sent]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sent] = loop.create_future()
        batch = self._open.get(topic)
        if batch is None:
            batch = self._open[topic] = []
            if self._linger:
                loop.call_later(self._linger, self._flush, topic, batch)
            else:
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


class AckGatherer:
    def __init__(self, call: Callable[[Settle], Awaitable[Settled]]) -> None:
        self._call = call
        self._open: list[Acking] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, runs: list[Run]) -> asyncio.Future[Settled]:
        """The answer is as if these had been acked alone."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Settled] = loop.create_future()
        if not self._open:
            loop.call_soon(self._flush)
        self._open.append((runs, future))
        return future

    def _flush(self) -> None:
        batch, self._open = self._open, []
        if batch:
            task = asyncio.get_running_loop().create_task(self._settle(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _settle(self, batch: list[Acking]) -> None:
        runs = batch[0][0] if len(batch) == 1 else merge_runs([run for runs, _ in batch for run in runs])
        try:
            settled = await self._call(Settle("ack", runs))
        except RequestError as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                for entry in batch:  # nothing happened; find out whose fault it was
                    await self._settle([entry])
            return
        except BaseException as error:  # whatever it is, it is the callers' to know
            _fail(batch, error)
            return
        lost = {
            (run.lease, run.partition, offset)
            for run, offsets in zip(runs, settled.lost or (), strict=False)
            for offset in offsets
        }
        for own, future in batch:
            if not future.done():
                future.set_result(_share(own, lost))

    async def drain(self) -> None:
        self._flush()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _share(runs: list[Run], lost: set[tuple[LeaseId, int, int]]) -> Settled:
    """What of the lost leases is these callers' own."""
    if not lost:
        return Settled()
    own = [[offset for offset in run.offsets if (run.lease, run.partition, offset) in lost] for run in runs]
    return Settled(own if any(own) else None)


def _fail(batch: Iterable[tuple[Any, asyncio.Future[Any]]], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)


def to_sent(placed: Placed) -> list[Sent]:
    count = len(placed.offsets)
    topics = placed.topics or [placed.topic] * count
    return list(map(Sent, topics, placed.partitions, placed.offsets, placed.duplicates or [False] * count))
