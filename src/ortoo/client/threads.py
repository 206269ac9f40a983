"""Threads for handlers that block. Nobody waits for them when the process ends, for one of them may never return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Work = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads(Executor):
    """As ThreadPoolExecutor, whose threads the interpreter joins before it ends. One more when all are busy, up to `count`."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[_Work | None] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
            thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _run(self) -> None:
        while (work := self._next()) is not None:
            _do(*work)
            del work  # it may hold much

    def _next(self) -> _Work | None:
        try:
            return self._work.get_nowait()
        except Empty:
            self._idle.release()
            return self._work.get()

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Ends the threads that are idle now, and the others when they are done; does not wait for them."""
        for _ in self._threads:
            self._work.put(None)


def _do(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # whatever it is, whoever waits for the result is to know
        future.set_exception(error)
    else:
        future.set_result(result)
