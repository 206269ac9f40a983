"""Can handlers live in modules of their own, and move from one worker to another?"""

from __future__ import annotations

import pytest

import ortoo
from tests.worker.conftest import MakeWorker, until


async def test_a_worker_runs_the_handlers_it_includes(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    handlers, seen = ortoo.Handlers(), []

    @handlers.on("emails")
    async def send(message: ortoo.Received) -> None:
        seen.append(message.value)
        await handlers.queue.publish("events", message.value)

    @handlers.on_batch("events")
    def load(messages: list[ortoo.Received]) -> None:
        for message in messages:
            handlers.queue.publish("loaded", message.value)

    await queue.create_topic("events")
    await queue.publish("emails", b"hello")
    for _ in range(2):  # one after the other, for they belong to none
        worker = make_worker()
        worker.include(handlers)
        async with worker:
            await until(lambda worker=worker: worker.stats.handled >= 2)  # type: ignore[misc]
        await queue.publish("emails", b"again")
    assert seen == [b"hello", b"again"]
    assert [message.value async for message in queue.read("loaded")] == [b"hello", b"again"]


async def test_a_worker_takes_over_the_handlers_of_another(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    old, new = make_worker(), make_worker()
    old.on("emails")(lambda message: None)
    new.include(old)
    await queue.publish("emails", b"hello")
    async with new:
        await until(lambda: new.stats.handled == 1)
    assert old.stats.handled == 0


async def test_nothing_is_included_while_the_worker_runs(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, handlers = make_worker(), ortoo.Handlers()
    worker.on("emails")(print)
    handlers.on("letters")(print)
    async with worker:
        with pytest.raises(ortoo.InvalidError, match="running"):
            worker.include(handlers)


def test_outside_of_a_worker_handlers_have_no_queue() -> None:
    with pytest.raises(ortoo.ClosedError, match="while a worker calls a handler"):
        _ = ortoo.Handlers().queue
