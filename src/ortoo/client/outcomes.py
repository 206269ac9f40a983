"""What becomes of the messages that a handler was called with: they are acked, nacked, rejected or given back, and counted."""

from __future__ import annotations

import asyncio
import logging

from ortoo.model.errors import InvalidValueError, LeaseLostError, OrtooError, RequestError
from ortoo.model.message import Received

from .background import Background
from .handler import Handler, Reject, Retry, describe
from .queue import Queue
from .waiting import Waiting
from .worker_metrics import Counts

log = logging.getLogger("ortoo.worker")

_UNCONFIRMED_MAX = 10_000  # messages whose acks are on their way; with more, a place stays taken


class Outcomes:
    def __init__(self, handler: Handler, queue: Queue, waiting: Waiting, counts: Counts) -> None:
        self._handler = handler
        self._queue = queue
        self._waiting = waiting
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._handed: list[Received] = []
        self._leaving: dict[int, list[Received]] = {}  # by the id of the list
        self._unconfirmed = 0  # messages of both
        self._fewer = asyncio.Event()
        self._tasks = Background()

    # -- success

    def ack(self, messages: list[Received]) -> None:
        """Nobody waits for it: acks of one turn of the event loop leave in one command."""
        if not self._handed:
            self._loop.call_soon(self._flush)
        self._handed += messages
        self._unconfirmed += len(messages)

    @property
    def is_crowded(self) -> bool:
        return self._unconfirmed > _UNCONFIRMED_MAX

    async def wait_for_room(self) -> None:
        while self.is_crowded:
            self._fewer.clear()
            await self._fewer.wait()

    def held(self) -> list[Received]:
        """What is acked, and not confirmed yet."""
        return [*self._handed, *(message for messages in self._leaving.values() for message in messages)]

    def __bool__(self) -> bool:
        return self._unconfirmed > 0

    def _flush(self) -> None:
        messages, self._handed = self._handed, []
        if messages:
            self._leaving[id(messages)] = messages
            self._tasks.start(self._leave(messages))

    async def _leave(self, messages: list[Received]) -> None:
        try:
            await self._confirm(messages)
        finally:
            del self._leaving[id(messages)]
            self._unconfirmed -= len(messages)
            self._fewer.set()

    async def _confirm(self, messages: list[Received]) -> None:
        try:
            await self._queue.ack(messages)
        except LeaseLostError as error:
            receipts = set(error.lost)
            lost = [message for message in messages if message.receipt in receipts]
            self._counts.handled += len(messages) - len(lost)
            await self._unsettled(lost, "acknowledged", error)
        except RequestError as error:
            if len(messages) == 1:
                await self._unsettled(messages, "acknowledged", error)
            else:  # nothing happened; find out whose fault it was
                half = len(messages) // 2
                await self._confirm(messages[:half])
                await self._confirm(messages[half:])
        except OrtooError as error:
            await self._unsettled(messages, "acknowledged", error)
        else:
            self._counts.handled += len(messages)

    async def drain(self) -> None:
        """Returns when all acks are confirmed, or have failed."""
        while self._handed or self._tasks:
            self._flush()
            await self._tasks.drain()

    # -- failure

    async def reject(self, messages: list[Received], failure: Reject | InvalidValueError) -> None:
        log.warning("%s rejected %s: %s", self._handler.name, to_text(messages), failure)
        self._counts.rejected += len(messages)
        try:
            await self._queue.reject(messages, str(failure) or describe(failure))
        except OrtooError as error:
            await self._unsettled(messages, "rejected", error)

    async def nack(self, messages: list[Received], failure: BaseException) -> None:
        """Whatever waits behind these in line is revoked by the queue, and leaves the waiting ones before this returns."""
        reason, delay = describe(failure), self._handler.error_delay
        if isinstance(failure, Retry):
            reason, delay = str(failure) or reason, delay if failure.delay is None else failure.delay
            log.warning("%s puts off %s: %s", self._handler.name, to_text(messages), reason)
        else:
            log.warning("%s failed on %s", self._handler.name, to_text(messages), exc_info=failure)
        self._counts.failed += len(messages)
        try:
            await self._queue.nack(messages, reason, delay)
        except OrtooError as error:
            await self._unsettled(messages, "given back", error)

    def lose(self, messages: list[Received]) -> None:
        self._counts.lost += len(messages)
        log.warning("the lease of %s was lost while %s worked on it", to_text(messages), self._handler.name)

    async def _unsettled(self, messages: list[Received], what: str, error: OrtooError) -> None:
        """They come again; and so, before those that wait behind them, must nothing of the same leases be handled."""
        self._counts.lost += len(error.lost) if isinstance(error, LeaseLostError) else len(messages)
        log.warning("%s could not be %s, and may be delivered again: %s", to_text(messages), what, error)
        await self.give_back(self._waiting.take_leased({message.delivery.lease for message in messages}))

    async def give_back(self, messages: list[Received]) -> None:
        try:
            await self._queue.release(messages)
        except OrtooError:
            pass  # they return by themselves


def to_text(messages: list[Received]) -> str:
    first = messages[0]
    if len(messages) > 1:
        return f"{len(messages)} messages, the first of them {first.id} of topic {first.topic!r}"
    return f"message {first.id} of topic {first.topic!r}, attempt {first.attempt}"
