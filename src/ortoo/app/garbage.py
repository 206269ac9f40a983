"""The garbage collector of a server's process: its pauses hold everybody up, so they are kept short.

A full collection visits every object there is, which takes seconds with a hundred thousand topics. So what survives one is
frozen, and the next visits only what was made since. A cycle that dies after it was frozen would stay for good; therefore all
objects are visited again after a while: soon where that is quick, else once nobody asks for anything, and daily at the latest.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from time import monotonic, thread_time
from typing import Any

from ortoo.broker.running import Runner

_LOOK_SECONDS = 1.0
_SOON_SECONDS = 600.0
_LATEST_SECONDS = 86_400.0
_QUICK_SECONDS = 0.03

_log = logging.getLogger("ortoo.server")


class Collector:
    """`requests` counts what clients have asked for so far. It collects for the whole process, so there can be only one."""

    def __init__(self, requests: Callable[[], int], now: Callable[[], float] = monotonic) -> None:
        self._requests = requests
        self._now = now
        self._seen = 0  # requests, when it last looked
        self._runner = Runner("ortoo-collector", self._run)
        self._collected_at = 0.0
        self.pause = 0.0  # how long it took to visit all objects

    def start(self) -> None:
        self.collect_all()
        gc.callbacks.append(freeze_survivors)
        self._runner.start()

    async def stop(self) -> None:
        if await self._runner.stop():
            gc.callbacks.remove(freeze_survivors)
            gc.unfreeze()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        requests, since = self._requests(), self._now() - self._collected_at
        is_idle, self._seen = requests == self._seen, requests
        if since >= _LATEST_SECONDS or (since >= _SOON_SECONDS and (is_idle or self.pause <= _QUICK_SECONDS)):
            self.collect_all()

    def collect_all(self) -> None:
        began = thread_time()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        gc.collect()  # of nothing: it full-collects again once there is some, not once a quarter more is there
        self.pause = thread_time() - began
        self._collected_at = self._now()
        _log.debug("visited all objects", extra={"garbage": found, "seconds": round(self.pause, 3)})


def freeze_survivors(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
