"""Looks after a running server: how late its event loop is, what its store complains of, whether the broker still works."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic, thread_time

from ortoo.broker import Broker

TICK_SECONDS = 0.02  # a stall is seen if it is longer, and what is told of it is too short by as much at the most
_LOOK_TICKS = 50  # how many ticks lie between two looks at the store

_log = logging.getLogger("ortoo.store")


class Watch:
    def __init__(self, broker: Broker) -> None:
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
            self._stalled(max(0.0, loop.time() - due), thread_time() - spent)
            ticks += 1
            if ticks % _LOOK_TICKS == 0:
                self.look()

    def _stalled(self, late: float, spent: float) -> None:
        """Late by so many seconds, in which the loop's thread had the processor for so long."""
        meters, now = self._broker.meters, monotonic()
        meters.stall_seconds.observe(late)
        meters.longest_stall.observe(late, now)
        meters.longest_turn.observe(min(late, spent), now)

    def look(self) -> None:
        """Logs what is wrong now and was not before."""
        if not self._broker.is_working:
            self.broken.set()
        status = self._broker.store.status()
        problems = self._broker.problems()
        for problem in problems:
            if problem not in self._told:
                _log.error("the queue has a problem", extra={"problem": problem})
        self._told = set(problems)
        if (status.full is None) != (self._full is None):
            if status.full is not None:
                _log.error("the store is full, publishing is refused", extra={"problem": status.full})
            else:
                _log.info("the store has room again")
        self._full = status.full
