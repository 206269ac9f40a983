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
from typing import Any, TypeVar

from ortoo.model.errors import ClosedError
from ortoo.model.names import DEFAULT_GROUP

from .handler import Handler, check_handler, check_source
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
        self,
        topic: str | None = None,
        *,
        labels: dict[str, str] | None = None,
        group: str = DEFAULT_GROUP,
        concurrency: int = 1,
        prefetch: int | None = None,
        lease: float | None = None,
        timeout: float | None = None,
        error_delay: float | None = None,
        namespace: str | None = None,
        stop_on_error: bool = False,
    ) -> Callable[[Function], Function]:
        """The function below is called with each message; up to `concurrency` of them at a time.

        Give a topic, or `labels` for every topic that has them. `prefetch`: messages leased ahead, as many as
        `concurrency` unless given. `lease`: seconds; extended while the handler works, for `timeout` seconds at most: an
        hour unless given, and never longer than the topic's total_timeout. `error_delay`: seconds until a message that
        failed comes again, in place of the topic's backoff. `stop_on_error`: the first error ends the worker.
        """
        check_source(topic, labels)

        def add(function: Function) -> Function:
            self._add(
                Handler(
                    function=function,
                    topic=topic,
                    labels=labels,
                    group=group,
                    concurrency=concurrency,
                    prefetch=concurrency if prefetch is None else prefetch,
                    lease=lease,
                    timeout=timeout,
                    error_delay=error_delay,
                    namespace=namespace,
                    stop_on_error=stop_on_error,
                )
            )
            return function

        return add

    def on_batch(
        self,
        topic: str | None = None,
        *,
        max_messages: int = 100,
        labels: dict[str, str] | None = None,
        group: str = DEFAULT_GROUP,
        concurrency: int = 1,
        lease: float | None = None,
        timeout: float | None = None,
        error_delay: float | None = None,
        namespace: str | None = None,
        stop_on_error: bool = False,
    ) -> Callable[[Function], Function]:
        """The function below is called with lists of up to `max_messages`; all of a list are acked, or all nacked."""
        check_source(topic, labels)

        def add(function: Function) -> Function:
            self._add(
                Handler(
                    function=function,
                    topic=topic,
                    labels=labels,
                    group=group,
                    concurrency=concurrency,
                    prefetch=0,
                    lease=lease,
                    timeout=timeout,
                    error_delay=error_delay,
                    namespace=namespace,
                    stop_on_error=stop_on_error,
                    max_messages=max_messages,
                )
            )
            return function

        return add

    def include(self, handlers: Handlers) -> None:
        """Runs those, too: of a module, or of another worker."""
        for handler in handlers._handlers:
            self._add(handler)

    def _add(self, handler: Handler) -> None:
        self._handlers.append(check_handler(handler))
