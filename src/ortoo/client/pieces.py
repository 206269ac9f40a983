"""Settling much: what is too much for one turn of the queue's event loop is asked for in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ortoo.model.commands import Extend, Run, Settle
from ortoo.model.replies import Settled
from ortoo.model.runs import in_pieces, join_settled


async def settle(
    call: Callable[[Any], Awaitable[Settled]],
    command: Settle | Extend,
    answered: Callable[[list[Run], Settled], None] | None = None,
) -> Settled:
    """The answer is as if there had been one command. `answered` is told each piece's, whatever becomes of later ones."""
    pieces = in_pieces(command.runs, isinstance(command, Settle) and command.is_failure)
    answers: list[Settled] = []
    for piece in pieces:
        if answers:
            await asyncio.sleep(0)
        answers.append(await call(msgspec.structs.replace(command, runs=piece) if len(pieces) > 1 else command))
        if answered is not None:
            answered(piece, answers[-1])
    if len(answers) == 1:
        return answers[0]
    return join_settled(pieces, answers)
