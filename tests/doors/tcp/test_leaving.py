"""Consumers whose connection is gone, and a door that closes."""

import asyncio
from itertools import pairwise

import pytest

from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate
from ortoo.doors.tcp import TcpDoor, cutting, session
from ortoo.model import limits
from ortoo.model.settings import LimitSettings, TcpSettings
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.doors.honest import LONG
from tests.doors.tcp.home import Home, Wire, serving, until
from tests.doors.tcp.test_requests import leased, leased_now, make_jobs, poll, publish
from tests.doors.tcp.test_subscriptions import feed
from tests.semantics.stores import SlowStore


class TestConsumers:
    @pytest.fixture(autouse=True)
    def short_sessions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "SESSION_TIMEOUT_MS", 200)

    async def test_a_consumer_leaves_when_its_connection_stays_away(self, home: Home) -> None:
        await make_jobs(home)
        await home.queue.publish("jobs", b"x")
        async with home.wire() as wire:
            assert len((await wire.ask(poll(0)))[1]) == 1
        await until(lambda: leased_now(home, 0))
        assert [message.attempt for message in await home.queue.lease("jobs")] == [1]  # uncounted

    async def test_a_consumer_with_two_connections_stays_when_it_loses_one(self, home: Home) -> None:
        await make_jobs(home)
        await home.queue.publish("jobs", b"x")
        async with home.wire() as first:
            assert len((await first.ask(poll(0)))[1]) == 1
            async with home.wire() as second:
                assert (await second.ask(poll(0)))[1] == []
            await asyncio.sleep(0.4)
            assert await leased(home) == 1

    async def test_a_consumer_that_is_named_and_never_leases_here_ends_nobody(self, home: Home) -> None:
        """One of that name may be alive behind another door."""
        await make_jobs(home)
        await home.queue.publish("jobs", b"x")
        assert len(await home.queue.lease("jobs", consumer="ann")) == 1
        async with home.wire(greets=False) as wire:
            wire.send((0, p.Hello(p.PROTOCOL, "by hand", None, ["ann"])))
            assert (await wire.receive())[0] == p.ANSWER
        await until(lambda: not home.gate.connections)
        assert not home.door.presence._absent
        assert await leased(home) == 1

    async def test_a_subscriber_leaves_when_its_connection_stays_away(self, home: Home) -> None:
        await make_jobs(home)
        await home.queue.publish("jobs", b"x")
        async with home.wire() as wire:
            wire.send((1, p.Subscribe(feed(), 5)))
            assert (await wire.receive())[0] == p.DELIVERY
        await until(lambda: leased_now(home, 0))

    async def test_a_consumer_stays_when_it_is_the_server_that_goes(self) -> None:
        store = SlowStore()
        async with serving(store=store) as home, home.wire() as wire, home.wire() as slow:
            await make_jobs(home)
            await home.queue.publish("jobs", b"x")
            assert len((await wire.ask(poll(0)))[1]) == 1
            store.writing.clear()
            slow.send((1, publish(b"y")))
            await until(lambda: home.gate.budget.bytes > 0)
            closing = asyncio.create_task(home.door.close(10))
            assert (await wire.receive())[0] == p.GOODBYE
            await until(lambda: home.gate.connections == 1)
            await asyncio.sleep(0.4)  # longer than its session, and the door is still closing
            store.writing.set()
            await closing
            assert await leased(home) == 1


class TestComingBack:
    """In time, however busy the machine is; who is not absent any more is not missed later."""

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "SESSION_TIMEOUT_MS", 3_600_000)

    async def test_a_consumer_that_connects_again_in_time_stays(self, home: Home) -> None:
        await make_jobs(home)
        await home.queue.publish("jobs", b"x")
        async with home.wire() as wire:
            assert len((await wire.ask(poll(0)))[1]) == 1
        await until(lambda: bool(home.door.presence._absent))
        async with home.wire() as wire:
            wire.send((1, poll()))
            await home.waiters(1)
            assert not home.door.presence._absent
            assert await leased(home) == 1

    async def test_a_consumer_that_names_itself_in_time_stays(self, home: Home) -> None:
        await make_jobs(home)
        await home.queue.publish("jobs", b"x")
        async with home.wire() as wire:
            assert len((await wire.ask(poll(0)))[1]) == 1
        consumer = poll(0).consumer
        await until(lambda: bool(home.door.presence._absent))
        async with home.wire(greets=False) as wire:
            wire.send((0, p.Hello(p.PROTOCOL, "by hand", None, [consumer])))
            assert (await wire.receive())[0] == p.ANSWER
            assert not home.door.presence._absent
            assert await leased(home) == 1
        await until(lambda: bool(home.door.presence._absent))  # its going is noticed, too


class TestClosing:
    async def test_requests_under_way_are_answered_after_the_goodbye(self) -> None:
        store = SlowStore()
        async with serving(store=store) as home, home.wire() as wire:
            await make_jobs(home)
            store.writing.clear()
            wire.send((1, publish(b"x")))
            await until(lambda: home.gate.budget.bytes > 0)
            closing = asyncio.create_task(home.door.close(10))
            assert await wire.receive() == (p.GOODBYE, 0, None)
            wire.send((2, publish(b"too late")))
            await asyncio.sleep(0.01)
            store.writing.set()
            assert (await wire.receive())[:2] == (p.ANSWER, 1)
            assert await wire.is_closed()
            await closing
            assert [message.value async for message in home.queue.read("jobs")] == [b"x"]

    async def test_who_waits_is_sent_home_at_once_and_takes_nothing(self, home: Home) -> None:
        await make_jobs(home)
        async with home.wire() as wire:
            wire.send((1, poll()), (2, p.Subscribe(feed(), 5)))
            await home.waiters(2)
            await home.door.close(10)
            assert await wire.receive() == (p.GOODBYE, 0, None)
            assert await wire.is_closed()
        assert len(home.broker.waiters) == 0

    async def test_what_takes_longer_than_the_grace_is_cut_off(self) -> None:
        store = SlowStore()
        async with serving(store=store) as home, home.wire() as wire:
            store.writing.clear()
            wire.send((1, publish(b"x")))
            await until(lambda: home.gate.budget.bytes > 0)
            await home.door.close(0.05)
            assert (await wire.receive())[0] == p.GOODBYE
            assert await wire.is_closed()
            store.writing.set()

    async def test_a_long_poll_is_taken_up_by_the_next_server(self) -> None:
        """The same queue behind a second door, on the same port."""
        async with serving() as home:
            await make_jobs(home)
            async with home.connect() as queue:
                taking = asyncio.create_task(queue.lease("jobs", wait=30))
                await home.waiters(1)
                await home.door.close(1)
                await home.waiters(0)
                door = await open_again(home.broker, home.port)
                await home.waiters(1)
                await home.queue.publish("jobs", b"x")
                assert [message.value for message in await taking] == [b"x"]
                await door.close(1)

    async def test_nobody_new_is_let_in(self, home: Home) -> None:
        await home.door.close(1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(home.host, home.port)


async def open_again(broker: Broker, port: int) -> TcpDoor:
    door = TcpDoor(Gate("tcp", broker, Authenticator(), LimitSettings(), Budget(1 << 30)), TcpSettings(port=port))
    await door.open()
    return door


async def test_names_of_refused_consumers_are_not_remembered(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        lease = poll(0, consumer="c" * 1_000)
        for request in (lease, p.Subscribe(lease, 1)):
            kind, problem = await wire.ask(request)
            assert (kind, problem["code"]) == (p.ERROR, "invalid")
        assert "1 to 255 bytes" in problem["message"]
        (session,) = home.door._sessions
        assert session._consumers._names == set()
        assert not home.door.presence._connected


class TestManyPolls:
    COUNT = 3_000

    @pytest.fixture(autouse=True)
    def long_sessions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What comes back does so at once, and not because its consumer has left."""
        monkeypatch.setattr(limits, "SESSION_TIMEOUT_MS", 3_600_000)

    async def wait_for_messages(self, home: Home, wire: Wire, count: int) -> None:
        wire.writer.write(b"".join(bytes(encode_frame((number, poll()))) for number in range(1, count + 1)))
        async with asyncio.timeout(LONG):
            while len(home.broker.waiters) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def test_polls_of_a_connection_that_ends_go_a_few_at_a_time(self, home: Home) -> None:
        await make_jobs(home)
        async with home.wire() as wire:
            await self.wait_for_messages(home, wire, self.COUNT)
        most: list[int] = []
        before = self.COUNT
        async with asyncio.timeout(LONG):
            while before:
                await asyncio.sleep(0)
                most.append(before - len(home.broker.waiters))
                before -= most[-1]
        assert max(most) <= 2 * cutting.CUTS_PER_TURN
        await until(lambda: home.gate.connections == 0 and home.gate.budget.bytes == 0)

    async def test_a_door_that_closes_sends_them_home_a_few_at_a_time(self) -> None:
        async with serving() as home:
            await make_jobs(home)
            async with home.wire() as wire:
                await self.wait_for_messages(home, wire, self.COUNT)
                cut = [len(home.broker.waiters)]
                closing = asyncio.create_task(home.door.close(LONG))
                while not closing.done():
                    await asyncio.sleep(0)
                    cut.append(len(home.broker.waiters))
                assert max(a - b for a, b in pairwise(cut)) <= 2 * cutting.CUTS_PER_TURN
                assert cut[-1] == 0

    async def test_what_comes_for_those_not_yet_gone_goes_back(self, home: Home) -> None:
        await make_jobs(home)
        async with home.wire() as wire:
            await self.wait_for_messages(home, wire, self.COUNT)
            [one] = home.door._sessions
            one._transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(home.broker.waiters) > self.COUNT // 2
            await home.queue.publish_many("jobs", [b"x"] * 10)
            await until(lambda: len(home.broker.waiters) == 0)
            await until(lambda: leased_now(home, 0))
        messages = await home.queue.lease("jobs", max_messages=10)
        assert [message.attempt for message in messages] == [1] * 10

    async def test_the_same_for_subscriptions(self, home: Home) -> None:
        await make_jobs(home)
        async with home.wire() as wire:
            for number in range(1, 1_001):
                wire.send((number, p.Subscribe(poll(), 5)))
            await home.waiters(1_000)
            [one] = home.door._sessions
            one._transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(home.broker.waiters) > 500
            await home.queue.publish_many("jobs", [b"x"] * 10)
            await until(lambda: len(home.broker.waiters) == 0)
            await until(lambda: leased_now(home, 0))

    async def test_one_connection_has_so_many_and_no_more(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "POLLS_MAX", 20)
        await make_jobs(home)
        async with home.wire() as wire:
            await self.wait_for_messages(home, wire, 20)
            wire.send((100, p.Subscribe(poll(), 5)))  # has a bound of its own
            await home.waiters(21)
            kind, problem = await wire.ask(poll())
            assert (kind, problem["code"]) == (p.ERROR, "too_many")
            assert "open another" in problem["message"]
            assert (await wire.ask(poll(0)))[0] == p.ANSWER  # who does not wait is served
            wire.send((0, p.Cancel(1)))
            assert (await wire.receive())[:2] == (p.ANSWER, 1)
            wire.send((1, poll()))
            await home.waiters(21)

    async def test_leases_that_do_not_wait_are_requests_like_others(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(session, "REQUESTS_MAX", 5)
        await make_jobs(home)
        async with home.wire() as wire:
            [one] = home.door._sessions
            await one._reading.acquire()  # as if the client did not take a large answer
            for number in range(1, 30):
                wire.send((number, poll(0)))
            await until(lambda: bool(home.door.stalled))
            one._reading.release()
            assert sorted([(await wire.receive())[1] for _ in range(1, 30)]) == list(range(1, 30))
