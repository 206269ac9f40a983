"""Keeps leases alive while handlers work on what was leased: beats a few times per lease, all extensions in one call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ortoo.model.errors import LeaseLostError, OrtooError
from ortoo.model.message import Received
from ortoo.model.names import LeaseId

from .backoff import Sleep
from .queue import Queue

log = logging.getLogger("ortoo.worker")

_BEATS_PER_LEASE = 3


class LeaseExtender:
    """`held` says what is leased and not settled, `lose` is told which receipts went stale, `extended` how many did not."""

    def __init__(
        self,
        queue: Queue,
        lease: float | None,
        held: Callable[[], list[Received]],
        lose: Callable[[set[str]], None],
        sleep: Sleep,
        extended: Callable[[int], None],
    ) -> None:
        self._queue = queue
        self._lease = lease
        self._held = held
        self._lose = lose
        self._sleep = sleep
        self._extended = extended
        self._old: set[LeaseId] = set()  # those held at the last beat
        self._shortest: float | None = None
        self._heart: asyncio.Task[None] | None = None

    def keep(self, topic_lease: float) -> None:
        """Beats often enough for leases of this topic from now on."""
        seconds = self._lease or topic_lease
        if self._shortest is None or seconds < self._shortest:
            self._shortest = seconds
            self.stop()
            self._heart = asyncio.get_running_loop().create_task(self._beat_forever(seconds / _BEATS_PER_LEASE))

    def stop(self) -> None:
        if self._heart is not None:
            self._heart.cancel()

    async def _beat_forever(self, seconds: float) -> None:
        while True:
            await self._sleep(seconds)
            await self._beat()

    async def _beat(self) -> None:
        """Extends what was here at the last beat already: most messages are done long before that."""
        held = self._held()
        old = [message for message in held if message.delivery.lease in self._old]
        self._old = {message.delivery.lease for message in held}
        try:
            await self._queue.extend(old, self._lease)
        except LeaseLostError as error:
            self._lose(set(error.lost))
            self._extended(len(old) - len(error.lost))
        except OrtooError as error:
            log.warning("%d leases could not be extended: %s", len(old), error)
        else:
            self._extended(len(old))
