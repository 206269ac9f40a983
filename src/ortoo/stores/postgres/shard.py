"""The shard in the database: who owns it, and commits to it. Every write names the owner's term; the fence refuses an old one."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from ortoo.model.errors import NotOwnerError, OrtooError, UnavailableError
from ortoo.model.names import TopicName

from .address import Address
from .connections import LAST, SYNC, Connections
from .errors import DatabaseError, WentBackError, failing_while
from .migrations import migrate
from .writing import APPEND, Commit

_LAST = f"select {LAST}"
_OWNER = "select term, node, token from owner"
_BORN = "select min(at) from migrations"
_log = logging.getLogger("ortoo.postgres")


async def identity_of(connection: Any, address: Address) -> str:
    with failing_while("looking which shard this is"):
        born = await connection.fetchval(_BORN)
    return f"schema {address.schema}, made {born:%Y-%m-%d %H:%M:%S.%f}"


class Owner:
    """As the database has it."""

    def __init__(self, term: int, node: str, token: str) -> None:
        self.term = term
        self.node = node or "nobody"
        self.token = token


class Shard:
    def __init__(self, address: Address, connections: Connections) -> None:
        self.address = address
        self.connections = connections
        self.term: int | None = None  # of this owner, once it has claimed the shard
        self.lost: NotOwnerError | None = None  # for good
        self._highest = 0  # term that it ever had
        self.stale: WentBackError | None = None  # the database is not what it was: begin again from what it has
        self._returning = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None
        self.confirmed: Callable[[], int] = lambda: 0  # the last commit that the database must have
        connections.check, connections.on_end = self.check_connection, self._come_back_soon
        self.node = f"{socket.gethostname()}:{os.getpid()}"

    # -- who owns it

    async def enter(self, by_force: bool) -> None:
        """Connects, and brings the schema up to date; nothing is claimed yet. `by_force`: whoever has it loses it, when it is
        claimed."""
        self.lost = None
        connection = await self.connections.reconnect()
        if not by_force and not await self.connections.lock(by_force=False):
            raise UnavailableError(
                f"{self.address.shown} is in use by another queue, which is connected; stop that one, or name another schema: "
                "?schema=NAME"
            )
        await migrate(connection, self.address)

    async def identity(self) -> str:
        """What tells this shard from all others, wherever its database is moved to."""
        return await identity_of(self.connections.writer, self.address)

    async def claim(self, term: int | None = None) -> None:
        """Takes the shard that it has entered. Without a term, only when nobody else has it; with one, from whoever has a lower
        one."""
        with failing_while("claiming the shard"):
            self.term = await self.connections.writer.fetchval(
                "select claim($1, $2, $3)", term, self._highest, self.node
            )
        self._highest = max(self._highest, self.term or 0)
        if term is not None and not await self.connections.lock(by_force=True):
            raise DatabaseError("the connection of the owner before does not end")

    async def come_back(self) -> None:
        """Connects again, with the term that it had. What an earlier connection was doing has ended when this returns."""
        async with self._returning:
            await self._come_back()

    async def _come_back(self) -> None:
        await self.connections.reconnect()
        await self.check_term()
        is_locked = await self.connections.lock(by_force=False)
        await self.check_term()
        if not is_locked:
            raise DatabaseError("another connection has the shard's lock")

    async def owner(self) -> Owner:
        with failing_while("looking who the owner is"):
            return Owner(*await self.connections.writer.fetchrow(_OWNER))

    async def check_term(self) -> None:
        assert self.term is not None
        self._compare(await self.owner(), self.term)

    def _compare(self, owner: Owner, term: int) -> None:
        if owner.term < term:
            raise WentBackError(f"the database went back: it has term {owner.term}, and {term} was there")
        if (owner.term, owner.token) != (term, self.connections.token):
            raise NotOwnerError(f"another owner has taken over: {owner.node}, with term {owner.term}")

    async def speak_for(self, owner: Owner | None) -> None:
        """The writer does, until it speaks for itself again (None)."""
        token = self.connections.token if owner is None else owner.token
        with failing_while("moving commits"):
            await self.connections.writer.execute("select set_config('ortoo.token', $1, false)", token)

    async def check_connection(self, connection: Any) -> None:
        """Whether what it leads to has what was confirmed: it may be another server by now, or another state of the same."""
        confirmed = self.confirmed()  # before: there may be more by the time of the answer
        self._compare_last(await connection.fetchval(_LAST), confirmed)

    def _compare_last(self, last: int, confirmed: int) -> None:
        if last < confirmed:
            raise WentBackError(
                f"the database went back: it has commits up to {last}, and {confirmed} was there; was a backup restored, or is "
                "it a standby that was behind?"
            )

    async def check_last(self, confirmed: int) -> None:
        """Whether the writer leads to that commit."""
        self._compare_last(await self.last(), confirmed)

    # -- while nothing is committed

    async def watch(self) -> None:
        """Whether it is still ours, and the database what it was. Has a connection also when there is nothing to commit: without
        one, it would not hold the shard's lock."""
        self.check_lost()
        try:
            async with self._returning:
                if self.term is not None and not self.connections.has_writer:
                    await self._come_back()
                    await self.check_connection(self.connections.writer)
            await self._look()
        except NotOwnerError as error:
            self.lost = error
            raise
        except WentBackError as error:
            self.go_stale(error)

    def go_stale(self, error: WentBackError) -> None:
        _log.error("the database is not what it was", extra={"error": str(error)})
        self.stale = error

    def _come_back_soon(self) -> None:
        """The writer's connection has ended. Others may take a shard that nobody holds, so the next commit is too late."""
        if self._keeping is None and self.term is not None and self.is_ours:
            self._keeping = asyncio.create_task(self._keep(), name="ortoo-keeping")

    async def _keep(self) -> None:
        try:
            await self.watch()
        except (OrtooError, OSError) as error:  # whoever commits looks again, and so does the next watch
            _log.warning("the shard is not held", extra={"error": str(error)})
        finally:
            self._keeping = None

    async def rest(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _look(self) -> None:
        """Who the owner is, beside what is being committed."""
        if (term := self.term) is None:
            return
        async with self.connections.reader("looking who the owner is") as connection:
            self._compare(Owner(*await connection.fetchrow(_OWNER)), term)

    @property
    def is_ours(self) -> bool:
        return self.lost is None and self.stale is None

    def check_lost(self) -> None:
        if self.lost is not None:
            raise self.lost.with_traceback(None)

    def check(self) -> None:
        self.check_lost()
        if self.stale is not None:
            raise self.stale.with_traceback(None)

    async def topic_names(self) -> dict[int, str]:
        """As people know them, as far as SQL shows them."""
        with failing_while("looking for names of topics"):
            found = await self.connections.writer.fetch("select id, namespace, name from topics")
        return {number: str(TopicName(namespace, name)) for number, namespace, name in found}

    # -- commits

    async def last(self) -> int:
        """The number of the last commit that it has."""
        with failing_while("looking for a commit"):
            found: int = await self.connections.writer.fetchval(_LAST)
        return found

    async def send(self, commit: Commit) -> None:
        with failing_while("committing"), self.connections.whole(self.connections.writer) as writer:
            await writer.execute(APPEND, self.term, *commit.arguments)

    async def send_many(self, commits: Sequence[Commit]) -> None:
        """All of them, or none, in one transaction and one round trip."""
        with failing_while("committing"), self.connections.whole(self.connections.writer) as writer:
            await writer.executemany(APPEND, [(self.term, *commit.arguments) for commit in commits])

    async def sync(self) -> None:
        """Returns when all that it has is durable."""
        with failing_while("syncing"), self.connections.whole(self.connections.writer) as writer:
            await writer.execute(SYNC)

    async def commit(self, commit: Commit) -> None:
        """A connection that breaks is replaced, once: by its number it can be told whether the commit was made."""
        try:
            await self.send(commit)
        except DatabaseError as error:
            if error.has_no_room and self.connections.has_writer:
                error.is_certain = True  # it was told so
            if error.is_refusal or error.is_certain or isinstance(error, WentBackError):
                raise
            _log.warning("a commit failed, looking whether it was made", extra={"error": str(error)})
            try:
                await self.come_back()
            except NotOwnerError as lost:  # before or after: nobody knows
                self.lost = lost
                raise error from None
            last = await self.last()
            self._compare_last(last, self.confirmed())
            if last == commit.number:  # made, and perhaps only here: not confirmed before the standbys have it, too
                await self.sync()
            elif last == commit.number - 1:
                await self.send(commit)
            else:
                raise
