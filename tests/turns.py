"""How many turns of the event loop others get meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    count = 0

    async def go_on(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def counting_turns() -> AsyncIterator[Turns]:
    turns = Turns()
    task = asyncio.create_task(turns.go_on())
    try:
        yield turns
    finally:
        task.cancel()
