"""Requests to the admin API as the document describes it, with names, settings and metrics as it writes them."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.dialects.mqtt_queues import MQTT_QUEUES
from ortoo.dialects.mqtt_queues.names import queue_of, topic_in_path, topic_of
from tests.dialects.goqueue.home import Home, serving
from tests.dialects.mqtt_queues.samples import SAMPLES
from tests.doors.roles import Roles

ENCODED = "/api/v1/queues/%24queue%2Ftasks%2Fimage"
DOLLARS = "/api/v1/queues/$queue$tasks$image"

CONFIGURED: dict[str, Any] = {
    "name": "$queue/tasks/image-processing",
    "partitions": 10,
    "ordering": "partition",
    "retry_policy": {
        "max_retries": 10,
        "initial_backoff": "5s",
        "max_backoff": "5m",
        "backoff_multiplier": 2.0,
        "total_timeout": "3h",
    },
    "dlq_config": {
        "enabled": True,
        "topic": "$queue/dlq/tasks/image-processing",
        "alert_webhook": "https://supermq.com/alerts/queue-failure",
    },
    "limits": {"max_message_size": 1048576, "max_queue_depth": 100000, "message_ttl": "168h"},
    "performance": {"delivery_timeout": "30s", "batch_size": 1},
}


async def make(home: Home, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await home.post("/api/v1/queues", {"name": "$queue/tasks/image", **more}, 201)
    return made


async def test_the_documents_queue_is_made_with_its_settings(home: Home) -> None:
    made = await home.post("/api/v1/queues", CONFIGURED, 201)
    webhook = made["dlq_config"].pop("alert_webhook")
    assert webhook  # shown without what may be a secret in it
    wanted = {**CONFIGURED, "dlq_config": {"enabled": True, "topic": "$queue/dlq/tasks/image-processing"}}
    assert {name: made[name] for name in wanted} == wanted
    config = (await home.queue.topic("tasks/image-processing")).config
    assert (config.partitions, config.ordering, config.max_attempts) == (10, "partition", 11)
    assert (config.backoff_initial, config.backoff_max, config.backoff_factor) == (5.0, 300.0, 2.0)
    assert (config.total_timeout, config.lease, config.ttl) == (10_800.0, 30.0, 604_800.0)
    assert (config.max_depth, config.max_message_bytes, config.dlq) == (100_000, 1_048_576, True)
    assert (await home.post("/api/v1/queues", CONFIGURED, 409))["code"] == "exists"


async def test_what_is_left_out_has_the_documents_default(home: Home) -> None:
    made = await make(home)
    defaults = {name: value for name, value in CONFIGURED.items() if name not in ("name", "dlq_config")}
    assert {name: made[name] for name in defaults} == defaults
    assert made["dlq_config"] == {"enabled": True, "topic": "$queue/dlq/tasks/image", "alert_webhook": ""}


async def test_strict_order_has_one_partition(home: Home) -> None:
    assert (await make(home, ordering="strict"))["partitions"] == 1
    refused = await home.post("/api/v1/queues", {"name": "$queue/x", "ordering": "strict", "partitions": 2}, 400)
    assert "partitions=1" in refused["error"]


@pytest.mark.parametrize("path", [ENCODED, DOLLARS, "/api/v1/queues/tasks%2Fimage"])
async def test_a_name_in_a_path_is_written_in_each_way(home: Home, path: str) -> None:
    await make(home)
    assert (await home.get(path))["name"] == "$queue/tasks/image"
    assert (await home.get(f"{path}/stats"))["depth"] == 0
    deleted = await home.web.delete(path)
    assert deleted.json() == {"name": "$queue/tasks/image", "deleted": True}
    await home.get(path, 404)


def test_names_are_topics() -> None:
    assert topic_of("$queue/tasks/image") == "tasks/image"
    assert topic_in_path("$queue$dlq$tasks$image") == topic_of("$queue/dlq/tasks/image") == "tasks/image.dlq"
    assert queue_of("tasks/image.dlq") == "$queue/dlq/tasks/image"
    assert topic_in_path("price$list") == "price$list"


async def test_queues_are_listed_in_pages(home: Home) -> None:
    for name in "abc":
        await home.post("/api/v1/queues", {"name": f"$queue/{name}"}, 201)
    await home.queue.create_topic("ours")
    listed = await home.get("/api/v1/queues")
    assert [each["name"] for each in listed["queues"]] == [f"$queue/{name}" for name in ("a", "b", "c", "ours")]
    page = await home.get("/api/v1/queues", limit=2, offset=1)
    assert ([each["name"] for each in page["queues"]], page["total"]) == (["$queue/b", "$queue/c"], 4)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_settings_are_changed_and_the_others_stay(home: Home, method: str) -> None:
    await make(home)
    body = {"performance": {"delivery_timeout": "60s"}, "retry_policy": {"total_timeout": "6h"}}
    answer = await home.web.request(method, f"{DOLLARS}/config", json=body)
    changed = answer.json()
    assert (changed["performance"]["delivery_timeout"], changed["retry_policy"]["total_timeout"]) == ("1m", "6h")
    assert (changed["retry_policy"]["max_retries"], changed["partitions"]) == (10, 10)
    forever = {"limits": {"message_ttl": "0s", "max_queue_depth": 0}, "dlq_config": {"enabled": False}}
    changed = (await home.web.request(method, f"{DOLLARS}/config", json=forever)).json()
    assert (changed["limits"]["message_ttl"], changed["limits"]["max_queue_depth"]) == ("0s", 0)
    config = (await home.queue.topic("tasks/image")).config
    assert (config.ttl, config.retention_seconds, config.max_depth, config.dlq) == (None, None, None, False)


async def test_a_long_life_is_not_cut_short_by_retention(home: Home) -> None:
    await make(home, limits={"message_ttl": "720h"})
    assert (await home.queue.topic("tasks/image")).config.retention_seconds == 720 * 3600


async def test_ten_retries_are_eleven_deliveries(home: Home) -> None:
    await make(home, retry_policy={"initial_backoff": "0s"})
    await home.queue.publish("tasks/image", b"poison")
    for attempt in range(1, 12):
        [message] = await home.queue.lease("tasks/image", group="workers-v1", wait=10)
        assert message.attempt == attempt
        await message.nack("template is broken")
    assert await home.queue.lease("tasks/image", group="workers-v1") == []
    [letter] = (await home.get(f"{DOLLARS}/dlq"))["messages"]
    assert (letter["failure_reason"], letter["retry_count"], letter["error"]) == (
        "max_retries",
        10,
        "template is broken",
    )
    assert (letter["queue_name"], letter["dlq_topic"]) == ("$queue/tasks/image", "$queue/dlq/tasks/image")
    assert (letter["payload"], letter["group"]) == ("cG9pc29u", "workers-v1")
    retried = await home.post(f"{DOLLARS}/dlq/{letter['id']}/retry", None)
    assert retried["retried"] is True
    [again] = await home.queue.lease("tasks/image", group="workers-v1")
    assert (again.value, again.attempt) == (b"poison", 1)
    assert (await home.get(f"{DOLLARS}/dlq"))["messages"] == []
    await home.post(f"{DOLLARS}/dlq/{letter['id']}/retry", None, 404)
    await home.post(f"{DOLLARS}/dlq/nonsense/retry", None, 400)
    await home.post(f"{DOLLARS}/dlq/{again.id}/retry", None, 404)  # a message that is no dead letter


async def test_dead_letters_are_listed_up_to_a_limit_and_by_group(home: Home) -> None:
    await make(home)
    await home.queue.publish_many("tasks/image", [b"a", b"b", b"c"])
    for group in ("one", "two"):
        await home.queue.reject(await home.queue.lease("tasks/image", group=group, max_messages=3))
    assert (await home.get(f"{DOLLARS}/dlq"))["total"] == 6
    assert (await home.get(f"{DOLLARS}/dlq", limit=2))["total"] == 2
    assert {each["group"] for each in (await home.get(f"{DOLLARS}/dlq", group="two"))["messages"]} == {"two"}
    await home.get(f"{DOLLARS}/dlq", 400, limit=0)


async def test_only_a_dead_letter_of_the_queue_is_retried(home: Home) -> None:
    await make(home)
    await home.queue.publish("tasks/image", b"a")
    [message] = await home.queue.lease("tasks/image", group="workers-v1")
    forged = {"ortoo-origin": message.id, "ortoo-group": "workers-v1"}
    await home.queue.publish("elsewhere", b"x", headers=forged)
    [other] = await home.queue.lease("elsewhere")
    await home.post(f"{DOLLARS}/dlq/{other.id}/retry", None, 404)
    assert (await home.queue.group("tasks/image", "workers-v1")).leased == 1


async def test_statistics_consumers_and_metrics_are_true(home: Home) -> None:
    await make(home, partitions=2)
    for value in (b"a", b"b", b"c"):
        await home.queue.publish("tasks/image", value, partition=0)
    found = await home.queue.lease("tasks/image", group="workers-v1", consumer="worker-1", max_messages=2)
    await home.queue.ack(found[0])
    await home.queue.reject(found[1])
    told = await home.get(f"{DOLLARS}/stats")
    assert (told["depth"], told["enqueue_total"], told["dequeue_total"]) == (1, 3, 2)
    assert (told["ack_total"], told["nack_total"], told["dlq_total"]["rejected"]) == (1, 0, 1)
    assert (told["groups"][0]["group"], told["groups"][0]["dlq"], told["active_consumers"]) == ("workers-v1", 1, 1)
    assert told["partitions"][0]["end_offset"] == 3
    listed = await home.get(f"{DOLLARS}/consumers")
    assert listed["consumers"] == [{"consumer_id": "worker-1", "group": "workers-v1", "partitions": [0, 1]}]
    text = (await home.own.get("/metrics")).text
    queue = 'queue="$queue/tasks/image"'
    for line in (
        f"mqtt_queue_depth{{{queue}}} 1",
        f"mqtt_queue_enqueue_total{{{queue}}} 3",
        f"mqtt_queue_ack_total{{{queue}}} 1",
        f'mqtt_queue_dlq_total{{{queue},reason="rejected"}} 1',
        f'mqtt_queue_dlq_total{{{queue},reason="max_retries"}} 0',
        f'mqtt_queue_active_consumers{{{queue},group="workers-v1"}} 1',
    ):
        assert line in text
    assert 'mqtt_queue_enqueue_total{queue="$queue/dlq/tasks/image"} 1' in text
    assert "# TYPE mqtt_queue_delivery_latency_seconds summary" in text


async def test_a_queue_is_purged(home: Home) -> None:
    await make(home)
    await home.queue.publish_many("tasks/image", [b"a", b"b"])
    assert await home.post(f"{DOLLARS}/purge", None) == {"name": "$queue/tasks/image", "purged": 2}
    assert (await home.get(f"{DOLLARS}/stats"))["messages"] == 0


async def test_probes_on_its_own_port(home: Home) -> None:
    assert (await home.own.get("/health")).json() == {"status": "ok"}
    assert (await home.own.get("/ready")).json() == {"status": "ready"}
    async with serving(MQTT_QUEUES, reason="the disk is full") as full:
        answer = await full.own.get("/ready")
        assert (answer.status_code, answer.json()["reason"]) == (503, "the disk is full")


# -- what it refuses


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "tasks/image"},
        {"name": "$queue/"},
        {"name": "$queue/x", "partitions": 0},
        {"name": "$queue/x", "partitions": 1001},
        {"name": "$queue/x", "partitions": "ten"},
        {"name": "$queue/x", "ordering": "sorted"},
        {"name": "$queue/x", "retry_policy": {"max_retries": -2}},
        {"name": "$queue/x", "retry_policy": {"initial_backoff": "soon"}},
        {"name": "$queue/x", "retry_policy": {"initial_backoff": -1}},
        {"name": "$queue/x", "retry_policy": {"backoff_multiplier": 0.5}},
        {"name": "$queue/x", "dlq_config": {"topic": "elsewhere"}},
        {"name": "$queue/x", "dlq_config": {"alert_webhook": "ftp://x"}},
        {"name": "$queue/x", "limits": {"max_message_size": 10**30}},
        {"name": "$queue/x", "limits": {"max_queue_depth": -1}},
        {"name": "$queue/" + "x" * 300},
        {"name": "$queue/\u0000"},
        {"name": 7},
        [],
        "queue",
    ],
)
async def test_a_queue_that_makes_no_sense_is_refused_and_not_made(home: Home, body: Any) -> None:
    assert (await home.post("/api/v1/queues", body, 400))["error"]
    assert await home.queue.topics() == []


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"name": "$queue/x"', b"[" * 100_000])
async def test_a_body_that_is_no_json_is_refused(home: Home, text: bytes) -> None:
    answer = await home.web.post("/api/v1/queues", content=text)
    assert (answer.status_code, sorted(answer.json())) == (400, ["code", "error"])


async def test_what_cannot_be_changed_is_refused(home: Home) -> None:
    await make(home)
    for body in ({"ordering": "none"}, {"partitions": 3}, {"name": "$queue/other"}):
        assert (await home.web.put(f"{DOLLARS}/config", json=body)).status_code == 400
    assert (await home.web.put("/api/v1/queues/nothing/config", json={})).status_code == 404
    answer = await home.web.post(f"{DOLLARS}/config", json={})
    assert (answer.status_code, answer.json()["code"]) == (405, "invalid")


async def test_unknown_fields_are_passed_over(home: Home) -> None:
    assert (await make(home, owner="ann"))["name"] == "$queue/tasks/image"


async def test_every_route_has_a_sample() -> None:
    routes = {(route.method, route.path) for route in (*MQTT_QUEUES.routes, *MQTT_QUEUES.own_routes)}
    assert routes == SAMPLES.keys()


async def test_a_client_is_in_the_namespace_of_its_token() -> None:
    async with serving(MQTT_QUEUES, access=Roles()) as home:
        admin = {"authorization": "Bearer admin"}
        made = await home.web.post("/api/v1/queues", json={"name": "$queue/orders"}, headers=admin)
        assert made.status_code == 201
        assert [info.name for info in await home.queue.topics(namespace="payments")] == ["orders"]
        assert (await home.web.get("/api/v1/queues", headers={"authorization": "Bearer nobody"})).status_code == 403
        assert (await home.web.get("/api/v1/queues")).status_code == 401
        theirs = await home.web.get("/api/v1/queues", headers={"authorization": "Bearer stranger"})
        assert theirs.json() == {"queues": [], "total": 0}
