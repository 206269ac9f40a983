"""Leases messages for a handler's runner, as many as it has room for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from operator import attrgetter

from ortoo.model import limits
from ortoo.model.errors import (
    CapacityError,
    ClosedError,
    CorruptionError,
    NotFoundError,
    OrtooError,
    OutcomeUnknownError,
    UnavailableError,
)
from ortoo.model.message import Delivery
from ortoo.model.names import TopicId
from ortoo.model.topic import TopicConfig

from .backoff import Backoff, Sleep
from .ceding import cede
from .handler import Handler
from .handler_runner import HandlerRunner
from .handlers import Faces
from .lazy import Messages
from .queue import Queue
from .waiting import Line

log = logging.getLogger("ortoo.worker")

_POLL_SECONDS = limits.WAIT_MS_MAX / 1000
_PAUSE_SECONDS = 1.0  # in which others may have what was given back
_TRANSIENT = (NotFoundError, CapacityError, UnavailableError, OutcomeUnknownError, CorruptionError)
_CAREFUL = TopicConfig(ordering="strict", partitions=1)  # for a topic that may not be looked at

_delivery = attrgetter("delivery")


class Taker:
    def __init__(
        self,
        handler: Handler,
        queue: Queue,
        runner: HandlerRunner,
        faces: Faces,
        consumer: str,
        sleep: Sleep,
        may_cede: bool,
    ) -> None:
        self._handler = handler
        self._queue = queue
        self._runner = runner
        self._faces = faces
        self._consumer = consumer
        self._may_cede = may_cede
        self._backoff = Backoff(f"handler {handler.name} on {handler.source}", sleep)
        self._configs: dict[TopicId, TopicConfig] = {}

    async def take_forever(self) -> None:
        while True:
            while (room := self._room()) <= 0:
                await self._change()
            messages = await self._lease(room)
            deliveries: set[Delivery] = set(map(_delivery, messages))
            await self._learn(deliveries)
            if not self._handler.is_async:
                for delivery in deliveries:
                    delivery.queue = self._faces  # message.extend() blocks in a thread
            self._runner.add(messages)
            if blocked := await self._runner.give_back_blocked():
                await self._let_others(blocked)

    async def _change(self) -> None:
        """Something has begun or ended since this was called."""
        self._runner.changed.clear()
        await self._runner.changed.wait()

    def _room(self) -> int:
        """How many messages to ask for now; not a few at a time, as long as every place is taken."""
        handler, runner = self._handler, self._runner
        if runner.is_stuck() or runner.is_starting():
            return 0
        running = runner.running
        if handler.max_messages is not None:
            return handler.max_messages if running < handler.concurrency else 0
        size = handler.concurrency + handler.prefetch
        room = size - running - len(runner.waiting)
        wanted = running < handler.concurrency or 2 * room >= size
        return min(room, limits.BATCH_MESSAGES_MAX) if wanted else 0

    async def _lease(self, count: int) -> Messages:
        handler = self._handler
        while True:
            try:
                messages = await self._queue.lease(
                    handler.topic,
                    labels=handler.labels,
                    group=handler.group,
                    max_messages=count,
                    wait=_POLL_SECONDS,
                    lease=handler.lease,
                    consumer=self._consumer,
                    namespace=handler.namespace,
                )
            except ClosedError:
                raise
            except _TRANSIENT as error:
                is_missing = isinstance(error, NotFoundError) and handler.topic is not None
                await self._backoff.wait("the topic does not exist yet" if is_missing else str(error))
            else:
                self._backoff.is_over()
                return messages

    async def _learn(self, deliveries: set[Delivery]) -> None:
        """How the topics of these order messages, and how long they lease them."""
        for delivery in deliveries:
            if delivery.topic_id not in self._configs:
                try:
                    info = await self._queue.topic(delivery.topic.name, namespace=delivery.topic.namespace)
                    config = info.config
                except OrtooError as error:
                    log.warning("topic %r cannot be looked at, so it is handled one by one: %s", delivery.topic, error)
                    config = _CAREFUL
                self._configs[delivery.topic_id] = config
                self._runner.know(delivery.topic_id, config)

    # -- what hangs

    async def _let_others(self, blocked: set[Line]) -> None:
        """They may have what was given back; also the partitions it is in, if nothing else is under way here."""
        runner = self._runner
        await self._pause(lambda: not blocked <= runner.waiting.blocked)
        is_fifo = any(self._configs[topic].is_fifo for topic, _ in blocked)
        if self._may_cede and is_fifo and not (len(runner.waiting) or runner.is_settling()):
            is_over = lambda: not blocked & runner.waiting.blocked  # noqa: E731
            await cede(self._queue, self._consumer, self._handler, is_over, self._pause)

    async def _pause(self, is_over: Callable[[], bool]) -> None:
        """Not for long; but what is blocked would be leased and given back without a break."""
        try:
            async with asyncio.timeout(_PAUSE_SECONDS):
                while not is_over():
                    await self._change()
        except TimeoutError:
            pass
