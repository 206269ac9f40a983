"""Acks that nobody waits for: gathered until the event loop has a turn for them, and confirmed beside what goes on.

That is the fast way to ack one by one. The price: a lease that was lost is told later, with the next message or at the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from ortoo.model.errors import LeaseLostError, OrtooError
from ortoo.model.message import Received

from .background import Background

UNCONFIRMED_MAX = 50_000  # messages; with more, the next message waits


class LateAcks:
    """Of one stream, or of what a queue leased outside of any. `add` may be called from any thread once it is bound to a loop."""

    def __init__(self, ack: Callable[[list[Received]], Awaitable[None]], loop: asyncio.AbstractEventLoop) -> None:
        self._ack = ack
        self._loop = loop
        self._handed: deque[Received] = deque()
        self._is_due = False
        self._tasks = Background()
        self._unconfirmed = 0
        self._fewer = asyncio.Event()
        self._lost: list[str] = []
        self._error: OrtooError | None = None  # that none of the receipts is to blame for
        self.has_failed = False

    def add(self, message: Received) -> None:
        self._handed.append(message)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._flush)

    @property
    def is_crowded(self) -> bool:
        return self._unconfirmed + len(self._handed) >= UNCONFIRMED_MAX

    async def wait_for_room(self) -> None:
        while self.is_crowded:
            self._fewer.clear()
            await self._fewer.wait()

    def _flush(self) -> None:
        self._is_due = False
        messages = [self._handed.popleft() for _ in range(len(self._handed))]
        if messages:
            self._unconfirmed += len(messages)
            self._tasks.start(self._confirm(messages))

    async def _confirm(self, messages: list[Received]) -> None:
        try:
            await self._ack(messages)
        except LeaseLostError as error:
            self._lost += error.lost
            self.has_failed = True
        except OrtooError as error:
            self._error = self._error or error
            self.has_failed = True
        finally:
            self._unconfirmed -= len(messages)
            self._fewer.set()

    def raise_failure(self) -> None:
        """Tells what went wrong since it was last asked."""
        if not self.has_failed:
            return
        lost, error = self._lost, self._error
        self._lost, self._error, self.has_failed = [], None, False
        if error is not None:
            raise error
        raise LeaseLostError(
            f"{len(lost)} leases were lost before their acks arrived: they ran out, or the group was moved; those messages"
            " are delivered again",
            lost,
        )

    async def drain(self) -> None:
        """Returns when all that was handed over is confirmed, or has failed."""
        while self._handed or self._tasks:
            self._flush()
            await self._tasks.drain()
