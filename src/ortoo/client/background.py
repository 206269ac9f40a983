"""Tasks that go on by themselves, until they are all waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def __bool__(self) -> bool:
        return bool(self._tasks)

    async def drain(self) -> None:
        """Returns when all have ended, however they did, and those that were started meanwhile."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks)
            self._tasks -= done  # where all had ended, nothing was waited for, and they are still in it
