"""A client that asks for more than it reads, or sends more than can be served, waits; the server's memory does not grow."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ortoo.doors.tcp import server, session
from ortoo.doors.tcp.session import Session
from ortoo.model.commands import START
from ortoo.model.queries import ListMessages, Scan
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.doors.tcp.home import Home, Wire, serving, until
from tests.doors.tcp.test_requests import JOBS, make_jobs, poll, publish
from tests.semantics.stores import SlowStore

MB = 1 << 20
LONG = 240  # seconds: only what hangs takes so long
CHUNK = 256 * 1024  # what is read from a socket at a time, at most


def only_session(home: Home) -> Session:
    (found,) = home.door._sessions
    return found


def buffered(home: Home) -> int:
    """Bytes of answers that the client has not taken."""
    return only_session(home)._transport.get_write_buffer_size()


async def test_many_publishes_at_once_wait_in_the_socket_while_the_store_is_slow() -> None:
    store = SlowStore()
    async with serving(store=store, budget=MB) as home, home.wire() as wire:
        await make_jobs(home)
        store.writing.clear()
        wire.send(*((number, publish(bytes(100_000))) for number in range(1, 201)))  # 20 MB
        await until(lambda: bool(home.door.stalled))
        assert home.gate.budget.bytes < MB + 2 * CHUNK
        store.writing.set()
        found = {(await wire.receive())[:2] for _ in range(200)}
        assert found == {(p.ANSWER, number) for number in range(1, 201)}
        await until(lambda: home.gate.budget.bytes == 0)


async def test_one_client_over_the_budget_does_not_stop_another_for_ever() -> None:
    store = SlowStore()
    async with serving(store=store, budget=MB) as home, home.wire() as greedy, home.wire() as modest:
        await make_jobs(home)
        store.writing.clear()
        greedy.send(*((number, publish(bytes(100_000))) for number in range(1, 101)))
        await until(lambda: bool(home.door.stalled))
        modest.send((1, p.Ping()), (2, p.Ping()), (3, publish(b"x")))
        modest.send((4, p.Ping()))
        store.writing.set()
        assert {(await modest.receive())[1] for _ in range(4)} == {1, 2, 3, 4}


async def test_reading_stops_at_so_many_requests_and_goes_on_when_they_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "REQUESTS_MAX", 10)
    store = SlowStore()
    async with serving(store=store) as home, home.wire() as wire:
        await make_jobs(home)
        store.writing.clear()
        value = bytes(50_000)
        wire.send(*((number, publish(value)) for number in range(1, 301)))
        await until(lambda: bool(home.door.stalled))
        assert home.gate.budget.bytes < 10 * 60_000 + 2 * CHUNK
        store.writing.set()
        for _ in range(300):
            assert (await wire.receive())[0] == p.ANSWER


async def test_those_who_wait_for_messages_do_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "REQUESTS_MAX", 10)
    async with serving() as home, home.wire() as wire:
        await make_jobs(home)
        wire.send(*((number, poll(consumer=f"c{number}")) for number in range(1, 51)))
        await home.waiters(50)
        assert home.door.stalled == set()
        wire.send((99, p.Ping()))
        assert (await wire.receive())[:2] == (p.ANSWER, 99)


async def fill(home: Home, count: int, size: int) -> None:
    await make_jobs(home)
    for _ in range(count):
        await home.queue.publish("jobs", bytes(size))


@pytest.mark.parametrize("request_", [Scan(JOBS, 0, START), ListMessages(JOBS, "default", "ready")])
async def test_answers_that_are_not_read_do_not_pile_up(request_: Any) -> None:
    async with serving() as home:
        await fill(home, 20, 100_000)
        async with home.wire() as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(*((number, request_) for number in range(1, 201)))  # 400 MB, were they all answered
            await until(lambda: bool(home.door.stalled))
            await asyncio.sleep(0.05)
            assert buffered(home) < 10 * MB
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            found = {(await wire.receive())[:2] for _ in range(200)}
            assert found == {(p.ANSWER, number) for number in range(1, 201)}


async def test_leases_that_are_not_read_do_not_pile_up() -> None:
    async with serving() as home:
        await fill(home, 400, 100_000)
        async with home.wire() as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(*((number, poll(0)) for number in range(1, 41)))
            await until(lambda: bool(home.door.stalled))
            await asyncio.sleep(0.05)
            assert buffered(home) < 10 * MB
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            bodies = [(await wire.receive())[2] for _ in range(40)]
            assert sum(len(run["columns"]["values"]) for runs in bodies for run in runs) == 400


async def test_a_client_that_is_kept_waiting_is_not_taken_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.01)
    store = SlowStore()
    async with serving(store=store, budget=MB) as home, home.wire() as wire:
        await make_jobs(home)
        store.writing.clear()
        wire.send(*((number, publish(bytes(100_000))) for number in range(1, 101)))
        await until(lambda: bool(home.door.stalled))
        with monkeypatch.context() as impatient:
            impatient.setattr(session, "IDLE_SECONDS", 0.1)
            await asyncio.sleep(0.3)  # its pings could not be heard all the time
        assert home.gate.connections == 1
        store.writing.set()
        for _ in range(100):
            assert (await wire.receive())[0] == p.ANSWER


@asynccontextmanager
async def much_to_read(monkeypatch: pytest.MonkeyPatch, idle_seconds: float) -> AsyncIterator[tuple[Home, Wire]]:
    """A topic of 30 MB, and a connection that is dropped when nothing happens for so long."""
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
    async with serving() as home:
        await fill(home, 30, 1_000_000)
        async with home.wire() as wire:
            monkeypatch.setattr(session, "IDLE_SECONDS", idle_seconds)
            yield home, wire


async def test_a_client_that_reads_slowly_is_not_taken_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with much_to_read(monkeypatch, idle_seconds=0.6) as (home, wire):
        wire.send((1, Scan(JOBS, 0, START)))
        got = 0
        while got < 30_000_000:
            got += len(await asyncio.wait_for(wire.reader.read(500_000), LONG))
            wire.send((2, p.Ping()))  # which is not heard as long as there is so much to take
            await asyncio.sleep(0.03)  # almost two seconds in all
        assert home.gate.connections == 1


async def test_nobody_is_taken_for_silent_because_the_server_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.01)
    async with serving() as home, home.wire() as wire:
        await asyncio.sleep(0.05)
        with monkeypatch.context() as impatient:
            impatient.setattr(session, "IDLE_SECONDS", 0.5)
            time.sleep(1)  # noqa: ASYNC251 - it is the server that stands still
            await asyncio.sleep(0.05)
        wire.send((1, p.Ping()))
        assert (await wire.receive())[:2] == (p.ANSWER, 1)


async def test_a_client_that_stops_reading_for_good_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with much_to_read(monkeypatch, idle_seconds=0.3) as (home, wire):
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send((1, Scan(JOBS, 0, START)))
        await until(lambda: home.gate.connections == 0)


@pytest.mark.parametrize("request_", [p.Ping(), p.Cancel(5), p.Credit(5, 1), p.Unsubscribe(5), {"type": "Nope"}])
async def test_many_frames_of_one_read_are_taken_in_many_turns(
    request_: Any, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    receive = Session._receive

    def counted(self: Session, body: memoryview) -> None:
        nonlocal taken
        taken += 1
        receive(self, body)

    async with home.wire() as wire:
        monkeypatch.setattr(Session, "_receive", counted)
        only_session(home).data_received(bytes(encode_frame((1, request_))) * 5_000)  # in one read
        assert 0 < taken <= 500
        wire.send((99, p.Ping()))
        while (await wire.receive())[1] != 99:
            pass
        assert taken == 5_001
        assert home.door.stalled == set()
    await until(lambda: home.gate.budget.bytes == 0)


async def test_a_connection_that_ends_before_all_frames_were_taken_leaves_nothing(home: Home) -> None:
    async with home.wire():
        only_session(home).data_received(bytes(encode_frame((1, p.Ping()))) * 5_000)
        only_session(home).abort()
        await until(lambda: home.gate.connections == 0)
    await until(lambda: home.gate.budget.bytes == 0)
