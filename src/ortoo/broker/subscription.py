"""Push with a credit window: leases for a consumer as long as it has room for more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from ortoo.model import limits
from ortoo.model.commands import Lease
from ortoo.model.replies import LeasedRun


class Leasing(Protocol):
    async def lease(self, command: Lease, *, accepted: Callable[[str], None] | None = None) -> list[LeasedRun]: ...


class Subscription:
    """`command` says what to lease; `max_messages` of it is the largest delivery. Credit counts messages.

    One caller at a time asks `next`; `grant` may be called from anywhere. `accepted` is told whenever a lease is not refused.
    """

    def __init__(
        self, source: Leasing, command: Lease, credit: int, accepted: Callable[[str], None] | None = None
    ) -> None:
        self._accepted = accepted
        self._source = source
        self._command = command
        self._credit = credit
        self._granted = asyncio.Event()

    def grant(self, credit: int) -> None:
        self._credit += credit
        self._granted.set()

    async def next(self, wait_ms: int = limits.WAIT_MS_MAX) -> list[LeasedRun]:
        """The next delivery; [] when none came within `wait_ms`. Waits for credit first, when there is none.

        Others run before each: where there is much to deliver, nothing else would make a caller wait.
        """
        await asyncio.sleep(0)
        while self._credit <= 0:
            self._granted.clear()
            await self._granted.wait()
        count = min(self._credit, self._command.max_messages)
        wanted = msgspec.structs.replace(self._command, max_messages=count, wait_ms=wait_ms)
        runs = await self._source.lease(wanted, accepted=self._accepted)
        self._credit -= sum(len(run.columns) for run in runs)
        return runs

    async def close(self) -> list[LeasedRun]:
        """Ends it; what was leased for it and not handed out is returned. Nothing here: it leases when it is asked."""
        return []
