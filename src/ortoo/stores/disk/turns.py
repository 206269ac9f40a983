"""Work in small steps, so that it takes no turn of the event loop for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

STEPS_PER_TURN = 500


async def in_turns(steps: Sequence[Callable[[], T]]) -> list[T]:
    found: list[T] = []
    for at in range(0, len(steps), STEPS_PER_TURN):
        if at:
            await asyncio.sleep(0)
        found += [step() for step in steps[at : at + STEPS_PER_TURN]]
    return found
