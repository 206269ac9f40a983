"""The worker: functions that are called with messages, until it is stopped.

worker = ortoo.Worker("ortoo://localhost:7632")

@worker.on("emails", group="senders", concurrency=8)
async def send(message): ...

worker.run()
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from ortoo.model.errors import ClosedError, InvalidError
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.model.units import Duration

from .arguments import check_number
from .backoff import Sleep
from .connecting import connect
from .event_loop import STOPPING, heard, loop_factory
from .handler import Handler
from .handlers import Handlers
from .queue import Queue
from .tls import TlsOption
from .worker_metrics import Counts, WorkerMetrics
from .worker_run import WorkerRun

log = logging.getLogger("ortoo.worker")


class Worker(Handlers):
    """Calls handlers with messages. A handler that returns acks its message; one that raises nacks it.

    `queue`: a server's URL (`token`, `token_file` and `tls` are for it, as in `connect`), a queue, or a function that
    makes one. What the worker opens it closes; a queue that is open already stays open, except after `run`, whose event
    loop ends.
    `grace`: seconds that handlers have to finish when the worker stops. `sleep` is for tests whose clock is moved by
    hand.
    """

    def __init__(
        self,
        queue: str | Queue | Callable[[], Queue],
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        tls: TlsOption = None,
        namespace: str = DEFAULT_NAMESPACE,
        consumer: str | None = None,
        grace: Duration = 30.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__()
        self._make = _maker(queue, token, token_file, tls, namespace)
        self._is_borrowed = isinstance(queue, Queue)
        self._consumer = consumer
        self._grace = check_number("grace", grace)
        self._sleep = sleep
        self._session: WorkerRun | None = None
        self._task: asyncio.Task[None] | None = None  # what runs in `async with`
        self.metrics = WorkerMetrics()  # by handler; a collector for prometheus_client

    def _add(self, handler: Handler) -> None:
        if self._session is not None:
            raise InvalidError("the worker is running; add its handlers before")
        super()._add(handler)

    # -- running

    @property
    def queue(self) -> Any:
        """The queue that the worker leases from, for handlers that publish.

        A Queue in async handlers, and wherever else the worker's event loop runs; in plain functions, which run in threads,
        a SyncQueue, whose methods block.
        """
        if self._session is None or self._session.faces is None:
            raise ClosedError("the worker is not running, so it has no queue")
        return self._session.faces.here()

    @property
    def stats(self) -> Counts:
        """Of all handlers together."""
        return self.metrics.total()

    def run(self, *, metrics_port: int | None = None, metrics_host: str = "127.0.0.1") -> None:
        """Works until SIGTERM, SIGINT or `stop`; a second signal cancels what is still at work.

        `metrics_port`: serves `/metrics` for Prometheus, and `/health` and `/ready` for probes, meanwhile.
        """
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._run_here(metrics_port, metrics_host))

    async def _run_here(self, metrics_port: int | None, metrics_host: str) -> None:
        with self._signals():
            async with self._measured(metrics_port, metrics_host):
                await self._run(closes=True)

    async def run_async(self, *, metrics_port: int | None = None, metrics_host: str = "127.0.0.1") -> None:
        """The same inside a program of your own, which sees to signals itself: works until `stop`, or until cancelled."""
        async with self._measured(metrics_port, metrics_host):
            await self._run(closes=not self._is_borrowed)

    @asynccontextmanager
    async def _measured(self, port: int | None, host: str) -> AsyncIterator[None]:
        if port is None:
            yield
            return
        from .worker_http import WorkerHttp

        async with WorkerHttp(self.metrics, self._why_not_ready).serving(host, port) as bound:
            log.info("metrics are at http://%s:%d/metrics", host, bound)
            yield

    def _why_not_ready(self) -> str | None:
        return "the worker is not running" if self._session is None else self._session.why_not_ready()

    async def _run(self, closes: bool) -> None:
        if self._session is not None:
            raise InvalidError("the worker is running already")
        if not self._handlers:
            raise InvalidError("the worker has nothing to do; give it a handler with @worker.on(topic)")
        self._session = run = WorkerRun(self._handlers, self.metrics, self._grace, self._sleep)
        try:
            await run.run(self._make(), self._consumer, closes)
        finally:
            self._session = None
            run.stopped.set()
        if run.error is not None:
            raise run.error

    async def stop(self) -> None:
        """Takes no more, lets handlers finish, gives back what they have not begun, and returns when all that is done.

        From within a handler it does not wait, for the handler itself is waited for.
        """
        run = self._session
        if run is not None:
            run.halt()
            if not run.is_own(asyncio.current_task()):
                await run.stopped.wait()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread hears signals
            return
        with heard(STOPPING, self._on_signal):
            yield

    def _on_signal(self, number: signal.Signals) -> None:
        run = self._session
        if run is None:
            return
        if run.stopping.is_set():
            log.warning("%s again: what is still at work is cancelled", number.name)
            run.cancel_now.set()
        else:
            log.info("%s: finishing what has begun, for %s seconds at most", number.name, self._grace)
            run.halt()

    async def __aenter__(self) -> Worker:
        """Returns once the queue is open."""
        self._task = task = asyncio.create_task(self.run_async(), name="ortoo-worker")
        await asyncio.sleep(0)
        if self._session is not None:
            opened = asyncio.create_task(self._session.opened.wait())
            await asyncio.wait([task, opened], return_when="FIRST_COMPLETED")
            opened.cancel()
        if task.done():
            await task  # it says why
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        await self.stop()
        if task is not None:
            await task


def _maker(
    queue: str | Queue | Callable[[], Queue],
    token: str | None,
    token_file: str | Path | None,
    tls: TlsOption,
    namespace: str,
) -> Callable[[], Queue]:
    if isinstance(queue, Queue):
        return lambda: queue
    if isinstance(queue, str):
        return lambda: connect(queue, token=token, token_file=token_file, tls=tls, namespace=namespace)
    if not callable(queue):
        raise InvalidError(f"a worker needs a server's URL, a queue or a function that makes one, not {queue!r}")
    return queue
