"""Settling and finding messages by their ids: what these mean is looked up in turns, before the engine decides."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import msgspec

from ortoo.engine.settle_by_id import DedupIds, Leased, find_leased, holder_of, topics_of
from ortoo.engine.state import State
from ortoo.model.commands import ById, Command, Extend, MessageId, Once, Run, Settle, SettleById, unwrap
from ortoo.model.names import MessageRef
from ortoo.model.replies import IdState, Settled
from ortoo.model.runs import in_pieces
from ortoo.ports import Store

from .leased_ids import LeasedIds
from .rights import NOWHERE
from .turns import Turns

_FEW = 200  # ids that are one piece, even if each is of another lease
_IDS_A_UNIT = 50  # how many of them are looked for in the time that one unit of a turn takes


class Shell(Protocol):
    """What this needs of the broker."""

    @property
    def state(self) -> State: ...
    @property
    def store(self) -> Store: ...
    def submit(self, command: Command) -> Any: ...
    def now(self) -> int: ...


class Settling:
    """By id."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._leased_ids = LeasedIds(shell)

    async def find(
        self, namespace: str, ids: list[str], topic: str | None, group: str | None
    ) -> list[MessageRef | None]:
        found = await self._look_up(namespace, ids, topic, group)
        return list(map(found.get, ids))

    async def settle(self, command: Command) -> list[IdState]:
        wanted: Any = unwrap(command)
        if not any(isinstance(named, str) for named in wanted.ids):
            return await self._settle(command, wanted)
        wanted = self._in_group(wanted)
        resolved = await self._resolved(wanted)
        if len(wanted.ids) > _FEW:
            await asyncio.sleep(0)  # either takes some milliseconds then
        if type(command) is Once:  # in one decision, or it could happen twice
            states = find_leased(self._shell.state, resolved, self._shell.now()).states
            others = await self._others(wanted, resolved, states)
            ids = [others.get(row, named) for row, named in enumerate(resolved.ids)]
            return await self._settle(command, msgspec.structs.replace(resolved, ids=ids))
        states = await self._settle(command, resolved)
        if others := await self._others(wanted, resolved, states):
            again = msgspec.structs.replace(wanted, ids=list[MessageId](others.values()))
            for row, state in zip(others, await self._settle(again, again), strict=True):
                states[row] = state
        return states

    async def _settle(self, command: Command, wanted: Any) -> list[IdState]:
        if type(command) is Once:
            return self._submit(msgspec.structs.replace(command, command=wanted))
        if len(wanted.ids) <= _FEW:
            return self._submit(wanted)
        leased = find_leased(self._shell.state, wanted, self._shell.now())
        pieces = in_pieces(leased.runs, isinstance(wanted, SettleById) and wanted.is_failure)
        return self._submit(wanted) if len(pieces) == 1 else await self._settle_pieces(wanted, leased, pieces)

    def _in_group(self, command: ById) -> ById:
        """A lease that is named says of which group it is."""
        holder = holder_of(self._shell.state, command)
        if holder is None or holder.group is None:
            return command
        return msgspec.structs.replace(command, group=holder.group.name)

    async def _others(self, command: ById, resolved: ById, states: list[IdState]) -> dict[int, MessageRef]:
        """An id may have been used again while its first message is still leased: then that is meant. By row."""
        if states.count("settled") == len(states):  # as mostly
            return {}
        told = list(zip(command.ids, states, strict=True))
        settled = {named for named, state in told if state == "settled"}  # one that is named again is the same
        rows = [
            row
            for row, (named, state) in enumerate(told)
            if isinstance(named, str) and state in ("lost", "done") and named not in settled
        ]
        if not rows:
            return {}
        state = self._shell.state
        known = DedupIds(command.group, (str(command.ids[row]) for row in rows), holder_of(state, command))
        topics = topics_of(state, command.namespace, command.topic, command.group)
        await self._leased_ids.find(topics, command.group, known)
        tried = set(resolved.ids)
        found = [(row, known.refs.get(str(command.ids[row]))) for row in rows]
        return {row: ref for row, ref in found if ref is not None and ref not in tried}

    def _submit(self, command: Command) -> list[IdState]:
        states: list[IdState] = self._shell.submit(command)
        return states

    async def _settle_pieces(self, command: ById, leased: Leased, pieces: list[list[Run]]) -> list[IdState]:
        """More than one turn may do. What is settled are the leases as they were found: what is lost meanwhile stays so."""
        lost: set[MessageRef] = set()
        for piece in pieces:
            await asyncio.sleep(0)
            settled: Settled = self._shell.submit(_as_receipts(command, piece))
            for run, offsets in zip(piece, settled.lost or (), strict=False):
                lost.update(MessageRef(run.topic, run.partition, offset) for offset in offsets)
        await asyncio.sleep(0)
        pairs = zip(leased.refs, leased.states, strict=True)
        return ["lost" if ref in lost and state == "settled" else state for ref, state in pairs]

    async def _resolved(self, command: ById) -> ById:
        """With what dedup ids mean in their place."""
        ids = [named for named in command.ids if isinstance(named, str)]
        found = await self._look_up(command.namespace, ids, command.topic, command.group)
        nowhere = MessageRef(NOWHERE, 0, 0)  # the engine need not look again
        refs = [found.get(named, nowhere) if isinstance(named, str) else named for named in command.ids]
        return msgspec.structs.replace(command, ids=refs)

    async def _look_up(
        self, namespace: str, ids: list[str], topic: str | None, group: str | None
    ) -> dict[str, MessageRef]:
        """What the topics remember counts; then what is leased."""
        now, turns, known = self._shell.now(), Turns(), DedupIds(group, ids)
        topics = topics_of(self._shell.state, namespace, topic, group)
        for each in topics:
            known.look_into(each, now)
            await turns.worked(1 + min(len(known.wanted), len(each.dedup.seen)) // _IDS_A_UNIT)
        if group is not None and known.missing:
            await self._leased_ids.find(topics, group, known)
        return known.refs


def _as_receipts(command: ById, runs: list[Run]) -> Settle | Extend:
    if isinstance(command, SettleById):
        return Settle(command.outcome, runs, command.error, command.delay_ms)
    return Extend(runs, command.lease_ms)
