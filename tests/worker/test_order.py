"""Are messages of one line handled one after the other, and never past one that failed?"""

import asyncio
from typing import Any

import pytest

import ortoo
from ortoo.testing import ManualClock
from tests.worker.conftest import MakeWorker, until


@pytest.mark.parametrize(
    "settings", [{"ordering": "key"}, {"ordering": "partition"}, {"ordering": "strict", "partitions": 1}]
)
async def test_one_line_is_handled_in_order_and_one_by_one(
    settings: dict[str, Any], queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, seen, running = make_worker(), [], 0
    overlaps = 0

    @worker.on("orders", concurrency=8)
    async def handle(message: ortoo.Received) -> None:
        nonlocal running, overlaps
        overlaps += running
        running += 1
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        seen.append(int(message.value))

    await queue.create_topic("orders", **settings)
    await queue.publish_many("orders", [ortoo.Message(str(n), key="ann", partition=0) for n in range(30)])
    async with worker:
        await until(lambda: worker.stats.handled == 30)
    assert (seen, overlaps) == (list(range(30)), 0)


@pytest.mark.parametrize(("ordering", "key"), [("none", "ann"), ("key", None)])
async def test_what_has_no_order_is_handled_side_by_side(
    ordering: str, key: str | None, queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, all_four = make_worker(), asyncio.Barrier(4)

    @worker.on("orders", concurrency=4)
    async def handle(message: ortoo.Received) -> None:
        await all_four.wait()

    await queue.create_topic("orders", ordering=ordering)
    await queue.publish_many("orders", [ortoo.Message(b"x", key=key) for _ in range(4)])
    async with worker:
        await until(lambda: worker.stats.handled == 4)


async def test_keys_do_not_wait_for_each_other(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, both = make_worker(), asyncio.Barrier(2)

    @worker.on("orders", concurrency=2)
    async def handle(message: ortoo.Received) -> None:
        if message.value == b"meet":
            await both.wait()

    await queue.publish_many(
        "orders",
        [ortoo.Message("meet", key="ann"), ortoo.Message("later", key="ann"), ortoo.Message("meet", key="bob")],
    )
    async with worker:
        await until(lambda: worker.stats.handled == 3)


async def test_what_stands_behind_a_failure_is_not_handled_before_it(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, seen = make_worker(), []

    @worker.on("orders", concurrency=4, error_delay=10)
    async def handle(message: ortoo.Received) -> None:
        seen.append((message.value, message.attempt))
        if message.value == b"1" and message.attempt == 1:
            raise ValueError

    await queue.publish_many("orders", [ortoo.Message(str(n), key="ann") for n in range(4)])
    async with worker:
        await until(lambda: worker.stats.failed == 1)
        await clock.advance(9)
        assert seen == [(b"0", 1), (b"1", 1)]
        await clock.advance(1)
        await until(lambda: worker.stats.handled == 4)
    assert seen == [(b"0", 1), (b"1", 1), (b"1", 2), (b"2", 1), (b"3", 1)]


async def test_a_rejected_message_holds_nobody_up(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, seen = make_worker(), []

    @worker.on("orders", concurrency=4)
    async def handle(message: ortoo.Received) -> None:
        seen.append(message.value)
        if message.value == b"0":
            raise ortoo.Reject

    await queue.publish_many("orders", [ortoo.Message(str(n), key="ann") for n in range(3)])
    async with worker:
        await until(lambda: worker.stats.handled == 2)
    assert seen == [b"0", b"1", b"2"]


async def test_when_a_failure_cannot_be_told_nothing_behind_it_is_handled(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    """The group was moved while the handler ran: its receipts are stale, and everything is delivered again, in order."""
    worker, seen = make_worker(), []

    @worker.on("orders", concurrency=1, prefetch=4)
    async def handle(message: ortoo.Received) -> None:
        seen.append(message.value)
        if len(seen) == 1:
            await queue.seek("orders", "default", "start")
            raise ValueError

    await queue.publish_many("orders", [ortoo.Message(str(n), key="ann") for n in range(3)])
    async with worker:
        await until(lambda: worker.stats.handled == 3)
    assert seen == [b"0", b"0", b"1", b"2"]
    assert worker.stats.lost == 1


async def test_what_is_passed_over_for_a_lost_lease_is_given_back(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, seen = make_worker(), []

    @worker.on("orders", concurrency=1, prefetch=4)
    async def handle(message: ortoo.Received) -> None:
        seen.append((message.value, message.attempt))
        if message.value == b"0":
            await message.reject()  # by hand: its receipt goes stale, those of the others do not
        if message.value == b"1":
            await until(lambda: worker.stats.lost)

    await queue.publish_many("orders", [b"0", b"1", b"2"])
    async with worker:
        await until(lambda: worker.stats.handled == 2)
    assert seen == [(b"0", 1), (b"1", 1), (b"2", 1)]
    assert worker.stats.lost == 1
