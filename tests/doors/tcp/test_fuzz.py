"""Whatever a client sends, it gets answers, errors or a closed connection; and the server goes on serving others."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortoo import OrtooError, Queue
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, Share
from ortoo.doors.tcp.answer import answer
from ortoo.model import commands as c
from ortoo.model import queries as q
from ortoo.model.names import TopicName
from ortoo.model.settings import LimitSettings
from ortoo.stores.disk import DiskStore
from ortoo.testing import ManualClock
from ortoo.testing.simulated_disk import SimulatedDisk
from ortoo.wire import protocol as p
from ortoo.wire.frames import HEAD_BYTES, encode_frame
from tests.doors.tcp.home import CLOSED, Home, Wire, serving
from tests.doors.tcp.test_requests import make_jobs
from tests.wire.shapes import values

SESSION_ONLY = (p.Hello, p.Subscribe, p.Credit, p.Unsubscribe, p.Cancel)
requests = values(p.Request)
frames = st.lists(st.tuples(st.integers(-1, 3) | st.just(2**64 - 1), requests), max_size=6)
some = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


async def still_serves(home: Home) -> None:
    async with home.connect() as queue:
        await queue.publish("probe", b"x")
        messages = await queue.lease("probe", group="probe", max_messages=1000)
        await queue.ack(messages)
        assert messages


async def drained(wire: Wire) -> None:
    """Until the connection is closed, or a ping is answered."""
    wire.send((4444, p.Ping()))
    while True:
        kind, request_id, _ = await wire.receive()
        if kind == CLOSED or (kind, request_id) == (p.ANSWER, 4444):  # type: ignore[comparison-overlap]
            return


def try_all(caplog: pytest.LogCaptureFixture, strategy: st.SearchStrategy[Any], attack: Any) -> None:
    """Each example on a connection of its own, to one server."""
    caplog.set_level(logging.ERROR)
    with asyncio.Runner() as runner:
        stack, unseen = AsyncExitStack(), list[dict[str, Any]]()
        home = runner.run(stack.enter_async_context(serving()))
        runner.get_loop().set_exception_handler(lambda loop, context: unseen.append(context))

        @some
        @given(strategy)
        def check(example: Any) -> None:
            runner.run(attack(home, example))
            runner.run(forget_all(home))
            assert unseen == []
            assert [record.getMessage() for record in caplog.records] == []

        check()
        runner.run(still_serves(home))
        assert home.broker.meters.recoveries == 0
        runner.run(stack.aclose())
        assert home.gate.budget.bytes == 0
        assert home.gate.connections == 0


async def forget_all(home: Home) -> None:
    for topic in await home.broker.ask(q.ListTopics()):
        await home.broker.call(c.DeleteTopic(TopicName(topic.namespace, topic.name)))
    for namespace in await home.broker.ask(q.ListNamespaces()):
        await home.broker.call(c.DeleteNamespace(namespace.name))


def test_arbitrary_bytes_of_a_stranger_are_survived(caplog: pytest.LogCaptureFixture) -> None:
    async def attack(home: Home, data: bytes) -> None:
        async with home.wire(greets=False) as wire:
            wire.writer.write(data)
            wire.writer.write_eof()
            await asyncio.wait_for(wire.reader.read(), 60)

    try_all(caplog, st.binary(max_size=60), attack)


def test_arbitrary_bytes_of_a_guest_are_survived(caplog: pytest.LogCaptureFixture) -> None:
    async def attack(home: Home, bodies: list[bytes]) -> None:
        async with home.wire() as wire:
            for body in bodies:
                wire.writer.write(len(body).to_bytes(HEAD_BYTES, "big") + body)
            await drained(wire)

    try_all(caplog, st.lists(st.binary(max_size=60), max_size=5), attack)


def test_well_formed_requests_with_odd_values_are_survived(caplog: pytest.LogCaptureFixture) -> None:
    async def attack(home: Home, sent: list[tuple[int, Any]]) -> None:
        await home.queue.publish_many("jobs", [b"1", b"2"])
        async with home.wire() as wire:
            for frame in sent:
                wire.writer.write(encode_frame(frame))
            await drained(wire)

    try_all(caplog, frames, attack)


# -- the same at the heart of it, where an example costs no connection


def asked(said: Any) -> Any:
    try:
        _, request = p.decode_request(memoryview(bytes(encode_frame((1, said))))[HEAD_BYTES:])
    except OrtooError:
        return None
    return None if isinstance(request, SESSION_ONLY) else request  # None stands for what never gets that far


async def play(said: list[Any]) -> None:
    """Every request is answered or refused, what was written can be read, and what was recovered works."""
    disk, clock = SimulatedDisk(Random(0), lambda operation, kind: "none"), ManualClock()
    broker = Broker(DiskStore(disk, checkpoint_bytes=2_000, reserve_bytes=0, in_threads=False), clock)
    await broker.open()
    await Queue(broker).publish_many("jobs", [b"1", b"2", b"3"])
    await broker.call(c.CreateGroup(TopicName("default", "jobs"), "default"))
    budget = Budget(1 << 30)
    link = Gate("tcp", broker, Authenticator(), LimitSettings(), budget).admit(None)
    for request in filter(None, map(asked, said)):
        try:
            async with asyncio.timeout(0.01 if getattr(request, "wait_ms", 0) else 60):
                await answer(link, request, Share(budget), 0)
        except (OrtooError, TimeoutError):
            pass
    await clock.advance(3600)
    assert broker.meters.recoveries == 0
    assert broker.is_working
    epoch = (await broker.ask(q.GetStats())).epoch
    await broker.close()
    again = Broker(DiskStore(disk, reserve_bytes=0, in_threads=False), clock)
    await again.open()
    stats = await again.ask(q.GetStats())
    assert stats.problems == []
    assert stats.epoch == epoch + 1
    await Queue(again).set_namespace("default")  # a quota may be in the way
    await Queue(again).publish("probe", b"x")
    await again.close()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(requests, min_size=1, max_size=6))
def test_no_command_whatever_its_values_breaks_the_queue(said: list[Any]) -> None:
    asyncio.run(play(said))


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(requests, min_size=1, max_size=6))
def test_no_command_of_thousands_breaks_the_queue(said: list[Any]) -> None:
    asyncio.run(play(said))


LEASE = {"type": "Lease", "topic": "jobs", "consumer": "c"}


@pytest.mark.parametrize(
    "said",
    [
        LEASE | {"wait_ms": -1},
        LEASE | {"wait_ms": 2**63},
        LEASE | {"max_messages": 0},
        LEASE | {"lease_ms": 2**63},
        LEASE | {"partition": -1},
        LEASE | {"start": {"offset": -5}},
        LEASE | {"start": {"time": float("nan")}},
        {"type": "ListMessages", "topic": ("default", "jobs"), "group": "default", "state": "ready", "count": -1},
        {"type": "ListMessages", "topic": ("default", "jobs"), "group": "default", "state": "ready", "count": 2**63},
        {"type": "Scan", "topic": ("default", "jobs"), "partition": 0, "start": {}, "count": 2**63},
        {"type": "Begin", "transaction": "t", "namespace": ""},
        {"type": "PublishOrWait", "wait_ms": 2**63, "publish": {"type": "PurgeTopic", "topic": ("default", "jobs")}},
    ],
    ids=str,
)
async def test_what_no_queue_could_do_is_refused(said: dict[str, Any], home: Home) -> None:
    await make_jobs(home)
    await home.queue.publish("jobs", b"x")
    async with home.wire() as wire:
        kind, body = await wire.ask(said)
        assert (kind, body["code"]) == (p.ERROR, "invalid")
