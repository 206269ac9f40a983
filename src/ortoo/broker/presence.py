"""Which consumers are connected, through all doors. One whose connections are all gone, and stay so for the session timeout,
has left.

A consumer may also ask request by request, over connections that say nothing of it. Of such a name nobody can tell here
whether it is gone: its session and its leases run out by themselves.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from ortoo.model import limits
from ortoo.model.access import Grant
from ortoo.model.commands import Leave
from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicName

from .broker import Broker

_REQUESTED_MAX = 10_000

Who = tuple[tuple[Grant, ...] | None, str]  # a consumer, and what it may do: None for everything
Place = tuple[TopicName | None, str | None]  # a topic and a group
EVERYWHERE: Place = (None, None)


class Presence:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connected: Counter[Who] = Counter()
        self._places: Counter[tuple[Who, Place]] = Counter()  # the same by where they consume
        self._absent: dict[Who, asyncio.TimerHandle] = {}
        self._requested: dict[Who, None] = {}  # names that asked request by request; those that did last
        self._leaving: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def is_known(self, consumer: Who) -> bool:
        """Whether it is connected, or was a moment ago."""
        return consumer in self._connected or consumer in self._absent

    def requested(self, consumer: Who) -> None:
        """It leases by a request of its own."""
        self._requested.pop(consumer, None)
        self._requested[consumer] = None
        if len(self._requested) > _REQUESTED_MAX:
            del self._requested[next(iter(self._requested))]

    def came(self, consumer: Who, place: Place = EVERYWHERE) -> None:
        """A connection begins to lease for this consumer, there or wherever it likes."""
        self._connected[consumer] += 1
        self._places[consumer, place] += 1
        timer = self._absent.pop(consumer, None)
        if timer is not None:
            timer.cancel()

    def went(self, consumers: Iterable[Who]) -> None:
        """A connection of these is gone; it may come again."""
        for consumer in consumers:
            self._disconnect(consumer, EVERYWHERE)
            if consumer not in self._connected and not self._is_closed:
                loop = asyncio.get_running_loop()
                self._absent[consumer] = loop.call_later(limits.SESSION_TIMEOUT_MS / 1000, self._time_out, consumer)

    def ended(self, consumer: Who, place: Place) -> bool:
        """A connection of it has ended for good. Returns whether the consumer has: nobody else is there under its name."""
        self._disconnect(consumer, place)
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

    def _time_out(self, consumer: Who) -> None:
        del self._absent[consumer]
        if consumer not in self._requested:
            task = asyncio.get_running_loop().create_task(self._leave(consumer))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _leave(self, consumer: Who) -> None:
        try:
            grants, name = consumer
            await self._broker.call(Leave(name, grants=grants))
        except OrtooError:
            pass  # the queue is closing: its leases run out by themselves

    def close(self) -> None:
        """Leases outlive a restart of the server, so nobody leaves because of one."""
        self._is_closed = True
        for timer in self._absent.values():
            timer.cancel()
        self._absent.clear()
