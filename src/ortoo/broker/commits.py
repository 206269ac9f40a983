"""Group commit: what happens while one append is under way goes into the next, whoever asked for it."""

from __future__ import annotations

import asyncio

from ortoo.model.errors import OrtooError
from ortoo.model.records import Record


class PendingCommit:
    """Records on their way to the store, and the callers whose replies wait for them."""

    __slots__ = ("parked", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.parked: list[asyncio.Future[None]] = []

    def park(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self.parked.append(future)
        return future

    def succeed(self) -> None:
        for future in self.parked:
            if not future.done():
                future.set_result(None)

    def fail(self, error: OrtooError) -> None:
        for future in self.parked:
            if not future.done():
                future.set_exception(error)
