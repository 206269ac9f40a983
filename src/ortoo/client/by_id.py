"""Settling by ids, many of them in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from ortoo.model import limits
from ortoo.model.batch import check_texts
from ortoo.model.commands import ById, MessageId
from ortoo.model.errors import InvalidError
from ortoo.model.names import parse_message_id
from ortoo.model.replies import IdState

MessageIds = str | Iterable[str]


def to_message_ids(ids: MessageIds, dedup_ids: MessageIds) -> list[MessageId]:
    return [*map(parse_message_id, _listed("ids", ids)), *to_dedup_ids(dedup_ids)]


def to_dedup_ids(dedup_ids: MessageIds) -> list[str]:
    listed = _listed("dedup_ids", dedup_ids)
    check_texts("dedup_id", [*listed], limits.DEDUP_ID_BYTES_MAX)
    return listed


def _listed(what: str, ids: MessageIds) -> list[str]:
    if isinstance(ids, str):
        return [ids]
    listed = list(ids) if isinstance(ids, Iterable) else [ids]
    if not all(isinstance(each, str) for each in listed):
        raise InvalidError(f"{what} must be a string, or several, not {ids!r}")
    return listed


async def settle_by_id(call: Callable[[Any], Awaitable[list[IdState]]], command: ById) -> list[IdState]:
    """The answer is as if there had been one command."""
    if len(command.ids) <= limits.RUNS_MAX:  # each may be of a lease of its own
        return await call(command) if command.ids else []
    ids = list(dict.fromkeys(command.ids))
    states: dict[MessageId, IdState] = {}
    for start in range(0, len(ids), limits.RUNS_MAX):
        piece = ids[start : start + limits.RUNS_MAX]
        states.update(zip(piece, await call(msgspec.structs.replace(command, ids=piece)), strict=True))
        await asyncio.sleep(0)
    answers: list[IdState] = []
    for named in command.ids:
        answers.append(states[named])
        if states[named] == "settled":  # once; the next time it is named, it is done
            states[named] = "done"
    return answers
