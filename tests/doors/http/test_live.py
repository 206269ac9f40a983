"""Overviews over HTTP, and what a WebSocket is told while somebody watches: a real door, and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect

import ortoo
from ortoo import Queue
from ortoo.broker import Broker, Sampler, SeriesReader
from ortoo.client.tail import LOOKED_MAX
from ortoo.doors.http import live
from ortoo.doors.http.websocket import Socket
from ortoo.model import limits
from ortoo.model.message import Message
from ortoo.testing import ManualClock
from tests.doors.http.home import Home, serving, until
from tests.doors.http.test_events import opened
from tests.doors.http.test_stream import Client, talking
from tests.doors.roles import OURS, THEIRS, Shared, serving_roles


class Sampled:
    """A server that is sampled when the test says so."""

    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        self.clock = clock
        self.sampler = Sampler(broker)
        broker.meters.series = SeriesReader(self.sampler)

    async def second(self) -> None:
        await self.clock.advance(1)
        await self.sampler.sample()


@asynccontextmanager
async def sampled() -> AsyncIterator[tuple[Home, Sampled]]:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        yield home, Sampled(home.broker, clock)


async def overview(home: Home, query: str = "") -> Any:
    answer = await home.client.get(f"/v1/overview?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


# -- over HTTP


async def test_an_overview_is_what_the_contract_says() -> None:
    async with sampled() as (home, here):
        await home.publish("orders", 1, 2, 3)
        await home.lease("orders", max_messages=1)
        await here.second()
        shown = await overview(home, "sort=in&match=ord&limit=10")
        await home.publish("mails", 1)
        await here.second()
        told = (await home.client.get("/v1/activity?limit=3")).json()
    assert list(shown) == ["timestamp", "totals", "topics", "matching", "needs", "sampler", "memory"]
    names = "in out acked failed dead_lettered backlog leased delayed dead oldest_seconds topics connections"
    assert list(shown["totals"]) == [*names.split(), "delivery_latency", "ack_latency"]
    row = "namespace name priority in out acked failed depth leased delayed dead oldest_seconds groups trend"
    assert list(shown["topics"][0]) == [*row.split(), "delivery_latency", "ack_latency", "is_dlq"]
    assert (shown["topics"][0]["name"], shown["topics"][0]["depth"], shown["matching"]) == ("orders", 3, 1)
    assert shown["totals"]["connections"] == 1
    assert len(shown["topics"][0]["trend"]) == 30
    assert set(shown["sampler"]) >= {"seconds", "longest_turn", "topics", "left_out"}
    assert [(event["kind"], event["topic"], event["count"]) for event in told["events"]] == [
        ("pushed", "mails", 1),
        ("topic_created", "mails", 1),
        ("delivered", "orders", 1),
    ]


async def test_what_cannot_be_asked_for_is_refused() -> None:
    async with sampled() as (home, here):
        await here.second()
        for wrong in ("sort=size", "limit=0", "limit=1001", "offset=-1", "colour=red", f"match={'x' * 256}"):
            answer = await home.client.get(f"/v1/overview?{wrong}")
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), wrong
        assert (await home.client.get("/v1/activity?limit=1001")).status_code == 400


async def test_without_a_sampler_it_says_so(home: Home) -> None:
    answer = await home.client.get("/v1/overview")
    assert (answer.status_code, answer.json()["code"]) == (400, "config")


async def test_an_overview_is_written_once_for_all_who_see_the_same() -> None:
    async with sampled() as (home, here):
        await home.publish("orders", 1)
        await here.second()
        await overview(home)
        hub = live._hubs[here.sampler]
        await asyncio.gather(*[overview(home) for _ in range(5)])
        assert hub.written == 1
        await overview(home, "sort=name")
        assert hub.written == 2
        await here.second()
        await overview(home)
        assert hub.written == 3


@asynccontextmanager
async def roles() -> AsyncIterator[tuple[Shared, Sampled]]:
    clock = ManualClock()
    async with serving_roles(clock=clock) as home:
        here = Sampled(home.broker, clock)
        for namespace in (OURS, THEIRS):
            await home.queue.publish_many("orders", [b"1"] * 2, namespace=namespace)
            await home.queue.publish("mails", b"1", namespace=namespace)
        await here.second()
        yield home, here


async def test_everyone_sees_what_may_be_read_and_nothing_else() -> None:
    async with roles() as (home, _):
        seen = {
            role: {
                (row["namespace"], row["name"])
                for row in (await home.ask(role, "GET", "/v1/overview")).json()["topics"]
            }
            for role in ("server", "reader", "orders admin", "stranger")
        }
        assert seen["server"] == {(space, name) for space in (OURS, THEIRS) for name in ("orders", "mails")}
        assert seen["reader"] == {(OURS, "orders"), (OURS, "mails")}
        assert seen["orders admin"] == {(OURS, "orders")}
        assert seen["stranger"] == {(THEIRS, "orders"), (THEIRS, "mails")}
        for path in ("overview", "activity"):
            for role in ("writer", "nobody"):
                assert (await home.ask(role, "GET", f"/v1/{path}")).status_code == 403
            other = await home.ask("reader", "GET", f"/v1/{path}?namespace={THEIRS}")
            assert (other.status_code, other.json()["code"]) == (403, "forbidden")
        told = (await home.ask("orders admin", "GET", "/v1/activity")).json()["events"]
        assert {(event["namespace"], event["topic"]) for event in told} == {(OURS, "orders")}


# -- watching


async def test_a_watch_tells_everything_at_once_and_then_what_changed() -> None:
    async with sampled() as (home, here):
        await home.publish("a", 1, 2)
        await home.publish("b", 1)
        await here.second()
        async with talking(home) as client:
            await client.say("watch", id="w", sort="backlog", ref="r")
            shown = await client.hear("overview")
            assert (shown["id"], shown["ref"], [row["name"] for row in shown["topics"]]) == ("w", "r", ["a", "b"])
            assert shown["needs"] == []
            for _ in range(40):  # until nothing but ages changes
                await here.second()
                calm = await client.hear("changes")
            assert (calm["id"], calm["timestamp"]) == ("w", shown["timestamp"] + 40)
            assert "order" not in calm
            await home.publish("b", 2, 3)
            await home.queue.create_topic("c")
            await here.second()
            changed = await client.hear("changes")
            assert {row["name"]: row["depth"] for row in changed["topics"]}["b"] == 3
            assert changed["order"] == [["default", "b"], ["default", "a"], ["default", "c"]]
            assert changed["totals"]["backlog"] == 5
            assert changed["matching"] == 3
            await home.queue.delete_topic("b")
            await here.second()
            assert (await client.hear("changes"))["order"] == [["default", "a"], ["default", "c"]]
            await client.say("unwatch", id="w", ref="u")
            assert await client.hear("unwatched") == {"type": "unwatched", "ref": "u", "id": "w"}
            await here.second()
            await client.say("unwatch", id="w")
            assert (await client.hear("error"))["code"] == "not_found"


async def test_rows_that_stay_the_same_are_not_told_again() -> None:
    async with sampled() as (home, here):
        await home.queue.create_topic("empty")
        await home.publish("busy", 1)
        await here.second()
        async with talking(home) as client:
            await client.say("watch", id="w")
            await client.hear("overview")
            await home.publish("busy", 2)
            await here.second()
            assert [row["name"] for row in (await client.hear("changes"))["topics"]] == ["busy"]


async def test_a_need_is_told_when_it_is_new() -> None:
    async with sampled() as (home, here):
        await home.publish("orders", 1)
        await here.second()
        async with talking(home) as client:
            await client.say("watch", id="w")
            await client.hear("overview")
            [message] = await home.lease("orders")
            await home.post("/v1/reject", {"receipts": [message["receipt"]], "error": "no"})
            for _ in range(5):
                await here.second()
                changed = await client.hear("changes")
            assert [need["kind"] for need in changed["needs"]] == ["dead_letters"]
            await here.second()
            assert "needs" not in await client.hear("changes")


async def test_a_change_is_written_once_for_those_who_see_the_same() -> None:
    async with sampled() as (home, here):
        await home.publish("orders", 1)
        await here.second()
        async with talking(home) as one, talking(home) as other, talking(home) as third:
            for client, match in ((one, None), (other, None), (third, "ord")):
                await client.say("watch", id="w", match=match)
                await client.hear("overview")
            hub = live._hubs[here.sampler]
            before = hub.written
            await here.second()
            told = [await client.hear("changes") for client in (one, other, third)]
            assert told[0] == told[1]
            assert hub.written == before + 2


async def test_a_watch_ends_with_its_token() -> None:
    async with roles() as (home, here):
        url = f"{home.base.replace('http', 'ws')}/v1/stream"
        async with connect(url, additional_headers={"authorization": "Bearer reader"}) as socket:
            client = Client(socket)
            await client.say("watch", id="w")
            shown = await client.hear("overview")
            assert {row["namespace"] for row in shown["topics"]} == {OURS}
            await client.say("tail", id="t", topic="orders", namespace=OURS)
            await client.hear("tailed")
            home.roles.revoked.add("reader")
            await here.second()
            ended = [await client.hear("error"), await client.hear("error")]
            assert {(error["id"], error["code"]) for error in ended} == {
                ("w", "unauthenticated"),
                ("t", "unauthenticated"),
            }


async def test_who_may_read_nothing_watches_and_tails_nothing() -> None:
    async with roles() as (home, _):
        url = f"{home.base.replace('http', 'ws')}/v1/stream"
        async with connect(url, additional_headers={"authorization": "Bearer stranger"}) as socket:
            client = Client(socket)
            await client.say("watch", id="w", namespace=OURS)
            error = await client.hear("error")
            assert (error["code"], error["id"]) == ("forbidden", "w")
            await client.say("tail", id="t", topic="orders", namespace=OURS)
            error = await client.hear("error")
            assert (error["code"], error["id"]) == ("forbidden", "t")


async def test_a_slow_viewer_gets_the_newest_state_and_nothing_lines_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    may_send, send = asyncio.Event(), Socket.send

    async def held(self: Socket, message: Any) -> None:
        sent.append(message)
        await may_send.wait()
        await send(self, message)

    monkeypatch.setattr(Socket, "send", held)
    may_send.set()
    async with sampled() as (home, here):
        await home.publish("orders", 1)
        await here.second()
        async with talking(home) as client:
            await client.say("watch", id="w")
            shown = await client.hear("overview")
            may_send.clear()
            sent.clear()
            await here.second()
            await until(lambda: len(sent) == 1)  # and it does not get through
            for _ in range(50):
                await home.publish("orders", 1)
                await here.second()
            assert len(sent) == 1
            may_send.set()
            first, second = await client.hear("changes"), await client.hear("changes")
            assert first["timestamp"] == shown["timestamp"] + 1
            assert second["timestamp"] == shown["timestamp"] + 51
            assert second["topics"][0]["depth"] == 51
            assert len(sent) == 2


async def test_a_watch_outlives_a_queue_that_recovers() -> None:
    async with sampled() as (home, here):
        await home.publish("orders", 1)
        await here.second()
        async with talking(home) as client:
            await client.say("watch", id="w")
            await client.hear("overview")
            home.broker._refusal = ortoo.StoreFailedError("the queue is recovering")
            hub = live._hubs[here.sampler]
            hub._take(None)  # type: ignore[arg-type]
            await until(lambda: home.gate._meters.errors["read", ortoo.StoreFailedError.code] > 0)
            home.broker._refusal = None
            await here.second()
            assert (await client.hear("changes"))["id"] == "w"


async def test_looks_are_bounded_and_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(live._MOST, "watch", (2, 1))
    async with sampled() as (home, here):
        await here.second()
        async with talking(home) as client:
            for id in ("1", "2"):
                await client.say("watch", id=id)
                await client.hear("overview")
            await client.say("watch", id="2")
            assert (await client.hear("error"))["code"] == "exists"
            await client.say("watch", id="3")
            assert (await client.hear("error"))["code"] == "too_many"
        hub = live._hubs[here.sampler]
        await until(lambda: not hub._looking)
        assert not here.sampler._listeners
        async with talking(home) as client:  # there is room again
            await client.say("watch", id="1")
            await client.hear("overview")


async def test_tenants_do_not_take_each_others_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(live._MOST, "watch", (3, 1))
    async with roles() as (home, _):
        url = f"{home.base.replace('http', 'ws')}/v1/stream"
        for role in ("reader", "stranger"):
            async with connect(url, additional_headers={"authorization": f"Bearer {role}"}) as socket:
                client = Client(socket)
                await client.say("watch", id="1")
                await client.hear("overview")
                await client.say("watch", id="2")
                assert (await client.hear("error"))["code"] == "too_many"


# -- tailing


async def test_a_tail_shows_what_matches_from_now_on_and_disturbs_nobody(home: Home) -> None:
    await home.publish("orders", {"total": 500})
    await home.queue.create_group("orders", "g")
    async with talking(home) as client:
        await client.say("tail", id="t", topic="orders", filter="value.total>100", ref="r")
        begun = await client.hear("tailed")
        assert begun == {"type": "tailed", "ref": "r", "messages": [], "id": "t", "dropped": 0, "matched": 0}
        await home.publish("orders", {"total": 200}, {"total": 5}, {"total": 300})
        told = await client.hear("tailed")
        assert sorted(message["value"]["total"] for message in told["messages"]) == [200, 300]
        assert (told["matched"], told["dropped"]) == (2, 0)
        assert "receipt" not in told["messages"][0]
        await client.say("untail", id="t", ref="u")
        assert await client.hear("untailed") == {"type": "untailed", "ref": "u", "id": "t"}
    info = await home.queue.topic("orders")
    assert [group.name for group in info.groups] == ["g"]
    assert len(await home.lease("orders")) == 4


async def test_a_bad_filter_a_wrong_rate_and_an_unknown_topic_are_told(home: Home) -> None:
    await home.queue.create_topic("orders")
    async with talking(home) as client:
        await client.say("tail", id="t", topic="orders", filter='key:"ann', ref="f")
        error = await client.hear("error")
        assert (error["status"], error["code"], error["ref"], error["id"]) == (400, "invalid", "f", "t")
        assert "quotes" in error["detail"]
        await client.say("tail", id="t", topic="orders", rate=limits.TAIL_RATE_MAX + 1)
        assert (await client.hear("error"))["code"] == "invalid"
        await client.say("tail", id="t", topic="nowhere")
        error = await client.hear("error")
        assert (error["code"], error["id"]) == ("not_found", "t")
        await client.say("tail", id="t", topic="orders")  # the id is free again
        await client.hear("tailed")


async def test_where_more_match_than_may_be_shown_the_newest_are_and_the_others_counted(home: Home) -> None:
    await home.queue.create_topic("orders", partitions=1)
    async with talking(home) as client:
        await client.say("tail", id="[]", topic="orders", rate=5)  # an id may look like anything
        await client.hear("tailed")
        await home.queue.publish_many("orders", [Message({"n": n}) for n in range(20)])
        told = await client.hear("tailed")
        assert [message["value"]["n"] for message in told["messages"]] == [15, 16, 17, 18, 19]
        assert (told["matched"], told["dropped"], told["id"]) == (20, 15, "[]")


async def test_what_comes_too_fast_to_be_looked_at_is_counted(home: Home) -> None:
    await home.queue.create_topic("orders", partitions=1)
    async with talking(home) as client:
        await client.say("tail", id="t", topic="orders", rate=1_000)
        await client.hear("tailed")
        await home.queue.publish_many("orders", [Message({"n": n}) for n in range(LOOKED_MAX + 500)])
        told = await client.hear("tailed")
        assert len(told["messages"]) == told["matched"] == LOOKED_MAX
        assert told["messages"][-1]["value"]["n"] == LOOKED_MAX + 499
        assert told["dropped"] == 500


async def test_messages_are_pushed_whatever_a_subscription_is_called(home: Home) -> None:
    await home.publish("t", 1)
    async with talking(home) as client:
        await client.say("subscribe", id="[]", topic="t", group="g", credit=1)
        await client.hear("subscribed")
        told = await client.hear("messages")
        assert (told["id"], told["messages"][0]["value"]) == ("[]", 1)


# -- in the client


async def test_the_client_tails_and_a_topic_that_is_made_again_is_all_new(home: Home) -> None:
    queue = home.queue
    await queue.publish_many("orders", [b"old"] * 3)
    async with queue.tail("orders", filter="new") as messages:
        await queue.publish("orders", b"not this")
        await queue.publish("orders", b"new one", key="ann")
        message = await asyncio.wait_for(anext(messages), 60)
        assert (message.value, message.key) == (b"new one", "ann")
        await queue.delete_topic("orders")
        await queue.create_topic("orders", partitions=1)
        await queue.publish("orders", b"new again")
        assert (await asyncio.wait_for(anext(messages), 60)).value == b"new again"
    wrongs: list[dict[str, Any]] = [{"filter": "header.x"}, {"rate": 0}, {"rate": 1_001}]
    for wrong in wrongs:
        with pytest.raises(ortoo.InvalidError):
            queue.tail("orders", **wrong)


async def test_the_client_watches() -> None:
    async with sampled() as (home, here):
        await home.publish("orders", 1)
        await here.second()
        watching = Queue(home.gate.host()).watch(match="ord")
        first = await anext(watching)
        await here.second()
        second = await asyncio.wait_for(anext(watching), 60)
        assert second.timestamp == first.timestamp + 1
        assert [row.name for row in second.topics] == ["orders"]
        assert msgspec.json.encode(second).startswith(b'{"timestamp"')


async def test_an_overview_is_watched_as_events() -> None:
    async with sampled() as (home, here):
        await home.publish("t", 1)
        await here.second()
        async with opened(home, "/v1/overview/watch", begins="overview") as stream:
            await home.publish("t", 2)
            await here.second()
            kind, told = await stream.next()
            assert (kind, [row["name"] for row in told["topics"]]) == ("changes", ["t"])
        await until(lambda: not live.hub_of(home.door._services)._looking)
