"""Which consumers are connected, through all doors. One whose connections are all gone, and stay so for the session timeout,
has left.

A consumer may also ask request by request, over connections that say nothing of it. Of such a name nobody can tell here
whether it is gone: its session and its leases run out by themselves. The same holds for those that a tenant has too many of.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Protocol

from ortoo.engine.shares import Shares
from ortoo.model import limits
from ortoo.model.access import ANY, Grant
from ortoo.model.commands import AnyCommand, Leave
from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicName

_REQUESTED_MAX = 10_000  # names that ask request by request; those who have more than their share forget their own
_NOTED_MAX = 10_000  # consumers of a tenant, over all its connections
_NOTED_BY_OTHERS_MAX = 100_000  # of those who may do everything, who are no tenants
_OF_CONNECTION_MAX = 10_000
_SEEN_OFF_PER_TURN = 200  # consumers of connections that are gone
_LEAVES_PER_TURN = 20

Who = tuple[tuple[Grant, ...] | None, str]  # a consumer, and what it may do: None for everything
Place = tuple[TopicName | None, str | None]  # a topic and a group
EVERYWHERE: Place = (None, None)


def _realm_of(consumer: Who) -> str:
    """Whose it is: of those with the same namespaces."""
    grants = consumer[0]
    return ANY if grants is None else "\0".join(sorted({grant.namespace for grant in grants}))


class Shell(Protocol):
    async def call(self, command: AnyCommand) -> Any: ...


class Presence:
    def __init__(self, broker: Shell) -> None:
        self._broker = broker
        self._connected: Counter[Who] = Counter()
        self._places: Counter[tuple[Who, Place]] = Counter()  # the same by where they consume
        self._gone: deque[Who] = deque()  # of connections that are gone, and not seen off yet
        self._absent: dict[Who, float] = {}  # when each has left, the first first
        self._noted: Counter[str] = Counter()  # by realm, how many are connected or absent
        self._requested: Shares[Who, None] = Shares(_realm_of)
        self._leaving: set[Who] = set()
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False

    def is_known(self, consumer: Who) -> bool:
        """Whether it is connected, or was a moment ago."""
        return consumer in self._connected or consumer in self._absent

    def requested(self, consumer: Who) -> None:
        """It has leased by a request of its own."""
        self._requested.pop(consumer, None)
        self._requested[consumer] = None
        self._requested.drop_excess(_realm_of(consumer), _REQUESTED_MAX)

    def came(self, consumer: Who, place: Place = EVERYWHERE) -> bool:
        """A connection begins to lease for this consumer, there or wherever it likes. Returns whether its going is noticed,
        and to be told."""
        if not self.is_known(consumer):
            realm = _realm_of(consumer)
            if self._noted[realm] >= (_NOTED_BY_OTHERS_MAX if realm == ANY else _NOTED_MAX):
                return False
            self._noted[realm] += 1
        self._connected[consumer] += 1
        self._places[consumer, place] += 1
        self._absent.pop(consumer, None)
        return True

    def went(self, consumers: Iterable[Who]) -> None:
        """A connection of these is gone; it may come again."""
        is_first = not self._gone
        self._gone.extend(consumers)
        if is_first:
            self._see_off()

    def _see_off(self) -> None:
        """Some of them in each turn, for a connection may have had very many."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limits.SESSION_TIMEOUT_MS / 1000
        for _ in range(min(_SEEN_OFF_PER_TURN, len(self._gone))):
            consumer = self._gone.popleft()
            self._disconnect(consumer, EVERYWHERE)
            if consumer not in self._connected and not self._is_closed:
                self._absent[consumer] = until
            self._forget(consumer)
        if self._gone:
            loop.call_soon(self._see_off)
        if self._absent and (self._watching is None or self._watching.done()):
            self._watching = loop.create_task(self._watch(), name="ortoo-presence")

    def ended(self, consumer: Who, place: Place) -> bool:
        """A connection of it has ended for good. Returns whether the consumer has: nobody else is there under its name."""
        self._disconnect(consumer, place)
        self._forget(consumer)
        is_there = (consumer, place) in self._places or (consumer, EVERYWHERE) in self._places
        if place == EVERYWHERE:
            is_there = consumer in self._connected
        return not (is_there or consumer in self._absent or consumer in self._requested)

    def _disconnect(self, consumer: Who, place: Place) -> None:
        self._connected[consumer] -= 1
        if not self._connected[consumer]:
            del self._connected[consumer]
        self._places[consumer, place] -= 1
        if not self._places[consumer, place]:
            del self._places[consumer, place]

    def _forget(self, consumer: Who) -> None:
        """Unless it is still, or may come again."""
        if not self.is_known(consumer):
            realm = _realm_of(consumer)
            self._noted[realm] -= 1
            if not self._noted[realm]:
                del self._noted[realm]

    async def _watch(self) -> None:
        """One after the other, a few in each turn: all those of a connection are absent for too long at the same moment."""
        loop = asyncio.get_running_loop()
        while self._absent:
            now = loop.time()
            due = [who for who, until in islice(self._absent.items(), _LEAVES_PER_TURN) if until <= now]
            if not due:
                await asyncio.sleep(next(iter(self._absent.values())) - now)
                continue
            self._leaving.update(due)
            for who in due:
                del self._absent[who]
                self._forget(who)
            await asyncio.gather(*(self._leave(who) for who in due))
            self._leaving.clear()
            await asyncio.sleep(0)

    async def _leave(self, consumer: Who) -> None:
        if consumer in self._requested:
            return
        try:
            grants, name = consumer
            await self._broker.call(Leave(name, grants=grants))
        except OrtooError:
            pass  # the queue is closing: its leases run out by themselves

    def close(self) -> None:
        """Leases outlive a restart of the server, so nobody leaves because of one."""
        self._is_closed = True
        self._absent.clear()
        if self._watching is not None:
            self._watching.cancel()


class Consumers:
    """Those of one connection: when it goes, they go with it."""

    def __init__(self, presence: Presence, who: Callable[[str], Who]) -> None:
        self._presence = presence
        self._who = who
        self._names: set[str] | None = set()  # None once the connection is gone

    def note(self, consumer: str) -> None:
        """It leases here. Before that was accepted, nothing is kept of a name."""
        names = self._names
        if names is None or consumer in names or len(names) >= _OF_CONNECTION_MAX:
            return
        if self._presence.came(self._who(consumer)):
            names.add(consumer)

    def note_known(self, consumers: Iterable[str]) -> None:
        """Of those that came back, the ones that are waited for; the others may be of another door, and not ours to end."""
        for consumer in consumers:
            if self._presence.is_known(self._who(consumer)):
                self.note(consumer)

    def went(self) -> None:
        names, self._names = self._names, None
        self._presence.went(map(self._who, names or ()))
