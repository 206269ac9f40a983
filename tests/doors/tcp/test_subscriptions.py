"""Push: never more than there is credit for, and nothing is kept when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.doors.tcp import session
from ortoo.model.commands import Lease
from ortoo.wire import protocol as p
from tests.doors.tcp.home import Home, Wire, serving, until
from tests.doors.tcp.test_requests import leased, leased_now, make_jobs, publish
from tests.semantics.stores import SlowStore


def feed(max_messages: int = 100, topic: str = "jobs") -> Lease:
    return Lease(topic=topic, consumer="c", max_messages=max_messages)


async def fill(home: Home, count: int) -> None:
    await make_jobs(home)
    await home.queue.publish_many("jobs", [b"%d" % number for number in range(count)])


async def delivered(wire: Wire, subscription: int = 1) -> list[bytes]:
    kind, request_id, runs = await wire.receive()
    assert (kind, request_id) == (p.DELIVERY, subscription), runs
    return [value for run in runs for value in run["columns"]["values"]]


async def delivered_until_ping(wire: Wire) -> list[list[bytes]]:
    """What is delivered before a ping that is sent now is answered."""
    wire.send((99, p.Ping()))
    found: list[list[bytes]] = []
    while True:
        kind, request_id, body = await wire.receive()
        if (kind, request_id) == (p.ANSWER, 99):
            return found
        assert kind == p.DELIVERY, body
        found.append([value for run in body for value in run["columns"]["values"]])


def numbers(*parts: range) -> list[bytes]:
    return [b"%d" % number for part in parts for number in part]


async def test_no_more_is_delivered_than_there_is_credit_for(home: Home) -> None:
    await fill(home, 20)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)))
        assert await delivered(wire) == numbers(range(5))
        assert await delivered_until_ping(wire) == []
        assert await leased(home) == 5
        wire.send((2, p.Credit(1, 3)), (3, p.Credit(1, 4)))
        found: list[bytes] = []
        while len(found) < 7:
            found += await delivered(wire)
        assert found == numbers(range(5, 12))
        assert await delivered_until_ping(wire) == []
        assert await leased(home) == 12


async def test_a_delivery_has_at_most_max_messages(home: Home) -> None:
    await fill(home, 6)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(max_messages=2), 5)))
        assert [await delivered(wire) for _ in range(3)] == [
            numbers(range(2)),
            numbers(range(2, 4)),
            numbers(range(4, 5)),
        ]
        assert await leased(home) == 5


async def test_what_is_published_later_is_pushed_at_once(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)))
        await home.waiters(1)
        wire.send((2, publish(b"x")))
        found = {(await wire.receive())[:2] for _ in range(2)}
        assert found == {(p.ANSWER, 2), (p.DELIVERY, 1)}


async def test_a_subscription_without_credit_is_refused(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        for credit in (0, -1, 1_000_001):
            kind, problem = await wire.ask(p.Subscribe(feed(), credit))
            assert (kind, problem["code"]) == (p.ERROR, "invalid")


async def test_credit_that_is_none_ends_the_connection(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 1)), (2, p.Credit(1, 0)))
        kind, request_id, problem = await wire.receive()
        assert (kind, request_id, problem["code"]) == (p.ERROR, 0, "protocol")


async def test_credit_for_a_subscription_that_has_ended_is_no_mistake(home: Home) -> None:
    async with home.wire() as wire:
        wire.send((1, p.Credit(77, 5)), (2, p.Unsubscribe(77)), (3, p.Cancel(77)))
        assert (await wire.ask(p.Ping()))[0] == p.ANSWER


async def test_unsubscribing_is_answered_and_nothing_is_delivered_after_that(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)))
        await home.waiters(1)
        wire.send((2, p.Unsubscribe(1)))
        assert await wire.receive() == (p.ANSWER, 1, None)
        await home.queue.publish("jobs", b"x")
        assert await delivered_until_ping(wire) == []
        assert await leased(home) == 0


async def test_a_subscription_that_ends_in_the_same_breath_is_answered(home: Home) -> None:
    await fill(home, 3)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)), (2, p.Unsubscribe(1)))
        kind, request_id, _ = await wire.receive()
        assert (kind, request_id) == (p.ANSWER, 1)
        assert await leased(home) == 0
        wire.send((1, p.Subscribe(feed(), 2)))  # its number is free again
        assert await delivered(wire) == numbers(range(2))


async def test_what_was_leased_in_the_moment_of_unsubscribing_goes_back() -> None:
    store = SlowStore()
    async with serving(store=store) as home, home.wire() as wire:
        await fill(home, 3)
        store.reading.clear()
        wire.send((1, p.Subscribe(feed(), 5)))
        await until(lambda: leased_now(home, 3))
        wire.send((2, p.Unsubscribe(1)))
        assert await wire.receive() == (p.ANSWER, 1, None)
        assert await leased(home) == 0


async def test_a_subscription_ends_with_its_topic(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)))
        await home.waiters(1)
        await home.queue.delete_topic("jobs")
        kind, request_id, problem = await wire.receive()
        assert (kind, request_id, problem["code"]) == (p.ERROR, 1, "not_found")
        await make_jobs(home)
        wire.send((1, p.Subscribe(feed(), 5)))  # its number is free again
        await home.waiters(1)


async def test_a_subscription_to_nothing_is_refused(home: Home) -> None:
    async with home.wire() as wire:
        kind, problem = await wire.ask(p.Subscribe(feed(topic="nowhere"), 5))
        assert (kind, problem["code"]) == (p.ERROR, "not_found")


async def test_a_number_in_use_is_refused_to_a_second_subscription(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)), (1, p.Subscribe(feed(), 5)))
        kind, request_id, problem = await wire.receive()
        assert (kind, request_id, problem["code"]) == (p.ERROR, 1, "invalid")


async def test_a_poll_with_the_number_of_a_subscription_does_not_harm_it(home: Home) -> None:
    await fill(home, 1)
    async with home.wire() as wire:
        wire.send((1, p.Subscribe(feed(), 5)))
        assert await delivered(wire) == numbers(range(1))
        kind, body = await wire.ask(feed())
        assert (kind, body) == (p.ANSWER, [])
        await home.queue.publish("jobs", b"1")
        assert await delivered(wire) == [b"1"]
        await home.queue.delete_topic("jobs")
        assert (await wire.receive())[:2] == (p.ERROR, 1)


async def test_a_client_that_does_not_read_is_not_leased_more_and_more(home: Home) -> None:
    await make_jobs(home)
    for _ in range(300):
        await home.queue.publish("jobs", bytes(100_000))
    async with home.wire() as wire:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send((1, p.Subscribe(feed(max_messages=1), 300)))
        seen = [-1, 0]
        while seen[-1] != seen[-2]:
            seen.append(await settled_leases(home))
        assert 0 < seen[-1] < 150  # what the sockets hold, and a little more
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert sum([len(await delivered(wire)) for _ in range(300)]) == 300


async def settled_leases(home: Home) -> int:
    """How many are leased, once that has not changed for a while."""
    last: Any = None
    while True:
        now = await leased(home)
        if now == last and now:
            return now
        last = now
        await until(lambda: bool(home.door.stalled))


async def test_a_connection_has_so_many_subscriptions_and_no_more(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SUBSCRIPTIONS_MAX", 3)
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send(*((number, p.Subscribe(feed(), 5)) for number in range(1, 5)))
        kind, request_id, problem = await wire.receive()
        assert (kind, request_id, problem["code"]) == (p.ERROR, 4, "too_many")
        assert await delivered_until_ping(wire) == []
