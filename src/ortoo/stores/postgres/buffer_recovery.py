"""What a buffer has is drained before anything else is done with the database; or nothing is opened, and an error says why.

What is held in memory is the truth as long as this process has it. Another process knows the mark, and asks the buffer.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic

from ortoo.model.errors import ConfigError, NotOwnerError, OrtooError, UnavailableError
from ortoo.ports.buffer import BufferAwayError, BufferEra, BufferFound

from .buffering import Buffering
from .catalog import Place
from .commit_log import unpack
from .errors import WentBackError
from .mark import Mark, advice, close_mark, look_here, read_mark, refuse_copy
from .report import commits_from, note_spans, told
from .shard import Shard

USED_WAIT_S = 5.0  # for an owner that may have ended just now
KEPT_S = 7 * 86_400  # for which a buffer stays that the database before a failover may want, too
_POLL_S = 0.1
_log = logging.getLogger("ortoo.postgres")


async def refuse_without_buffer(shard: Shard, *, by_force: bool) -> None:
    """The shard is opened without one."""
    if by_force:
        await _end_owner(shard)
    mark = await read_mark(shard.connections.writer)
    if mark is not None and mark.is_open:
        refuse_copy(mark, await look_here(shard.connections.writer), shard.address)
        raise ConfigError(
            f"{mark.told}: start with the setting buffer = redis and that Redis, which drains it; {advice(shard.address)}"
        )


async def settle(buffering: Buffering, *, by_force: bool) -> None:
    """Afterwards the database has everything, and no mark is open. `by_force`: from an owner that may still be there."""
    shard, found = buffering.shard, None
    await buffering.buffer.start()
    if by_force:
        await _end_owner(shard)
    mark, here = await read_mark(shard.connections.writer), await look_here(shard.connections.writer)
    owner, before = await shard.owner(), shard.term
    try:
        shard.term = owner.term
        await shard.speak_for(owner)
        if buffering.held:
            await _drain_held(buffering, owner.token)
        if mark is not None and mark.is_open:
            if mark.token != shard.connections.token:  # else all of it was held
                refuse_copy(mark, here, shard.address)
                if (owner.term, owner.token) != (mark.term, mark.token):
                    raise UnavailableError(f"{mark.told}, before {owner.node} took the shard; {advice(shard.address)}")
                found = await _drain_found(buffering, mark, by_force)
            await close_mark(shard)
        if found is not None:
            assert mark is not None
            with suppress(BufferAwayError):  # nobody needs it: the database says so
                await buffering.buffer.end(found, None if mark.timeline == here.timeline else KEPT_S)
    finally:
        shard.term = before
        if shard.connections.has_writer:
            await shard.speak_for(None)
    buffering.opened(mark, here)


async def _drain_held(buffering: Buffering, token: str) -> None:
    shard = buffering.shard
    try:
        if token != shard.connections.token:
            raise WentBackError("the database does not know this owner any more; was a backup restored?")
        await buffering.flusher.look()
        while buffering.held:
            await buffering.flusher.drain_some()
    except WentBackError as error:
        await _give_up(buffering, error)


async def _give_up(buffering: Buffering, why: OrtooError) -> None:
    """It can never be drained."""
    first, commits = buffering.flusher.first, list(buffering.held.values())
    assert first is not None
    _log.error("commits are given up", extra={"first": first, "last": commits[-1].number, "why": str(why)})
    if buffering.front is not None:
        await buffering.front.give_up(commits, why)
        return
    spans: dict[Place, tuple[int, int]] = {}
    for commit in commits:
        note_spans(spans, commit)
    names = await buffering.shard.topic_names()
    what = f"{commits_from(first, commits[-1].number)} could not be moved to PostgreSQL: {why}; {told(spans, names)}"
    key = buffering.buffer.key_of(buffering.era.name)
    buffering.on_problem(f"{what}; as far as Redis at {buffering.buffer.shown} has them, they are kept there in {key}")
    buffering.waiting.clear()
    buffering.rename()


async def _end_owner(shard: Shard) -> None:
    """Whoever has the shard cannot open a mark any more, or it might do so behind the look at it."""
    if not await shard.connections.lock(by_force=True):
        raise UnavailableError("the connection of the owner before does not end")


async def _drain_found(buffering: Buffering, mark: Mark, by_force: bool) -> BufferEra:
    """What another process has left there. The database has it durably when this returns, also what it had before."""
    shard, buffer = buffering.shard, buffering.buffer
    era = BufferEra(mark.name, mark.era, shard.connections.token)
    if not buffer.is_up:
        raise UnavailableError(
            f"{mark.told}, and it cannot be reached: {buffer.problem()}. Start that Redis, {advice(shard.address)}"
        )
    try:
        found = await _take_over(buffering, mark, era, by_force)
        last = await shard.last()
        _refuse_gaps(buffering, mark, found, last)
        await _move(buffering, era, found, last)
        if found.run != mark.run:
            buffering.on_problem(
                f"Redis at {buffer.shown} was restarted, or failed over, while commits waited in it: what it had not saved is "
                f"lost; the queue goes on behind commit {max(last, found.last)}"
            )
        await shard.sync()
        return era
    except BufferAwayError as error:
        raise UnavailableError(f"{mark.told}, and it went away: {error}. Try again, {advice(shard.address)}") from error


async def _take_over(buffering: Buffering, mark: Mark, era: BufferEra, by_force: bool) -> BufferFound:
    buffer, shard = buffering.buffer, buffering.shard
    deadline = monotonic() + USED_WAIT_S
    while (found := await buffer.take_over(era, by_force)).used_by:
        if monotonic() > deadline:
            raise UnavailableError(
                f"the buffer at {buffer.shown} is in use by {found.used_by}: stop that queue. If {shard.address.shown} is a copy "
                f"of its database, the commits there belong to the other one; {advice(shard.address)}"
            )
        await asyncio.sleep(_POLL_S)
    if not found.is_there:
        raise UnavailableError(
            f"{mark.told}, but Redis at {buffer.shown} does not have that buffer: it is another Redis, was emptied, or restarted "
            f"without its data. {_known(mark, await shard.last())}. Start with the Redis that has it, {advice(shard.address)}"
        )
    return found


def _known(mark: Mark, last: int) -> str:
    more = f"commits up to {mark.known} were confirmed for certain, and there may be later ones"
    return f"The database has commits up to {last}; " + (
        more if mark.known > last else "which later ones were confirmed is not known"
    )


def _refuse_gaps(buffering: Buffering, mark: Mark, found: BufferFound, last: int) -> None:
    address = buffering.shard.address
    if max(last, found.last) < mark.known:
        raise UnavailableError(
            f"Redis at {buffering.buffer.shown} has lost commits: {mark.known} was confirmed there, it has {found.first} to "
            f"{found.last}, and the database has commits up to {last}. Bring that Redis back as it was, {advice(address)}"
        )
    if found.first > last + 1:
        raise UnavailableError(
            f"the database went back: it has commits up to {last}, and the buffer at {buffering.buffer.shown} has {found.first} "
            f"to {found.last}; was a backup restored, or is it a standby that was behind? Bring the database back as it was, "
            f"{advice(address)}"
        )


async def _move(buffering: Buffering, era: BufferEra, found: BufferFound, last: int) -> None:
    shard, at = buffering.shard, max(found.first, last + 1)
    while at <= found.last:
        data = await buffering.buffer.read(era, found.first, at)
        if not data:
            raise NotOwnerError(f"another owner has taken the buffer at {buffering.buffer.shown}")
        commits = [unpack(one) for one in data]
        numbers = [commit.number for commit in commits]
        if numbers != list(range(at, at + len(commits))):
            raise UnavailableError(
                f"the buffer at {buffering.buffer.shown} has commits {numbers[0]} to {numbers[-1]} where {at} should follow; "
                f"{advice(shard.address)}"
            )
        await shard.send_many(commits)
        at += len(commits)
