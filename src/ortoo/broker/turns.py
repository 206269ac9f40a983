"""Work of unknown length in the event loop, in turns: others run in between."""

from __future__ import annotations

import asyncio
from time import thread_time

_UNITS = 200  # partitions of groups that are looked at in one turn: one or two milliseconds


class Turns:
    """Of one piece of work, which says now and then how much it has done."""

    def __init__(self) -> None:
        self._done = 0.0

    async def worked(self, units: float) -> None:
        self._done += units
        if self._done >= _UNITS:
            self._done = 0.0
            await asyncio.sleep(0)


class TimedTurns(Turns):
    """The same, and how much of the processor it took: for what runs all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0.0  # seconds, of all turns
        self.longest = 0.0  # of one
        self._began = thread_time()

    async def worked(self, units: float) -> None:
        if self._done + units < _UNITS:
            self._done += units
            return
        self.ended()
        await super().worked(units)
        self._began = thread_time()

    def ended(self) -> None:
        """A turn is over."""
        turn = thread_time() - self._began
        self.spent += turn
        self.longest = max(self.longest, turn)
