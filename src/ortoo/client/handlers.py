"""Handlers: functions and what each wants to be given, collected to be run by a worker.

handlers = ortoo.Handlers()

@handlers.on("emails", group="senders", concurrency=8)
async def send(message): ...

worker.include(handlers)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, Unpack

from ortoo.model.errors import ClosedError
from ortoo.model.units import to_duration

from .handler import Handler, Options, check_handler, check_source
from .queue import Queue
from .sync import BorrowedQueue

Function = TypeVar("Function", bound=Callable[[Any], Any])


class Faces:
    """A queue as handlers see it: to be awaited in its own event loop, blocking anywhere else."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self.blocking = BorrowedQueue(queue, self._loop)

    def here(self) -> Queue | BorrowedQueue:
        return self._queue if asyncio._get_running_loop() is self._loop else self.blocking

    def __getattr__(self, name: str) -> Any:
        """For messages, which settle themselves with it."""
        return getattr(self.here(), name)


current_faces: ContextVar[Faces] = ContextVar("ortoo-worker-queue")  # of the worker that calls a handler


class Handlers:
    """Collects handlers, in a module of their own; a worker that includes them runs them."""

    def __init__(self) -> None:
        self._handlers: list[Handler] = []

    @property
    def queue(self) -> Any:
        """The queue of the worker, for handlers that publish: a Queue in an async handler, a SyncQueue in a plain one."""
        faces = current_faces.get(None)
        if faces is None:
            raise ClosedError("there is a queue only while a worker calls a handler")
        return faces.here()

    def on(
        self, topic: str | None = None, *, prefetch: int | None = None, **options: Unpack[Options]
    ) -> Callable[[Function], Function]:
        """The function below is called with each message; up to `concurrency` of them at a time, one unless given.

        Give a topic, or `labels` for every topic that has them. `prefetch`: messages leased ahead, as many as
        `concurrency` unless given. `lease`: seconds; extended while the handler works, for `timeout` seconds at most: an
        hour unless given, and never longer than the topic's total_timeout. `error_delay`: seconds until a message that
        failed comes again, in place of the topic's backoff. `stop_on_error`: the first error ends the worker.
        """
        ahead = options.get("concurrency", 1) if prefetch is None else prefetch
        return self._adding(topic, options, prefetch=ahead)

    def on_batch(
        self, topic: str | None = None, *, max_messages: int = 100, **options: Unpack[Options]
    ) -> Callable[[Function], Function]:
        """The function below is called with lists of up to `max_messages`; all of a list are acked, or all nacked.

        The other options are those of `on`.
        """
        return self._adding(topic, options, prefetch=0, max_messages=max_messages)

    def _adding(
        self, topic: str | None, options: Options, prefetch: int, max_messages: int | None = None
    ) -> Callable[[Function], Function]:
        check_source(topic, options.get("labels"))
        for name in options.keys() - Options.__annotations__.keys():
            raise TypeError(f"a handler has no option {name!r}; it has {', '.join(Options.__annotations__)}")

        given: dict[str, Any] = {name: to_duration(value) for name, value in options.items()}

        def add(function: Function) -> Function:
            self._add(Handler(function=function, topic=topic, prefetch=prefetch, max_messages=max_messages, **given))
            return function

        return add

    def include(self, handlers: Handlers) -> None:
        """Runs those, too: of a module, or of another worker."""
        for handler in handlers._handlers:
            self._add(handler)

    def _add(self, handler: Handler) -> None:
        self._handlers.append(check_handler(handler))
