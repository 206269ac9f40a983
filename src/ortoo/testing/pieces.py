"""What comes piece by piece, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any


async def in_one(pieces: AsyncIterator[list[Any]]) -> list[Any]:
    return [one async for piece in pieces for one in piece]
