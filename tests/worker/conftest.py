"""A queue whose clock is moved by hand, and workers that sleep by it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest

import ortoo
from ortoo.testing import ManualClock, open_manual


class MakeWorker(Protocol):
    def __call__(self, **options: Any) -> ortoo.Worker: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def queue(clock: ManualClock) -> AsyncIterator[ortoo.Queue]:
    async with open_manual(clock) as queue:
        yield queue


@pytest.fixture
def make_worker(queue: ortoo.Queue, clock: ManualClock) -> MakeWorker:
    async def sleep(seconds: float) -> None:
        rung = asyncio.Event()
        clock.call_later(round(seconds * 1000), rung.set)
        await rung.wait()

    return lambda **options: ortoo.Worker(queue, sleep=sleep, **options)


async def until(condition: Callable[[], object]) -> None:
    """Lets everything run until that is so; fails when it is not so for long."""
    turns = 0
    async with asyncio.timeout(300):
        while not condition():
            turns += 1
            await asyncio.sleep(0 if turns < 1000 else 0.005)  # threads and other processes need the processor


def write_slowly(worker: ortoo.Worker, **options: Any) -> tuple[list[ortoo.Received], asyncio.Event]:
    """A handler of reports: which ones it has begun, and what lets it go on to the end."""
    begun: list[ortoo.Received] = []
    go = asyncio.Event()

    @worker.on("reports", **options)
    async def write(message: ortoo.Received) -> None:
        begun.append(message)
        await go.wait()

    return begun, go


def write_in_a_thread(worker: ortoo.Worker, **options: Any) -> tuple[list[ortoo.Received], threading.Event]:
    """As above, with a handler that nobody can cancel."""
    begun: list[ortoo.Received] = []
    go = threading.Event()

    @worker.on("reports", **options)
    def write(message: ortoo.Received) -> None:
        begun.append(message)
        assert go.wait(300)

    return begun, go
