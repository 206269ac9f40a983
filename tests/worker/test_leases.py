"""Do the leases of long jobs last, and is a job told when its lease was lost?"""

import asyncio
import logging
from typing import Any

import pytest

import ortoo
from ortoo.model.commands import Settle
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from tests.worker.conftest import MakeWorker, until, write_in_a_thread, write_slowly


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 1), ({"lease": 300}, 1), ({"lease": 6, "prefetch": 5}, 6)],
    ids=["as the topic says", "as the handler asks for", "also of what waits for its turn"],
)
async def test_the_lease_of_a_long_job_is_extended(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock, options: dict[str, int], count: int
) -> None:
    worker = make_worker()
    begun, go = write_slowly(worker, **options)
    await queue.create_topic("reports", lease=3)
    await queue.publish_many("reports", [b"x"] * count)
    async with worker:
        await until(lambda: begun)
        await clock.advance(1000)
        assert (await queue.group("reports")).leased == count
        go.set()
        await until(lambda: worker.stats.handled == count)
    assert [message.attempt for message in begun] == [1] * count
    assert worker.stats.lost == 0


async def test_all_leases_are_extended_in_one_call(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, calls = make_worker(), []
    extend = queue.extend

    async def counting(messages: list[ortoo.Received], seconds: float | None = None) -> None:
        calls.append((clock.time(), len(messages)))
        await extend(messages, seconds)

    monkeypatch.setattr(queue, "extend", counting)
    _, go = write_slowly(worker, concurrency=3, prefetch=0)
    await queue.create_topic("reports", lease=30)
    began = clock.time()
    async with worker:
        for _ in range(3):  # three leases
            await queue.publish("reports", b"x")
            await clock.advance(1)
        await clock.advance(57)
        go.set()
        await until(lambda: worker.stats.handled == 3)
    assert [count for _, count in calls if count] == [3] * 5
    assert [round(time - began) for time, count in calls if count] == [20, 30, 40, 50, 60]


async def test_the_shortest_lease_of_all_topics_is_kept(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, go, begun = make_worker(), asyncio.Event(), []

    @worker.on(labels={"task": "write"}, concurrency=2)
    async def write(message: ortoo.Received) -> None:
        begun.append(message.topic)
        await go.wait()

    for topic, lease in (("long", 300), ("short", 3)):
        await queue.create_topic(topic, lease=lease, labels={"task": "write"})
    async with worker:
        await queue.publish("long", b"x")
        await until(lambda: begun == ["long"])
        await queue.publish("short", b"x")
        await until(lambda: begun == ["long", "short"])
        await clock.advance(60)
        go.set()
        await until(lambda: worker.stats.handled == 2)
    assert worker.stats.lost == 0


async def lose_leases(queue: ortoo.Queue, clock: ManualClock) -> None:
    """All of them, which a worker learns when it would extend them."""
    await clock.advance(10)
    await queue.seek("reports", "default", "end")
    await clock.advance(10)


async def test_a_job_whose_lease_was_lost_is_cancelled_and_not_acked(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = make_worker()
    told: list[str] = []

    @worker.on("reports", lease=30)
    async def write(message: ortoo.Received) -> None:
        if told:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append(message.id)  # and returns as if nothing had happened

    sent = await queue.publish("reports", b"x")
    async with worker:
        await until(lambda: worker._session and worker._session._runners[0].jobs)
        with caplog.at_level(logging.WARNING, "ortoo.worker"):
            await lose_leases(queue, clock)
            await until(lambda: told)
    assert (told, worker.stats.handled, worker.stats.lost) == ([sent.id], 0, 1)
    assert "was lost while" in caplog.text


async def test_a_thread_whose_lease_was_lost_finishes_in_vain(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker = make_worker()
    begun, go = write_in_a_thread(worker, lease=30, prefetch=0)
    await queue.publish("reports", b"x")
    async with worker:
        await until(lambda: begun)
        await lose_leases(queue, clock)
        await until(lambda: worker.stats.lost == 1)
        await queue.publish("reports", b"y")
        await clock.advance(10)
        assert (await queue.group("reports")).leased == 0  # for the thread still has the place
        go.set()
        await until(lambda: worker.stats.handled == 1)
    assert worker.stats.lost == 1


async def test_what_was_lost_while_it_waited_is_not_handled(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker = make_worker()
    begun, go = write_in_a_thread(worker, prefetch=5, lease=30)
    await queue.publish_many("reports", [b"x"] * 4)
    async with worker:
        await until(lambda: begun)
        await lose_leases(queue, clock)
        go.set()
        await until(lambda: worker._session and not worker._session._runners[0].jobs)
    assert [message.value for message in begun] == [b"x"]


async def test_an_ack_that_comes_too_late_is_logged_and_counted(
    queue: ortoo.Queue, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = make_worker()

    @worker.on("reports")
    async def write(message: ortoo.Received) -> None:
        await queue.seek("reports", "default", "end")

    await queue.publish("reports", b"x")
    with caplog.at_level(logging.WARNING, "ortoo.worker"):
        async with worker:
            await until(lambda: worker.stats.lost == 1)
    assert worker.stats.handled == 0
    assert "could not be acknowledged" in caplog.text


def ack_later(queue: ortoo.Queue, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """When it is set, acks go on their way."""
    go = asyncio.Event()
    ack = queue.ack

    async def slow(messages: list[ortoo.Received]) -> None:
        await go.wait()
        await ack(messages)

    monkeypatch.setattr(queue, "ack", slow)
    return go


async def test_the_next_message_does_not_wait_for_the_last_ones_ack(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, seen, go = make_worker(), [], ack_later(queue, monkeypatch)

    @worker.on("reports")
    async def write(message: ortoo.Received) -> None:
        seen.append(message.value)

    await queue.publish_many("reports", [b"x"] * 10)
    async with worker:
        await until(lambda: len(seen) == 10)
        assert worker.stats.handled == 0
        go.set()
    assert worker.stats.handled == 10  # all are waited for at the end


def acks_of(queue: ortoo.Queue, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each ack command has settled."""
    sizes: list[int] = []
    call = queue._link.call

    async def counting(command: Any) -> Any:
        if isinstance(command, Settle) and command.outcome == "ack":
            sizes.append(sum(len(run.offsets) for run in command.runs))
        return await call(command)

    monkeypatch.setattr(queue._acks, "_call", counting)
    return sizes


@pytest.mark.parametrize("waits", [False, True])
async def test_many_acks_leave_in_few_commands(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    worker, sizes = make_worker(), acks_of(queue, monkeypatch)

    @worker.on("reports", concurrency=50)
    async def write(message: ortoo.Received) -> None:
        if waits:
            await asyncio.sleep(0)

    await queue.publish_many("reports", [b"x"] * 1000)
    async with worker:
        await until(lambda: worker.stats.handled == 1000)
    assert sum(sizes) == 1000
    assert len(sizes) <= 100


async def test_of_acks_that_leave_together_only_those_of_lost_leases_are_lost(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, sizes, all_ten = make_worker(), acks_of(queue, monkeypatch), asyncio.Barrier(10)

    @worker.on("reports", concurrency=10)
    async def write(message: ortoo.Received) -> None:
        if message.value in (b"3", b"7"):
            await message.reject()  # by hand, so that these receipts alone go stale
        await all_ten.wait()

    await queue.publish_many("reports", [str(number) for number in range(10)])
    async with worker:
        await until(lambda: worker.stats.handled + worker.stats.lost == 10)
    assert (worker.stats.handled, worker.stats.lost, max(sizes)) == (8, 2, 10)


async def test_acks_on_their_way_are_bounded(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, seen, go = make_worker(), [], ack_later(queue, monkeypatch)
    monkeypatch.setattr("ortoo.client.outcomes._UNCONFIRMED_MAX", 5)

    @worker.on("reports", concurrency=2)
    async def write(message: ortoo.Received) -> None:
        seen.append(message.value)

    await queue.publish_many("reports", [b"x"] * 20)
    async with worker:
        await settle(300)
        assert len(seen) == 7
        go.set()
        await until(lambda: worker.stats.handled == 20)


async def test_a_lease_that_is_lost_while_its_job_is_settled_cuts_nothing_short(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, nacking, go, done = make_worker(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    nack = queue.nack

    async def slow(messages: list[ortoo.Received], error: str | None = None, delay: float | None = None) -> None:
        nacking.set()
        await go.wait()
        done.set()
        await nack(messages, error, delay)

    monkeypatch.setattr(queue, "nack", slow)

    @worker.on("reports", lease=30)
    async def write(message: ortoo.Received) -> None:
        raise ValueError

    await queue.publish("reports", b"x")
    async with worker:
        await nacking.wait()
        await lose_leases(queue, clock)
        go.set()
        await until(lambda: worker.stats.lost)
    assert done.is_set()
    assert (worker.stats.failed, worker.stats.lost) == (1, 1)


async def test_what_is_left_of_a_batch_that_lost_a_lease_is_given_back(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, batches = make_worker(), []

    @worker.on_batch("reports", max_messages=4, lease=30)
    async def write(messages: list[ortoo.Received]) -> None:
        batches.append([message.attempt for message in messages])
        if len(batches) == 1:
            await messages[0].reject()  # by hand, so that this receipt alone goes stale
            await asyncio.Event().wait()

    await queue.publish_many("reports", [b"x"] * 4)
    async with worker:
        await until(lambda: batches)
        await clock.advance(20)
        await until(lambda: worker.stats.handled == 3)
    assert batches == [[1, 1, 1, 1], [1, 1, 1]]
    assert worker.stats.lost == 1
