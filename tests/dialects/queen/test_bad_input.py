"""Is whatever is wrong answered in Queen's own form, with 4xx, and without anything lost?"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortoo.dialects.queen import QUEEN
from ortoo.dialects.queen.shapes import ITEMS_MAX
from tests.dialects.queen.home import API, Home, serving

BODIES = [route for route in QUEEN.routes if route.body is not None]
WITH_BODY = [route.path.format(lease="1.1.1.0-0", group="g", queue="q") for route in BODIES]
ITEM = {"queue": "q", "payload": 1}


async def sent(home: Home, path: str, body: bytes, **headers: str) -> Any:
    """What a 4xx says."""
    response = await home.web.post(path, content=body, headers=headers)
    assert 400 <= response.status_code < 500, (response.status_code, response.text)
    said = response.json()
    assert set(said) == {"error", "code"}, said
    return said


@pytest.mark.parametrize("path", WITH_BODY)
@pytest.mark.parametrize("body", [b"{bad", b"[]", b'"x"', b"\xff", b'{"items":', b"[" * 5000, b"null", b"1"])
async def test_bodies_that_are_none(home: Home, path: str, body: bytes) -> None:
    await sent(home, path, body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/push", {"items": {}}),
        ("/push", {"items": [1]}),
        ("/push", {"items": [{"queue": 1, "payload": 1}]}),
        ("/push", {"items": [{**ITEM, "partition": 5}]}),
        ("/push", {"items": [{**ITEM, "transactionId": []}]}),
        ("/push", {"items": [{**ITEM, "transactionId": "x" * 300}]}),
        ("/push", {"items": [{**ITEM, "partition": "x" * 5000}]}),
        ("/push", {"items": [{**ITEM, "queue": "x" * 300}]}),
        ("/push", {"items": [{**ITEM, "queue": "a\x00b"}]}),
        ("/push", {"items": [ITEM] * (ITEMS_MAX + 1)}),
        ("/configure", {}),
        ("/configure", {"queue": ""}),
        ("/configure", {"queue": "q", "options": {"leaseTime": -1}}),
        ("/configure", {"queue": "q", "options": {"leaseTime": "long"}}),
        ("/configure", {"queue": "q", "options": {"leaseTime": 1e9}}),
        ("/configure", {"queue": "q", "options": {"retryLimit": -1}}),
        ("/configure", {"queue": "q", "options": {"windowBuffer": 1e6}}),
        ("/configure", {"queue": "q", "namespace": "a\nb"}),
        ("/configure", {"queue": "q", "partition": "x" * 250, "options": {"priority": 1}}),
        ("/ack", {}),
        ("/ack", {"transactionId": "x"}),
        ("/ack", {"transactionId": "x", "status": "done"}),
        ("/ack", {"transactionId": 5, "status": "completed"}),
        ("/ack", {"transactionId": "x", "status": "completed", "partitionId": "p", "leaseId": "nonsense"}),
        ("/ack/batch", {}),
        ("/ack/batch", {"acknowledgments": {}}),
        ("/ack/batch", {"acknowledgments": [{"transactionId": "x"}]}),
    ],
)
async def test_bodies_that_are_wrong(home: Home, path: str, body: Any) -> None:
    await sent(home, API + path, msgspec.json.encode(body))
    assert await home.queue.topics() == []


@pytest.mark.parametrize(
    "query", ["batch=x", "wait=perhaps", "timeout=", "subscriptionMode=some&consumerGroup=g", "conflation=true"]
)
async def test_queries_that_are_wrong(home: Home, query: str) -> None:
    await home.push("q", 1)
    response = await home.web.get(f"{API}/pop/queue/q?{query}")
    assert response.status_code == 400, response.text
    assert response.json()["error"]


async def test_a_start_that_is_none(home: Home) -> None:
    await home.push("q", 1)
    await home.get("/pop/queue/q", 400, consumerGroup="g", subscriptionFrom="yesterday")
    await home.get("/pop", 400)
    await home.get("/messages", 400, queue="q", status="nope")
    await home.get("/messages", 400, queue="q", offset=10**9)
    await home.get("/dlq", 400)


async def test_what_is_too_much_is_less(home: Home) -> None:
    """A batch or a wait beyond the bounds, and one below them."""
    await home.push("q", 1, 2)
    assert len(await home.pop("q", batch=10**9, timeout=10**9)) == 2
    await home.push("q", 3, partition="x")
    assert len(await home.pop("q", batch=-5, partitions=0)) == 1


async def test_unknown_fields_and_parameters_are_passed_over(home: Home) -> None:
    body = {"items": [{**ITEM, "more": {"a": [1]}}], "bufferMs": 5, "bufferMax": 10}
    await home.post("/push", body, 201)
    assert len(await home.pop("q", whatever="x", frames="true")) == 1


async def test_methods_that_are_wrong(home: Home) -> None:
    for route in QUEEN.routes:
        given = {"queue": "q", "partition": "p", "lease": "l", "transaction_id": "x"}
        given |= {"group": "g", "partition_id": "p", "name": "n", "what": "w"}
        path = route.path.format(**given)
        response = await home.web.request("PATCH", path)
        assert response.status_code == 405, path
        assert "error" in response.json()
        assert route.method in response.headers["allow"]


async def test_a_push_without_a_body(home: Home) -> None:
    assert "body" in (await sent(home, f"{API}/push", b""))["error"]


async def test_a_body_in_another_form(home: Home) -> None:
    """What newest clients send when they are told to push in binary."""
    await sent(home, f"{API}/push", b"QPB1\x00\x01\x00\x00\x00", **{"content-type": "application/x-queen-push"})


async def test_a_large_push_of_large_payloads_is_taken(home: Home) -> None:
    """Payloads are not counted: only messages are."""
    payload = {f"field{n}": [{"a": "b"}] * 10 for n in range(20)}
    await home.push("q", *[payload] * 300)
    assert len(await home.pop("q", batch=1000)) == 300


async def test_very_many_things_are_not_built(home: Home) -> None:
    item = b'{"queue":"q","payload":0}'
    for body in (
        b'{"items":[' + b",".join([item] * 400_000) + b"]}",
        b'{"operations":[{"type":"push","items":[' + b",".join([item] * 400_000) + b"]}]}",
    ):
        path = "/push" if body.startswith(b'{"items') else "/transaction"
        assert str(ITEMS_MAX) in (await sent(home, API + path, body))["error"]
    ack = b'{"transactionId":"x","status":"completed"}'
    body = b'{"acknowledgments":[' + b",".join([ack] * 200_000) + b"]}"
    assert str(ITEMS_MAX) in (await sent(home, f"{API}/ack/batch", body))["error"]
    assert await home.queue.topics() == []


async def test_a_body_that_is_too_large(home: Home) -> None:
    body = msgspec.json.encode({"items": [{"queue": "q", "payload": "x" * (17 << 20)}]})
    response = await home.web.post(f"{API}/push", content=body)
    assert response.status_code == 413
    assert "error" in response.json()


async def test_a_payload_that_is_too_large(home: Home) -> None:
    body = msgspec.json.encode({"items": [ITEM, {"queue": "q", "payload": "x" * (11 << 20)}]})
    await sent(home, f"{API}/push", body)
    assert await home.pop("q") == []


async def test_the_same_push_at_the_same_time_is_one(home: Home) -> None:
    answers = await asyncio.gather(*(home.push("q", 1, transactionId="x") for _ in range(20)))
    assert sorted(message["status"] for [message] in answers) == ["duplicate"] * 19 + ["queued"]
    assert len({message["id"] for [message] in answers}) == 1


async def test_one_message_is_popped_once(home: Home) -> None:
    await home.push("q", *range(10), transactionId=None)
    found = await asyncio.gather(*(home.pop("q", batch=10) for _ in range(10)))
    assert sum(map(len, found)) == 10


NAMES = ["items", "queue", "partition", "payload", "transactionId", "status", "options", "leaseId"]
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(WITH_BODY), json), min_size=1, max_size=8))
def test_anything_at_all_is_answered(requests: list[tuple[str, Any]]) -> None:
    async def ask_all() -> None:
        async with serving() as home:
            for path, body in requests:
                response = await home.web.post(path, content=msgspec.json.encode(body))
                assert response.status_code < 500, (path, body, response.text)

    asyncio.run(ask_all())


async def test_an_id_that_would_mean_another_partition_s_message_is_refused(home: Home) -> None:
    await home.push("q", 1, partition="P", transactionId="a")
    item = {"queue": "q", "partition": "R", "payload": 2, "transactionId": "a\x1f0123456789abcdef"}
    await home.post("/push", {"items": [item], "config": {}}, 400)
    assert len((await home.get("/messages", queue="q"))["messages"]) == 1
