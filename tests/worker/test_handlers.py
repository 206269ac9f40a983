"""What becomes of a message when its handler returns, raises or rejects?"""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

import ortoo
from tests.worker.conftest import MakeWorker, until


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_a_message_is_acked_when_its_handler_returns(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, seen = make_worker(), []

    @worker.on("emails", group="senders")
    async def send(message: ortoo.Received) -> None:
        seen.append(message.value)

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    assert seen == [b"hello"]
    assert (await queue.group("emails", "senders")).backlog == 0


async def test_a_message_is_nacked_with_the_error_when_its_handler_raises(
    queue: ortoo.Queue, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = make_worker()

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        raise ValueError("no such address")

    sent = await queue.publish("emails", b"hello")
    with caplog.at_level(logging.WARNING, "ortoo.worker"):
        async with worker:
            await until(lambda: worker.stats.failed == 1)
    [nacked] = [event for event in (await queue.trace(sent.id)).events if event.what == "nacked"]
    assert "ValueError: no such address" in str(nacked)
    assert (worker.stats.handled, worker.stats.failed, worker.stats.rejected) == (0, 1, 0)
    [record] = [record for record in caplog.records if record.name == "ortoo.worker"]
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("x" * 5000), "ValueError: " + "x" * 987 + "…"),
        (KeyError(), "KeyError"),
        (Unprintable(), "Unprintable: (its text cannot be shown)"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
    ],
)
async def test_the_error_is_kept_in_few_words(
    error: BaseException, text: str, queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker = make_worker()

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        raise error

    await queue.create_topic("emails", max_attempts=1)
    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
    [letter] = await queue.dead_letters("emails")
    assert letter.headers["ortoo-error"] == text


async def test_a_rejected_message_goes_to_the_dead_letters_at_once(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("emails")
    async def send(message: ortoo.Received) -> None:
        raise ortoo.Reject("the address is not one")

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.rejected == 1)
    [letter] = await queue.dead_letters("emails")
    assert letter.headers["ortoo-error"] == "the address is not one"
    assert worker.stats.failed == 0


async def test_error_delay_takes_the_place_of_the_backoff(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ortoo.testing.ManualClock
) -> None:
    worker, attempts = make_worker(), []

    @worker.on("emails", error_delay=100)
    async def send(message: ortoo.Received) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise ValueError

    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
        await clock.advance(99)
        assert attempts == [1]
        await clock.advance(1)
        await until(lambda: worker.stats.handled == 1)
    assert attempts == [1, 2]


async def test_a_handler_chooses_when_its_message_comes_again(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ortoo.testing.ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    worker, attempts = make_worker(), []

    @worker.on("emails", error_delay=10, stop_on_error=True)
    async def send(message: ortoo.Received) -> None:
        attempts.append(message.attempt)
        if message.attempt < 3:
            raise ortoo.Retry("the bank is closed", delay=100 if message.attempt == 1 else None)

    sent = await queue.publish("emails", b"hello")
    with caplog.at_level(logging.WARNING, "ortoo.worker"):
        async with worker:
            await until(lambda: worker.stats.failed == 1)
            await clock.advance(99)
            assert attempts == [1]
            await clock.advance(1)
            await until(lambda: worker.stats.failed == 2)
            await clock.advance(9)
            assert attempts == [1, 2]
            await clock.advance(1)
            await until(lambda: worker.stats.handled == 1)
    errors = [event.error for event in (await queue.trace(sent.id)).events if event.what == "nacked"]
    assert errors == ["the bank is closed", "the bank is closed"]
    assert [record.exc_info for record in caplog.records if record.name == "ortoo.worker"] == [None, None]


@pytest.mark.parametrize("delay", [-1, "soon", float("nan")])
def test_a_retry_needs_a_delay_that_can_be(delay: Any) -> None:
    with pytest.raises(ortoo.InvalidError, match="delay"):
        ortoo.Retry("later", delay=delay)


async def test_plain_functions_run_in_threads_side_by_side(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, both = make_worker(), threading.Barrier(2, timeout=300)
    threads = set()

    @worker.on("emails", concurrency=2)
    def send(message: ortoo.Received) -> None:
        threads.add(threading.current_thread().name)
        both.wait()

    await queue.publish_many("emails", [b"1", b"2"])
    async with worker:
        await until(lambda: worker.stats.handled == 2)
    assert len(threads) == 2
    assert threading.current_thread().name not in threads


async def test_a_handler_may_be_anything_that_can_be_called(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, seen = make_worker(), []

    async def note(kind: str, message: ortoo.Received) -> None:
        seen.append(kind)

    class Sender:
        async def __call__(self, message: ortoo.Received) -> None:
            seen.append("object")

    worker.on("emails", group="partial")(functools.partial(note, "partial"))
    worker.on("emails", group="lambda")(lambda message: note("lambda", message))
    worker.on("emails", group="object")(Sender())
    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.handled == 3)
    assert sorted(seen) == ["lambda", "object", "partial"]


async def test_only_plain_functions_need_threads(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    before = set(threading.enumerate())  # an earlier worker's may still be ending

    class Sender:
        async def __call__(self, message: ortoo.Received) -> None:
            new = set(threading.enumerate()) - before
            assert not any(thread.name.startswith("ortoo-worker") for thread in new)

    worker.on("emails", group="object")(Sender())
    await queue.publish("emails", b"hello")
    async with worker:
        await until(lambda: worker.stats.handled + worker.stats.failed == 1)
    assert worker.stats.handled == 1


@pytest.mark.parametrize("kind", ["async", "plain", "handed on"])
async def test_a_handler_does_not_see_what_another_call_did_to_context_variables(
    queue: ortoo.Queue, make_worker: MakeWorker, kind: str
) -> None:
    worker, seen, variable = make_worker(), list[str](), ContextVar("user", default="nobody")

    async def handle(message: ortoo.Received) -> None:
        seen.append(variable.get())
        variable.set("first half")
        await asyncio.sleep(0)
        seen.append(variable.get())

    def handle_plainly(message: ortoo.Received) -> None:
        seen.append(variable.get())
        variable.set("first half")
        seen.append(variable.get())

    handlers: dict[str, Callable[[ortoo.Received], Any]] = {
        "async": handle,
        "plain": handle_plainly,
        "handed on": lambda message: handle(message),  # noqa: PLW0108 - not a coroutine function
    }
    worker.on("emails", concurrency=2)(handlers[kind])
    await queue.publish_many("emails", [b"x"] * 10)
    async with worker:
        await until(lambda: worker.stats.handled == 10)
    assert sorted(seen) == ["first half"] * 10 + ["nobody"] * 10


async def test_a_handler_that_cancels_itself_harms_no_other(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, seen = make_worker(), list[bytes]()

    @worker.on("emails", error_delay=3600)
    async def send(message: ortoo.Received) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        if message.value == b"cancel":
            task.cancel()
            return
        await asyncio.sleep(0)
        seen.append(message.value)

    await queue.publish_many("emails", [b"cancel", b"1", b"cancel", b"2"])
    async with worker:
        await until(lambda: worker.stats.handled == 4)
    assert seen == [b"1", b"2"]


async def test_handlers_that_never_wait_let_others_run(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, handled, turns = make_worker(), 0, list[int]()

    @worker.on("emails", prefetch=100)
    async def send(message: ortoo.Received) -> None:
        nonlocal handled
        time.sleep(0.002)  # noqa: ASYNC251 - that is what it is about
        handled += 1

    await queue.publish_many("emails", [b"x"] * 100)
    async with worker:
        while handled < 100:
            turns.append(handled)
            await asyncio.sleep(0)
    assert len(set(turns)) > 30


async def test_the_decorator_leaves_the_function_as_it_is(make_worker: MakeWorker) -> None:
    worker = make_worker()

    def send(message: ortoo.Received) -> int:
        return 7

    assert worker.on("emails")(send) is send


async def test_several_handlers_work_on_several_topics_and_namespaces(
    queue: ortoo.Queue, make_worker: MakeWorker
) -> None:
    worker, seen = make_worker(), []

    @worker.on("emails")
    @worker.on("letters")
    @worker.on("emails", namespace="other")
    async def send(message: ortoo.Received) -> None:
        seen.append((message.namespace, message.topic))

    await queue.publish("emails", b"1")
    await queue.publish("letters", b"2")
    await queue.publish("emails", b"3", namespace="other")
    async with worker:
        await until(lambda: worker.stats.handled == 3)
    assert sorted(seen) == [("default", "emails"), ("default", "letters"), ("other", "emails")]


async def test_labels_take_the_place_of_a_topic(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, seen = make_worker(), []

    @worker.on(labels={"task": "send"})
    async def send(message: ortoo.Received) -> None:
        seen.append(message.topic)

    for topic in ("emails", "letters", "other"):
        await queue.create_topic(topic, labels={} if topic == "other" else {"task": "send"})
        await queue.publish(topic, b"x")
    async with worker:
        await until(lambda: worker.stats.handled == 2)
    assert sorted(seen) == ["emails", "letters"]


async def test_no_more_than_concurrency_are_handled_at_a_time(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, running, most = make_worker(), 0, 0

    @worker.on("emails", concurrency=3)
    async def send(message: ortoo.Received) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10):
            await asyncio.sleep(0)
        running -= 1

    await queue.publish_many("emails", [b"x"] * 50)
    async with worker:
        await until(lambda: worker.stats.handled == 50)
    assert most == 3


async def test_no_more_is_leased_ahead_than_prefetch_says(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, go = make_worker(), asyncio.Event()

    @worker.on("emails", concurrency=2, prefetch=3)
    async def send(message: ortoo.Received) -> None:
        await go.wait()

    await queue.publish_many("emails", [b"x"] * 50)
    async with worker:
        for _ in range(200):
            await asyncio.sleep(0)
        assert (await queue.group("emails")).leased == 5
        go.set()
        await until(lambda: worker.stats.handled == 50)


async def test_a_handler_publishes_through_the_queue_of_its_worker(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("orders")
    async def bill(message: ortoo.Received) -> None:
        await worker.queue.publish("invoices", message.value)

    await queue.publish("orders", b"tea")
    async with worker:
        await until(lambda: worker.stats.handled == 1)
    assert [message.value for message in await queue.lease("invoices")] == [b"tea"]
    with pytest.raises(ortoo.ClosedError):
        _ = worker.queue


def test_a_handler_that_cannot_work_is_refused() -> None:
    worker = ortoo.Worker(ortoo.open())

    def handler(message: ortoo.Received) -> None: ...

    for options in ({}, {"labels": {}, "topic": "emails"}, {"topic": "emails", "concurrency": 0}):
        with pytest.raises(ortoo.InvalidError):
            worker.on(**options)(handler)
    with pytest.raises(ortoo.InvalidError):
        worker.on(handler)  # type: ignore[arg-type]
    for refused in ({"prefetch": -1}, {"lease": -1.0}, {"error_delay": float("nan")}):
        with pytest.raises(ortoo.InvalidError):
            worker.on("emails", **refused)(handler)
    with pytest.raises(ortoo.InvalidError):
        worker.on_batch("emails", max_messages=0)(handler)
    with pytest.raises(ortoo.InvalidError):
        worker.run()
    with pytest.raises(ortoo.InvalidError):
        ortoo.Worker(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("decorator", ["on", "on_batch"])
def test_an_option_that_does_not_exist_is_refused_at_once(decorator: str) -> None:
    with pytest.raises(TypeError, match="no option 'retries'; it has labels, group"):
        getattr(ortoo.Handlers(), decorator)("emails", retries=3)
