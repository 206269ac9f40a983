"""Cutting short what waits: a few in each turn of the event loop.

Each that is cancelled has something to put back in order, and all of it would happen in one turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

CUTS_PER_TURN = 250


class Cutter:
    """One for all connections of a door: many of them may end at the same time."""

    def __init__(self) -> None:
        self._tasks: deque[asyncio.Task[Any]] = deque()

    def cut(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Those that come first at once, if nobody is waiting for that."""
        is_idle = not self._tasks
        self._tasks.extend(tasks)
        if is_idle:
            self._take_turn()

    def _take_turn(self) -> None:
        for _ in range(min(CUTS_PER_TURN, len(self._tasks))):
            self._tasks.popleft().cancel()
        if self._tasks:
            asyncio.get_running_loop().call_soon(self._take_turn)
