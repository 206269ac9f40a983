"""The blocking facade: everything Queue offers, from any thread, without await."""

import asyncio
import gc
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import ortoo
from ortoo import ClosedError, LeaseLostError, Message, NotFoundError, Queue, Received, SyncQueue

TIMEOUT = 60.0


@pytest.fixture
def sync() -> Iterator[SyncQueue]:
    with ortoo.open_sync() as queue:
        yield queue


def public_methods(kind: type) -> set[str]:
    return {name for name, member in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_the_facade_offers_every_method_of_queue() -> None:
    """Every method of Queue, without await."""
    assert public_methods(Queue) - public_methods(SyncQueue) == {"open"}  # it is open when it is made


def test_the_facade_takes_the_same_arguments() -> None:
    """Every method of Queue, without await: with the same arguments."""
    for name in public_methods(SyncQueue) & public_methods(Queue):
        asked = list(inspect.signature(getattr(Queue, name)).parameters)
        offered = list(inspect.signature(getattr(SyncQueue, name)).parameters)
        assert offered == asked, name


def test_transactions_offer_the_same_methods() -> None:
    """Every method of Queue, without await: transactions too."""
    with ortoo.open_sync() as queue:
        transaction, named = queue.transaction(), queue.begin("job")
        assert {"ack", "publish", "publish_many", "commit", "sent"} <= set(dir(transaction))
        assert public_methods(ortoo.NamedTransaction) <= set(dir(named))


def test_messages_go_in_and_come_out(sync: SyncQueue) -> None:
    """The same queue, blocking."""
    sync.create_topic("orders", partitions=1)
    sync.publish("orders", b"1", key="k")
    sync.publish_many("orders", [Message(b"2"), Message(b"3")])
    messages = sync.lease("orders", max_messages=10)
    assert [message.value for message in messages] == [b"1", b"2", b"3"]
    sync.ack(messages)
    assert sync.group("orders").backlog == 0
    assert [message.value for message in sync.read("orders")] == [b"1", b"2", b"3"]


def test_a_message_settles_itself(sync: SyncQueue) -> None:
    """message.ack() then blocks, and has nothing to await."""
    sync.create_topic("orders", partitions=1)
    sync.publish_many("orders", [Message(b"%d" % number) for number in range(5)])
    acked, nacked, rejected, released, extended = sync.lease("orders", max_messages=5)
    assert acked.ack() is None  # type: ignore[func-returns-value, unused-ignore]
    nacked.nack("oops", delay=0)  # type: ignore[unused-coroutine, unused-ignore]
    rejected.reject("bad")  # type: ignore[unused-coroutine, unused-ignore]
    released.release()  # type: ignore[unused-coroutine, unused-ignore]
    extended.extend(60)  # type: ignore[unused-coroutine, unused-ignore]
    again = sync.lease("orders", max_messages=5)
    assert [(message.value, message.attempt) for message in again] == [(b"1", 2), (b"3", 1)]
    assert [letter.value for letter in sync.dead_letters("orders")] == [b"2"]
    with pytest.raises(LeaseLostError):
        released.ack()  # type: ignore[unused-coroutine, unused-ignore]


def test_transactions_work(sync: SyncQueue) -> None:
    """`with queue.transaction() as tx:`"""
    sync.publish("in", b"1")
    with sync.transaction() as tx:
        tx.ack(sync.lease("in"))
        tx.publish("out", b"2")
    assert len(tx.sent) == 1
    with pytest.raises(ValueError, match="oops"), sync.transaction() as tx:
        tx.publish("out", b"3")
        raise ValueError("oops")
    named = sync.begin("job")
    named.publish("out", b"4")
    named.publish_many("out", [Message(b"5")])
    assert named.commit() == 2
    sync.begin("other").abort()
    assert sorted(message.value for message in sync.lease("out", max_messages=9)) == [b"2", b"4", b"5"]


def test_several_threads_may_use_it(sync: SyncQueue) -> None:
    """Safe to use from several threads."""
    sync.create_topic("orders")

    def produce(worker: int) -> None:
        for number in range(50):
            sync.publish("orders", b"%d-%d" % (worker, number))

    def consume(_: int) -> list[bytes]:
        got: list[bytes] = []
        while messages := sync.lease("orders", max_messages=10):
            got += [message.value for message in messages]
            sync.ack(messages)
        return got

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(produce, range(4)))
        got = [value for values in pool.map(consume, range(4)) for value in values]
    assert sorted(got) == sorted(b"%d-%d" % (worker, number) for worker in range(4) for number in range(50))


def test_one_thread_waits_while_another_publishes(sync: SyncQueue) -> None:
    """Safe to use from several threads: a long poll in one holds up no other."""
    sync.create_topic("orders")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sync.lease, "orders", wait=TIMEOUT)
        while sync.stats().waiters == 0:
            pass
        sync.publish("orders", b"1")
        assert [message.value for message in waiting.result(TIMEOUT)] == [b"1"]


def test_an_iterator_that_is_left_early_releases_what_it_has(sync: SyncQueue) -> None:
    """Leaving the loop releases what was leased and not yet yielded."""
    sync.create_topic("orders", partitions=1)
    sync.publish_many("orders", [Message(b"%d" % number) for number in range(5)])
    for message in sync.consume("orders"):
        message.ack()  # type: ignore[unused-coroutine, unused-ignore]
        break
    gc.collect()
    assert [message.value for message in sync.lease("orders", max_messages=9)] == [b"1", b"2", b"3", b"4"]


def test_an_iterator_may_be_collected_in_the_thread_of_the_queue(sync: SyncQueue) -> None:
    """Safe to use from several threads, and the garbage collector runs in any of them."""
    sync.create_topic("orders", partitions=1)
    sync.publish_many("orders", [Message(b"%d" % number) for number in range(5)])

    def leave_behind() -> None:
        stream = sync.consume("orders")
        next(stream)
        circle: list[Any] = [stream]
        circle.append(circle)

    gc.disable()
    try:
        leave_behind()
        sync._loop.call_soon_threadsafe(gc.collect)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), sync._loop).result(TIMEOUT)
    finally:
        gc.enable()
    while sync.group("orders").leased > 1:  # it gives back what it held, without anybody who waits for that
        pass


def test_an_iterator_may_be_collected_while_a_call_is_handed_to_the_loop(sync: SyncQueue) -> None:
    """Safe to use from several threads, and the garbage collector runs at any time."""
    sync.publish_many("orders", [Message(b"1"), Message(b"2")])
    stream = sync.consume("orders")
    next(stream)
    collected = threading.Event()

    def collect() -> None:
        with sync._closing:
            stream.close()  # type: ignore[attr-defined]
        collected.set()

    threading.Thread(target=collect, daemon=True).start()
    assert collected.wait(TIMEOUT)


def test_consuming_ends_when_told_to(sync: SyncQueue) -> None:
    """Goes on for ever, or with `wait` until nothing came for so many seconds."""
    sync.publish("orders", b"1")
    assert [message.value for message in sync.consume("orders", wait=0, auto_ack=True)] == [b"1"]


def test_a_subscription_that_is_left_early_vanishes(sync: SyncQueue) -> None:
    """Ephemeral groups … vanish with their consumer."""
    sync.create_topic("events")
    stream = sync.subscribe("events", wait=TIMEOUT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, stream)
        while sync.stats().waiters == 0:
            pass
        sync.publish("events", b"1")
        assert waiting.result(TIMEOUT).value == b"1"
    stream.close()  # type: ignore[attr-defined]
    assert sync.groups("events") == []


def test_requests_work(sync: SyncQueue) -> None:
    """Every method of Queue, without await."""
    sync.create_topic("auth")

    def serve() -> None:
        [request] = sync.lease("auth", wait=TIMEOUT)
        sync.reply(request, b"yes")

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        assert sync.request("auth", b"may I?", timeout=TIMEOUT).value == b"yes"
        served.result(TIMEOUT)


def test_errors_are_the_same(sync: SyncQueue) -> None:
    """Every method of Queue, without await: with the same errors."""
    with pytest.raises(NotFoundError, match="nowhere"):
        sync.lease("nowhere")
    with pytest.raises(NotFoundError, match="nowhere"):
        next(sync.consume("nowhere"))


def test_closing_twice_is_fine() -> None:
    """Closing twice is fine."""
    queue = ortoo.open_sync()
    queue.close()
    queue.close()
    with queue:
        pass


def test_a_closed_queue_says_so() -> None:
    """Using it after close gives a clear error."""
    queue = ortoo.open_sync()
    queue.publish("orders", b"1")
    [message] = queue.lease("orders")
    transaction = queue.transaction()
    queue.close()
    calls: list[Any] = [
        lambda: queue.publish("orders", b"1"),
        lambda: queue.lease("orders"),
        queue.topics,
        lambda: next(queue.consume("orders")),
        message.ack,
        transaction.commit,
        lambda: queue.begin("job"),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match="closed"):
            call()


def left_open() -> tuple[SyncQueue, Iterator[Received]]:
    """A queue that was closed, and a loop over its messages that was not left before."""
    queue = ortoo.open_sync()
    queue.publish_many("orders", [Message(b"1"), Message(b"2")])
    stream = queue.consume("orders")
    next(stream)
    queue.close()
    return queue, stream


def test_an_iterator_may_outlive_its_queue() -> None:
    """Iterators release on early exit; on a closed queue there is nothing left to release."""
    queue, stream = left_open()
    with pytest.raises(ClosedError):
        for _ in stream:
            next(stream)
    abandoned = queue.consume("orders")
    del abandoned
    gc.collect()


def test_a_stream_abandoned_on_a_closed_queue_makes_no_noise() -> None:
    """Iterators release on early exit; on a closed queue there is nothing left to release."""
    _, stream = left_open()
    stream.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", ["lease", "request", "publish"])
def test_closing_frees_the_threads_that_wait(what: str) -> None:
    """Closing sends waiters home, in whatever thread they wait."""
    queue = ortoo.open_sync()
    queue.create_topic("orders", max_depth=1)
    if what == "publish":
        queue.publish("orders", b"1")
    calls: dict[str, Any] = {
        "lease": lambda: queue.lease("orders", wait=60),
        "request": lambda: queue.request("orders", b"", timeout=60),
        "publish": lambda: queue.publish("orders", b"2", wait=60),
    }
    started, result = threading.Event(), Future[Any]()

    def run() -> None:
        started.set()
        try:
            result.set_result(calls[what]())
        except Exception as error:
            result.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(TIMEOUT)
    for _ in range(50):
        queue.stats()  # gives the call time to arrive and to wait
    queue.close()
    with pytest.raises(ClosedError):
        result.result(TIMEOUT)
    thread.join(TIMEOUT)
    assert not thread.is_alive()
