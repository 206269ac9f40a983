"""Requests under way: so many and no more, in their order, and taken back when the caller goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import ortoo
from ortoo import InvalidError, Queue
from ortoo.client import requests
from ortoo.model.commands import Command, Publish, Settle, Transact, unwrap
from ortoo.model.message import Received
from ortoo.wire import protocol as p
from tests.client.proxy import Proxy
from tests.doors.tcp.home import Home, serving, until
from tests.semantics.stores import SlowStore


def overheard(home: Home, *kinds: type) -> list[Any]:
    """The commands of those kinds that the broker gets from now on."""
    heard: list[Any] = []
    submit = home.broker.submit

    def listen(command: Command) -> Any:
        if isinstance(unwrap(command), kinds):
            heard.append(unwrap(command))
        return submit(command)

    home.broker.submit = listen  # type: ignore[method-assign]
    return heard


async def publish_alone(queue: Queue, value: bytes) -> None:
    """Not gathered with others."""
    async with queue.transaction() as tx:
        tx.publish("jobs", value)


@asynccontextmanager
async def slow_server() -> AsyncIterator[tuple[Home, Queue, SlowStore]]:
    """With a topic for jobs, and a client. It answers only when its store is told to go on writing."""
    store = SlowStore()
    async with serving(store=store) as home, home.connect() as queue:
        await home.queue.create_topic("jobs", partitions=1)
        yield home, queue, store


async def arrive(heard: list[Any], queue: Queue, least: int, most: int) -> None:
    """So many requests get there, and no more than that."""
    await until(lambda: len(heard) >= least)
    await queue.stats()  # whatever was sent before it has arrived
    assert len(heard) <= most


async def test_so_many_changes_are_under_way_and_the_others_wait_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_NUMBERED_MAX", 10)
    async with slow_server() as (home, queue, store):
        heard = overheard(home, Transact)
        store.writing.clear()
        work = [asyncio.create_task(publish_alone(queue, b"%d" % number)) for number in range(100)]
        await arrive(heard, queue, 10, 11)
        store.writing.set()
        await asyncio.gather(*work)
        assert [m.value async for m in home.queue.read("jobs")] == [b"%d" % number for number in range(100)]


async def test_so_many_bytes_are_under_way_and_the_others_wait_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_BYTES_MAX", 100_000)
    async with slow_server() as (home, queue, store):
        heard = overheard(home, Transact)
        store.writing.clear()
        work = [asyncio.create_task(publish_alone(queue, bytes(30_000))) for _ in range(50)]
        await arrive(heard, queue, 3, 6)
        store.writing.set()
        await asyncio.gather(*work)
        assert (await home.queue.topic("jobs")).messages == 50


async def test_nobody_overtakes_those_in_line(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_NUMBERED_MAX", 1)
    await home.queue.create_topic("jobs", partitions=1)

    async def publish_all(*values: bytes) -> None:
        for value in values:
            await publish_alone(queue, value)

    async with home.connect() as queue:
        await asyncio.gather(publish_all(b"0", b"3", b"5"), publish_all(b"1", b"4"), publish_all(b"2"))
    assert [m.value async for m in home.queue.read("jobs")] == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_who_leaves_the_line_does_not_hold_up_those_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_NUMBERED_MAX", 2)
    async with slow_server() as (home, queue, store):
        store.writing.clear()
        work = [asyncio.create_task(publish_alone(queue, b"%d" % number)) for number in range(20)]
        await queue.stats()
        for number in (5, 6, 19):
            work[number].cancel()
        await asyncio.sleep(0)
        store.writing.set()
        await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), 60)
        expected = [b"%d" % number for number in range(20) if number not in (5, 6, 19)]
        assert [m.value async for m in home.queue.read("jobs")] == expected


async def test_a_poll_that_is_cancelled_takes_nothing(home: Home) -> None:
    await home.queue.create_topic("jobs")
    async with home.connect() as queue:
        polling = asyncio.create_task(queue.lease("jobs", wait=30))
        await home.waiters(1)
        polling.cancel()
        await home.waiters(0)
        await home.queue.publish("jobs", b"x")
        assert len(await home.queue.lease("jobs")) == 1


@pytest.mark.parametrize("wait", [0, 30])
async def test_a_lease_that_is_cancelled_at_once_takes_nothing(home: Home, wait: float) -> None:
    await home.queue.publish("jobs", b"x")
    await home.queue.create_group("jobs", "default")
    async with home.connect() as queue:
        for _ in range(50):
            polling = asyncio.create_task(queue.lease("jobs", wait=wait))
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        await queue.stats()
        await until(lambda: nothing_leased(home))
        (message,) = await home.queue.lease("jobs")
        assert message.attempt == 1
    await until(lambda: home.gate.budget.bytes == 0)


async def nothing_leased(home: Home) -> bool:
    return (await home.queue.group("jobs", "default")).leased == 0


async def test_what_was_leased_when_the_poll_was_cancelled_goes_back(home: Home, proxy: Proxy) -> None:
    """The answer is on its way when the caller goes."""
    await home.queue.create_topic("jobs")
    await home.queue.create_group("jobs", "default")
    async with ortoo.connect(proxy.url) as queue:
        polling = asyncio.create_task(queue.lease("jobs", wait=30))
        await home.waiters(1)
        await home.queue.publish("jobs", b"x")
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await until(lambda: nothing_leased(home))
        assert [message.attempt for message in await home.queue.lease("jobs")] == [1]


def cancel_when_answered(queue: Queue, task: asyncio.Task[Any], then: Callable[[], None] = lambda: None) -> None:
    """The caller goes in the very moment the answer comes, before it has seen it."""
    waiting = queue._link._requests  # type: ignore[attr-defined]
    answer = waiting.answer

    def answer_and_cancel(*outcome: Any) -> None:
        answer(*outcome)
        task.cancel()
        then()

    waiting.answer = answer_and_cancel


@pytest.mark.parametrize("then", [lambda proxy: None, Proxy.cut], ids=["all is well", "the connection is cut"])
async def test_what_had_been_leased_and_answered_when_the_caller_went_goes_back(
    home: Home, proxy: Proxy, then: Callable[[Proxy], None]
) -> None:
    await home.queue.create_topic("jobs")
    await home.queue.create_group("jobs", "default")
    await home.queue.publish("jobs", b"x")
    async with ortoo.connect(proxy.url) as queue:
        leasing = asyncio.create_task(queue.lease("jobs", lease=3600))
        cancel_when_answered(queue, leasing, then=lambda: then(proxy))
        with pytest.raises(asyncio.CancelledError):
            await leasing
        await until(lambda: nothing_leased(home))
        assert [message.attempt for message in await home.queue.lease("jobs")] == [1]


async def test_a_cancelled_lease_of_several_priorities_goes_back_over_the_same_connection(
    home: Home, proxy: Proxy
) -> None:
    """One lease may take of the same partition several times, as priorities take turns."""
    await home.queue.create_topic("jobs", partitions=2)
    await home.queue.create_group("jobs", "default")
    for number in range(20):
        await home.queue.publish("jobs", b"x", priority=number % 3, partition=number % 2)
    async with ortoo.connect(proxy.url) as queue:
        proxy.bytes_per_ms = 20  # so that the answer is on its way for a while
        leasing = asyncio.create_task(queue.lease("jobs", max_messages=20, lease=3600))
        await until(lambda: everything_leased(home))
        leasing.cancel()
        await asyncio.gather(leasing, return_exceptions=True)
        proxy.bytes_per_ms = 0
        await until(lambda: nothing_leased(home))
    assert proxy.connections == 1


async def everything_leased(home: Home) -> bool:
    return (await home.queue.group("jobs", "default")).leased == 20


async def test_a_publish_that_is_cancelled_while_it_waits_for_room_is_not_made(home: Home) -> None:
    await home.fill()
    async with home.connect() as queue:
        publishing = asyncio.create_task(queue.publish("jobs", b"more", wait=30))
        await queue.stats()
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await until(lambda: home.gate.budget.bytes == 0)
        await home.queue.ack(await home.queue.lease("jobs"))
        assert (await home.queue.topic("jobs")).messages == 1


async def test_a_publish_waits_for_room(home: Home) -> None:
    await home.fill()
    async with home.connect() as queue:
        publishing = asyncio.create_task(queue.publish("jobs", b"more", wait=30))
        await queue.stats()
        await home.queue.ack(await home.queue.lease("jobs"))
        assert (await asyncio.wait_for(publishing, 60)).offset >= 0


async def test_publishes_that_wait_for_room_do_not_hold_up_those_who_make_it(home: Home) -> None:
    """A consumer of a full topic acks over the connection on which more publishes wait than may be under way."""
    await home.queue.create_topic("jobs", max_depth=60)
    await home.queue.create_group("jobs", "default")
    async with home.connect() as queue:
        publishing = [asyncio.create_task(queue.publish("jobs", b"%d" % n, wait=600)) for n in range(600)]
        found: set[bytes] = set()
        async with asyncio.timeout(600):
            while len(found) < 600:
                messages = await queue.lease("jobs", max_messages=60, wait=10)
                found.update(message.value for message in messages)
                await queue.ack(messages)
            await asyncio.gather(*publishing)


async def ack_in_a_transaction(queue: Queue, messages: Sequence[Received]) -> None:
    async with queue.transaction() as tx:
        for message in messages:
            tx.ack(message)
        tx.publish("done", b"1")


MAKING_ROOM: dict[str, Callable[[Queue, Sequence[Received]], Awaitable[object]]] = {
    "nack": lambda queue, messages: queue.nack(messages),
    "reject": lambda queue, messages: queue.reject(messages),
    "release": lambda queue, messages: queue.release(messages),
    "extend": lambda queue, messages: queue.extend(messages),
    "transaction": ack_in_a_transaction,
    "delete a message": lambda queue, messages: queue.delete_message(messages[0].id),
    "move a message": lambda queue, messages: queue.dead_letter(messages[0].id),
    "purge": lambda queue, messages: queue.purge("jobs"),
    "change": lambda queue, messages: queue.update_topic("jobs", max_depth=1000),
    "seek": lambda queue, messages: queue.seek("jobs", "default", "end"),
}


@pytest.mark.parametrize("settle", MAKING_ROOM)
async def test_those_who_make_room_do_not_stand_in_the_line_of_those_who_publish(
    monkeypatch: pytest.MonkeyPatch, settle: str
) -> None:
    monkeypatch.setattr(requests, "_NUMBERED_MAX", 1)
    async with serving() as home, home.connect() as queue:
        await home.fill()
        messages = await queue.lease("jobs")
        publishing = [asyncio.create_task(publish_alone_and_wait(queue, b"%d" % n)) for n in range(3)]
        await queue.stats()
        await asyncio.wait_for(MAKING_ROOM[settle](queue, messages), 60)
        for task in publishing:
            task.cancel()
        await asyncio.gather(*publishing, return_exceptions=True)


async def publish_alone_and_wait(queue: Queue, value: bytes) -> None:
    await queue.publish_many("jobs", [value] * 600, wait=60)  # too many to be gathered with others


async def test_so_many_settle_at_once_and_the_others_wait_in_a_line_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "_SETTLING_MAX", 10)
    async with slow_server() as (home, queue, store):
        await home.queue.publish_many("jobs", [b"x"] * 50)
        messages = await queue.lease("jobs", max_messages=50)
        heard = overheard(home, Settle)
        store.writing.clear()
        settling = [asyncio.create_task(queue.nack(message)) for message in messages]
        await arrive(heard, queue, 10, 11)
        store.writing.set()
        await asyncio.gather(*settling)
        assert len(heard) == 50


async def test_a_request_that_fits_into_no_frame_is_refused_here_and_the_connection_lives_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with home.connect() as queue:
        monkeypatch.setattr(p, "FRAME_BYTES_MAX", 10_000)
        with pytest.raises(InvalidError, match="send smaller batches"):
            await queue.publish_many("jobs", [bytes(6_000), bytes(6_000)])
        await queue.publish("jobs", b"x")


async def test_publishes_that_do_not_fit_together_go_one_by_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with home.connect() as queue:
        monkeypatch.setattr(p, "FRAME_BYTES_MAX", 10_000)
        heard = overheard(home, Publish)
        await asyncio.gather(*(queue.publish("jobs", bytes(6_000)) for _ in range(3)))
        assert [len(publish.batch) for publish in heard] == [1, 1, 1]


async def test_large_messages_come_in_as_many_answers_as_it_takes(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    for number in range(120):
        await home.queue.publish("jobs", bytes([number]) * 1_000_000)
    async with home.connect() as queue:
        assert [m.value[0] async for m in queue.read("jobs")] == list(range(120))
        found: list[int] = []
        while messages := await queue.lease("jobs", max_messages=1000):
            found += [message.value[0] for message in messages]
            await queue.ack(messages)
        assert found == list(range(120))


async def test_an_answer_that_comes_between_the_cancelling_and_the_cancelled_caller_is_given_back(home: Home) -> None:
    """The caller's future is cancelled at once, the caller itself runs a turn later: what is read in between is not lost."""
    await home.queue.publish("jobs", b"1")
    async with home.connect() as queue:
        requests = queue._link._requests  # type: ignore[attr-defined]
        leasing = asyncio.create_task(queue.lease("jobs"))
        answer = requests.answer

        def cancel_first(request_id: int, outcome: Any) -> None:
            leasing.cancel()
            answer(request_id, outcome)

        requests.answer = cancel_first
        with pytest.raises(asyncio.CancelledError):
            await leasing
        requests.answer = answer

        async def is_free() -> bool:
            return (await home.queue.group("jobs")).leased == 0

        await until(is_free)
