"""Quotas that the gates keep: how much is published in a minute, and how many are connected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import ortoo
from ortoo import InvalidError, RateLimitedError, TooManyError
from ortoo.broker.throttle import Bucket
from ortoo.model import commands as c
from ortoo.model.batch import Outgoing
from ortoo.model.names import TopicName
from ortoo.testing import ManualClock
from ortoo.wire import protocol as p
from tests.doors.roles import OURS, THEIRS, Shared, serving_roles
from tests.doors.tcp.home import until

TOPIC = f"/v1/topics/orders/messages?namespace={OURS}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def home(clock: ManualClock) -> AsyncIterator[Shared]:
    async with serving_roles(clock=clock) as home:
        yield home


def messages(count: int, value: str = "x") -> dict[str, Any]:
    return {"messages": [{"value": value}] * count}


# -- rates


async def test_over_tcp_who_is_too_fast_is_told_when_to_come_again(home: Shared, clock: ManualClock) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=60)
    async with home.connect(token="writer", namespace=OURS) as queue:
        await queue.publish_many("orders", [b"x"] * 60)
        with pytest.raises(
            RateLimitedError, match="may publish 60 messages a minute, its quota; try again in 2 s"
        ) as told:
            await queue.publish_many("orders", [b"x"] * 2)
        assert told.value.retry_after == 2
        await clock.advance(1.999)
        with pytest.raises(RateLimitedError) as told:
            await queue.publish_many("orders", [b"x"] * 2)
        assert told.value.retry_after == 0.001
        await clock.advance(told.value.retry_after)
        await queue.publish_many("orders", [b"x"] * 2)
        assert (await home.queue.topic("orders", namespace=OURS)).messages == 62


async def test_over_http_it_is_429_with_the_header_and_the_seconds(home: Shared, clock: ManualClock) -> None:
    await home.queue.set_namespace(OURS, bytes_per_minute=60)
    assert (await home.ask("writer", "POST", TOPIC, messages(1, "x" * 58))).status_code == 201  # and its quotes
    told = await home.ask("writer", "POST", TOPIC, messages(1, "x" * 9))
    assert (told.status_code, told.headers["retry-after"]) == (429, "11")
    assert (told.json()["code"], told.json()["retry_after"]) == ("rate_limited", 11)
    assert "60 bytes a minute" in told.json()["detail"]
    await clock.advance(10.5)
    told = await home.ask("writer", "POST", TOPIC, messages(1, "x" * 9))
    assert (told.headers["retry-after"], told.json()["retry_after"]) == ("1", 0.5)
    await clock.advance(0.5)
    assert (await home.ask("writer", "POST", TOPIC, messages(1, "x" * 9))).status_code == 201


async def test_a_websocket_is_told_too(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=1)
    publish = f'{{"type": "publish", "topic": "orders", "namespace": "{OURS}", "messages": [{{"value": 1}}]}}'
    async with connect(socket_url(home), additional_headers=bearer("writer")) as socket:
        await socket.send(publish)
        assert '"published"' in str(await socket.recv())
        await socket.send(publish)
        assert '"retry_after":60' in str(await socket.recv())


async def test_what_can_never_be_sent_in_a_minute_is_not_told_to_try_again(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=3, bytes_per_minute=100)
    async with home.connect(token="writer", namespace=OURS) as queue:
        with pytest.raises(InvalidError, match="3 messages a minute, its quota, and this has 4; send less"):
            await queue.publish_many("orders", [b"x"] * 4)
        with pytest.raises(InvalidError, match="100 bytes a minute, its quota, and this has 101"):
            await queue.publish("orders", b"x" * 101)
        await queue.publish_many("orders", [b"x"] * 3)  # nothing of that was paid for


async def test_those_who_publish_side_by_side_are_refused_one_by_one(home: Shared) -> None:
    """The client sends them as one batch, which is larger than a minute's worth."""
    await home.queue.set_namespace(OURS, messages_per_minute=3)
    async with home.connect(token="writer", namespace=OURS) as queue:
        done = await asyncio.gather(*(queue.publish("orders", b"x") for _ in range(8)), return_exceptions=True)
    assert [type(one).__name__ for one in done].count("RateLimitedError") == 5


async def test_both_doors_and_all_ways_to_publish_share_one_rate(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=4)
    publish = c.Publish(TopicName(OURS, "orders"), Outgoing([b"x"]))
    async with home.wire(greets=False) as wire:
        await wire.hello("worker")
        await wire.ask(c.Begin("tx", OURS))
        assert (await wire.ask(publish))[0] == p.ANSWER
        assert (await wire.ask(c.Transact([], [publish])))[0] == p.ANSWER
        assert (await wire.ask(c.Stage("tx", "part", publish, OURS)))[0] == p.ANSWER
        assert (await home.ask("writer", "POST", TOPIC, messages(1))).status_code == 201
        waiting = p.PublishOrWait(publish, 0)
        for request in (publish, c.Transact([], [publish]), c.Stage("tx", "part", publish, OURS), waiting):
            kind, body = await wire.ask(request)
            assert (kind, body["code"], body["retry_after"]) == (p.ERROR, "rate_limited", 15), request
        assert (await wire.ask(c.Commit("tx", None, OURS))) == (p.ANSWER, 1)  # it was paid for
    assert (await home.ask("writer", "POST", TOPIC, messages(1))).status_code == 429


async def test_what_is_sent_again_is_not_paid_for_again(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=1)
    once = c.Once("producer", 1, 0, c.Publish(TopicName(OURS, "orders"), Outgoing([b"x"])))
    async with home.wire(greets=False) as wire:
        await wire.hello("server")
        first = await wire.ask(once)
        assert first[0] == p.ANSWER
        assert await wire.ask(once) == first


async def test_one_tenant_that_floods_leaves_the_other_served(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=10)
    await home.queue.set_namespace(THEIRS, messages_per_minute=100)
    async with (
        home.connect(token="writer", namespace=OURS) as flooding,
        home.connect(token="stranger", namespace=THEIRS) as served,
    ):
        refused = 0
        for number in range(100):
            await served.publish("orders", b"%d" % number)
            for _ in range(5):
                try:
                    await flooding.publish("orders", b"x")
                except RateLimitedError:
                    refused += 1
    assert refused == 490
    assert (await home.queue.topic("orders", namespace=OURS)).messages == 10
    assert (await home.queue.topic("orders", namespace=THEIRS)).messages == 100


async def test_a_queue_without_a_gate_has_no_rates(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=0)
    await ortoo.Queue(home.broker).publish("orders", b"x", namespace=OURS)


async def test_a_rate_that_is_changed_counts_at_once(home: Shared, clock: ManualClock) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=2)
    async with home.connect(token="writer", namespace=OURS) as queue:
        await queue.publish("orders", b"x")
        await home.queue.set_namespace(OURS, messages_per_minute=20)
        await queue.publish_many("orders", [b"x"] * 10)  # it was half full
        with pytest.raises(RateLimitedError):
            await queue.publish("orders", b"x")
        await home.queue.set_namespace(OURS)
        await queue.publish_many("orders", [b"x"] * 100)


@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 1000)), max_size=30))
def test_in_no_minute_more_than_two_minutes_worth_is_let_through(limit: int, tries: list[tuple[int, int]]) -> None:
    now, taken = 0, []
    bucket = Bucket(limit, now)
    for passed, tokens in tries:
        now += passed
        if tokens > limit:
            continue
        wait = bucket.wait_ms(tokens, now)
        if wait:
            assert bucket.wait_ms(tokens, now + wait - 1) == 1, "it was told to wait longer than it has to"
            now += wait
            assert bucket.wait_ms(tokens, now) == 0, "it came when it was told to, and in vain"
        bucket.take(tokens)
        taken.append((now, tokens))
        assert sum(amount for at, amount in taken if at > now - 60_000) <= 2 * limit
        assert sum(amount for _, amount in taken) <= limit + limit * now / 60_000


# -- connections


def bearer(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {role}"}


def socket_url(home: Shared) -> str:
    return f"ws{home.base.removeprefix('http')}/v1/stream"


async def test_connections_beyond_the_quota_are_refused_at_hello_and_at_the_handshake(home: Shared) -> None:
    await home.queue.set_namespace(OURS, connections=2)
    async with home.connect(token="reader"), connect(socket_url(home), additional_headers=bearer("writer")):
        with pytest.raises(TooManyError, match="'payments' may have 2 connections, its quota"):
            async with home.connect(token="worker"):
                pass
        with pytest.raises(InvalidStatus) as told:
            async with connect(socket_url(home), additional_headers=bearer("admin")):
                pass
        assert told.value.response.status_code == 429
        assert (await home.ask("reader", "GET", "/v1/stats")).status_code == 200  # requests are not counted
        async with home.connect(token="server"), home.connect(token="stranger"):  # theirs is another namespace
            pass
    await until(lambda: not home.throttle.connections)
    async with home.connect(token="worker"):
        assert home.throttle.connections == {OURS: 1}


async def test_however_a_connection_ends_it_counts_no_more(home: Shared) -> None:
    await home.queue.set_namespace(OURS, connections=10)
    async with home.wire(greets=False) as wire:  # cut
        await wire.hello("reader")
        assert home.throttle.connections == {OURS: 1}
    await until(lambda: not home.throttle.connections)
    async with home.wire(greets=False) as wire:  # at fault
        await wire.hello("reader")
        await wire.hello("reader")
        assert await wire.is_closed()
    await until(lambda: not home.throttle.connections)
    async with connect(socket_url(home), additional_headers=bearer("reader")) as socket:
        assert home.throttle.connections == {OURS: 1}
        socket.transport.abort()
    await until(lambda: not home.throttle.connections)
    for token in ("wrong", None):  # never let in
        with pytest.raises(ortoo.UnauthenticatedError):
            async with home.connect(token=token):
                pass
    assert not home.throttle.connections
    async with home.connect(token="reader"), connect(socket_url(home), additional_headers=bearer("reader")):
        assert home.throttle.connections == {OURS: 2}
        await home.door.close(1)
        await home.http.close(1)
        await until(lambda: not home.throttle.connections)


async def test_who_is_limited_to_no_namespace_counts_nowhere(home: Shared) -> None:
    async with home.connect(token="server"):
        assert not home.throttle.connections


# -- what is told of it


async def test_metrics_tell_what_is_used_of_each_quota_and_what_was_refused(home: Shared) -> None:
    await home.queue.set_namespace(OURS, messages_per_minute=3, topics=1, stored_bytes=10, connections=1)
    await home.queue.set_namespace(THEIRS, groups=5)
    await home.queue.set_namespace("free")
    async with home.connect(token="worker", namespace=OURS) as queue:
        await queue.publish("orders", b"1234567")
        with pytest.raises(TooManyError):
            await queue.publish("mails", b"1")
        with pytest.raises(ortoo.FullError):
            await queue.publish("orders", b"1234")
        with pytest.raises(RateLimitedError):
            await queue.publish("orders", b"1")
        with pytest.raises(TooManyError):
            async with home.connect(token="reader"):
                pass
        told = (await home.ask("server", "GET", "/metrics")).text
        seen = (await home.ask("reader", "GET", "/metrics")).text
    for quota, used, limit, refused in (
        ("messages_per_minute", 3, 3, 1),
        ("topics", 1, 1, 1),
        ("stored_bytes", 7, 10, 1),
        ("connections", 1, 1, 1),
    ):
        labels = f'{{namespace="payments",quota="{quota}"}}'
        for text in (told, seen):
            assert f"ortoo_namespace_used{labels} {used}.0" in text
            assert f"ortoo_namespace_limit{labels} {limit}.0" in text
            assert f"ortoo_namespace_refusals_total{labels} {refused}.0" in text
    assert 'ortoo_namespace_refusals_total{namespace="shipping",quota="groups"} 0.0' in told
    assert 'namespace="free"' not in told
    assert "shipping" not in seen


async def test_who_is_limited_sees_the_namespaces_it_may_read_in(home: Shared) -> None:
    await home.queue.set_namespace("empty", topics=1)
    await home.queue.publish("orders", b"1", namespace=OURS)
    await home.queue.publish("mails", b"1", namespace=OURS)
    await home.queue.publish("orders", b"1", namespace=THEIRS)
    for role, wanted in {
        "server": {"empty": 0, OURS: 2, THEIRS: 1},
        "reader": {OURS: 2},
        "orders admin": {OURS: 1},
        "stranger": {THEIRS: 1},
    }.items():
        async with home.connect(token=role) as queue:
            assert {info.name: info.topics for info in await queue.namespaces()} == wanted, role
