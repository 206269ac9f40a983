"""One alarm of the clock, for the earliest moment that was asked for; and one that is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ortoo.ports import Alarm, Clock

from .waiters import resolve


async def sleep(clock: Clock, ms: int) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    clock.call_later(ms, lambda: resolve(future))
    await future


class Wakeup:
    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._set: tuple[int, Alarm] | None = None  # when, as the monotonic clock shows it

    def within(self, delay_ms: int) -> None:
        when = self._clock.monotonic_ms() + delay_ms
        if self._set is None or when < self._set[0]:
            self.cancel()
            self._set = (when, self._clock.call_later(delay_ms, self._ring))

    def cancel(self) -> None:
        if self._set is not None:
            self._set[1].cancel()
            self._set = None
