"""Which consumers are connected. One whose connections are all gone, and stay so for the session timeout, has left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from ortoo.model import limits


class Presence:
    def __init__(self, leave: Callable[[str], None]) -> None:
        self._leave = leave
        self._connected: Counter[str] = Counter()
        self._absent: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False

    def is_known(self, consumer: str) -> bool:
        """Whether it is connected, or was a moment ago."""
        return consumer in self._connected or consumer in self._absent

    def came(self, consumer: str) -> None:
        """A connection begins to lease for this consumer."""
        self._connected[consumer] += 1
        timer = self._absent.pop(consumer, None)
        if timer is not None:
            timer.cancel()

    def went(self, consumers: Iterable[str]) -> None:
        for consumer in consumers:
            self._connected[consumer] -= 1
            if self._connected[consumer] == 0:
                del self._connected[consumer]
                if not self._is_closed:
                    loop = asyncio.get_running_loop()
                    self._absent[consumer] = loop.call_later(limits.SESSION_TIMEOUT_MS / 1000, self._time_out, consumer)

    def _time_out(self, consumer: str) -> None:
        del self._absent[consumer]
        self._leave(consumer)

    def close(self) -> None:
        """Leases outlive a restart of the server, so nobody leaves because of one."""
        self._is_closed = True
        for timer in self._absent.values():
            timer.cancel()
        self._absent.clear()
