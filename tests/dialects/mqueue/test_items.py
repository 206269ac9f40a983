"""What the document does not write: ids after a restart, other doors, bad input, clients that go."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from pathlib import Path
from typing import Any

import httpx
import pytest

from ortoo.broker.authorized import AuthorizedLink
from ortoo.doors.http.connection import Connection
from ortoo.model.commands import Lease
from ortoo.model.settings import HttpSettings
from ortoo.stores.disk import open_directory
from ortoo.testing import ManualClock
from tests.dialects.mqueue.home import Home, serving
from tests.doors.tcp.home import until

ITEM = {"namespace": "n", "topic": "t", "priority": 1, "payload": "eA=="}
PLACE = {"namespace": "n", "topic": "t"}
DEQUEUE = "/dequeue?namespace=n&topic=t"


async def test_ids_survive_a_restart(tmp_path: Path) -> None:
    async with serving(store=open_directory(tmp_path)) as home:
        numbers = (await home.web.post("/enqueue", json=[ITEM] * 3)).json()
        taken = (await home.web.get(f"{DEQUEUE}&limit=2")).json()
        assert [item["ID"] for item in taken] == numbers[:2]
    async with serving(store=open_directory(tmp_path)) as home:
        assert (await home.own.post("/ack", json={"id": numbers[0], **PLACE})).text == "OK"
        assert (await home.own.post("/nack", json={"id": numbers[1], **PLACE, "error": "x"})).text == "OK"
        [last] = (await home.own.get(DEQUEUE)).json()
        assert last["ID"] == numbers[2]


async def test_what_is_enqueued_here_is_leased_and_acked_over_tcp(home: Home) -> None:
    item = {**ITEM, "metadata": {"color": "red"}, "idempotency_key": "k"}
    await home.web.post("/enqueue", json=[item])
    async with home.connect() as queue:
        [message] = await queue.lease("t", namespace="n", group="default")
        assert (message.value, message.headers, message.priority) == (b"x", {"color": "red"}, 1)
        await message.ack()
    assert (await home.web.get(DEQUEUE)).json() is None
    assert (await home.queue.group("t", "default", namespace="n")).backlog == 0


async def test_what_is_published_over_tcp_is_dequeued_and_acked_here(home: Home) -> None:
    async with home.connect() as queue:
        await queue.publish("t", {"a": 1}, namespace="n", key="k", headers={"color": "red"}, delay=0)
    [item] = (await home.own.get(DEQUEUE)).json()
    assert (b64decode(item["Payload"]), item["Metadata"], item["Priority"]) == (b'{"a":1}', {"color": "red"}, 5)
    assert (await home.own.post("/ack", json={"id": item["ID"], **PLACE})).text == "OK"
    assert (await home.queue.group("t", "default", namespace="n")).backlog == 0


async def test_several_topics_in_one_request_are_enqueued_together_or_not_at_all(home: Home) -> None:
    items = [{**ITEM, "topic": topic} for topic in ("a", "b", "a")]
    assert (await home.web.post("/enqueue", json=items)).json() == [1, 1, 1 + (1 << 14)]
    await home.queue.create_topic("small", namespace="n", max_message_bytes=1)
    answer = await home.web.post("/enqueue", json=[ITEM, {**ITEM, "topic": "small", "payload": "eHg="}])
    assert answer.status_code == 400
    assert (await home.web.get(DEQUEUE)).json() is None


@pytest.mark.parametrize("others", [[], [{**ITEM, "topic": "c"}]])
async def test_a_duplicate_of_what_lies_in_another_topic_has_no_id_that_names_another_item(
    home: Home, others: list[dict[str, Any]]
) -> None:
    await home.web.post("/enqueue", json=[{**ITEM, "topic": "a", "idempotency_key": "k"}])
    [mine] = (await home.web.post("/enqueue", json=[{**ITEM, "topic": "b"}])).json()
    again = [{**ITEM, "topic": "b", "idempotency_key": "k"}, {**ITEM, "topic": "b"}]
    numbers = (await home.web.post("/enqueue", json=again + others)).json()
    assert numbers[:2] == [0, mine + (1 << 14)]
    place = {"namespace": "n", "topic": "b"}
    [first, *_] = (await home.web.get("/dequeue?namespace=n&topic=b")).json()
    assert first["ID"] == mine
    assert (await home.web.post("/ack", json={"id": 0, **place})).text == "Item not found: 0\n"
    assert (await home.queue.group("b", "default", namespace="n")).leased == 2


async def test_several_items_can_be_settled_at_once(home: Home) -> None:
    numbers = (await home.web.post("/enqueue", json=[ITEM] * 100)).json()
    assert len((await home.web.get(f"{DEQUEUE}&limit=100")).json()) == 100
    answer = await home.web.post("/ack", json=[{"id": number, **PLACE} for number in numbers])
    assert (answer.status_code, answer.text) == (200, "OK")
    assert (await home.queue.group("t", "default", namespace="n")).backlog == 0
    answer = await home.web.post("/ack", json=[{"id": 10**15, **PLACE}, {"id": numbers[0], **PLACE}])
    assert (answer.status_code, answer.text) == (404, "Item not found: 1000000000000000\n")


async def test_a_lease_that_ran_out_is_told_and_the_item_comes_again() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        [number] = (await home.web.post("/enqueue", json=[ITEM])).json()
        assert len((await home.web.get(DEQUEUE)).json()) == 1
        await clock.advance(30)
        answer = await home.web.post("/ack", json={"id": number, **PLACE})
        assert (answer.status_code, "Lease expired" in answer.text) == (409, True)
        await clock.advance(1)
        [again] = (await home.web.get(DEQUEUE)).json()
        assert (again["ID"], again["Retries"]) == (number, 1)


async def test_a_dead_item_of_another_topic_is_not_deleted_by_this_ones_name(home: Home) -> None:
    for topic in ("a", "b"):
        await home.queue.create_topic(topic, namespace="n", dlq_topic="shared", max_attempts=1)
        await home.web.post("/enqueue", json=[{**ITEM, "topic": topic}])
        [item] = (await home.web.get(f"/dequeue?namespace=n&topic={topic}")).json()
        await home.web.post("/nack", json={"id": item["ID"], "namespace": "n", "topic": topic})
    [dead] = (await home.web.get("/dlq?namespace=n&topic=a")).json()
    answer = await home.web.post("/dlq/delete", json={"id": dead["ID"], "namespace": "n", "topic": "b"})
    assert answer.status_code == 404
    assert len((await home.web.get("/dlq?namespace=n&topic=a")).json()) == 1


async def test_a_client_that_has_gone_meanwhile_holds_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    await home.web.post("/enqueue", json=[ITEM] * 100)
    host, port = home.web.base_url.host, home.web.base_url.port
    _, writer = await asyncio.open_connection(host, port)
    gone = asyncio.Event()
    lost = Connection.connection_lost
    lease = AuthorizedLink.lease

    def connection_lost(connection: Connection, error: Exception | None) -> None:
        lost(connection, error)
        gone.set()

    async def lease_late(link: AuthorizedLink, command: Lease) -> Any:
        runs = await lease(link, command)
        writer.transport.abort()
        await gone.wait()
        return runs

    monkeypatch.setattr(Connection, "connection_lost", connection_lost)
    monkeypatch.setattr(AuthorizedLink, "lease", lease_late)
    writer.write(f"GET {DEQUEUE}&limit=100 HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    await gone.wait()

    async def is_back() -> bool:
        return (await home.queue.group("t", "default", namespace="n")).ready == 100

    await until(is_back, 30)


async def test_many_clients_at_once_take_each_item_once(home: Home) -> None:
    await home.web.post("/enqueue", json=[ITEM] * 300)
    answers = await asyncio.gather(*(home.web.get(f"{DEQUEUE}&limit=10") for _ in range(40)))
    numbers = [item["ID"] for answer in answers for item in answer.json() or []]
    assert len(numbers) == len(set(numbers)) == 300


BAD_BODIES: list[tuple[str, Any]] = [
    ("/enqueue", b""),
    ("/enqueue", b"{"),
    ("/enqueue", b"null"),
    ("/enqueue", b"[]"),
    ("/enqueue", b"{}"),
    ("/enqueue", b"[null]"),
    ("/enqueue", b'[{"namespace":"n"}]'),
    ("/enqueue", b'[{"topic":"t"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","payload":"not base64!"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","payload":{}}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","priority":"high"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","priority":-1}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","priority":1e30}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","deliver_after":"soon"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","deliver_after":"9999-12-31T23:59:59Z"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","metadata":[]}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","metadata":{"mqueue-json":"[]"}}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","metadata":{"a":"\\ud800"}}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","metadata":{"a":1e999}}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","metadata":{"a":[{"b":-1e999}]}}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t\\u0000"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"' + b"t" * 300 + b'"}]'),
    ("/enqueue", b'[{"namespace":"n","topic":"t","idempotency_key":"' + b"k" * 300 + b'"}]'),
    ("/enqueue", b"[" * 100_000),
    ("/enqueue", b"[" + b'{"namespace":"n","topic":"t"},' * 10_000 + b'{"namespace":"n","topic":"t"}]'),
    ("/enqueue", b"[" + b"{}," * 2_000_000 + b"{}]"),
    ("/enqueue", b"[" + b",".join(b'{"namespace":"n","topic":"t%d"}' % n for n in range(101)) + b"]"),
    ("/ack", b"{}"),
    ("/ack", b"[]"),
    ("/ack", b'{"id":"1","namespace":"n","topic":"t"}'),
    ("/ack", b'{"id":1.5,"namespace":"n","topic":"t"}'),
    ("/ack", b'{"id":1,"namespace":"n"}'),
    ("/nack", b'{"id":1,"namespace":"n","topic":"t","error":5}'),
    ("/dlq/delete", b'{"id":null,"namespace":"n","topic":"t"}'),
]


@pytest.mark.parametrize(("path", "body"), BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_a_bad_body_is_refused_in_plain_text(home: Home, path: str, body: bytes) -> None:
    answer = await home.own.post(path, content=body)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.endswith("\n")
    assert await home.queue.topics() == []


async def test_metadata_that_could_not_be_read_again_is_named(home: Home) -> None:
    body = b'[{"namespace":"n","topic":"t","metadata":{"a":1e999}}]'
    answer = await home.own.post("/enqueue", content=body)
    assert (answer.status_code, answer.text.startswith("metadata 'a' cannot be kept: Number out of range")) == (
        400,
        True,
    )


@pytest.mark.parametrize("number", [0, -1, 1, 5, 16_384, 123456789012345678, 2**63 - 1, 2**63, 2**64])
async def test_an_id_that_was_never_given_is_not_found(home: Home, number: int) -> None:
    for path in ("/ack", "/nack", "/dlq/delete"):
        answer = await home.web.post(path, json={"id": number, **PLACE})
        assert (answer.status_code, answer.text) == (404, f"Item not found: {number}\n")
    await home.web.post("/enqueue", json=[{**ITEM, "topic": "other"}])
    await home.queue.create_topic("t", namespace="n")
    await home.queue.create_topic("t.dlq", namespace="n")
    for path in ("/ack", "/nack", "/dlq/delete"):
        answer = await home.web.post(path, json={"id": number, **PLACE})
        assert answer.status_code == 404, answer.text


async def test_other_paths_and_methods_are_refused_in_plain_text(home: Home) -> None:
    wrong = await home.own.get("/enqueue")
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "text/plain; charset=utf-8")
    unknown = await home.own.get("/v1/topics")
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    later = await home.own.get("/dashboard/foqs")
    assert (later.status_code, later.text) == (501, "There is no such dashboard here; see /metrics\n")


@pytest.mark.parametrize("query", ["", "namespace=n", "topic=t", "namespace=&topic="])
async def test_a_dequeue_needs_a_namespace_and_a_topic(home: Home, query: str) -> None:
    for path in ("/dequeue", "/dlq"):
        answer = await home.web.get(f"{path}?{query}")
        assert (answer.status_code, answer.text) == (400, "Missing namespace or topic\n")


@pytest.mark.parametrize(
    ("limit", "count"), [("", 10), ("x", 10), ("0", 10), ("-5", 10), ("3", 3), ("999999", 1000), ("²", 10)]
)
async def test_a_limit_that_is_none_is_ten(home: Home, limit: str, count: int) -> None:
    await home.web.post("/enqueue", json=[ITEM] * 1200)
    answer = await home.web.get("/dequeue", params={**PLACE, "limit": limit, "more": "ignored"})
    assert len(answer.json()) == count


@pytest.mark.parametrize(
    "instant",
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2020-01-01T00:00:00", "1969-12-31T23:59:59.9Z", None],
)
async def test_what_was_due_in_the_past_comes_at_once(home: Home, instant: str | None) -> None:
    assert (await home.web.post("/enqueue", json=[{**ITEM, "deliver_after": instant}])).status_code == 200
    assert len((await home.web.get(DEQUEUE)).json()) == 1


async def test_an_instant_without_a_zone_is_utc() -> None:
    clock = ManualClock()  # 2023-11-14T22:13:20Z
    async with serving(clock=clock) as home:
        await home.web.post("/enqueue", json=[{**ITEM, "deliver_after": "2023-11-14T22:13:30"}])
        await clock.advance(9)
        assert (await home.web.get(DEQUEUE)).json() is None
        await clock.advance(1)
        assert len((await home.web.get(DEQUEUE)).json()) == 1


async def test_unknown_fields_are_passed_over(home: Home) -> None:
    answer = await home.web.post("/enqueue", json=[{**ITEM, "ttl": 5, "more": {"a": [1]}}])
    assert answer.status_code == 200


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with serving(settings=HttpSettings(port=0, max_body_bytes=1024)) as home:
        answer = await home.web.post("/enqueue", content=b"x" * 2000)
        assert (answer.status_code, answer.headers["content-type"]) == (413, "text/plain; charset=utf-8")


async def test_where_topics_are_not_made_by_first_use_it_is_told() -> None:
    async with serving(auto_create=False) as home:
        answer: httpx.Response = await home.web.post("/enqueue", json=[ITEM])
        assert answer.status_code == 404


async def test_a_topic_of_first_use_never_loses_what_waits(home: Home) -> None:
    await home.web.post("/enqueue", json=[ITEM])
    config = (await home.queue.topic("t", namespace="n")).config
    assert (config.retention_seconds, config.max_attempts, config.lease, config.ordering) == (None, 3, 30.0, "none")
