"""Are the messages of a batch acked together, or nacked together?"""

import asyncio

import ortoo
from tests.worker.conftest import MakeWorker, until


async def test_a_batch_is_handled_and_acked_as_one(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, sizes = make_worker(), []

    @worker.on_batch("events", group="loader", max_messages=4)
    async def load(messages: list[ortoo.Received]) -> None:
        sizes.append(len(messages))

    await queue.publish_many("events", [b"x"] * 10)
    async with worker:
        await until(lambda: worker.stats.handled == 10)
    assert sizes == [4, 4, 2]
    assert (await queue.group("events", "loader")).backlog == 0


async def test_a_batch_that_fails_is_nacked_as_one(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on_batch("events", max_messages=10)
    async def load(messages: list[ortoo.Received]) -> None:
        raise ValueError("the table is gone")

    await queue.publish_many("events", [b"x"] * 5)
    async with worker:
        await until(lambda: worker.stats.failed == 5)
        assert (await queue.group("events")).delayed == 5
    assert worker.stats.handled == 0


async def test_a_batch_that_is_rejected_goes_to_the_dead_letters(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on_batch("events", max_messages=10)
    def load(messages: list[ortoo.Received]) -> None:
        raise ortoo.Reject

    await queue.publish_many("events", [b"x"] * 5)
    async with worker:
        await until(lambda: worker.stats.rejected == 5)
    assert len(await queue.dead_letters("events")) == 5


async def test_batches_are_handled_side_by_side_when_asked_for(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, both = make_worker(), asyncio.Barrier(2)

    @worker.on_batch("events", max_messages=5, concurrency=2)
    async def load(messages: list[ortoo.Received]) -> None:
        await both.wait()

    await queue.publish_many("events", [b"x"] * 10)
    async with worker:
        await until(lambda: worker.stats.handled == 10)
