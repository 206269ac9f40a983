"""Looks after a running server: how late its event loop is, what its store complains of, whether the broker still works."""

from __future__ import annotations

import asyncio
import logging
from time import thread_time
from typing import Protocol

TICK_SECONDS = 0.02  # a stall is seen if it is longer, and what is told of it is too short by as much at the most
_LOOK_TICKS = 50  # how many ticks lie between two looks at the store

_log = logging.getLogger("ortoo.store")


class StallMeters(Protocol):
    def stalled(self, late: float, spent: float) -> None: ...


class Watched(Protocol):
    """What is to be seen of a broker in the same process."""

    @property
    def is_working(self) -> bool: ...

    @property
    def meters(self) -> StallMeters: ...

    def problems(self) -> list[str]: ...

    def full(self) -> str | None: ...


class Watch:
    def __init__(self, broker: Watched) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._full: str | None = None
        self.broken = asyncio.Event()  # the broker will not do anything any more

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="ortoo-watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        ticks = 0
        while True:
            due, spent = loop.time() + TICK_SECONDS, thread_time()
            await asyncio.sleep(TICK_SECONDS)
            self._broker.meters.stalled(max(0.0, loop.time() - due), thread_time() - spent)
            ticks += 1
            if ticks % _LOOK_TICKS == 0:
                self.look()

    def look(self) -> None:
        """Logs what is wrong now and was not before."""
        if not self._broker.is_working:
            self.broken.set()
        full = self._broker.full()
        problems = self._broker.problems()
        for problem in problems:
            if problem not in self._told:
                _log.error("the queue has a problem", extra={"problem": problem})
        self._told = set(problems)
        if (full is None) != (self._full is None):
            if full is not None:
                _log.error("the store is full, publishing is refused", extra={"problem": full})
            else:
                _log.info("the store has room again")
        self._full = full
