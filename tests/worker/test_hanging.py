"""Does a worker let go of what waits behind a handler that may never end, so that others can have it?"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

import ortoo
from ortoo.client.handler_runner import HandlerRunner
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from tests.worker.conftest import MakeWorker, until


async def take_elsewhere(queue: ortoo.Queue, count: int = 1) -> list[tuple[bytes, int]]:
    async with asyncio.timeout(60):
        messages = await queue.lease("emails", consumer="another", max_messages=count, wait=60)
    return [(message.value, message.attempt) for message in messages]


def shift_of(worker: ortoo.Worker) -> HandlerRunner:
    assert worker._session is not None
    return worker._session._runners[0]


def run_out_of_time(worker: ortoo.Worker, value: bytes = b"x") -> None:
    """As the alarm of the only handler with that does when its timeout has passed."""
    [job] = [job for job in shift_of(worker).jobs if job.messages[0].value == value]
    shift_of(worker)._time_out(job, 3600.0)


@asynccontextmanager
async def letting_go(*hanging: threading.Event) -> AsyncIterator[None]:
    """What hangs may go on in the end, so that its worker can stop, whatever the test has found."""
    try:
        yield
    finally:
        for event in hanging:
            event.set()


async def test_a_message_that_comes_again_does_not_wait_behind_its_own_hanging_handler(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, go_on = make_worker(), threading.Event()

    @worker.on("emails", concurrency=2, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        go_on.wait(300)

    await queue.publish("emails", b"x", key="k")
    async with worker, letting_go(go_on):
        await until(lambda: worker.stats.failed == 1)
        assert await take_elsewhere(queue) == [(b"x", 2)]


async def test_what_is_given_back_is_not_leased_again_at_once_but_when_its_line_is_free(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, go_on, released = make_worker(), threading.Event(), []
    release = queue.release

    async def counting(messages: list[ortoo.Received]) -> None:
        released.extend(messages)
        await release(messages)

    monkeypatch.setattr(queue, "release", counting)
    monkeypatch.setattr("ortoo.client.taker._PAUSE_SECONDS", 3600.0)

    @worker.on("emails", concurrency=2, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        if message.attempt == 1:
            go_on.wait(300)

    await queue.publish("emails", b"x", key="k")
    async with worker:
        await until(lambda: released)
        await settle(300)
        assert [message.attempt for message in released] == [2]
        go_on.set()
        await until(lambda: worker.stats.handled == 1)


async def test_what_waits_behind_a_hanging_handler_whose_lease_was_lost_is_given_back(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, begun, go_on = make_worker(), threading.Event(), threading.Event()

    @worker.on("emails", concurrency=2, lease=30)
    def send(message: ortoo.Received) -> None:
        message.reject()  # by hand, so that this receipt alone goes stale
        begun.set()
        go_on.wait(300)

    await queue.publish_many("emails", [ortoo.Message(value, key="k") for value in (b"x", b"y")])
    async with worker, letting_go(go_on):
        await until(begun.is_set)
        await clock.advance(20)
        await until(lambda: worker.stats.lost == 1)
        assert await take_elsewhere(queue) == [(b"y", 1)]


async def test_a_handler_whose_lease_was_lost_and_whose_time_is_up_holds_nothing(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    """Its place may never be free again, so that what was leased ahead is for others, and no more is."""
    worker, begun, go_on = make_worker(), threading.Event(), threading.Event()

    @worker.on("emails", lease=30)
    def send(message: ortoo.Received) -> None:
        begun.set()
        go_on.wait(300)

    await queue.publish("emails", b"x")
    async with worker, letting_go(go_on):
        await until(begun.is_set)
        await clock.advance(10)
        await queue.purge("emails")
        await clock.advance(10)
        await until(lambda: worker.stats.lost == 1)
        await queue.publish("emails", b"y")
        await until(lambda: len(shift_of(worker).waiting))
        run_out_of_time(worker)
        assert await take_elsewhere(queue) == [(b"y", 1)]
        await queue.publish("emails", b"z")
        assert await take_elsewhere(queue) == [(b"z", 1)]
    assert (worker.stats.failed, worker.stats.lost) == (0, 1)


async def test_what_is_left_of_a_batch_that_lost_a_lease_and_hangs_is_given_back_when_its_time_is_up(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, begun, go_on = make_worker(), threading.Event(), threading.Event()

    @worker.on_batch("emails", max_messages=4, lease=30)
    def send(messages: list[ortoo.Received]) -> None:
        messages[0].reject()  # by hand, so that this receipt alone goes stale
        begun.set()
        go_on.wait(300)

    await queue.publish_many("emails", [b"x"] * 4)
    async with worker, letting_go(go_on):
        await until(begun.is_set)
        await clock.advance(20)
        await until(lambda: worker.stats.lost == 1)
        run_out_of_time(worker)
        assert await take_elsewhere(queue, 4) == [(b"x", 1)] * 3


# -- partitions, which belong to one consumer


async def owned(queue: ortoo.Queue, consumer: str) -> list[int]:
    return (await queue.group("emails", "default")).consumers.get(consumer, [])


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortoo.client.taker._PAUSE_SECONDS", 0.01)


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("ordering", ["partition", "strict"])
async def test_a_partition_whose_handler_hangs_goes_to_others(
    queue: ortoo.Queue, make_worker: MakeWorker, ordering: str
) -> None:
    worker, go_on = make_worker(consumer="a"), threading.Event()

    @worker.on("emails", concurrency=2, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        if message.attempt == 1:
            go_on.wait(300)

    await queue.create_topic("emails", ordering=ordering, partitions=1)
    await queue.publish("emails", b"x")
    async with worker, letting_go(go_on):
        await until(lambda: worker.stats.failed == 1)
        assert await take_elsewhere(queue) == [(b"x", 2)]
        assert await owned(queue, "another") == [0]


@pytest.mark.usefixtures("short_pauses")
async def test_a_partition_whose_lease_was_lost_while_its_handler_hangs_goes_to_others(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker, begun, go_on = make_worker(consumer="a"), threading.Event(), threading.Event()

    @worker.on("emails", concurrency=2, lease=30)
    def send(message: ortoo.Received) -> None:
        message.reject()  # by hand, so that this receipt alone goes stale
        begun.set()
        go_on.wait(300)

    await queue.create_topic("emails", ordering="partition", partitions=1)
    await queue.publish_many("emails", [b"x", b"y"])
    async with worker, letting_go(go_on):
        await until(begun.is_set)
        await clock.advance(20)
        await until(lambda: worker.stats.lost == 1)
        assert await take_elsewhere(queue) == [(b"y", 1)]


class Shared(NamedTuple):
    worker: ortoo.Worker
    places: list[int]  # the worker's half of the partitions
    finish: threading.Event  # for what works
    elsewhere: asyncio.Task[list[tuple[bytes, int]]]


@asynccontextmanager
async def hanging_while_another_works(
    queue: ortoo.Queue, make_worker: MakeWorker, partitions: int
) -> AsyncIterator[Shared]:
    """The time is up of what hangs in the first of a worker's partitions, while the second one's handler works."""
    worker, go_on, finish = make_worker(consumer="a"), threading.Event(), threading.Event()

    @worker.on("emails", concurrency=partitions // 2 + 1, timeout=300, error_delay=0)
    def send(message: ortoo.Received) -> None:
        if message.attempt == 1 and message.value != b"free":
            (go_on if message.value == b"hangs" else finish).wait(300)

    await queue.create_topic("emails", ordering="partition", partitions=partitions)
    async with worker, letting_go(finish, go_on):
        elsewhere = asyncio.create_task(take_elsewhere(queue, 10))
        while not await owned(queue, "another") or len(await owned(queue, "a")) != partitions // 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        places = await owned(queue, "a")
        await queue.publish("emails", b"hangs", partition=places[0])
        await queue.publish("emails", b"works", partition=places[1])
        await until(lambda: shift_of(worker).running == 2)
        run_out_of_time(worker, b"hangs")
        await until(lambda: worker.stats.failed == 1)
        await settle(300)
        yield Shared(worker, places, finish, elsewhere)


@pytest.mark.usefixtures("short_pauses")
async def test_what_other_handlers_hold_is_settled_before_a_worker_leaves_its_partitions(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    async with hanging_while_another_works(queue, make_worker, partitions=4) as shared:
        assert not shared.elsewhere.done()
        shared.finish.set()
        assert await shared.elsewhere == [(b"hangs", 2)]
        assert (shared.worker.stats.handled, shared.worker.stats.lost) == (1, 0)


@pytest.mark.usefixtures("short_pauses")
async def test_a_worker_comes_back_to_its_partitions_when_its_handler_ends_or_nobody_else_is_left(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, go_on = make_worker(consumer="a"), threading.Event()

    @worker.on("emails", concurrency=2, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        if message.value == b"hangs" and message.attempt == 1:
            go_on.wait(300)

    await queue.create_topic("emails", ordering="partition", partitions=1)
    await queue.publish("emails", b"hangs")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
        assert await take_elsewhere(queue) == [(b"hangs", 2)]
        await queue.leave("another")
        async with asyncio.timeout(60):
            while await owned(queue, "a") != [0]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        go_on.set()
        await until(lambda: worker.stats.handled == 1)
        await queue.publish("emails", b"next")
        await until(lambda: worker.stats.handled == 2)


def counted(monkeypatch: pytest.MonkeyPatch, queue: ortoo.Queue, name: str) -> list[None]:
    """Grows by one whenever the queue is asked for that; others run first, so that asking without a break freezes nothing."""
    calls: list[None] = []
    method = getattr(queue, name)

    async def counting(*args: object, **options: object) -> object:
        calls.append(None)
        await asyncio.sleep(0)
        return await method(*args, **options)

    monkeypatch.setattr(queue, name, counting)
    return calls


@pytest.mark.usefixtures("short_pauses")
async def test_a_worker_that_has_left_looks_around_no_more_often_when_one_of_several_hanging_handlers_ends(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, hanging = make_worker(consumer="a"), [threading.Event(), threading.Event()]

    @worker.on("emails", concurrency=4, prefetch=4, timeout=300, error_delay=0)
    def send(message: ortoo.Received) -> None:
        if message.attempt == 1:
            hanging[message.partition].wait(300)

    await queue.create_topic("emails", ordering="partition", partitions=2)
    for partition in (0, 1):
        await queue.publish("emails", b"x", partition=partition)
    looks, left = counted(monkeypatch, queue, "group"), counted(monkeypatch, queue, "leave")
    async with worker, letting_go(*hanging):
        await until(lambda: shift_of(worker).running == 2)
        for job in list(shift_of(worker).jobs):
            shift_of(worker)._time_out(job, 300.0)
        await until(lambda: worker.stats.failed == 2)
        elsewhere = asyncio.create_task(take_elsewhere(queue, 10))
        await until(lambda: left)
        monkeypatch.setattr("ortoo.client.taker._PAUSE_SECONDS", 3600.0)
        await elsewhere
        so_far = len(looks)
        hanging[0].set()
        await until(lambda: len(shift_of(worker).jobs) == 1)
        await settle(300)
        assert len(looks) <= so_far + 2
        assert len(left) == 1


@pytest.mark.usefixtures("short_pauses")
async def test_a_worker_goes_on_with_its_other_partitions_while_another_of_its_handlers_works(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    async with hanging_while_another_works(queue, make_worker, partitions=6) as shared:
        await queue.publish("emails", b"free", partition=shared.places[2])
        await until(lambda: shared.worker.stats.handled == 1)
        shared.elsewhere.cancel()


@pytest.mark.usefixtures("short_pauses")
async def test_a_handler_by_labels_goes_on_with_its_other_topics_while_one_of_its_messages_hangs(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, go_on = make_worker(consumer="a"), threading.Event()

    @worker.on(labels={"kind": "mail"}, concurrency=4, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        if message.value == b"hangs" and message.attempt == 1:
            go_on.wait(300)

    await queue.create_topic("emails", ordering="partition", partitions=1, labels={"kind": "mail"})
    await queue.create_topic("letters", labels={"kind": "mail"})
    await queue.publish("emails", b"hangs")
    async with worker, letting_go(go_on):
        await until(lambda: worker.stats.failed == 1)
        await queue.heartbeat("emails", "default", "another", session=3600)
        await settle(300)
        for count in (1, 2, 3):
            await queue.publish("letters", b"free")
            await until(lambda count=count: worker.stats.handled == count)  # type: ignore[misc]


@pytest.mark.usefixtures("short_pauses")
async def test_a_worker_leaves_no_topic_that_another_of_its_handlers_leases_from_in_the_same_group(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving would give up what that one holds."""
    worker, go_on = make_worker(consumer="a"), threading.Event()

    @worker.on("emails", concurrency=2, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        go_on.wait(300)

    @worker.on(labels={"kind": "mail"})
    def count(message: ortoo.Received) -> None:
        pass

    await queue.create_topic("emails", ordering="strict", partitions=1)
    await queue.publish("emails", b"x")
    released, left = counted(monkeypatch, queue, "release"), counted(monkeypatch, queue, "leave")
    async with worker, letting_go(go_on):
        await until(lambda: worker.stats.failed == 1)
        await queue.heartbeat("emails", "default", "another", session=3600)
        await until(lambda: len(released) > 10)
        assert not left


@pytest.mark.usefixtures("short_pauses")
async def test_a_worker_that_has_left_asks_again_after_a_while_though_others_are_there(
    queue: ortoo.Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others may take nothing."""
    monkeypatch.setattr("ortoo.client.ceding._AWAY_SECONDS", 0.02)
    worker, go_on = make_worker(consumer="a"), threading.Event()

    @worker.on("emails", concurrency=2, timeout=0.05, error_delay=0)
    def send(message: ortoo.Received) -> None:
        go_on.wait(300)

    await queue.create_topic("emails", ordering="partition", partitions=2)
    await queue.publish("emails", b"x", partition=0)
    leases, left = counted(monkeypatch, queue, "lease"), counted(monkeypatch, queue, "leave")
    async with worker, letting_go(go_on):
        await until(lambda: worker.stats.failed == 1)
        await queue.heartbeat("emails", "default", "another", session=3600)
        await until(lambda: left)
        so_far = len(leases)
        await until(lambda: len(leases) > so_far)
