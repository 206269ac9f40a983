"""A clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush


class _Alarm:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now_ms = round(start * 1000)
        self._monotonic_ms = 0
        self._alarms: list[tuple[int, int, _Alarm]] = []
        self._number = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def time(self) -> float:
        return self._now_ms / 1000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> _Alarm:
        alarm = _Alarm(callback)
        self._number += 1
        heappush(self._alarms, (self._monotonic_ms + delay_ms, self._number, alarm))
        return alarm

    async def advance(self, seconds: float) -> None:
        """Moves time on, ringing every alarm at its own instant, and lets the work that causes settle."""
        await settle()
        target = self._monotonic_ms + round(seconds * 1000)
        while self._alarms and self._alarms[0][0] <= target:
            when, _, alarm = heappop(self._alarms)
            self._pass(when)
            if alarm.callback is not None:
                alarm.callback()
                await settle()
        self._pass(target)
        await settle()

    def _pass(self, until_ms: int) -> None:
        passed = max(0, until_ms - self._monotonic_ms)
        self._monotonic_ms += passed
        self._now_ms += passed

    def jump(self, seconds: float) -> None:
        """The wall clock is set, forwards or backwards. No time passes, so nothing rings and nobody has waited."""
        self._now_ms += round(seconds * 1000)


waited_for: list[
    Callable[[], bool]
] = []  # tell whether something outside of the event loop is under way, and will come back


async def settle(turns: int = 20) -> None:
    """Lets everything that is ready to run do so, and everything that is on its way come back."""
    while True:
        for _ in range(turns):
            await asyncio.sleep(0)
        if not any(is_busy() for is_busy in waited_for):
            return
        await asyncio.sleep(0.0005)
