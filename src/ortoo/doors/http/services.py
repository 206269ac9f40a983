"""What all requests of a door share: the gate, the settings, the long polls that wait, and the inboxes of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from ortoo.broker.gate import Gate
from ortoo.model.analytics import Report
from ortoo.model.settings import HttpSettings

from .inboxes import Inboxes

T = TypeVar("T")
Metrics = Callable[[], Awaitable[bytes]]
Ready = Callable[[], str | None]
Receive = Callable[[], Awaitable[Any]]


class ClientGone(Exception):
    """The client went away; there is nobody to answer."""


class Caller(Protocol):
    """The client's end of a request."""

    @property
    def receive(self) -> Receive: ...

    @property
    def is_gone(self) -> bool: ...


class Described(Protocol):
    """The description of the door, for programs and for people."""

    @property
    def json(self) -> bytes: ...

    @property
    def html(self) -> bytes: ...


class Reported(Protocol):
    """What the analytics job found."""

    async def report(self) -> Report: ...


class HttpServices:
    def __init__(
        self,
        gate: Gate,
        settings: HttpSettings,
        metrics: Metrics,
        ready: Ready,
        description: Described,
        analytics: Reported,
    ) -> None:
        self.gate = gate
        self.settings = settings
        self.metrics = metrics
        self.ready = ready
        self.description = description
        self.analytics = analytics
        self.inboxes = Inboxes(gate.host())
        self.is_closing = False
        self._waiting: set[asyncio.Task[Any]] = set()

    async def wait_for(
        self, caller: Caller, work: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]
    ) -> T | None:
        """Waits for work that may take long. None when the door closed first; ClientGone when the client left.

        `undo` takes back what was done for a client that had left by then.
        """
        task = asyncio.create_task(work)
        watch = asyncio.create_task(_until_gone(caller.receive))
        self._waiting.add(task)
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                raise ClientGone
            return None if task.cancelled() else task.result()
        finally:
            self._waiting.discard(task)
            watch.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if caller.is_gone and not task.cancelled() and task.exception() is None:
                await undo(task.result())

    def end_waiting(self) -> None:
        """Ends what waits; from now on nothing waits."""
        self.is_closing = True
        for task in self._waiting:
            task.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
