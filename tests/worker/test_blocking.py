"""Do plain functions, which run in threads, get a queue that they can use, and does nobody wait for one that hangs?"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ortoo
from tests.worker.conftest import MakeWorker, until


async def test_a_plain_function_publishes_before_its_message_is_acked(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker = make_worker()

    @worker.on("emails")
    def send(message: ortoo.Received) -> None:
        assert isinstance(worker.queue, ortoo.SyncQueue)
        worker.queue.publish("events", message.value)

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
        assert [message.value async for message in queue.read("events")] == [b"hello"]


async def test_what_the_publish_of_a_plain_function_fails_with_is_its_failure(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker = make_worker()

    @worker.on("emails")
    def send(message: ortoo.Received) -> None:
        worker.queue.publish("events", object())

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
    assert worker.stats.handled == 0


async def test_a_plain_function_settles_and_extends_without_await(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("emails")
    def send(message: ortoo.Received) -> None:
        assert message.extend(60) is None
        assert message.ack() is None

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    assert (await queue.group("emails")).backlog == 0


async def test_an_async_handler_has_the_async_queue(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        assert worker.queue is queue

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
        assert worker.queue is queue


async def test_a_blocking_queue_refuses_to_wait_for_its_own_loop(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, queues = make_worker(), []

    @worker.on("emails")
    def send(message: ortoo.Received) -> None:
        queues.append(worker.queue)

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: queues)
        with pytest.raises(ortoo.InvalidError, match="await the async queue"):
            queues[0].publish("emails", b"x")


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("fails", [True, False])
async def test_a_transaction_in_a_handler_acks_and_publishes_exactly_once(
    queue: ortoo.Queue, make_worker: MakeWorker, is_async: bool, fails: bool
) -> None:
    """What the handler makes of its message is published with its ack or not at all; what comes after changes nothing."""
    worker = make_worker()

    async def copy(message: ortoo.Received) -> None:
        async with worker.queue.transaction() as tx:
            tx.ack(message)
            tx.publish("copies", message.value)
        if fails:
            raise ValueError("after the fact")

    def copy_blocking(message: ortoo.Received) -> None:
        with worker.queue.transaction() as tx:
            tx.ack(message)
            tx.publish("copies", message.value)
        if fails:
            raise ValueError("after the fact")

    handler: Callable[[ortoo.Received], Any] = copy if is_async else copy_blocking
    worker.on("orders", concurrency=4)(handler)
    await queue.publish_many("orders", [b"%d" % number for number in range(20)])
    async with worker:
        await until(lambda: worker.stats.handled + worker.stats.failed == 20)
    assert sorted([m.value async for m in queue.read("copies")]) == sorted(b"%d" % number for number in range(20))
    assert (await queue.group("orders")).backlog == 0


PROGRAM = """
import sys, threading
import ortoo

worker = ortoo.Worker(ortoo.open(sys.argv[1]), grace=0.1)

@worker.on("emails")
def send(message):
    print("begun", flush=True)
    threading.Event().wait()

worker.run()
print("stopped", flush=True)
"""


def test_a_function_that_never_returns_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    with ortoo.open_sync(tmp_path) as queue:
        queue.publish("emails", b"x")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "begun\n"
            os.kill(program.pid, signal.SIGTERM)
            output, _ = program.communicate(timeout=60)
        finally:
            program.kill()
    assert output == "stopped\n"
    assert program.returncode == 0
    with ortoo.open_sync(tmp_path) as queue:
        assert [message.value for message in queue.lease("emails")] == [b"x"]


async def test_a_handler_that_hangs_is_cancelled_and_its_message_comes_again(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, attempts = make_worker(), []

    @worker.on("emails", timeout=0.05, error_delay=0)
    async def send(message: ortoo.Received) -> None:
        attempts.append(message.attempt)
        if message.attempt < 3:
            await asyncio.Event().wait()

    sent = await queue.publish("emails", b"x")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    assert attempts == [1, 2, 3]
    assert (worker.stats.failed, worker.stats.lost) == (2, 0)
    assert "did not finish within 0.05 seconds" in str((await queue.trace(sent.id)).events)


async def test_a_handler_that_does_not_let_itself_be_cancelled_gives_up_its_message_all_the_same(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, go_on = make_worker(), asyncio.Event()

    @worker.on("emails", timeout=0.05, error_delay=3600)
    async def send(message: ortoo.Received) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                pass

    await queue.publish("emails", b"x")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
        group = await queue.group("emails")
        assert (group.leased, group.delayed) == (0, 1)
        go_on.set()


async def test_a_function_that_hangs_in_its_thread_gives_up_its_message(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    """It cannot be stopped, so it keeps its place; others may have the message."""
    worker, go_on = make_worker(), threading.Event()

    @worker.on("emails", timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        go_on.wait(60)

    await queue.create_topic("emails", ordering="none")
    await queue.publish("emails", b"x")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
        assert [message.attempt for message in await queue.lease("emails", consumer="another", wait=60)] == [2]
        go_on.set()
    assert worker.stats.handled == 0


async def test_the_time_limit_never_exceeds_what_the_topic_allows(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        await asyncio.Event().wait()

    await queue.create_topic("emails", total_timeout=0.05)
    await queue.publish("emails", b"x")
    async with worker:
        await until(lambda: worker.stats.failed == 1)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5"])
def test_a_time_limit_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ortoo.InvalidError, match="timeout must be"):
        ortoo.Worker("ortoo://localhost:1").on("emails", timeout=timeout)(print)
