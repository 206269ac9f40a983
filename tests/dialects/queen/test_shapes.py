"""Is every request of Queen's first generation answered as it was there? Errors are 400s here, as its client repeats 500s."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dialects.queen.home import API, Home

GIVEN = "00000000-0000-4000-8000-000000000001"
OPTIONS = {
    "leaseTime": 2,
    "maxSize": 10000,
    "ttl": 3600,
    "retryLimit": 2,
    "retryDelay": 1000,
    "deadLetterQueue": False,
    "dlqAfterMaxRetries": False,
    "priority": 7,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "retentionEnabled": False,
}
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


async def configured(home: Home) -> Any:
    body = {"leaseTime": 2, "retryLimit": 2, "priority": 7}
    return await home.configure("shape", body, namespace="ns", task="t")


async def pushed(home: Home) -> list[dict[str, Any]]:
    items = [
        {"queue": "shape", "partition": "p1", "payload": {"a": 1}},
        {"queue": "shape", "payload": {"b": 2}, "transactionId": GIVEN},
    ]
    answer = await home.post("/push", {"items": items}, 201)
    found: list[dict[str, Any]] = answer["messages"]
    return found


async def test_configure(home: Home) -> None:
    answer = await configured(home)
    assert {name: answer[name] for name in ("queue", "namespace", "task", "configured")} == {
        "queue": "shape",
        "namespace": "ns",
        "task": "t",
        "configured": True,
    }
    assert {name: answer["options"][name] for name in OPTIONS} == OPTIONS


async def test_push(home: Home) -> None:
    await configured(home)
    first, second = await pushed(home)
    assert list(first) == ["id", "transactionId", "traceId", "status"]
    assert (first["transactionId"], first["traceId"], first["status"]) == (first["id"], None, "queued")
    assert (second["transactionId"], second["status"]) == (GIVEN, "queued")
    again = await home.push("shape", {"b": 2}, transactionId=GIVEN)
    assert again == [{**second, "status": "duplicate"}]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"items":[]}', "No items to push"),
        (b"{}", "No items to push"),
        (b'{"items":[{"payload":1}]}', "Each item must have a queue"),
        (b'{"items":[{"queue":"","payload":1}]}', "Each item must have a queue"),
        (b'{"items":[{"queue":"q"}]}', "Each item must have a payload"),
        (b"{bad", "JSON"),
    ],
)
async def test_a_push_that_is_wrong(home: Home, body: bytes, error: str) -> None:
    response = await home.web.post(f"{API}/push", content=body)
    assert response.status_code == 400
    assert error in response.json()["error"]
    assert await home.queue.topics() == []


async def test_pop_and_ack(home: Home) -> None:
    await configured(home)
    sent, other = await pushed(home)
    [message] = await home.pop("shape", batch=5)
    assert message == {
        "id": sent["id"],
        "transactionId": sent["transactionId"],
        "traceId": None,
        "queue": "shape",
        "partition": "p1",
        "data": {"a": 1},
        "payload": {"a": 1},
        "retryCount": 0,
        "priority": 7,
        "createdAt": message["createdAt"],
        "consumerGroup": None,
        "partitionId": message["partitionId"],
        "leaseId": message["leaseId"],
        "producerSub": None,
        "options": {"leaseTime": 2},
    }
    assert message["createdAt"].endswith("Z")
    answer = await home.ack(message)
    assert list(answer) == ["transactionId", "status", "consumerGroup", "acknowledgedAt"]
    assert answer["transactionId"] == sent["transactionId"]
    assert (answer["status"], answer["consumerGroup"]) == ("completed", None)

    [message] = await home.pop("shape", batch=5, consumerGroup="g1", subscriptionMode="all")
    assert (message["id"], message["consumerGroup"]) == (sent["id"], "g1")

    answer = await home.get("/pop", namespace="ns", batch=5)
    assert [each["transactionId"] for each in answer["messages"]] == [GIVEN]
    assert answer["messages"][0]["partition"] == "Default"

    unknown = "22222222-2222-4222-8222-222222222222"
    acks = [
        {"transactionId": GIVEN, "status": "failed", "error": "e"},
        {"transactionId": unknown, "status": "completed"},
    ]
    assert await home.post("/ack/batch", {"acknowledgments": acks}, 200) == {
        "processed": 2,
        "results": [
            {"transactionId": GIVEN, "status": "failed"},
            {"transactionId": unknown, "status": "not_found"},
        ],
    }
    assert other["transactionId"] == GIVEN


async def test_an_ack_of_what_nobody_knows(home: Home) -> None:
    await pushed(home)
    body = {"transactionId": "11111111-1111-4111-8111-111111111111", "status": "completed"}
    answer = await home.post("/ack", body, 200)
    assert (answer["transactionId"], answer["status"]) == (body["transactionId"], "not_found")


async def test_an_ack_with_another_status(home: Home) -> None:
    sent, _ = await pushed(home)
    answer = await home.post("/ack", {"transactionId": sent["id"], "status": "nope"}, 400)
    assert answer["error"] == 'status must be "completed" or "failed"'
    answer = await home.post("/ack", {"status": "completed"}, 400)
    assert answer["error"] == "transactionId is required"


async def test_a_queue_that_is_not_there_has_nothing(home: Home) -> None:
    response = await home.web.get(f"{API}/pop/queue/nosuch")
    assert (response.status_code, response.content) == (204, b"")
    assert await home.queue.topics() == []


async def test_one_message(home: Home) -> None:
    await configured(home)
    sent, _ = await pushed(home)
    answer = await home.get(f"/messages/{sent['transactionId']}")
    assert answer == {
        "id": sent["id"],
        "transactionId": sent["id"],
        "queuePath": "shape/p1",
        "queue": "shape",
        "partition": "p1",
        "namespace": "ns",
        "task": "t",
        "payload": {"a": 1},
        "data": {"a": 1},
        "createdAt": answer["createdAt"],
        "status": "pending",
        "queueConfig": {"leaseTime": 2, "retryLimit": 2, "retryDelay": 1000, "ttl": 3600, "priority": 7},
    }
    assert (await home.get(f"/messages/{GIVEN}"))["payload"] == {"b": 2}
    assert (await home.get("/messages/nosuch", 404))["error"] == "Message not found"


async def test_clear(home: Home) -> None:
    await pushed(home)
    answer = await home.delete("/queues/shape/clear")
    assert answer == {"cleared": True, "count": 2, "queue": "shape", "partition": "all"}
    assert await home.pop("shape") == []


async def test_health_and_metrics_on_a_port_of_its_own(home: Home) -> None:
    await pushed(home)
    health = (await home.own.get("/health")).json()
    assert list(health) == ["status", "uptime", "connections", "stats"]
    assert list(health["stats"]) == ["requests", "messages", "requestsPerSecond", "messagesPerSecond", "pool"]
    assert (health["status"], health["stats"]["messages"]) == ("healthy", 2)
    metrics = (await home.own.get("/metrics")).json()
    assert list(metrics) == ["uptime", "requests", "messages", "database", "memory", "cpu"]
    assert metrics["messages"]["total"] == 2
    assert metrics["requests"]["total"] > 0
    assert metrics["memory"]["rss"] > 1_000_000
    ours = (await home.web.get("/health")).json()
    assert ours == {"status": "ok"}


async def test_a_path_that_nobody_serves(home: Home) -> None:
    response = await home.own.get("/nope")
    assert response.status_code == 404
    assert "error" in response.json()


async def test_the_same_on_both_ports(home: Home) -> None:
    body = {"items": [{"queue": "q", "payload": 1}]}
    await home.own.post(f"{API}/push", json=body)
    [message] = await home.pop("q")
    assert message["data"] == 1


async def test_options_and_pages_of_other_sites(home: Home) -> None:
    response = await home.own.options(f"{API}/push")
    assert response.status_code == 204
    await asyncio.sleep(0)
