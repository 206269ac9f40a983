"""Trying again what does not work yet, less and less often, with a line in the log for each new reason."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("ortoo.worker")

Sleep = Callable[[float], Awaitable[object]]

_FIRST_SECONDS, _MAX_SECONDS = 0.1, 1.0


class Backoff:
    def __init__(self, what: str, sleep: Sleep) -> None:
        self._what = what
        self._sleep = sleep
        self._reason: str | None = None
        self._seconds = _FIRST_SECONDS

    async def wait(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            log.warning("%s: %s; retrying", self._what, reason)
        await self._sleep(self._seconds)
        self._seconds = min(2 * self._seconds, _MAX_SECONDS)

    def is_over(self) -> None:
        if self._reason is not None:
            log.info("%s: running again", self._what)
            self._reason = None
            self._seconds = _FIRST_SECONDS
