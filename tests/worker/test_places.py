"""Do a handler's places begin what may begin, whatever the calls before did, and at a cost that does not grow?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

import ortoo
from ortoo import Message, Received, Worker
from ortoo.client import worker_run
from ortoo.client.handler_runner import HandlerRunner
from ortoo.client.waiting import Waiting


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - on a real clock
            await asyncio.sleep(0.01)


async def test_what_waits_for_its_line_is_looked_at_once_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    line = Waiting._line

    def counted(self: Waiting, message: Received) -> Any:
        nonlocal seen
        seen += 1
        return line(self, message)

    monkeypatch.setattr(Waiting, "_line", counted)
    handled: list[int] = []
    async with ortoo.open() as queue:
        await queue.create_topic("t", ordering="strict", partitions=1)
        await queue.publish_many("t", [Message(str(number)) for number in range(100)])
        worker = Worker(queue)

        @worker.on("t", concurrency=50, prefetch=100)
        async def handle(message: Received) -> None:
            await asyncio.sleep(0.002)
            handled.append(message.json())

        async with worker:
            await until(lambda: len(handled) == 100)
    assert handled == list(range(100))
    assert seen < 3 * 100 * 100


async def test_a_wake_up_in_the_turn_in_which_places_begin_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    start_more = HandlerRunner._start_more
    once: list[int] = []

    def disturbed(self: HandlerRunner, most: int) -> None:
        if not once:
            once.append(1)
            self._lose({"stale"})
        start_more(self, most)

    monkeypatch.setattr(HandlerRunner, "_start_more", disturbed)
    async with ortoo.open() as queue:
        await queue.publish_many("t", ["1"] * 200)
        worker = Worker(queue)

        @worker.on("t", concurrency=2, prefetch=2)
        async def handle(_: Received) -> None:
            pass

        async with worker:
            await until(lambda: worker.stats.handled == 200)


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [Odd, asyncio.CancelledError, ValueError])
async def test_whatever_is_raised_the_key_keeps_its_order(error: type[BaseException]) -> None:
    seen: list[tuple[int, int]] = []
    async with ortoo.open() as queue:
        await queue.create_topic("t", ordering="key", partitions=1)
        await queue.publish_many("t", [Message(str(number), key="a") for number in range(4)])
        worker = Worker(queue)

        @worker.on("t", concurrency=2, prefetch=8, error_delay=0.0)
        async def handle(message: Received) -> None:
            seen.append((message.json(), message.attempt))
            if seen == [(0, 1)]:
                raise error

        async with worker:
            await until(lambda: worker.stats.handled == 4)
    assert [number for number, _ in seen] == [0, 0, 1, 2, 3]
    assert worker.stats.failed == 1


async def test_a_plain_function_may_run_out_of_items() -> None:
    async with ortoo.open() as queue:
        await queue.create_topic("t", max_attempts=1)
        await queue.publish("t", "1")
        worker = Worker(queue)

        @worker.on("t")
        def handle(_: Received) -> None:
            next(iter([]))

        async with worker:
            await until(lambda: worker.stats.failed == 1)


async def test_each_call_that_waits_has_a_task_of_its_own() -> None:
    tasks: list[Any] = []
    async with ortoo.open() as queue:
        await queue.publish_many("t", ["1"] * 5)
        worker = Worker(queue)

        @worker.on("t", prefetch=5)
        async def handle(_: Received) -> None:
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0.001)

        async with worker:
            await until(lambda: worker.stats.handled == 5)
    assert len(set(tasks)) == 5


async def test_handlers_that_do_not_end_are_given_up_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortoo.client.handler_runner._CANCEL_SECONDS", 0.1)
    begun: list[str] = []
    events: list[str] = []
    ended = asyncio.Event()
    abandon = HandlerRunner.abandon

    async def watched(self: HandlerRunner) -> None:
        events.append("begun")
        await abandon(self)
        events.append("ended")

    monkeypatch.setattr(HandlerRunner, "abandon", watched)

    async def stubborn(message: Received) -> None:
        begun.append(message.topic)
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                pass

    async with ortoo.open() as queue:
        worker = Worker(queue, grace=0.01)
        for number in range(6):
            await queue.publish(f"t{number}", "1")
            worker.on(f"t{number}")(stubborn)
        async with worker:
            await until(lambda: len(begun) == 6)
        assert events == ["begun"] * 6 + ["ended"] * 6
        ended.set()


async def test_a_server_that_does_not_answer_does_not_keep_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_run, "_LEAVE_SECONDS", 0.1)
    async with ortoo.open() as queue:
        never = asyncio.Event()

        async def hang(*_: Any, **__: Any) -> None:
            await never.wait()

        await queue.publish_many("t", ["1"] * 10)
        worker, held = Worker(queue, grace=0.1), asyncio.Event()

        @worker.on("t", prefetch=10)
        async def handle(_: Received) -> None:
            held.set()
            await asyncio.Event().wait()

        async with asyncio.timeout(60), worker:
            await held.wait()
            monkeypatch.setattr(queue, "release", hang)
            monkeypatch.setattr(queue, "leave", hang)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_tasks_may_be_eager() -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    async with ortoo.open() as queue:
        await queue.publish_many("t", ["1"] * 50)
        worker = Worker(queue)

        @worker.on("t", concurrency=2)
        async def handle(_: Received) -> None:
            pass

        async with worker:
            await until(lambda: worker.stats.handled == 50)
