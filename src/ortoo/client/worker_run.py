"""One run of a worker: opens the queue, lets the handlers work, finishes in an orderly way, closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from ortoo.model.errors import OrtooError, UnavailableError

from .backoff import Backoff, Sleep
from .ceding import may_cede
from .handler import Handler
from .handler_runner import HandlerRunner
from .handlers import Faces, current_faces
from .link import Link
from .queue import Queue
from .remote import RemoteLink
from .taker import Taker
from .threads import DaemonThreads
from .worker_metrics import WorkerMetrics

log = logging.getLogger("ortoo.worker")

_LEAVE_SECONDS = 5.0  # for a server that does not answer


class WorkerRun:
    def __init__(self, handlers: list[Handler], metrics: WorkerMetrics, grace: float, sleep: Sleep) -> None:
        self._handlers = handlers
        self._metrics = metrics
        self._grace = grace
        self._sleep = sleep
        self._runners: list[HandlerRunner] = []
        self._takers: list[Taker] = []  # one for each of these
        self._link: Link | None = None
        self.faces: Faces | None = None
        self.error: BaseException | None = None
        self.opened = asyncio.Event()
        self.stopping = asyncio.Event()
        self.cancel_now = asyncio.Event()
        self.stopped = asyncio.Event()

    def is_own(self, task: asyncio.Task[Any] | None) -> bool:
        return any(job.task is task for runner in self._runners for job in runner.jobs)

    def why_not_ready(self) -> str | None:
        """None while it takes messages."""
        if self.stopping.is_set():
            return "the worker is stopping"
        if not self.opened.is_set():
            return "the worker waits for its queue"
        if isinstance(self._link, RemoteLink) and not self._link.is_connected:
            return "the connection to the server is lost; the worker connects again as soon as it answers"
        stuck = [
            handler.name for handler, runner in zip(self._handlers, self._runners, strict=False) if runner.is_stuck()
        ]
        return f"nothing that these handlers have begun ends: {', '.join(stuck)}" if stuck else None

    def fail(self, error: BaseException) -> None:
        """The first one counts."""
        self.error = self.error or error
        self.halt()

    def halt(self) -> None:
        """Nothing begins from now on."""
        self.stopping.set()
        for runner in self._runners:
            runner.halt()

    async def run(self, queue: Queue, consumer: str | None, closes: bool) -> None:
        self._link = queue._link
        if not await self._until_stopping(self._open(queue)):
            return
        self.faces = Faces(queue)
        current_faces.set(self.faces)  # for all tasks from here on: handlers among them
        consumer = consumer or f"{queue.consumer}-worker-{uuid4().hex[:8]}"
        try:
            async with self._working(queue, consumer):
                self.opened.set()
                await self._until_stopping(*(taker.take_forever() for taker in self._takers))
        finally:
            await self._leave(queue, consumer)
            if closes:
                await queue.close()

    async def _open(self, queue: Queue) -> None:
        """A server may come up later. A directory that does not open is for its owner to look at."""
        backoff = Backoff("the worker", self._sleep)
        while True:
            try:
                await queue.open()
            except UnavailableError as error:
                if not isinstance(queue._link, RemoteLink):
                    raise
                await backoff.wait(str(error))
            else:
                backoff.is_over()
                return

    async def _until_stopping(self, *works: Coroutine[Any, Any, Any]) -> bool:
        """Whether they ended before the worker was told to stop. What they fail with stops it."""
        tasks = [asyncio.create_task(work) for work in works]
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when="FIRST_COMPLETED")
        finally:
            await _ended([stopping, *(task for task in tasks if not task.done())])
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.fail(error)
        return all(not task.cancelled() for task in tasks) and self.error is None

    @asynccontextmanager
    async def _working(self, queue: Queue, consumer: str) -> AsyncIterator[None]:
        blocking = sum(handler.concurrency for handler in self._handlers if not handler.is_async)
        assert self.faces is not None
        threads = DaemonThreads(max(blocking, 1), "ortoo-worker")
        for handler in self._handlers:
            runner = HandlerRunner(handler, queue, threads, self._metrics.of(handler), self.fail, self._sleep)
            cedes = may_cede(handler, self._handlers)
            self._runners.append(runner)
            self._takers.append(Taker(handler, queue, runner, self.faces, consumer, self._sleep, cedes))
        try:
            yield
            await self._finish()
        finally:
            await asyncio.gather(*(runner.abandon() for runner in self._runners))
            for runner in self._runners:
                runner.close()
            threads.shutdown()

    async def _finish(self) -> None:
        """Within the grace, or until told to hurry."""
        works = [work for runner in self._runners for work in (runner.give_back_waiting(), runner.finish())]
        finished: asyncio.Future[Any] = asyncio.gather(*works)
        ends: list[asyncio.Future[Any]] = [
            asyncio.create_task(self.cancel_now.wait()),
            asyncio.create_task(_slept(self._sleep, self._grace)),
        ]
        try:
            await asyncio.wait([finished, *ends], return_when="FIRST_COMPLETED")
        finally:
            await _ended([finished, *ends])

    async def _leave(self, queue: Queue, consumer: str) -> None:
        """Whatever is still leased in this worker's name returns, also what was granted while it stopped."""
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await queue.leave(consumer)
        except (OrtooError, TimeoutError) as error:
            why = str(error) or "the server does not answer"
            log.warning(
                "the worker could not leave its groups cleanly; its messages will be redelivered later: %s", why
            )


async def _ended(tasks: list[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _slept(sleep: Sleep, seconds: float) -> None:
    await sleep(seconds)
