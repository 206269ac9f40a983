"""Does a worker stop in an orderly way, and give back what it cannot finish?"""

import asyncio
import threading

import pytest

import ortoo
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from tests.worker.conftest import MakeWorker, until, write_in_a_thread, write_slowly


async def test_stopping_waits_for_running_handlers_and_their_acks(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    begun, go = write_slowly(worker)
    await queue.publish("reports", b"x")
    running = asyncio.create_task(worker.run_async())
    await until(lambda: begun)
    stopping = asyncio.create_task(worker.stop())
    await settle(100)
    assert not stopping.done()
    go.set()
    await stopping
    await running
    assert worker.stats.handled == 1
    assert (await queue.group("reports")).backlog == 0


async def test_stopping_begins_nothing_new_and_gives_back_what_waits(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker = make_worker()
    begun, go = write_slowly(worker, prefetch=5)
    await queue.publish_many("reports", [b"x"] * 10)
    async with worker:
        await until(lambda: begun)
        stopping = asyncio.create_task(worker.stop())
        await settle(100)
        assert (await queue.group("reports")).leased == 1  # while the handler still runs
        go.set()
        await stopping
    assert [message.value for message in begun] == [b"x"]
    [again] = await queue.lease("reports")
    assert again.attempt == 1


async def test_what_is_published_after_stopping_is_left_to_others(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("reports")
    async def write(message: ortoo.Received) -> None: ...

    await queue.create_topic("reports")
    async with worker:
        await settle(50)
    await queue.publish("reports", b"x")
    assert len(await queue.lease("reports")) == 1


async def test_leases_last_while_a_stopping_worker_finishes(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker = make_worker(grace=1000)
    begun, go = write_slowly(worker, lease=30)
    await queue.publish("reports", b"x")
    async with worker:
        await until(lambda: begun)
        stopping = asyncio.create_task(worker.stop())
        await clock.advance(300)
        go.set()
        await stopping
    assert (worker.stats.handled, worker.stats.lost) == (1, 0)


async def test_handlers_that_do_not_finish_in_the_grace_are_cancelled_and_their_messages_given_back(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, begun, cancelled = make_worker(grace=20), asyncio.Event(), []

    @worker.on("reports")
    async def write(message: ortoo.Received) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)  # it may clean up before it ends
            cancelled.append(clock.time())
            raise

    await queue.publish("reports", b"x")
    began = clock.time()
    async with worker:
        await begun.wait()
        stopping = asyncio.create_task(worker.stop())
        await clock.advance(19)
        assert not stopping.done()
        await clock.advance(1)
        await stopping
    assert [time - began for time in cancelled] == [20]
    [again] = await queue.lease("reports")
    assert again.attempt == 1  # it was not the message's fault
    assert worker.stats.failed == 0


async def test_threads_that_do_not_finish_in_the_grace_are_left_alone(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker = make_worker(grace=20)
    begun, go = write_in_a_thread(worker)
    await queue.publish("reports", b"x")
    async with worker:
        await until(lambda: begun)
        stopping = asyncio.create_task(worker.stop())
        await clock.advance(20)
        await stopping
    [again] = await queue.lease("reports")
    go.set()
    await until(lambda: not any(thread.name.startswith("ortoo-worker") for thread in threading.enumerate()))
    await again.ack()  # what the thread came back with changed nothing
    assert worker.stats.handled == 0


async def test_a_cancelled_worker_cancels_its_handlers_and_gives_everything_back(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, begun = make_worker(), asyncio.Event()

    @worker.on("reports", prefetch=5)
    async def write(message: ortoo.Received) -> None:
        begun.set()
        await asyncio.Event().wait()

    await queue.publish_many("reports", [b"x"] * 3)
    running = asyncio.create_task(worker.run_async())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(await queue.lease("reports", max_messages=10)) == 3
    await worker.stop()  # nothing runs, so there is nothing to wait for


async def test_a_handler_may_stop_its_worker(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("reports")
    async def write(message: ortoo.Received) -> None:
        await worker.stop()

    await queue.publish("reports", b"x")
    async with asyncio.timeout(300):
        await worker.run_async()
    assert worker.stats.handled == 1


async def test_a_stopped_worker_can_run_again(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("reports")
    async def write(message: ortoo.Received) -> None: ...

    await queue.publish("reports", b"x")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    await queue.publish("reports", b"x")
    async with worker:
        await until(lambda: worker.stats.handled == 2)


async def test_the_first_error_ends_a_worker_that_stops_on_error(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("reports", stop_on_error=True)
    async def write(message: ortoo.Received) -> None:
        raise ValueError("out of paper")

    await queue.publish_many("reports", [b"1", b"2"])
    with pytest.raises(ValueError, match="out of paper"):
        await worker.run_async()
    group = await queue.group("reports")
    assert (group.delayed, group.ready, group.leased) == (1, 1, 0)  # nacked, given back


async def test_a_rejection_does_not_end_a_worker_that_stops_on_error(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker = make_worker()

    @worker.on("reports", stop_on_error=True)
    async def write(message: ortoo.Received) -> None:
        if message.value == b"1":
            raise ortoo.Reject

    await queue.publish_many("reports", [b"1", b"2"])
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    assert worker.stats.rejected == 1
