"""Does a worker find its queue, wait for it, and end with it?"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ortoo
from ortoo.testing import ManualClock, open_manual
from tests.worker.conftest import MakeWorker, until


async def test_a_queue_that_is_open_stays_open(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    worker.on("emails")(print)
    async with worker:
        pass
    await queue.publish("emails", b"x")


async def test_a_queue_that_the_worker_made_is_opened_and_closed() -> None:
    queue, seen = open_manual(), []
    worker = ortoo.Worker(lambda: queue)

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        seen.append(message.value)

    async with worker:
        await worker.queue.publish("emails", b"x")
        await until(lambda: seen)
    with pytest.raises(ortoo.ClosedError):
        await queue.publish("emails", b"x")


def test_run_opens_a_queue_and_closes_it(tmp_path: Path) -> None:
    async def publish() -> None:
        async with ortoo.open(tmp_path) as queue:
            await queue.publish("emails", b"x")

    asyncio.run(publish())
    worker, seen = ortoo.Worker(ortoo.open(tmp_path)), []

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        seen.append(type(asyncio.get_running_loop()).__module__)
        await worker.stop()

    worker.run()
    assert [module.partition(".")[0] for module in seen] == ["uvloop"]
    with ortoo.open_sync(tmp_path) as queue:  # the directory is free again
        assert queue.group("emails").backlog == 0


def test_run_works_outside_the_main_thread(tmp_path: Path) -> None:
    with ortoo.open_sync(tmp_path) as queue:
        queue.publish("emails", b"x")
    worker = ortoo.Worker(lambda: ortoo.open(tmp_path))

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        await worker.stop()

    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(300)
    assert worker.stats.handled == 1


async def test_a_worker_runs_once_at_a_time(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    worker.on("emails")(print)
    async with worker:
        with pytest.raises(ortoo.InvalidError):
            await worker.run_async()
        with pytest.raises(ortoo.InvalidError):
            worker.on("letters")(print)


async def test_a_topic_that_is_not_there_yet_is_waited_for(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = make_worker()
    worker.on("emails")(lambda message: None)
    with caplog.at_level(logging.INFO, "ortoo.worker"):
        async with worker:
            await clock.advance(60)
            await queue.publish("emails", b"x")
            await clock.advance(1)
            await until(lambda: worker.stats.handled == 1)
    waits, goes_on = [record.getMessage() for record in caplog.records]  # one line, however often it was tried
    assert waits.endswith("on topic 'emails': the topic does not exist yet; retrying")
    assert goes_on.endswith("running again")


async def test_a_server_that_is_not_there_yet_is_waited_for_until_the_worker_is_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pauses: list[float] = []
    fourth = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            fourth.set()
            await asyncio.Event().wait()

    worker = ortoo.Worker("ortoo://127.0.0.1:1", sleep=sleep)
    worker.on("emails")(print)
    with caplog.at_level(logging.INFO, "ortoo.worker"):
        running = asyncio.create_task(worker.run_async())
        async with asyncio.timeout(300):
            await fourth.wait()
            await worker.stop()
            await running
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    [record] = caplog.records  # one line, however often it was tried
    assert record.getMessage().startswith("the worker: no Ortoo server at 127.0.0.1:1")
    assert record.getMessage().endswith("; retrying")


async def test_what_cannot_ever_work_ends_the_worker(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    worker.on("emails", lease=10**9)(print)
    with pytest.raises(ortoo.InvalidError):
        await worker.run_async()


async def test_a_queue_that_is_closed_ends_the_worker() -> None:
    queue = await open_manual().open()
    worker = ortoo.Worker(queue)
    worker.on("emails")(print)
    await queue.create_topic("emails")
    running = asyncio.create_task(worker.run_async())
    await until(lambda: worker._session and worker._session.opened.is_set())
    await queue.close()
    with pytest.raises(ortoo.ClosedError):
        await running


async def test_a_store_that_does_not_open_ends_the_worker(tmp_path: Path) -> None:
    worker = ortoo.Worker(lambda: ortoo.open(tmp_path))
    worker.on("emails")(print)
    async with ortoo.open(tmp_path):  # nobody else may have it now
        with pytest.raises(ortoo.UnavailableError):
            async with worker:
                pass


PROGRAM = """
import asyncio, sys
import ortoo

worker = ortoo.Worker(ortoo.open(sys.argv[1]))

@worker.on("emails", stop_on_error=True)
async def send(message):
    print("begun", flush=True)
    if sys.argv[2] == "finish":
        await asyncio.to_thread(sys.stdin.readline)
    else:
        await asyncio.sleep(3600)

worker.run()
print(worker.stats.handled, flush=True)
"""


def test_a_worker_started_in_the_background_ends_when_told(tmp_path: Path) -> None:
    """A shell lets it ignore Ctrl-C then."""
    with ortoo.open_sync(tmp_path) as queue:
        queue.publish("emails", b"x")
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", PROGRAM, str(tmp_path), "finish"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        os.kill(program.pid, signal.SIGTERM)
        output, _ = program.communicate("\n", timeout=300)
    assert (output, program.returncode) == ("1\n", 0)


@pytest.mark.parametrize(
    ("signals", "how", "handled"),
    [
        ([signal.SIGTERM], "finish", 1),
        ([signal.SIGINT], "finish", 1),
        ([signal.SIGTERM, signal.SIGINT], "hang", 0),
    ],
)
def test_a_signal_stops_and_a_second_one_cancels(
    signals: list[signal.Signals], how: str, handled: int, tmp_path: Path
) -> None:
    with ortoo.open_sync(tmp_path) as queue:
        queue.publish("emails", b"x")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        for number in signals:
            os.kill(program.pid, number)
        output, _ = program.communicate("\n", timeout=300)
    assert output == f"{handled}\n"
    assert program.returncode == 0
    with ortoo.open_sync(tmp_path) as queue:
        group = queue.group("emails")
        assert (group.backlog, group.leased) == (1 - handled, 0)
