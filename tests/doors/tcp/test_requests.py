"""Requests on one connection: answered each when it is done, and taken back when nobody waits for them any more."""

import asyncio

from ortoo.model.batch import Outgoing
from ortoo.model.commands import CreateTopic, Lease, Once, Publish
from ortoo.model.names import TopicName
from ortoo.model.queries import GetStats
from ortoo.model.topic import TopicConfig
from ortoo.testing import ManualClock
from ortoo.wire import protocol as p
from tests.doors.tcp.home import Home, Wire, serving, until
from tests.semantics.stores import SlowStore

JOBS = TopicName("default", "jobs")


def publish(*values: bytes) -> Publish:
    return Publish(JOBS, Outgoing(list(values)))


def poll(wait_ms: int = 60_000, consumer: str = "c", max_messages: int = 10) -> Lease:
    return Lease(topic="jobs", consumer=consumer, max_messages=max_messages, wait_ms=wait_ms)


async def answers(wire: Wire, count: int) -> list[tuple[int, int]]:
    return [(await wire.receive())[:2] for _ in range(count)]


async def leased(home: Home) -> int:
    return (await home.queue.group("jobs", "default")).leased


async def make_jobs(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    await home.queue.create_group("jobs", "default")


async def test_a_quick_request_is_answered_before_a_slow_one_that_came_first(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, poll()), (2, p.Ping()))
        assert await answers(wire, 1) == [(p.ANSWER, 2)]
        await home.waiters(1)
        await home.queue.publish("jobs", b"x")
        assert await answers(wire, 1) == [(p.ANSWER, 1)]


async def test_publishes_sent_together_keep_their_order(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send(*((number, publish(b"%d" % number)) for number in range(1, 301)))
        found = {request_id: body for _, request_id, body in [await wire.receive() for _ in range(300)]}
    assert [found[number]["offsets"] for number in range(1, 301)] == [[offset] for offset in range(300)]
    assert [message.value async for message in home.queue.read("jobs")] == [b"%d" % number for number in range(1, 301)]


async def test_a_refused_request_is_answered_and_the_connection_lives_on(home: Home) -> None:
    async with home.wire() as wire:
        wire.send((7, {"type": "Fly"}), (8, poll(0)), (9, p.Ping()))
        kind, request_id, problem = await wire.receive()
        assert (kind, request_id, problem["code"]) == (p.ERROR, 7, "invalid")
        assert {(await wire.receive())[:2] for _ in range(2)} == {(p.ERROR, 8), (p.ANSWER, 9)}


async def test_a_frame_without_an_id_ends_the_connection_with_an_error(home: Home) -> None:
    async with home.wire() as wire:
        wire.writer.write(b"\0\0\0\1\xc0")
        kind, request_id, problem = await wire.receive()
        assert (kind, request_id, problem["code"]) == (p.ERROR, 0, "protocol")
        assert await wire.is_closed()


async def test_a_number_cannot_be_used_for_a_wait_that_is_no_publish(home: Home) -> None:
    async with home.wire() as wire:
        create = Once("p", 1, 1, CreateTopic(JOBS, TopicConfig()))
        kind, problem = await wire.ask(p.PublishOrWait(create, 10))
        assert (kind, problem["code"]) == (p.ERROR, "invalid")


async def test_a_cancelled_poll_is_answered_with_nothing_and_takes_nothing(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, poll()))
        await home.waiters(1)
        wire.send((2, p.Cancel(1)))
        assert await wire.receive() == (p.ANSWER, 1, None)
        await home.waiters(0)
        await home.queue.publish("jobs", b"x")
        assert await leased(home) == 0


async def test_a_poll_cancelled_in_the_same_breath_is_answered_and_leaves_nothing_behind(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, poll()), (2, p.Cancel(1)), (3, p.Ping()))
        assert {(await wire.receive())[:2] for _ in range(2)} == {(p.ANSWER, 1), (p.ANSWER, 3)}
        await home.waiters(0)
        await until(lambda: home.gate.budget.bytes == 0)
        kind, body = await wire.ask(GetStats())  # number 1 may be used anew
        assert (kind, body["waiters"]) == (p.ANSWER, 0)


async def test_what_a_cancelled_poll_had_leased_in_that_moment_goes_back() -> None:
    store = SlowStore()
    async with serving(store=store) as home, home.wire() as wire:
        await make_jobs(home)
        store.reading.clear()
        wire.send((1, poll()))
        await home.waiters(1)
        await home.queue.publish("jobs", b"x")
        await until(lambda: leased_now(home, 1))
        wire.send((2, p.Cancel(1)))
        assert await wire.receive() == (p.ANSWER, 1, None)
        assert await leased(home) == 0
        store.reading.set()
        assert [m.attempt for m in await home.queue.lease("jobs")] == [1]


async def test_what_a_poll_had_leased_when_its_connection_was_lost_goes_back() -> None:
    store = SlowStore()
    async with serving(store=store) as home:
        await make_jobs(home)
        store.reading.clear()
        async with home.wire() as wire:
            wire.send((1, poll()))
            await home.waiters(1)
            await home.queue.publish("jobs", b"x")
            await until(lambda: leased_now(home, 1))
        await until(lambda: leased_now(home, 0))
        await until(lambda: home.gate.budget.bytes == 0)


async def leased_now(home: Home, count: int) -> bool:
    return await leased(home) == count


async def test_polls_of_a_lost_connection_wait_no_more(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send(*((number, poll(consumer=f"c{number}")) for number in range(1, 6)))
        await home.waiters(5)
    await home.waiters(0)
    await until(lambda: home.gate.budget.bytes == 0)


async def test_a_publish_that_waits_for_room_can_be_cancelled(home: Home) -> None:
    await home.fill()
    async with home.wire() as wire:
        wire.send((1, p.PublishOrWait(publish(b"more"), 60_000)), (2, p.Ping()))
        assert await answers(wire, 1) == [(p.ANSWER, 2)]
        wire.send((3, p.Cancel(1)))
        assert await wire.receive() == (p.ANSWER, 1, None)
    await home.queue.ack(await home.queue.lease("jobs"))
    assert (await home.queue.topic("jobs")).messages == 1


async def test_a_number_that_is_under_way_already_harms_nobody(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        wire.send((1, poll(consumer="a")), (1, poll(consumer="b")))
        await home.waiters(2)
        wire.send((2, p.Cancel(1)), (3, p.Cancel(1)))
        wire.cut()
    await home.waiters(0)
    await until(lambda: home.gate.budget.bytes == 0)


async def test_a_consumer_keeps_its_leases_when_it_connects_again_in_time() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await home.queue.publish("jobs", b"x")
        async with home.wire() as wire:
            assert len((await wire.ask(poll(0)))[1]) == 1
        await until(lambda: home.gate.connections == 0)
        async with home.wire() as wire:
            assert (await wire.ask(poll(0)))[1] == []  # still leased, and to this very consumer
            await asyncio.sleep(0)
            assert await leased(home) == 1
