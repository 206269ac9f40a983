"""What a worker calls: a function, what it wants to be given, and how its failures are told."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any, TypedDict

import msgspec

from ortoo.model.errors import InvalidError
from ortoo.model.names import DEFAULT_GROUP
from ortoo.model.units import Duration

from .arguments import check_count, to_ms

_TIMEOUT_SECONDS = 3600.0  # unless the handler says otherwise
_ERROR_CHARS = 1000  # of what is kept with the message; the whole story is in the log


class Reject(Exception):
    """Raised by a handler: this message can never succeed. It goes to the dead letters without another try."""


class Retry(Exception):
    """Raised by a handler: not now. The message comes again after `delay` seconds, or after the pause that it would have after
    any other error; the attempt counts."""

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(reason)
        milliseconds = to_ms("delay", delay)
        if milliseconds is not None and milliseconds < 0:
            raise InvalidError(f"delay must be 0 seconds or more, not {delay}")
        self.delay = None if milliseconds is None else milliseconds / 1000


class Options(TypedDict, total=False):
    """What every handler may be given beside its topic."""

    labels: dict[str, str] | None
    group: str
    concurrency: int
    lease: Duration | None
    timeout: Duration | None
    error_delay: Duration | None
    namespace: str | None
    stop_on_error: bool


class Handler(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    function: Callable[[Any], Any]
    topic: str | None
    labels: dict[str, str] | None = None
    group: str = DEFAULT_GROUP
    concurrency: int = 1
    prefetch: int
    lease: float | None = None
    timeout: float | None = None
    error_delay: float | None = None
    namespace: str | None = None
    stop_on_error: bool = False
    max_messages: int | None = None  # of a batch; None where the function takes one message

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)

    def limit(self, total_timeout: float) -> float:
        """Seconds that the function may take for a message of a topic with that total_timeout."""
        return min(_TIMEOUT_SECONDS if self.timeout is None else self.timeout, total_timeout)

    @property
    def source(self) -> str:
        return f"topic {self.topic!r}" if self.topic is not None else f"the topics with labels {self.labels}"

    @functools.cached_property
    def is_async(self) -> bool:
        called = getattr(self.function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)

    def call(self, given: Any, threads: Executor, enter_loop: Callable[[], None]) -> Awaitable[bool]:
        """In a context of its own; returns whether the function had to wait for something in this task. `enter_loop` is called
        before what a plain function hands on is awaited; it may raise."""
        context = copy_context()
        if self.is_async:
            return _run_in(context, context.run(self.function, given))
        return self._call_in_thread(context, given, threads, enter_loop)

    async def _call_in_thread(
        self, context: Context, given: Any, threads: Executor, enter_loop: Callable[[], None]
    ) -> bool:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(threads, context.run, _call, self.function, given)
        if inspect.isawaitable(result):  # a plain function that hands on a coroutine, as many decorators make them
            try:
                enter_loop()
            except asyncio.CancelledError:
                if inspect.iscoroutine(result):
                    result.close()  # nobody will await it
                raise
            await _run_in(context, _awaited(result))
            return True
        return False


def _call(function: Callable[[Any], Any], given: Any) -> Any:
    try:
        return function(given)
    except StopIteration as error:  # no future can hold it
        raise RuntimeError("the handler raised StopIteration") from error


@types.coroutine
def _run_in(context: Context, coroutine: Coroutine[Any, Any, None]) -> Generator[Any, Any, bool]:
    """Awaits it: each of its steps runs in that context, and what it changes there stays there. Whether it had to wait."""
    run = context.run
    has_waited = False
    try:
        waits_for = run(coroutine.send, None)
        has_waited = True
        while True:
            try:
                answer = yield waits_for
            except BaseException as error:  # of whatever kind, it is for the coroutine
                waits_for = run(coroutine.throw, error)
            else:
                waits_for = run(coroutine.send, answer)
    except StopIteration:
        return has_waited


async def _awaited(result: Awaitable[Any]) -> None:
    await result


def check_source(topic: str | None, labels: dict[str, str] | None) -> None:
    if topic is not None and not isinstance(topic, str):
        raise InvalidError('a handler names its topic: @worker.on("emails")')
    if (topic is None) == (labels is None):
        raise InvalidError("name the topic that the handler works on, or the labels of several, and not both")


def check_handler(handler: Handler) -> Handler:
    if not callable(handler.function):
        raise InvalidError(f"a handler must be a function, not {type(handler.function).__name__}")
    check_count("concurrency", handler.concurrency, 1)
    check_count("prefetch", handler.prefetch)
    check_count("max_messages", 1 if handler.max_messages is None else handler.max_messages, 1)
    for what, seconds in (("lease", handler.lease), ("error_delay", handler.error_delay)):
        if (to_ms(what, seconds) or 0) < 0:
            raise InvalidError(f"{what} must be 0 seconds or more, not {seconds}")
    if handler.timeout is not None and to_ms("timeout", handler.timeout) < 1:
        raise InvalidError(f"timeout must be more than 0 seconds, not {handler.timeout}")
    return handler


def describe(error: BaseException) -> str:
    """As the last line of a traceback has it, and not without end."""
    try:
        said = str(error)
    except Exception:  # an error whose own words fail is still an error
        said = "(its text cannot be shown)"
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return text if len(text) <= _ERROR_CHARS else f"{text[: _ERROR_CHARS - 1]}…"
