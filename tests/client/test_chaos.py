"""Connections that are cut, and hang, at random, with callers that go at random: every call ends, and the books are balanced.

What was confirmed is there once; what was not confirmed is there once or not at all; what was acked never comes again; and
what a cancelled call had leased is back in a moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

import ortoo
from ortoo import LeaseLostError, OutcomeUnknownError, Queue, UnavailableError
from ortoo.client import remote, requests
from ortoo.client.connection import Connection
from ortoo.doors.tcp import server, session
from tests.client.proxy import Proxy
from tests.doors.tcp.home import Home, until

HANGS_SECONDS = 300  # a call that has not ended by then never will


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "IDLE_SECONDS", 0.6)
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(remote, "_CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(requests, "_NUMBERED_MAX", 2)  # so that calls stand in line
    monkeypatch.setattr(requests, "_SETTLING_MAX", 4)


async def disturb(proxy: Proxy, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 0.05))
    proxy.hang()
    await noticed(proxy)
    proxy.go_on()
    while True:
        await asyncio.sleep(random.uniform(0.01, 0.1))
        if random.random() < 0.2:
            proxy.hang()
            await asyncio.sleep(random.uniform(0.0, 1.2))  # noticed or not
            proxy.go_on()
        else:
            proxy.cut()


async def noticed(proxy: Proxy) -> None:
    """A server that hangs for ever has to be taken for gone: who goes on tries another connection."""
    before = proxy.connections
    while proxy.connections == before:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@asynccontextmanager
async def disturbed(proxy: Proxy, random: Random) -> AsyncIterator[None]:
    disturbing = asyncio.create_task(disturb(proxy, random))
    try:
        yield
    finally:
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)
        proxy.go_on()


async def perhaps(call: Coroutine[Any, Any, Any], random: Random) -> Any:
    """What the call gives; None when it was cancelled, or when nobody knows what became of it."""
    task = asyncio.ensure_future(call)
    if random.random() < 0.3:
        asyncio.get_running_loop().call_later(random.uniform(0, 0.1), task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if (caller := asyncio.current_task()) is not None and caller.cancelling():  # it is the caller that has to go
            raise
        return None
    except (OutcomeUnknownError, UnavailableError):
        return None


async def produce(queue: Queue, names: list[bytes], confirmed: set[bytes], random: Random) -> None:
    for name in names:
        if await perhaps(queue.publish("jobs", name, wait=HANGS_SECONDS), random) is not None:
            confirmed.add(name)


async def consume(queue: Queue, acked: Counter[bytes], random: Random, done: asyncio.Event) -> None:
    while not done.is_set():
        messages = await perhaps(queue.lease("jobs", max_messages=5, wait=0.2), random)
        for message in messages or ():
            try:
                await queue.ack(message)
                acked[message.value] += 1
            except (LeaseLostError, OutcomeUnknownError, UnavailableError):
                pass


async def is_done(home: Home) -> bool:
    group = await home.queue.group("jobs")
    return (group.backlog, group.leased) == (0, 0)


@pytest.mark.parametrize("seed", range(4))
async def test_the_books_are_balanced_whatever_becomes_of_the_connection(home: Home, proxy: Proxy, seed: int) -> None:
    random = Random(seed)
    await home.queue.create_topic(
        "jobs", lease=1.0, max_attempts=10_000, backoff_initial=0.0, backoff_max=0.0, max_depth=5
    )
    await home.queue.create_group("jobs", "default")
    names = [[b"%d-%d" % (who, number) for number in range(20)] for who in range(3)]
    confirmed, acked, done = set[bytes](), Counter[bytes](), asyncio.Event()
    async with asyncio.timeout(HANGS_SECONDS), ortoo.connect(proxy.url) as queue:
        consuming = [asyncio.create_task(consume(queue, acked, random, done)) for _ in range(3)]
        async with disturbed(proxy, random):
            await asyncio.gather(*(produce(queue, some, confirmed, random) for some in names))
        await until(lambda: is_done(home), HANGS_SECONDS)
        done.set()
        await asyncio.gather(*consuming)
    stored = Counter([message.value async for message in home.queue.read("jobs")])
    assert confirmed <= stored.keys() <= {name for some in names for name in some}
    assert set(stored.values()) == {1}
    assert max(acked.values()) == 1


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_stays_leased_by_calls_that_were_cancelled(
    home: Home, proxy: Proxy, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease would last an hour: what is free before that was given back."""
    random = Random(seed)
    calls: list[asyncio.Task[ortoo.Messages]] = []
    cancel_as_data_comes(monkeypatch, calls, random)
    await home.queue.create_topic("jobs", partitions=2, lease=3600)
    await home.queue.create_group("jobs", "default")
    for number in range(30):
        await home.queue.publish("jobs", b"%d" % number, priority=number % 3)
    async with asyncio.timeout(HANGS_SECONDS), ortoo.connect(proxy.url) as queue:
        for _ in range(60):
            proxy.bytes_per_ms = random.choice([0, 0, 50, 500])
            calls[:] = [asyncio.create_task(queue.lease("jobs", max_messages=10, wait=5)) for _ in range(4)]
            await asyncio.sleep(random.choice([0, 0, 0.001, 0.003, 0.01]))
            for call in calls:
                call.cancel()
            for found in await asyncio.gather(*calls, return_exceptions=True):
                if not isinstance(found, BaseException):  # it was faster
                    await queue.release(found)
        proxy.bytes_per_ms = 0
        await until(lambda: none_leased(home))
        assert {message.attempt for message in await home.queue.lease("jobs", max_messages=100)} == {1}
    assert proxy.connections == 1


def cancel_as_data_comes(
    monkeypatch: pytest.MonkeyPatch, calls: list[asyncio.Task[ortoo.Messages]], random: Random
) -> None:
    """In the very turn of the loop in which an answer comes, just before it or just after."""
    receive = Connection.data_received

    def cancel() -> None:
        for call in calls:
            if random.random() < 0.2:
                call.cancel()

    def data_received(self: Connection, data: bytes) -> None:
        cancel()
        receive(self, data)
        cancel()

    monkeypatch.setattr(Connection, "data_received", data_received)


async def none_leased(home: Home) -> bool:
    return (await home.queue.group("jobs")).leased == 0
