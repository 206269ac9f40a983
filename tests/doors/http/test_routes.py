"""The routes that operators use: topics, groups, single messages, dead letters, replay, transactions, requests, the server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from ortoo.doors.http import asyncapi, websocket_messages
from ortoo.doors.http.table import ROUTES
from ortoo.doors.http.websocket_messages import ServerMessage
from ortoo.model.commands import Position
from ortoo.model.names import TopicName
from ortoo.model.replies import Page
from ortoo.testing import ManualClock
from tests.doors.http.driver import HttpQueue
from tests.doors.http.home import Home, serving, until


async def test_topics_are_made_shown_changed_emptied_and_deleted(home: Home) -> None:
    made = await home.post("/v1/topics", {"name": "t", "partitions": 2, "ttl": 60})
    assert made.status_code == 201
    assert (made.json()["config"]["partitions"], made.json()["config"]["max_attempts"]) == (2, 3)
    assert (await home.post("/v1/topics", {"name": "t", "partitions": 2, "ttl": 60})).status_code == 201
    again = await home.post("/v1/topics", {"name": "t", "partitions": 2, "ttl": 60, "exist_ok": False})
    assert again.status_code == 409
    changed = await home.client.patch("/v1/topics/t", json={"max_attempts": 7, "ttl": None})
    assert (changed.json()["config"]["max_attempts"], changed.json()["config"]["ttl"]) == (7, None)
    assert changed.json()["config"]["partitions"] == 2
    await home.publish("t", 1, 2, 3)
    shown = (await home.client.get("/v1/topics/t")).json()
    assert (shown["messages"], [part["partition"] for part in shown["partitions"]]) == (3, [0, 1])
    assert [topic["name"] for topic in (await home.client.get("/v1/topics")).json()["topics"]] == ["t"]
    assert (await home.client.post("/v1/topics/t/purge")).json() == {"messages": 3}
    deleted = await home.client.delete("/v1/topics/t")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await home.client.get("/v1/topics")).json() == {"topics": [], "next": None}


async def test_groups_are_made_shown_moved_and_deleted(home: Home) -> None:
    await home.publish("t", 1, 2, 3)
    path = "/v1/topics/t/groups/g"
    made = await home.post(path, {"start": "new"})
    assert (made.status_code, made.json()["name"], made.json()["backlog"]) == (201, "g", 0)
    assert (await home.post(path)).status_code == 409
    assert (await home.post(f"{path}/seek", {"offset": 1})).status_code == 204
    assert (await home.client.get(path)).json()["backlog"] == 2
    assert (await home.post(f"{path}/seek", {})).status_code == 400
    await home.post(f"{path}/seek", {"to": "end"})
    await home.post(f"{path}/seek", {"offset": 0, "to_offset": 1})
    assert [message["value"] for message in await home.lease("t")] == [1]
    groups = (await home.client.get("/v1/topics/t/groups")).json()["groups"]
    assert [group["name"] for group in groups] == ["g"]
    assert (await home.client.delete(path)).status_code == 204
    assert (await home.client.get(path)).status_code == 404


async def test_messages_are_listed_by_their_state(home: Home) -> None:
    await home.publish("t", 1, 2)
    await home.lease("t", max_messages=1)
    path = "/v1/topics/t/groups/g/messages"
    for state, values in {"leased": [1], "ready": [2], "done": []}.items():
        found = (await home.client.get(path, params={"state": state})).json()["messages"]
        assert [message["value"] for message in found] == values
    assert (await home.client.get(path, params={"state": "odd"})).status_code == 400


async def test_consumers_show_life_and_leave(home: Home) -> None:
    await home.queue.create_topic("t", partitions=3, ordering="partition")
    await home.publish("t", 1)
    await home.lease("t", consumer="ann")
    beat = await home.post("/v1/topics/t/groups/g/heartbeat", {"consumer": "ann"})
    assert beat.json() == {"partitions": [0, 1, 2]}
    assert await home.lease("t", consumer="bob") == []
    assert (await home.post("/v1/topics/t/groups/g/leave", {"consumer": "ann"})).status_code == 204
    assert [message["attempt"] for message in await home.lease("t", consumer="bob")] == [1]
    assert (await home.post("/v1/leave", {"consumer": "bob"})).status_code == 204
    assert (await home.queue.group("t", "g")).consumers == {}


async def test_single_messages_are_shown_traced_retried_and_deleted(home: Home) -> None:
    body = {"messages": [{"value": 1, "delay": 3600}, {"value": 2}]}
    late, other = (await home.post("/v1/topics/t/messages", body)).json()["results"]
    await home.post("/v1/topics/t/groups/g")
    path = f"/v1/messages/{late['id']}"
    shown = (await home.client.get(path)).json()
    assert (shown["message"]["value"], shown["states"]) == (1, {"g": "delayed"})
    assert [event["what"] for event in (await home.client.get(f"{path}/trace")).json()["events"]] == [
        "published",
        "due",
    ]
    assert (await home.post(f"{path}/retry", {"group": "g"})).status_code == 204
    assert (await home.client.get(path)).json()["states"] == {"g": "ready"}
    assert (await home.client.delete(path)).status_code == 204
    assert (await home.client.get(path)).status_code == 404
    moved = await home.post(f"/v1/messages/{other['id']}/dead-letter", {"error": "odd"})
    assert moved.status_code == 204
    assert (await home.client.get(f"/v1/messages/{other['id']}")).json()["states"] == {"g": "dead"}


async def test_dead_letters_are_listed_redriven_deleted_and_purged(home: Home) -> None:
    await home.publish("t", 1, 2, 3, 4)
    receipts = [message["receipt"] for message in await home.lease("t")]
    await home.post("/v1/reject", {"receipts": receipts, "error": "no"})
    letters = (await home.client.get("/v1/topics/t/dlq", params={"group": "g"})).json()["messages"]
    assert [letter["value"] for letter in letters] == [1, 2, 3, 4]
    assert letters[0]["headers"]["ortoo-error"] == "no"
    redriven = await home.post("/v1/topics/t/dlq/redrive", {"ids": [letters[0]["id"]]})
    assert redriven.json() == {"messages": 1, "skipped": [], "skipped_count": 0}
    assert [message["value"] for message in await home.lease("t")] == [1]
    assert (await home.client.delete(f"/v1/topics/t/dlq/{letters[1]['id']}")).status_code == 204
    elsewhere = (await home.publish("u", 9))[0]["id"]
    assert (await home.client.delete(f"/v1/topics/t/dlq/{elsewhere}")).status_code == 404
    assert (await home.client.get(f"/v1/messages/{elsewhere}")).status_code == 200
    assert (await home.client.post("/v1/topics/t/dlq/purge")).json() == {"messages": 2}
    assert (await home.client.get("/v1/topics/t/dlq")).json() == {"messages": [], "next": None}


# -- replay


PLAIN = {"accept-encoding": "identity"}


async def pages(home: Home, **query: Any) -> list[list[Any]]:
    found = []
    while True:
        page = (await home.client.get("/v1/topics/t/messages", params=query)).json()
        found.append([message["value"] for message in page["messages"]])
        if page["next"] is None:
            return found
        query = {"limit": query["limit"], "next": page["next"]}


async def test_a_replay_goes_on_page_by_page_in_order_of_time() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await home.queue.create_topic("t", partitions=3)
        for number in range(10):
            await home.post("/v1/topics/t/messages", {"messages": [{"value": number, "partition": number * 2 % 3}]})
            await clock.advance(1)
        assert await pages(home, limit=4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert await pages(home, limit=100) == [list(range(10))]
        start = clock.time() - 10
        assert await pages(home, limit=2, from_time=start + 3, to_time=start + 6) == [[3, 4], [5]]
        assert await pages(home, limit=9, partition=2) == [[1, 4, 7]]
        assert await pages(home, limit=9, from_offset=3) == [[9]]


async def test_a_replay_does_not_chase_what_is_published_meanwhile(home: Home) -> None:
    await home.publish("t", 1, 2)
    page = (await home.client.get("/v1/topics/t/messages", params={"limit": 1})).json()
    await home.publish("t", 3)
    page = (await home.client.get("/v1/topics/t/messages", params={"next": page["next"]})).json()
    assert ([message["value"] for message in page["messages"]], page["next"]) == ([2], None)


async def test_a_replay_skips_what_was_deleted(home: Home) -> None:
    sent = await home.publish("t", *range(5))
    for result in sent[:4]:
        await home.queue.delete_message(result["id"])
    assert await pages(home, limit=2) == [[4]]


async def test_a_continuation_does_not_survive_its_topic(home: Home) -> None:
    await home.publish("t", 1, 2)
    page = (await home.client.get("/v1/topics/t/messages", params={"limit": 1})).json()
    await home.queue.delete_topic("t")
    await home.publish("t", 1, 2)
    response = await home.client.get("/v1/topics/t/messages", params={"next": page["next"]})
    assert (response.status_code, response.json()["code"]) == (400, "invalid")


@pytest.mark.parametrize("options", [{"params": {"format": "ndjson"}}, {"headers": {"accept": "application/x-ndjson"}}])
async def test_a_replay_as_ndjson_is_one_message_a_line(home: Home, options: dict[str, Any]) -> None:
    await home.queue.create_topic("t", partitions=1)  # between partitions, messages of one millisecond have no order
    await home.publish("t", *range(1500))
    response = await home.client.get("/v1/topics/t/messages", **options)
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.content.endswith(b"\n")
    assert [json.loads(line)["value"] for line in response.content.splitlines()] == list(range(1500))
    assert (await home.client.get("/v1/topics/none/messages", **options)).status_code == 404


def counting_scans(home: Home) -> list[int]:
    """Grows by the partition whenever the store is read, ten messages at a time."""
    scans: list[int] = []
    scan = home.broker._reader.scan

    async def counted(name: TopicName, partition: int, start: Position, until: Any = None, count: int = 0) -> Page:
        scans.append(partition)
        return await scan(name, partition, start, until, 10)

    home.broker._reader.scan = counted  # type: ignore[method-assign]
    return scans


async def test_a_replay_waits_for_a_reader_that_is_slow(home: Home) -> None:
    """20 MB are asked for; a reader that takes little makes the server read little ahead."""
    await home.queue.publish_many("t", [b"x" * 100_000] * 200)
    scans = counting_scans(home)
    async with home.client.stream("GET", "/v1/topics/t/messages?format=ndjson", headers=PLAIN) as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        for _ in range(1000):  # turns of the loop, enough for all of it if nobody held it back
            await asyncio.sleep(0)
        early = len(scans)
        lines = 1 + sum([chunk.count(b"\n") async for chunk in chunks])
    assert lines >= 200
    assert early < len(scans)


async def test_a_page_of_large_messages_ends_early(home: Home) -> None:
    await home.queue.publish_many("t", [b"x" * 1_000_000] * 40)
    page = (await home.client.get("/v1/topics/t/messages?limit=40")).json()
    assert 10 < len(page["messages"]) < 40
    rest = (await home.client.get("/v1/topics/t/messages", params={"next": page["next"]})).json()
    assert rest["messages"][0]["offset"] == page["messages"][-1]["offset"] + 1


async def test_a_replay_that_fails_in_the_middle_does_not_look_complete(home: Home) -> None:
    await home.queue.publish_many("t", [b"x" * 100_000] * 600)
    async with home.client.stream("GET", "/v1/topics/t/messages?format=ndjson", headers=PLAIN) as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        await home.queue.delete_topic("t")
        with pytest.raises(httpx.RemoteProtocolError):
            async for _ in chunks:
                pass


async def test_a_replay_ends_when_its_reader_has_gone(home: Home) -> None:
    await home.queue.publish_many("t", [b"x" * 100_000] * 600)
    scans = counting_scans(home)
    async with home.client.stream("GET", "/v1/topics/t/messages?format=ndjson", headers=PLAIN) as response:
        await anext(response.aiter_raw())
    await until(lambda: not home.door._state.tasks)
    assert len(scans) < 40


# -- transactions and requests


async def test_a_transaction_acks_and_publishes_together(home: Home) -> None:
    await home.publish("orders", 1)
    [order] = await home.lease("orders")
    body = {
        "acks": [order["receipt"]],
        "publishes": [
            {"topic": "invoices", "messages": [{"value": "i"}, {"value": "j"}]},
            {"topic": "log", "namespace": "other", "messages": [{"value": "l"}]},
        ],
    }
    results = (await home.post("/v1/transactions", body)).json()["results"]
    assert len({result["id"] for result in results}) == 3
    assert (await home.queue.group("orders", "g")).backlog == 0
    assert [message["value"] for message in await home.lease("invoices")] == ["i", "j"]
    assert [topic.name for topic in await home.queue.topics(namespace="other")] == ["log"]


async def test_a_named_transaction_is_filled_by_several_and_committed_once(home: Home) -> None:
    path = "/v1/transactions/job%2F7"
    assert (await home.post(path)).json() == {"name": "job/7", "namespace": "default"}
    for part in ("a", "b", "failed"):
        body = {"part": part, "topic": "out", "messages": [{"value": part}]}
        assert (await home.post(f"{path}/stage", body)).status_code == 204
    assert (await home.client.get("/v1/topics/out")).status_code == 404
    assert (await home.post(f"{path}/commit", {"parts": ["a", "b"]})).json() == {"messages": 2}
    assert (await home.post(f"{path}/commit")).json() == {"messages": 0}
    assert sorted(message["value"] for message in await home.lease("out")) == ["a", "b"]
    await home.post("/v1/transactions/other")
    assert (await home.client.post("/v1/transactions/other/abort")).status_code == 204
    assert (await home.post("/v1/transactions/other/commit")).status_code == 404


async def test_a_request_is_answered_by_a_consumer(home: Home) -> None:
    await home.queue.create_topic("auth")
    asking = asyncio.create_task(home.post("/v1/topics/auth/request", {"value": {"user": "ann"}, "timeout": 30}))
    [request] = await home.lease("auth", wait=30)
    assert request["value"] == {"user": "ann"}
    headers = {"correlation-id": request["headers"]["correlation-id"]}
    body = {"messages": [{"value": "yes", "headers": headers}]}
    assert (await home.post(f"/v1/topics/{request['headers']['reply-to']}/messages", body)).status_code == 201
    assert (await asking).json()["value"] == "yes"


async def test_a_request_that_nobody_answers_times_out(home: Home) -> None:
    response = await home.post("/v1/topics/auth/request", {"value": 1, "timeout": 0.01})
    assert (response.status_code, response.json()["code"]) == (504, "no_reply")


# -- the server


async def test_the_server_tells_how_it_is(home: Home) -> None:
    assert (await home.client.get("/health")).json() == {"status": "ok"}
    assert (await home.client.get("/ready")).json() == {"status": "ready", "reason": None}
    metrics = await home.client.get("/metrics")
    assert (metrics.text, metrics.headers["content-type"][:10]) == ("up 1\n", "text/plain")
    await home.publish("t", 1)
    stats = (await home.client.get("/v1/stats")).json()
    assert (stats["topics"], stats["counters"]["published"]) == (1, 1)
    async with serving(reason="the disk is being checked") as other:
        response = await other.client.get("/ready")
        assert (response.status_code, response.json()["reason"]) == (503, "the disk is being checked")


async def test_the_description_has_every_route(home: Home) -> None:
    document = (await home.client.get("/openapi.json")).json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]


async def test_the_page_shows_every_route_and_loads_nothing(home: Home) -> None:
    response = await home.client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in response.text
    assert "id=lease_lost" in response.text
    for loading in ("<script", "src=", "@import", "url(", "<link"):
        assert loading not in response.text


async def test_over_tls(tmp_path: Any) -> None:
    import ssl

    from tests.app.certificates import make_certificate

    files = make_certificate(tmp_path)
    assert files.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    async with serving(tls=context) as home:
        trusting = ssl.create_default_context(cafile=files.certificate)
        async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{home.port}", verify=trusting) as client:
            assert (await client.get("/health")).json() == {"status": "ok"}


async def test_the_driver_does_what_a_queue_does(home: Home) -> None:
    async with HttpQueue(home.url) as queue:
        await queue.create_topic("t", partitions=1)
        sent = await queue.publish_many("t", [b"1", "2", b"3"])
        [first] = await queue.lease("t")
        assert (first.value, first.id, first.is_json) == (b"1", sent[0].id, False)
        async with queue.transaction() as tx:
            tx.ack(first)
            tx.publish("u", {"done": 1})
        [done] = [message async for message in queue.read("u")]
        assert (done.json(), tx.sent[0].id) == ({"done": 1}, done.id)
        seen = []
        async with queue.consume("t") as messages:
            async for message in messages:
                await message.ack()
                seen.append(message.value)
                if len(seen) == 2:
                    break
        assert seen == [b"2", b"3"]
        assert (await queue.group("t")).backlog == 0
        assert [event.what for event in (await queue.trace(first.id)).events] == [
            "published",
            "delivered",
            "acknowledged",
        ]


async def test_what_is_pushed_is_described(home: Home) -> None:
    document = (await home.client.get("/asyncapi.json")).json()
    told = {kind for kind in vars(websocket_messages).values() if isinstance(kind, type)}
    server = {kind for kind in told if issubclass(kind, ServerMessage) and kind.__struct_config__.tag != kind.__name__}
    assert {kind for kind in server if kind.__struct_config__.tag} == set(asyncapi.SERVER)
    named = {message["name"] for message in document["components"]["messages"].values()}
    assert {"subscribe", "credit", "ack", "publish", "watch", "tail", "messages", "settled", "error"} <= named
    paths = {route.path for route in ROUTES}
    assert {channel["address"] for channel in document["channels"].values()} <= paths
    for reference in {part.split('"')[0] for part in json.dumps(document).split('"$ref": "#/')[1:]}:
        found = document
        for name in reference.split("/"):
            found = found[name]
