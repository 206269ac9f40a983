"""Does Queen's dashboard hear what happens, and only what its owner may see; and does nobody pay for a slow one, or for none?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ortoo.broker.sampler import Sample, TopicSample
from ortoo.dialects.queen import dashboard
from ortoo.model.names import TopicName
from tests.dialects.queen.home import Home
from tests.dialects.queen.observing_home import Sampled, sampling, watching
from tests.doors.roles import OURS, Roles


@pytest_asyncio.fixture
async def sampled() -> AsyncIterator[Sampled]:
    async with sampling() as sampled:
        yield sampled


@pytest.fixture
def home(sampled: Sampled) -> Home:
    return sampled.home


async def settled(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not happen")


async def test_it_is_greeted_and_answered(home: Home) -> None:
    async with watching(home.url) as watcher:
        greeting = await watcher.next()
        assert (greeting["event"], list(greeting["data"])) == ("connected", ["connectionId", "version"])
        assert greeting["timestamp"].endswith("Z")
        own = await watcher.until("client.connected")
        assert own == {"clientId": greeting["data"]["connectionId"]}
        await watcher.socket.send("ping")
        assert await watcher.socket.recv() == "pong"
        await watcher.socket.send('{"type":"subscribe","queues":["a","b"]}')
        assert await watcher.until("subscribed") == {"queues": ["a", "b"]}
        for nonsense in ("", "{", "[]", "7", b"\xff\xfe", '{"type":7}', '{"type":"dance"}', "x" * 20_000, "[" * 10_000):
            await watcher.socket.send(nonsense)
        await watcher.socket.send("ping")
        assert await watcher.socket.recv() == "pong"


async def test_it_is_told_what_happens(sampled: Sampled, home: Home) -> None:
    async with watching(home.own_url) as watcher:
        await watcher.until("client.connected")
        await sampled.furnish()
        await sampled.sample()
        told: dict[tuple[str, str], Any] = {}
        while len(told) < 8:
            event = await watcher.next()
            told[event["event"], event["data"].get("queue")] = event["data"].get("count")
        assert told == {
            ("queue.created", "shape"): None,
            ("message.pushed", "shape"): 4,
            ("message.processing", "shape"): 3,
            ("message.completed", "shape"): 1,
            ("message.processed", "shape"): 1,
            ("message.failed", "shape"): 1,
            ("queue.created", "other"): None,
            ("message.pushed", "other"): 2,
        }
        await home.push("shape", 1, 2)
        await sampled.sample()
        assert await watcher.until("message.pushed", queue="shape") == {"queue": "shape", "count": 2}


async def test_depths_and_totals_come_now_and_then(
    sampled: Sampled, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "DEPTH_SECONDS", 0.05)
    monkeypatch.setattr(dashboard, "STATS_SECONDS", 0.1)
    await sampled.furnish()
    await sampled.sample()
    depth = {"namespace": "ns", "task": "t", "depth": 1, "processing": 1, "totalDepth": 1, "totalProcessing": 1}
    async with watching(home.url) as watcher:
        assert await watcher.until("queue.depth.updated", queue="shape") == {"queue": "shape", **depth}
        stats = await watcher.until("system.stats")
        assert (stats["pending"], stats["processing"]) == (4, 1)  # with one dead letter
        assert (stats["recentCreated"], stats["recentCompleted"]) == (7, 1)
        assert (stats["connections"], stats["dropped"]) == (1, 0)
        await home.push("shape", 1)
        await sampled.sample()
        again = await watcher.until("queue.depth.updated", queue="shape")
        assert again == {"queue": "shape", **depth, "depth": 2, "totalDepth": 2}


async def test_a_subscription_leaves_other_queues_out(sampled: Sampled, home: Home) -> None:
    async with watching(home.url) as watcher:
        await watcher.socket.send('{"type":"subscribe","queues":["b"]}')
        await watcher.until("subscribed")
        await home.push("a", 1)
        await home.push("b", 1)
        await sampled.sample()
        assert (await watcher.until("message.pushed"))["queue"] == "b"


async def test_it_is_told_of_its_own_namespace_only(sampled: Sampled, home: Home) -> None:
    async with watching(home.url) as watcher:
        await watcher.until("client.connected")
        await home.queue.publish("theirs", b"1", namespace="elsewhere")
        await home.push("ours", 1)
        await sampled.sample()
        assert (await watcher.until("message.pushed"))["queue"] == "ours"


async def test_others_are_told_who_comes_and_goes(home: Home) -> None:
    async with watching(home.url) as watcher:
        await watcher.until("client.connected")
        async with watching(home.own_url) as other:
            number = (await other.next())["data"]["connectionId"]
            assert await watcher.until("client.connected") == {"clientId": number}
        assert await watcher.until("client.disconnected") == {"clientId": number}


async def test_nothing_is_done_while_nobody_looks(sampled: Sampled, home: Home) -> None:
    async with watching(home.url) as first, watching(home.own_url) as second:
        await first.until("client.connected")
        await second.until("client.connected")
        assert len(sampled.sampler._listeners) == 1
    await settled(lambda: not sampled.sampler._listeners)


async def test_there_is_a_bound_on_dashboards(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "_VIEWERS_MAX", 1)
    async with watching(home.url) as watcher:
        await watcher.until("client.connected")
        with pytest.raises(InvalidStatus) as refused:
            async with watching(home.own_url):
                pass
        assert refused.value.response.status_code == 429
        assert b'"error"' in (refused.value.response.body or b"")


async def test_a_tenant_does_not_take_all_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "_TENANT_VIEWERS_MAX", 1)
    async with sampling(access=Roles()) as sampled:
        url = sampled.home.url
        async with watching(url, "worker") as watcher:
            await watcher.until("client.connected")
            with pytest.raises(InvalidStatus) as refused:
                async with watching(url, "reader"):  # of the same namespace
                    pass
            assert refused.value.response.status_code == 429
            for other in ("stranger", "server", "server"):
                async with watching(url, other) as beside:
                    await beside.until("client.connected")
        async with watching(url, "reader") as watcher:
            await watcher.until("client.connected")


async def test_a_slow_reader_gets_the_newest_and_nothing_piles_up(home: Home) -> None:
    """Whose own task has not come to it when there is more."""
    async with watching(home.url) as watcher:
        await watcher.until("client.connected")
        [viewer] = next(hub for hub in dashboard._hubs.values() if hub.viewers).viewers
        for count in (1, 2, 3):
            seen = TopicSample(count, 0, 0, 0, 0, 0)
            viewer.hand(dashboard.Second(Sample(0, {TopicName("default", "q"): seen}, [])))
        for _ in range(2 * dashboard._NOTICES_MAX):
            viewer.notice(b'{"event":"noise","data":{}}')
        assert len(viewer._notices) == dashboard._NOTICES_MAX
        assert viewer.dropped == 2 + dashboard._NOTICES_MAX
        assert await watcher.until("message.pushed") == {"queue": "q", "count": 3}


async def test_what_one_second_tells_is_bounded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "_EVENTS_MAX", 5)
    async with watching(home.url) as watcher:
        await watcher.until("client.connected")
        [viewer] = next(hub for hub in dashboard._hubs.values() if hub.viewers).viewers
        topics = {TopicName("default", f"q{number}"): TopicSample(1, 0, 0, 0, 0, 0) for number in range(10)}
        viewer.hand(dashboard.Second(Sample(0, topics, [])))
        await settled(lambda: viewer.dropped == 15)
        viewer.hand(dashboard.Second(Sample(0, {TopicName("default", "last"): TopicSample(1, 0, 0, 0, 0, 0)}, [])))
        assert (await watcher.until("queue.created", queue="last"))["queue"] == "last"


# -- who may see what


@pytest_asyncio.fixture
async def shared() -> AsyncIterator[tuple[Sampled, Roles]]:
    roles = Roles()
    async with sampling(access=roles) as sampled:
        yield sampled, roles


async def push(sampled: Sampled, namespace: str, queue: str) -> None:
    await sampled.home.queue.publish(queue, b"1", namespace=namespace)


async def test_it_is_told_of_what_its_owner_may_see(shared: tuple[Sampled, Roles]) -> None:
    sampled, _ = shared
    async with (
        watching(sampled.home.url, "reader") as reader,
        watching(sampled.home.url, "orders admin") as admin,
        watching(sampled.home.url, "stranger") as stranger,
    ):
        for watcher in (reader, admin, stranger):
            await watcher.until("client.connected")
        await push(sampled, OURS, "mails")
        await push(sampled, OURS, "orders")
        await push(sampled, "shipping", "parcels")
        await sampled.sample()
        assert (await reader.until("message.pushed"))["queue"] == "mails"
        assert (await reader.until("message.pushed"))["queue"] == "orders"
        assert (await admin.until("message.pushed"))["queue"] == "orders"
        assert (await stranger.until("message.pushed"))["queue"] == "parcels"
        await stranger.socket.close()
        async with watching(sampled.home.url, "admin") as other:
            number = (await other.next())["data"]["connectionId"]
            while (told := await reader.until("client.connected"))["clientId"] != number:
                assert told["clientId"]


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("unknown", 401), ("writer", 403), ("nobody", 403)])
async def test_who_may_not_look_is_not_let_in(shared: tuple[Sampled, Roles], token: str | None, status: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with watching(shared[0].home.url, token):
            pass
    assert refused.value.response.status_code == status


async def test_it_ends_with_its_token(shared: tuple[Sampled, Roles], monkeypatch: pytest.MonkeyPatch) -> None:
    sampled, roles = shared
    monkeypatch.setattr(dashboard, "DEPTH_SECONDS", 0.05)
    monkeypatch.setattr(dashboard, "STATS_SECONDS", 1_000)  # what is asked then would tell it, too
    async with watching(sampled.home.url, "reader") as watcher:
        await watcher.until("client.connected")
        roles.revoked.add("reader")
        with pytest.raises(ConnectionClosed) as ended:
            await watcher.until("nothing")
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008
    await settled(lambda: not sampled.sampler._listeners)


async def test_it_ends_with_the_door() -> None:
    async with AsyncExitStack() as stack:
        async with sampling() as sampled:
            watcher = await stack.enter_async_context(watching(sampled.home.url))
            await watcher.until("client.connected")
            sampler = sampled.sampler
        with pytest.raises(ConnectionClosed):
            await watcher.until("nothing")
        assert not sampler._listeners
