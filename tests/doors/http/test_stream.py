"""The WebSocket: push with credit, settling, publishing, and what happens when a socket goes."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from ortoo.doors.http.websocket import Socket
from ortoo.model.settings import HttpSettings
from ortoo.testing.clock import settle
from tests.doors.http.home import Home, serving, until


class Client:
    """A socket that speaks JSON."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, kind: str, **fields: Any) -> None:
        await self.socket.send(msgspec.json.encode({"type": kind, **fields}).decode())

    async def hear(self, kind: str) -> dict[str, Any]:
        heard: dict[str, Any] = msgspec.json.decode(await asyncio.wait_for(self.socket.recv(), 60))
        assert heard["type"] == kind, heard
        return heard

    async def subscribe(self, topic: str, credit: int = 10, **fields: Any) -> None:
        await self.say("subscribe", id="s", topic=topic, group="g", credit=credit, **fields)
        await self.hear("subscribed")


@asynccontextmanager
async def talking(home: Home, **options: Any) -> AsyncIterator[Client]:
    async with connect(home.stream_url, max_size=None, **options) as socket:
        yield Client(socket)


async def test_messages_are_pushed_and_acked(home: Home) -> None:
    await home.publish("t", {"n": 1.0}, 2)
    async with talking(home) as client:
        await client.subscribe("t")
        first, second = (await client.hear("messages"))["messages"]
        assert (first["value"], second["value"], first["group"]) == ({"n": 1.0}, 2, "g")
        await client.say("ack", receipts=[first["receipt"], "odd"], ref="a1")
        settled = await client.hear("settled")
        assert settled["ref"] == "a1"
        assert [(result["ok"], result["error"]) for result in settled["results"]] == [(True, None), (False, "invalid")]
        await home.publish("t", 3)
        assert [message["value"] for message in (await client.hear("messages"))["messages"]] == [3]


async def test_no_more_comes_than_there_is_credit_for(home: Home) -> None:
    await home.publish("t", *range(10))
    async with talking(home) as client:
        await client.subscribe("t", credit=3)
        assert len((await client.hear("messages"))["messages"]) == 3
        assert (await home.queue.group("t", "g")).leased == 3
        await client.say("credit", id="s", credit=2)
        assert len((await client.hear("messages"))["messages"]) == 2
        assert (await home.queue.group("t", "g")).leased == 5


async def test_every_way_to_settle(home: Home) -> None:
    await home.queue.create_topic("t", partitions=1, ordering="none")
    await home.publish("t", *range(6))
    async with talking(home) as client:
        await client.subscribe("t", credit=6)
        receipts = [message["receipt"] for message in (await client.hear("messages"))["messages"]]
        for kind, receipt, fields in (
            ("ack_through", receipts[1], {}),
            ("nack", receipts[2], {"error": "no", "delay": 3600}),
            ("reject", receipts[3], {"error": "never"}),
            ("extend", receipts[4], {"seconds": 60}),
            ("release", receipts[5], {}),
        ):
            await client.say(kind, receipts=[receipt], **fields)
            assert (await client.hear("settled"))["results"][0]["ok"], kind
    group = await home.queue.group("t", "g")
    assert (group.ready, group.delayed, group.dead) == (2, 1, 1)


async def test_publishing_on_the_socket(home: Home) -> None:
    async with talking(home) as client:
        await client.say("publish", topic="t", messages=[{"value": "x", "key": "k"}], ref="p")
        told = await client.hear("published")
        assert (told["ref"], told["results"][0]["offset"]) == ("p", 0)
    assert (await home.lease("t"))[0]["key"] == "k"


async def test_several_subscriptions_share_a_socket(home: Home) -> None:
    await home.queue.create_topic("a", labels={"x": "y"})
    await home.publish("a", 1)
    await home.publish("b", 2)
    async with talking(home) as client:
        await client.say("subscribe", id="1", labels={"x": "y"}, credit=1)
        await client.hear("subscribed")
        assert (await client.hear("messages"))["id"] == "1"
        await client.say("subscribe", id="2", topic="b", credit=1)
        await client.hear("subscribed")
        told = await client.hear("messages")
        assert (told["id"], told["messages"][0]["topic"]) == ("2", "b")


async def test_after_unsubscribing_nothing_comes_and_what_came_can_be_settled(home: Home) -> None:
    await home.publish("t", 1)
    async with talking(home) as client:
        await client.subscribe("t")
        [message] = (await client.hear("messages"))["messages"]
        await client.say("unsubscribe", id="s", ref="u")
        assert (await client.hear("unsubscribed"))["ref"] == "u"
        await home.publish("t", 2)
        assert [other["value"] for other in await home.lease("t")] == [2]
        await client.say("ack", receipts=[message["receipt"]])
        assert (await client.hear("settled"))["results"][0]["ok"]
        await client.subscribe("t")  # the id is free again


async def test_when_a_socket_goes_its_messages_return_at_once(home: Home) -> None:
    await home.publish("t", 1, 2)
    for consumer in (None, "ann"):
        async with talking(home) as client:
            await client.subscribe("t", consumer=consumer)
            assert len((await client.hear("messages"))["messages"]) == 2
        messages = await home.lease("t", wait=20, consumer="bob")
        assert [message["attempt"] for message in messages] == [1, 1]
        assert list((await home.queue.group("t", "g")).consumers) == ["bob"]
        await home.post("/v1/leave", {"consumer": "bob"})


async def test_a_socket_that_breaks_returns_what_could_not_be_sent(home: Home) -> None:
    await home.queue.publish_many("t", [b"x" * 500_000] * 100)
    async with talking(home) as client:
        await client.subscribe("t", credit=100, max_messages=10)
        await client.hear("messages")
        client.socket.transport.abort()
    await until(lambda: not home.gate.connections and not home.door._state.tasks)
    assert (await home.queue.group("t", "g")).leased == 0
    assert (await home.queue.group("t", "g")).backlog == 100


async def test_what_waits_to_be_sent_returns_when_the_client_unsubscribes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the transport would say it, and not by filling it: how much a socket takes is the machine's business."""
    full: list[Socket] = []
    send = Socket.send

    async def send_one(socket: Socket, message: Any) -> None:
        await send(socket, message)
        if '"messages"' in message.get("text", "") and not full:
            socket.pause_writing()
            full.append(socket)

    monkeypatch.setattr(Socket, "send", send_one)
    await home.publish("t", *range(30))
    async with talking(home) as client:
        await client.subscribe("t", credit=30, max_messages=10)
        assert len((await client.hear("messages"))["messages"]) == 10
        while (await home.queue.group("t", "g")).leased < 20:
            await settle()
        await client.say("unsubscribe", id="s")
        while (await home.queue.group("t", "g")).leased > 10:
            await settle()
        full[0].resume_writing()
        await client.hear("unsubscribed")
        assert (await home.queue.group("t", "g")).ready == 20


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("{", "invalid", "truncated"),
        ('{"type":"dance"}', "invalid", "dance"),
        ('{"type":"subscribe","id":"s"}', "invalid", "name a topic"),
        ('{"type":"subscribe","id":"s","topic":"none"}', "not_found", "none"),
        ('{"type":"credit","id":"s","credit":1}', "not_found", "'s'"),
        ('{"type":"ack","receipts":[1]}', "invalid", "receipts[0] must be a string"),
        ('{"type":"publish","topic":"t","messages":[{}]}', "invalid", "value"),
    ],
)
async def test_a_mistake_is_told_and_the_socket_goes_on(home: Home, text: str, code: str, words: str) -> None:
    async with talking(home) as client:
        await client.socket.send(text)
        told = await client.hear("error")
        assert told["code"] == code
        assert words in told["detail"]
        await client.socket.send(b'{"type":"publish","topic":"t","messages":[{"value":1}]}')
        await client.hear("published")


async def test_a_subscription_whose_topic_goes_is_told(home: Home) -> None:
    await home.publish("t", 1)
    async with talking(home) as client:
        await client.subscribe("t")
        await client.hear("messages")
        await home.waiters(1)
        await home.queue.delete_topic("t")
        told = await client.hear("error")
        assert (told["id"], told["code"], told["status"]) == ("s", "not_found", 404)


async def test_ids_are_taken_once(home: Home) -> None:
    await home.queue.create_topic("t")
    async with talking(home) as client:
        await client.subscribe("t")
        await client.say("subscribe", id="s", topic="t")
        assert (await client.hear("error"))["code"] == "exists"


async def test_a_socket_needs_the_token() -> None:
    async with serving(token="s3cret") as home:
        with pytest.raises(InvalidStatus) as refused:
            async with talking(home):
                pass
        assert refused.value.response.status_code == 401
        assert b'"code":"unauthenticated"' in (refused.value.response.body or b"")
        async with talking(home, additional_headers={"authorization": "Bearer s3cret"}) as client:
            await client.say("publish", topic="t", messages=[{"value": 1}])
            await client.hear("published")
        token = urlsafe_b64encode(b"s3cret").decode().rstrip("=")
        async with talking(home, subprotocols=[Subprotocol("ortoo"), Subprotocol(f"bearer.{token}")]) as client:
            assert client.socket.subprotocol == "ortoo"


async def test_a_page_of_another_site_gets_no_socket(home: Home) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with talking(home, origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403
    async with talking(home, origin=home.url):
        pass
    async with (
        serving(settings=HttpSettings(cors_origins=["https://app.example"])) as other,
        talking(other, origin="https://app.example"),
    ):
        pass


async def test_sockets_are_elsewhere_and_requests_too(home: Home) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://{home.host}:{home.port}/v1/elsewhere")
    assert refused.value.response.status_code == 404
    response = await home.client.get("/v1/stream")
    assert (response.status_code, response.headers["upgrade"]) == (426, "websocket")


async def test_a_message_may_not_be_too_large() -> None:
    async with serving(settings=HttpSettings(max_body_bytes=2000)) as home, talking(home) as client:
        await client.socket.send("x" * 3000)
        with pytest.raises(ConnectionClosed) as closed:
            await client.socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_closing_the_door_ends_sockets_and_returns_what_they_hold(home: Home) -> None:
    await home.publish("t", 1)
    async with talking(home) as client:
        await client.subscribe("t")
        await client.hear("messages")
        await home.door.close(30)
        with pytest.raises(ConnectionClosed) as closed:
            await client.socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
    group = await home.queue.group("t", "g")
    assert (group.leased, group.ready) == (0, 1)
    assert home.gate.connections == 0


async def test_sockets_count_as_connections(home: Home) -> None:
    async with talking(home), talking(home):
        assert home.gate.connections == 2
    await until(lambda: not home.gate.connections)


@pytest.mark.parametrize(
    "forged",
    [{"messages": [{"value": 1, "publisher": "billing"}]}, {"messages": [{"value": 1}], "publisher": "billing"}],
)
async def test_nobody_publishes_in_the_name_of_another(home: Home, forged: dict[str, Any]) -> None:
    async with talking(home) as client:
        await client.say("publish", topic="t", **forged)
        error = await client.hear("error")
        assert (error["code"], "publisher is not a known field" in error["detail"]) == ("invalid", True)
    assert await home.queue.topics() == []


@pytest.mark.parametrize("odd", [{"partition": 9}, {"key": "k"}, {"lease": 1e9}])
async def test_what_cannot_be_leased_is_not_subscribed(home: Home, odd: dict[str, Any]) -> None:
    await home.queue.create_topic("t", partitions=2, ordering="none")
    async with talking(home) as client:
        await client.say("subscribe", id="s", topic="t", credit=0, **odd)
        assert (await client.hear("error"))["code"] == "invalid"
