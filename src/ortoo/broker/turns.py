"""Work of unknown length in the event loop, in turns: others run in between."""

from __future__ import annotations

import asyncio

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
