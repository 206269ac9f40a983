"""Deliveries that a server pushes, until they are asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ortoo.model.commands import Lease
from ortoo.model.errors import OrtooError
from ortoo.model.replies import LeasedRun


class RemoteSubscription:
    """Satisfies Subscription. Credit goes back to the server in halves of the window, not message by message."""

    def __init__(
        self, command: Lease, credit: int, *, tell_credit: Callable[[int], None], tell_end: Callable[[], bool]
    ) -> None:
        self.command = command
        self.credit = credit  # what the server has of it; after a reconnect it is told this
        self.is_known = False  # to the server, on the present connection
        self.is_ending = False
        self._window = credit
        self._owed = 0  # granted here, and not told yet
        self._tell_credit = tell_credit
        self._tell_end = tell_end
        self._deliveries: deque[list[LeasedRun]] = deque()
        self._error: OrtooError | None = None
        self._is_over = False
        self._woken = asyncio.Event()

    def grant(self, credit: int) -> None:
        self._owed += credit
        if self._owed * 2 >= self._window:
            self._pay()

    def _pay(self) -> None:
        credit, self._owed = self._owed, 0
        self.credit += credit
        if credit and not self._is_over:
            self._tell_credit(credit)  # without a connection, the next subscribe tells it

    async def next(self, wait_ms: int) -> list[LeasedRun]:
        if not self._deliveries and self._owed:
            self._pay()
        try:
            async with asyncio.timeout(wait_ms / 1000 if wait_ms else 0):
                while not self._deliveries and not self._is_over:
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            return []
        if self._deliveries:
            return self._deliveries.popleft()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return []

    def deliver(self, runs: list[LeasedRun]) -> None:
        self.credit -= sum(len(run.columns) for run in runs)
        self._deliveries.append(runs)
        self._woken.set()

    def end(self, error: OrtooError | None) -> None:
        """It is over: for this reason, or because it was asked to end."""
        self._error = error
        self._is_over = True
        self._woken.set()

    async def close(self) -> list[LeasedRun]:
        self.is_ending = True
        if not self._is_over and self._tell_end():
            while not self._is_over:
                self._woken.clear()
                await self._woken.wait()
        return [run for runs in self._deliveries for run in runs]
