"""Settling much: what is too much for one turn of the queue's event loop is asked for in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ortoo.model.commands import Extend, Settle
from ortoo.model.replies import Settled
from ortoo.model.runs import in_pieces, join_settled


async def settle(call: Callable[[Any], Awaitable[Settled]], command: Settle | Extend) -> Settled:
    """The answer is as if there had been one command."""
    pieces = in_pieces(command.runs)
    if len(pieces) == 1:
        return await call(command)
    answers: list[Settled] = []
    for piece in pieces:
        answers.append(await call(msgspec.structs.replace(command, runs=piece)))
        await asyncio.sleep(0)
    return join_settled(pieces, answers)
