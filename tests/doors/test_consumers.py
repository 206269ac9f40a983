"""One name, several doors: who is still there through one of them does not leave when a connection to another ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect

from ortoo.broker import presence
from ortoo.model import limits
from ortoo.wire import protocol as p
from tests.doors.tcp.home import until
from tests.doors.tcp.test_requests import leased, leased_now, poll
from tests.doors.test_budget import LONG, MB, Both, serving_both

ANN = poll(0, "ann", 1)


@pytest.fixture
async def home(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Both]:
    monkeypatch.setattr(limits, "SESSION_TIMEOUT_MS", 50)
    async with serving_both(64 * MB) as home:
        await home.queue.publish_many("jobs", [b"x", b"y"])
        yield home


async def subscribed(home: Both, socket: ClientConnection, group: str = "default") -> None:
    """As ann; returns when she holds one message."""
    command = {"type": "subscribe", "id": "s", "topic": "jobs", "group": group, "consumer": "ann", "credit": 1}
    await socket.send(msgspec.json.encode({**command, "max_messages": 1}))
    kinds = [msgspec.json.decode(await socket.recv())["type"] for _ in range(2)]
    assert kinds == ["subscribed", "messages"]


def socket_to(home: Both) -> connect:
    return connect(f"ws://127.0.0.1:{home.http.address[1]}/v1/stream")


async def has_timed_out(home: Both) -> None:
    """Nobody is waited for any more, and what follows from that has happened."""
    async with asyncio.timeout(LONG):
        await until(lambda: not home.gate.connections, LONG)
        await until(lambda: not home.gate.presence._absent and not home.gate.presence._leaving, LONG)


async def test_a_connection_that_goes_does_not_end_one_that_asks_by_requests(home: Both) -> None:
    async with home.wire() as wire:
        assert len((await wire.ask(ANN))[1]) == 1
        answer = await home.post("/groups/default/lease", {"consumer": "ann"})
        assert len(answer.json()["messages"]) == 1
    await has_timed_out(home)
    assert await leased(home) == 2


async def test_a_connection_that_goes_does_not_end_a_socket_of_its_name(home: Both) -> None:
    async with socket_to(home) as socket:
        await subscribed(home, socket)
        async with home.wire() as wire:
            assert len((await wire.ask(ANN))[1]) == 1
        await has_timed_out(home)
        assert await leased(home) == 2
    await until(lambda: leased_now(home, 0), LONG)  # the last to go takes all of it


async def test_a_socket_that_ends_does_not_end_a_connection_of_its_name(home: Both) -> None:
    async with home.wire() as wire:
        assert len((await wire.ask(ANN))[1]) == 1
        async with socket_to(home) as socket:
            await subscribed(home, socket)
        await until(lambda: not home.gate.presence._places.keys() - {((None, "ann"), presence.EVERYWHERE)}, LONG)
        assert await leased(home) == 2


async def test_a_socket_that_ends_does_not_end_another_of_its_name_in_the_same_group(home: Both) -> None:
    async with socket_to(home) as first:
        await subscribed(home, first)
        async with socket_to(home) as second:
            await subscribed(home, second)
        await until(lambda: home.gate.presence._connected[None, "ann"] == 1, LONG)
        assert await leased(home) == 2


async def test_a_socket_that_ends_gives_back_what_it_had_in_a_group_where_no_other_of_its_name_is(home: Both) -> None:
    await home.queue.create_group("jobs", "other")
    async with socket_to(home) as first:
        await subscribed(home, first)
        async with socket_to(home) as second:
            await subscribed(home, second, "other")
        async with asyncio.timeout(LONG):
            while (await home.queue.group("jobs", "other")).leased:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert await leased(home) == 1


async def test_of_a_consumer_whose_lease_is_refused_nothing_is_kept(home: Both) -> None:
    async with home.wire() as wire:
        for request in (
            msgspec.structs.replace(ANN, topic="nope"),
            p.Subscribe(msgspec.structs.replace(ANN, topic="no"), 1),
        ):
            kind, problem = await wire.ask(request)
            assert (kind, problem["code"]) == (p.ERROR, "not_found")
        answer = await home.post("/groups/default/lease", {"consumer": "ann", "partition": 999})
        assert answer.status_code == 400
        assert not home.gate.presence._connected
        assert not home.gate.presence._requested


async def test_a_consumer_that_waits_for_its_first_message_is_there(home: Both) -> None:
    async with home.wire() as wire, home.wire() as other:
        assert (await other.ask(poll(0, "bob", 2)))[1]
        wire.send((1, poll(60_000, "ann", 1)))
        await until(lambda: home.gate.presence.is_known((None, "ann")), LONG)
