"""The requests of mqueue's own document, as it writes them, and what its clients get."""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import Any

import httpx
import pytest

from ortoo.app.authentication import make_authenticator
from ortoo.auth import Authenticator
from ortoo.dialects.mqueue import MQUEUE
from ortoo.model.settings import AuthSettings, Settings
from ortoo.testing import ManualClock
from tests.dialects.mqueue.home import Home, serving
from tests.dialects.mqueue.samples import SAMPLES

TOKEN = "a-token-that-opens-everything"
# The document's own body has a comment in it, which is no JSON for mqueue, either.
ENQUEUED = """[{
    "namespace": "default",
    "topic": "leads",
    "priority": 1,
    "payload": "eyJuYW1lIjoiSm9obiBEb2UifQ==",
    "deliver_after": "2025-12-25T10:00:00Z"
  }]"""
JSON = {"Content-Type": "application/json"}
FIELDS = [
    *(
        "ID",
        "Namespace",
        "Topic",
        "IdempotencyKey",
        "Priority",
        "Payload",
        "Metadata",
        "DeliverAfter",
        "LeaseExpiresAt",
    ),
    *("LeaseOwner", "TTL", "Status", "Retries", "CreatedAt", "UpdatedAt", "FirstFailedAt", "LastError"),
]


def named(item: int, **more: Any) -> dict[str, Any]:
    return {"id": item, "namespace": "default", "topic": "leads", **more}


async def dequeue(client: httpx.AsyncClient, limit: int = 10) -> list[dict[str, Any]] | None:
    answer = await client.get(f"/dequeue?namespace=default&topic=leads&limit={limit}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] | None = answer.json()
    return found


@pytest.fixture(params=["shared", "own"])
def client(home: Home, request: pytest.FixtureRequest) -> httpx.AsyncClient:
    return home.own if request.param == "own" else home.web


async def test_the_documents_example_from_enqueue_to_ack(client: httpx.AsyncClient) -> None:
    enqueued = await client.post("/enqueue", content=ENQUEUED, headers=JSON)
    assert enqueued.status_code == 200
    [number] = enqueued.json()
    found = await dequeue(client)
    assert found is not None
    [item] = found
    assert sorted(item) == sorted(FIELDS)
    assert (item["ID"], item["Namespace"], item["Topic"], item["Priority"]) == (number, "default", "leads", 1)
    assert json.loads(b64decode(item["Payload"])) == {"name": "John Doe"}
    assert (item["Retries"], item["Status"], item["IdempotencyKey"], item["Metadata"]) == (0, "ready", None, None)
    assert await dequeue(client) is None
    acked = await client.post("/ack", json=named(number))
    assert (acked.status_code, acked.text) == (200, "OK")
    again = await client.post("/ack", json=named(number))
    assert (again.status_code, again.text) == (200, "OK")  # acked is acked


async def test_three_failures_and_it_is_dead_and_can_be_deleted() -> None:
    clock = ManualClock(1_800_000_000)  # later than the document
    async with serving(clock=clock) as home:
        [number] = (await home.own.post("/enqueue", content=ENQUEUED)).json()
        for failed, pause in ((0, 1.0), (1, 2.0), (2, 0.0)):
            found = await dequeue(home.own)
            assert found is not None
            assert [(item["ID"], item["Retries"]) for item in found] == [(number, failed)]
            answer = await home.own.post("/nack", json=named(number, error="Processing failed"))
            assert (answer.status_code, answer.text) == (200, "OK")
            if pause:
                await clock.advance(pause - 0.001)
                assert await dequeue(home.own) is None
                await clock.advance(0.001)
        assert await dequeue(home.own) is None
        [dead] = (await home.own.get("/dlq?namespace=default&topic=leads&limit=10")).json()
        assert sorted(dead) == sorted([*FIELDS, "OriginalID", "MovedAt"])
        assert (dead["OriginalID"], dead["LastError"], dead["Retries"]) == (number, "Processing failed", 3)
        assert b64decode(dead["Payload"]) == b'{"name":"John Doe"}'
        deleted = await home.own.post("/dlq/delete", json=named(dead["ID"]))
        assert (deleted.status_code, deleted.text) == (200, "OK")
        assert (await home.own.get("/dlq?namespace=default&topic=leads")).json() is None
        assert (await home.own.post("/dlq/delete", json=named(dead["ID"]))).status_code == 404


async def test_the_lower_number_first_and_what_is_due_later_later() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        later = {"deliver_after": "2030-01-01T00:00:00.123456789Z"}
        items = [
            {
                "namespace": "n",
                "topic": "t",
                "priority": priority,
                "payload": b64encode(str(priority).encode()).decode(),
            }
            for priority in (7, 0, 3)
        ]
        assert len((await home.web.post("/enqueue", json=[*items, {**items[1], **later}])).json()) == 4
        answer = await home.web.get("/dequeue?namespace=n&topic=t")
        assert [item["Priority"] for item in answer.json()] == [0, 3, 7]


async def test_a_delayed_item_tells_when_it_was_due() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        due = {"namespace": "n", "topic": "t", "deliver_after": "2023-11-14T23:30:00+01:00"}
        await home.web.post("/enqueue", json=[due])
        assert (await home.web.get("/dequeue?namespace=n&topic=t")).json() is None
        await clock.advance(1000)
        [item] = (await home.web.get("/dequeue?namespace=n&topic=t")).json()
        assert (item["DeliverAfter"], item["Metadata"]) == ("2023-11-14T22:30:00.000Z", None)
        assert item["LeaseExpiresAt"] == "2023-11-14T22:30:30.000Z"


async def test_an_idempotency_key_holds_in_its_whole_namespace(home: Home) -> None:
    item = {"namespace": "n", "topic": "a", "idempotency_key": "k", "payload": "eA=="}
    [first] = (await home.web.post("/enqueue", json=[item])).json()
    assert (await home.web.post("/enqueue", json=[item])).json() == [first]
    assert (await home.web.post("/enqueue", json=[{**item, "topic": "b"}])).json() == [0]
    await home.web.post("/enqueue", json=[{**item, "namespace": "other"}])
    assert (await home.web.get("/dequeue?namespace=n&topic=b")).json() is None
    [found] = (await home.web.get("/dequeue?namespace=n&topic=a")).json()
    assert (found["ID"], found["IdempotencyKey"]) == (first, "k")
    assert len((await home.web.get("/dequeue?namespace=other&topic=a")).json()) == 1


async def test_metadata_comes_back_as_it_was(home: Home) -> None:
    metadata = {"source": "web", "tries": 3, "tags": ["a", {"b": None}], "empty": "", "number": "5", "ok": True}
    await home.web.post("/enqueue", json=[{"namespace": "n", "topic": "t", "metadata": metadata}])
    [item] = (await home.web.get("/dequeue?namespace=n&topic=t")).json()
    assert item["Metadata"] == metadata


async def test_health_and_metrics_on_its_own_port(home: Home) -> None:
    answer = await home.own.get("/health")
    assert (answer.status_code, answer.text) == (200, "OK")
    assert (await home.web.get("/health")).json() == {"status": "ok"}  # ours
    await home.own.post("/enqueue", json=[{"namespace": "n", "topic": "t"}] * 3)
    [one, two] = (await home.own.get("/dequeue?namespace=n&topic=t&limit=2")).json()
    await home.own.post("/ack", json={"id": one["ID"], "namespace": "n", "topic": "t"})
    await home.own.post("/nack", json={"id": two["ID"], "namespace": "n", "topic": "t"})
    told = (await home.own.get("/metrics")).text
    assert '\nmqueue_shard_health{shard="0",type="primary"} 1\n' in told
    place = '{namespace="n",topic="t"}'
    for line in (
        f"mqueue_enqueue_total{place} 3",
        f"mqueue_dequeue_total{place} 2",
        f"mqueue_ack_total{place} 1",
        f"mqueue_nack_total{place} 1",
        f"mqueue_buffer_queue_depth{place} 0",
        f"mqueue_ready_queue_depth{place} 1",
    ):
        assert f"\n{line}\n" in told


async def test_topics_are_those_of_the_namespace_without_the_dead(home: Home) -> None:
    assert (await home.web.get("/topics?namespace=n")).json() is None
    await home.web.post("/enqueue", json=[{"namespace": "n", "topic": topic} for topic in ("b", "a")])
    [item] = (await home.web.get("/dequeue?namespace=n&topic=a")).json()
    letter = (await home.queue.lease("b", namespace="n"))[0]
    await letter.reject("no")
    assert item["ID"] == 1
    assert (await home.web.get("/topics?namespace=n")).json() == ["a", "b"]
    assert (await home.web.get("/topics")).status_code == 400


@pytest.mark.parametrize("header", ["Authorization", "Authorisation"])
async def test_a_token_is_taken_in_either_spelling(header: str) -> None:
    async with serving(access=Authenticator(TOKEN)) as home:
        for client in (home.web, home.own):
            missing = await client.get("/dequeue?namespace=default&topic=leads")
            assert (missing.status_code, missing.text) == (401, "Missing token\n")
            wrong = await client.get("/topics?namespace=n", headers={header: "Bearer another-token"})
            assert (wrong.status_code, wrong.text) == (401, "Invalid token\n")
            right = await client.get("/dequeue?namespace=n&topic=t", headers={header: f"Bearer {TOKEN}"})
            assert (right.status_code, right.json()) == (200, None)
        assert (await home.own.get("/health")).text == "OK"


async def test_the_documents_jwt_opens_with_its_secret() -> None:
    secret = "fYXSb6rYIpxCKOvIv5hKWKph+2B//Wie9kV7sj6Ot44="
    auth = AuthSettings(secret=secret, default_scope="read,write", default_namespace="*")
    head, claims = b'{"alg":"HS256","typ":"JWT"}', b'{"sub": "test-user", "exp": 1930000000}'
    signed = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (head, claims))
    signature = urlsafe_b64encode(hmac.digest(secret.encode(), signed, "sha256")).rstrip(b"=")
    headers = {"Authorisation": f"Bearer {(signed + b'.' + signature).decode()}"}
    async with serving(access=make_authenticator(Settings(data="memory", auth=auth))) as home:
        assert (await home.own.post("/enqueue", content=ENQUEUED, headers=headers)).json() == [1]
        answer = await home.own.get("/dequeue?namespace=default&topic=leads", headers=headers)
        assert len(answer.json()) == 1
        assert (await home.own.post("/ack", json=named(1), headers=headers)).text == "OK"
        refused = await home.own.post("/dlq/delete", json=named(1), headers=headers)
        assert refused.status_code == 404  # and 403 where there is one: that needs an admin


async def test_a_server_that_is_not_ready_is_not_healthy() -> None:
    async with serving(reason="the disk is full") as home:
        answer = await home.own.get("/health")
        assert (answer.status_code, answer.text) == (503, "the disk is full\n")
        assert 'mqueue_shard_health{shard="0",type="primary"} 0' in (await home.own.get("/metrics")).text


async def test_there_is_a_sample_of_every_route() -> None:
    assert {(route.method, route.path) for route in MQUEUE.routes + MQUEUE.own_routes} == SAMPLES.keys()
