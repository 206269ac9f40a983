"""What makes no sense is refused in GoQueue's own words; nothing is lost by it, and nothing is a 500."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from ortoo.dialects.goqueue import GOQUEUE
from ortoo.doors.http.call import InNamespace
from ortoo.model.settings import HttpSettings
from ortoo.stores.disk import open_directory
from ortoo.testing import ManualClock
from tests.dialects.goqueue.home import Home, serving
from tests.dialects.goqueue.samples import MEMBER, SAMPLES
from tests.dialects.goqueue.test_document import join, poll, polled, publish
from tests.doors.http.home import until
from tests.doors.roles import Roles

NO_JSON = [b"", b"{", b"nonsense", b"\xff\xfe", b'{"messages": [}', b"[" * 100_000, b'{"a":' * 50_000]


async def test_every_route_has_a_sample() -> None:
    routes = {(route.method, route.path) for route in (*GOQUEUE.routes, *GOQUEUE.own_routes)}
    assert routes == SAMPLES.keys()


def _with_body() -> list[str]:
    routes = (*GOQUEUE.routes, *GOQUEUE.own_routes)
    return [route.path for route in routes if route.body is not None]


@pytest.mark.parametrize("text", NO_JSON)
async def test_no_route_takes_what_is_no_json(home: Home, text: bytes) -> None:
    for path in _with_body():
        answer = await home.own.post(path.format(topic="orders", group="g"), content=text)
        assert answer.status_code in (400, 413), (path, answer.text)
        assert sorted(answer.json()) == ["code", "error"]
    assert await home.queue.topics() == []


@pytest.mark.parametrize("body", [[], 7, "text", None, True, {"messages": 7}, {"topics": {}}, {"value": 7}])
async def test_no_route_takes_what_has_the_wrong_type(home: Home, body: Any) -> None:
    for path in _with_body():
        if path.startswith("/api/v1/topics/{topic}/messages") and isinstance(body, dict) and "topics" in body:
            continue  # any object is the value of a message there
        answer = await home.own.post(path.format(topic="orders", group="g"), json=body)
        assert answer.status_code in (400, 404), (path, answer.text)
        assert answer.json()["error"]
    assert await home.queue.topics() == []


@pytest.mark.parametrize(
    "body",
    [
        {"num_partitions": 3},
        {"name": ""},
        {"name": "x" * 300},
        {"name": "a\nb"},
        {"name": "orders", "num_partitions": 1001},
        {"name": "orders", "num_partitions": 10**40},
        {"name": "orders", "retention_hours": 10**40},
        {"name": "orders", "config": {"retention.ms": "long"}},
        {"name": "orders", "num_partitions": "three"},
    ],
)
async def test_a_topic_that_makes_no_sense_is_not_made(home: Home, body: dict[str, Any]) -> None:
    assert (await home.post("/topics", body, 400))["error"]
    assert await home.queue.topics() == []


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {},
        {"messages": [{"key": "k"}]},
        {"messages": [{"value": {"a": 1}}]},
        {"messages": [{"value": "x"}] * 10_001},
        {"messages": [{"value": "x", "partition": 99}]},
        {"messages": [{"value": "x", "headers": {"a": 1}}]},
        {"messages": [{"value": "x", "headers": {"a": None}}]},
    ],
)
async def test_a_batch_that_makes_no_sense_is_refused_as_a_whole(home: Home, body: dict[str, Any]) -> None:
    assert (await home.post("/topics/orders/messages", body, 400))["error"]
    assert sum(info.messages for info in await home.queue.topics()) == 0


async def test_a_value_that_is_too_large_is_refused(home: Home) -> None:
    assert (
        "1048576"
        in (await home.post("/topics/orders/messages", {"messages": [{"value": "x" * 1_100_000}]}, 400))["error"]
    )
    small = HttpSettings(port=0, max_body_bytes=1024)
    async with serving(settings=small) as narrow:
        answer = await narrow.web.post("/topics/orders/messages", json={"messages": [{"value": "x" * 2000}]})
        assert (answer.status_code, answer.json()["code"]) == (413, "invalid")


async def test_a_value_that_is_no_base64_is_refused(home: Home) -> None:
    for value in ("{}", "abc", "a b=", "é"):
        assert "base64" in (await home.post("/v1/topics/orders/publish", {"value": value}, 400))["error"]
    assert "error" in await home.post("/v1/topics/orders/publish", {"value": "eA==", "priority": 9}, 400)


async def test_values_are_kept_as_they_are(home: Home) -> None:
    texts = ["", "é\u20ac😀", '"', "\\", "a\u0000b", " {} "]
    await publish(home, *texts, topic="texts")
    assert sorted([each.value.decode() async for each in home.queue.read("texts")]) == sorted(texts)
    member = await join(home, topics=("texts",))
    assert sorted(each["value"] for each in await polled(home, member)) == sorted(texts)


async def test_a_topic_that_is_not_there_is_a_404_where_topics_are_not_made_by_themselves() -> None:
    async with serving(auto_create=False) as home:
        assert (await home.post("/topics/orders/messages", {"messages": [{"value": "x"}]}, 404))["code"] == "not_found"
        await home.get("/topics/orders/partitions/0/messages", 404)


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "x",
        "7.3.1099511627781.2.41",
        "orders:0:42:1:a1b2c3d4",
        "orders:0:42:1:1.2",
        "orders:0:42:1:1.2.3.4",
        "orders:-1:42:1:1.2.3",
        "orders:0:42:1:" + "9" * 30 + ".2.3",
        ":::: ",
        "orders:٣:42:1:1.2.3",
    ],
)
async def test_a_receipt_that_is_none_is_a_400(home: Home, handle: str) -> None:
    for action in ("ack", "nack", "reject"):
        answer = await home.post(f"/messages/{action}", {"receipt_handle": handle}, 400)
        assert answer["error"]


async def test_a_receipt_that_is_lost_is_a_404(home: Home) -> None:
    await publish(home, "a")
    [message] = await polled(home, await join(home))
    for action in ("ack", "nack", "reject"):
        told = await home.post(f"/messages/{action}", {"receipt_handle": "orders:0:42:1:1.2.3"}, 404)
        assert told["error"] == "message not found or already processed"
    stale = {"receipt_handle": message["receipt_handle"]}
    await home.post("/messages/nack", {**stale, "delay": "0s"})
    await home.post("/messages/ack", stale, 404)
    await home.post("/messages/visibility", {**stale, "timeout": "60s"}, 404)
    assert (await home.queue.group("orders", "processors")).backlog == 1


@pytest.mark.parametrize("more", [{}, {"extension_seconds": 0}, {"extension_seconds": -5}, {"timeout": "long"}])
async def test_more_time_is_some_time(home: Home, more: dict[str, Any]) -> None:
    await publish(home, "a")
    [message] = await polled(home, await join(home))
    await home.post("/messages/visibility", {"receipt_handle": message["receipt_handle"], **more}, 400)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 400),
        ({"member_id": "worker-1"}, 404),
        ({"member_id": "worker-1.nonsense"}, 404),
        ({"member_id": "." + MEMBER.rpartition(".")[2]}, 404),
        ({"member_id": "w" * 300 + "." + MEMBER.rpartition(".")[2]}, 404),
        ({"member_id": MEMBER}, 404),
        ({"member_id": MEMBER, "limit": "many"}, 400),
        ({"member_id": MEMBER, "limit": 0}, 400),
        ({"member_id": MEMBER, "timeout": "long"}, 400),
        ({"member_id": MEMBER, "generation": "x"}, 400),
    ],
)
async def test_a_poll_that_makes_no_sense_is_refused(home: Home, query: dict[str, Any], status: int) -> None:
    assert (await home.get("/groups/nobody/poll", status, **query))["error"]


@pytest.mark.parametrize(
    "body",
    [
        {"topics": ["orders"]},
        {"client_id": "w", "topics": []},
        {"client_id": "w", "topics": ["orders"] * 40 + [f"t{n}" for n in range(40)]},
        {"client_id": "w" * 300, "topics": ["orders"]},
        {"client_id": "w\n", "topics": ["orders"]},
        {"client_id": "w", "topics": ["orders"], "session_timeout": "0s"},
        {"client_id": "w", "topics": ["orders"], "session_timeout": "100h"},
        {"client_id": "w", "topics": [7]},
    ],
)
async def test_who_joins_says_who_and_what(home: Home, body: dict[str, Any]) -> None:
    await home.post("/topics", {"name": "orders"}, 201)
    assert (await home.post("/groups/g/join", body, 400))["error"]
    assert (await home.queue.topic("orders")).groups == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"offsets": {"orders": {"0": 1}}}, 400),
        ({"member_id": MEMBER}, 400),
        ({"member_id": "x", "offsets": {"orders": {"0": 1}}}, 404),
        ({"member_id": MEMBER, "offsets": {"orders": {"x": 1}}}, 400),
        ({"member_id": MEMBER, "offsets": {"orders": {"0": -1}}}, 400),
        ({"member_id": MEMBER, "offsets": {"orders": {"0": 99}}}, 400),
        ({"member_id": MEMBER, "offsets": {"orders": {"99": 0}}}, 400),
        ({"member_id": MEMBER, "offsets": {"nowhere": {"0": 0}}}, 404),
        ({"member_id": MEMBER, "offsets": [{"topic": "orders"}]}, 400),
    ],
)
async def test_a_commit_that_makes_no_sense_is_refused(home: Home, body: dict[str, Any], status: int) -> None:
    await publish(home, "a")
    await join(home)
    assert (await home.post("/groups/processors/offsets", body, status))["error"]
    assert (await home.post("/groups/nobody/offsets", {"member_id": MEMBER, "offsets": {"orders": {"0": 0}}}, 404))[
        "error"
    ]
    assert (await home.queue.group("orders", "processors")).backlog == 1


async def test_unknown_fields_and_parameters_are_passed_over(home: Home) -> None:
    """As Go does."""
    assert GOQUEUE.routes
    for route in (*GOQUEUE.routes, *GOQUEUE.own_routes):
        assert not issubclass(route.query, InNamespace), route.path
    answer = await home.web.post("/topics?trace=1", json={"name": "orders", "owner": "ann"})
    assert answer.status_code == 201
    answer = await home.web.post(
        "/topics/orders/messages", json={"messages": [{"value": "a", "ttl": 7}], "acks": "all"}
    )
    assert answer.status_code == 200
    assert (await home.web.get("/schemas/subjects?deleted=true")).status_code == 501


async def test_a_wrong_method_is_told(home: Home) -> None:
    answer = await home.web.put("/topics/orders/messages", json={})
    assert (answer.status_code, answer.headers["allow"], answer.json()["code"]) == (405, "OPTIONS, POST", "invalid")
    assert (await home.own.get("/nothing")).json()["code"] == "not_found"


async def test_numbers_in_paths_are_numbers(home: Home) -> None:
    await publish(home, "a")
    for path in ("/topics/orders/partitions/x/messages", "/topics/orders/delayed/x", "/topics/orders/delayed/-1"):
        await home.get(path, 400)
    assert (await home.web.delete("/topics/orders/delayed/0/x")).status_code == 400
    assert (await home.web.get("/topics/orders/partitions/99/messages")).status_code in (400, 404)
    assert (await home.web.get("/topics/orders/partitions/0/messages?offset=-1")).status_code == 400
    found = await home.get("/topics/orders/partitions/0/messages", offset=10_000, limit=10**9)
    assert found["messages"] == []


async def test_many_poll_at_once_and_each_message_goes_to_one(home: Home) -> None:
    await publish(home, *map(str, range(200)))
    members = [await join(home) for _ in range(8)]
    found = await asyncio.gather(*(poll(home, member, max_messages=20) for member in members for _ in range(3)))
    values = [each["value"] for some in found for each in some["messages"]]
    assert len(values) == len(set(values)) == 200


@pytest.mark.parametrize("topics", [("orders",), ("orders", "mails")])
async def test_what_was_leased_for_a_client_that_left_goes_back(home: Home, topics: tuple[str, ...]) -> None:
    for topic in topics:
        await home.post("/topics", {"name": topic}, 201)
    member = await join(home, topics=topics)
    url = home.web.base_url
    with socket.create_connection((url.host, url.port)) as gone:
        path = f"/groups/processors/poll?member_id={member['member_id']}&timeout=60s"
        gone.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await until(lambda: len(home.broker.waiters) == len(topics))
    await until(lambda: not home.broker.waiters)
    await publish(home, "a")
    [message] = await polled(home, await join(home, topics=topics), timeout="10s")
    assert message["attempt"] == 1


async def test_a_poll_that_is_cancelled_keeps_nothing(home: Home) -> None:
    await home.post("/topics", {"name": "orders"}, 201)
    member = await join(home)
    waiting = asyncio.create_task(poll(home, member, timeout="60s"))
    await until(lambda: len(home.broker.waiters) == 1)
    waiting.cancel()
    await until(lambda: not home.broker.waiters)
    await publish(home, "a")
    assert (await home.queue.group("orders", "processors")).leased == 0


async def test_a_lease_that_runs_out_is_delivered_again() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await publish(home, "a")
        member = await join(home)
        [first] = await polled(home, member)
        assert await polled(home, member) == []
        await clock.advance(31)
        await clock.advance(300)
        [second] = await polled(home, await join(home))
        assert (first["attempt"], second["attempt"]) == (1, 2)
        await home.post("/messages/ack", {"receipt_handle": first["receipt_handle"]}, 404)
        await home.post("/messages/ack", {"receipt_handle": second["receipt_handle"]})


async def test_members_and_receipts_outlive_a_restart(tmp_path: Path) -> None:
    async with serving(store=open_directory(tmp_path, None)) as home:
        await publish(home, "a", "b")
        member = await join(home)
        [first] = (await poll(home, member, max_messages=1))["messages"]
    async with serving(store=open_directory(tmp_path, None)) as home:
        await home.post("/messages/ack", {"receipt_handle": first["receipt_handle"]})
        [second] = await polled(home, member, timeout="10s")
        assert {first["value"], second["value"]} == {"a", "b"}
        beat = {"member_id": member["member_id"], "generation": 1}
        await home.post("/groups/processors/heartbeat", beat)
        assert (await home.get("/groups/processors"))["members"][0]["client_id"] == "worker-1"


async def test_a_client_is_in_the_namespace_of_its_token() -> None:
    async with serving(access=Roles()) as home:

        async def ask(role: str, method: str, path: str, body: Any = None) -> Any:
            headers = {"authorization": f"Bearer {role}"}
            return await home.web.request(method, path, json=body, headers=headers)

        batch = {"messages": [{"value": "x"}]}
        assert (await ask("admin", "POST", "/topics", {"name": "orders"})).status_code == 201
        assert (await ask("writer", "POST", "/topics/orders/messages", batch)).status_code == 200
        assert (await ask("writer", "POST", "/topics/new/messages", batch)).status_code == 200  # first use makes it
        assert [info.name for info in await home.queue.topics(namespace="payments")] == ["new", "orders"]
        refused = await ask("reader", "POST", "/topics/orders/messages", batch)
        assert (refused.status_code, sorted(refused.json())) == (403, ["code", "error"])
        assert (await ask("reader", "POST", "/topics/secret/messages", batch)).status_code == 403
        assert (await ask("stranger", "GET", "/topics/orders")).status_code == 404
        assert (await home.web.get("/topics/orders")).status_code == 401
        joined = await ask("reader", "POST", "/groups/g/join", {"client_id": "r", "topics": ["orders"]})
        found = await ask("reader", "GET", f"/groups/g/poll?member_id={joined.json()['member_id']}&max_messages=9")
        [message] = found.json()["messages"]
        settled = await ask("stranger", "POST", "/messages/ack", {"receipt_handle": message["receipt_handle"]})
        assert settled.status_code == 404
        assert (await home.queue.group("orders", "g", namespace="payments")).leased == 1
        settled = await ask("reader", "POST", "/messages/ack", {"receipt_handle": message["receipt_handle"]})
        assert settled.status_code == 200
