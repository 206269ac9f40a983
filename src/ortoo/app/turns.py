"""Turns at something of which there is only so much at a time, shared by namespaces.

A turn can last long and is not taken back, so that room is left before others ask for it: a namespace may hold as many turns as
are free. One that is alone has half of them, the next half of the rest. When a turn is given back, it goes to the namespace that
holds the fewest, and among those that hold as many to the one that was served longest ago.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by namespace, the one served last at the end

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Waits until the namespace may have one."""
        if namespace not in self._waiting and self._may(namespace):
            self._give(namespace)
        else:
            await self._wait(namespace)
        try:
            yield
        finally:
            self._take_back(namespace)

    async def _wait(self, namespace: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given in the same moment
                self._take_back(namespace)
            raise

    def _may(self, namespace: str) -> bool:
        return self._held[namespace] < self._free

    def _give(self, namespace: str) -> None:
        self._held[namespace] += 1
        self._free -= 1

    def _take_back(self, namespace: str) -> None:
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._free += 1
        self._give_to_waiting()

    def _give_to_waiting(self) -> None:
        while self._waiting:
            namespace = min(self._waiting, key=lambda name: self._held.get(name, 0))
            if not self._may(namespace):
                return  # nor may those that hold more
            turns = self._waiting.pop(namespace)
            turn = turns.popleft()
            if turns:
                self._waiting[namespace] = turns
            if not turn.done():  # else who waited was cancelled
                self._give(namespace)
                turn.set_result(None)
