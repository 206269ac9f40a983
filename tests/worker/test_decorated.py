"""An async handler behind a plain function, as many decorators make them: is it one all the same?"""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ortoo
from ortoo.testing import ManualClock
from tests.worker.conftest import MakeWorker, until
from tests.worker.test_hanging import run_out_of_time

Handle = Callable[[ortoo.Received], Awaitable[None]]


def traced(function: Handle) -> Callable[[ortoo.Received], Any]:
    @functools.wraps(function)
    def wrapper(message: ortoo.Received) -> Any:
        return function(message)

    return wrapper


def bare(function: Handle) -> Callable[[ortoo.Received], Any]:
    """The same by one who forgot to say what is wrapped."""

    def wrapper(message: ortoo.Received) -> Any:
        return function(message)

    return wrapper


both = pytest.mark.parametrize("decorate", [traced, bare])


@both
async def test_it_is_cancelled_when_its_time_is_over(
    queue: ortoo.Queue, make_worker: MakeWorker, decorate: Callable[[Handle], Callable[[ortoo.Received], Any]]
) -> None:
    worker, begun, cancelled = make_worker(), list[int](), list[int]()

    @worker.on("emails", error_delay=0)
    @decorate
    async def send(message: ortoo.Received) -> None:
        begun.append(message.attempt)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(message.attempt)

    await queue.publish("emails", b"x")
    async with worker:
        for attempt in (1, 2, 3):  # its place is free again, each time
            await until(lambda attempt=attempt: attempt in begun)  # type: ignore[misc]
            run_out_of_time(worker)
        await until(lambda: worker.stats.failed == 3)
    assert cancelled == begun == [1, 2, 3]
    assert len(await queue.dead_letters("emails")) == 1


@both
async def test_it_awaits_what_it_asks_of_its_message_and_its_queue(
    queue: ortoo.Queue, make_worker: MakeWorker, decorate: Callable[[Handle], Callable[[ortoo.Received], Any]]
) -> None:
    worker, done = make_worker(), list[bytes]()

    @worker.on("emails")
    @decorate
    async def send(message: ortoo.Received) -> None:
        await message.extend(60)
        await worker.queue.publish("sent", message.value)
        await message.ack()
        done.append(message.value)

    await queue.publish_many("emails", [b"1", b"2"])
    async with worker:
        await until(lambda: sorted(done) == [b"1", b"2"])
    assert worker.stats.failed == 0
    assert (await queue.topic("sent")).messages == 2


async def test_a_worker_that_stops_cancels_it(queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock) -> None:
    worker, begun, cancelled = make_worker(grace=20), asyncio.Event(), asyncio.Event()

    @worker.on("emails")
    @traced
    async def send(message: ortoo.Received) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await queue.publish("emails", b"x")
    async with worker:
        await begun.wait()
        stopping = asyncio.create_task(worker.stop())
        await clock.advance(21)
        await stopping
    assert cancelled.is_set()
    assert [message.attempt for message in await queue.lease("emails")] == [1]  # given back, uncounted


async def test_what_is_handed_on_too_late_does_not_begin(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, go_on, begun, handed_on = make_worker(), threading.Event(), list[int](), list[int]()

    @worker.on("emails", timeout=0.05, error_delay=3600)
    def send(message: ortoo.Received) -> Any:
        go_on.wait(300)
        handed_on.append(message.attempt)
        return later(message)

    async def later(message: ortoo.Received) -> None:
        begun.append(message.attempt)

    await queue.publish("emails", b"x")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
        go_on.set()
        await until(lambda: handed_on == [1])
    assert begun == []


async def test_one_that_is_made_blocking_stays_in_its_thread(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, done = make_worker(), list[bool]()

    def run_here(function: Handle) -> Callable[[ortoo.Received], None]:
        @functools.wraps(function)
        def wrapper(message: ortoo.Received) -> None:
            asyncio.run(function(message))  # type: ignore[arg-type]
            message.extend(60)  # which blocks here

        return wrapper

    @worker.on("emails")
    @run_here
    async def send(message: ortoo.Received) -> None:
        done.append(threading.current_thread() is not threading.main_thread())

    await queue.publish("emails", b"x")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    assert done == [True]
