"""Requests as GoQueue's document, its clients and its load tests write them, with their answers."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic
from tests.dialects.goqueue.home import Home


async def join(home: Home, group: str = "processors", topics: tuple[str, ...] = ("orders",)) -> dict[str, Any]:
    joined: dict[str, Any] = await home.post(
        f"/groups/{group}/join", {"client_id": "worker-1", "topics": list(topics), "session_timeout": "30s"}
    )
    return joined


async def poll(home: Home, member: dict[str, Any], group: str = "processors", **query: Any) -> dict[str, Any]:
    query = {"member_id": member["member_id"], "timeout": "0s", **query}
    found: dict[str, Any] = await home.get(f"/groups/{group}/poll", **query)
    return found


async def polled(home: Home, member: dict[str, Any], group: str = "processors", **query: Any) -> list[dict[str, Any]]:
    """As its clients poll: a list."""
    found: list[dict[str, Any]] = (await poll(home, member, group, max_messages=100, **query))["messages"]
    return found


async def publish(home: Home, *values: str, topic: str = "orders", **more: Any) -> list[dict[str, Any]]:
    messages = [{"value": value, **more} for value in values]
    found: list[dict[str, Any]] = (await home.post(f"/topics/{topic}/messages", {"messages": messages}))["results"]
    return found


# -- topics


async def test_a_topic_is_made_shown_and_deleted(home: Home) -> None:
    wanted = {"name": "orders", "num_partitions": 3, "retention_hours": 24}
    assert await home.post("/topics", wanted, 201) == {"name": "orders", "partitions": 3, "created": True}
    assert "exists" in (await home.post("/topics", wanted, 409))["code"]
    config = (await home.queue.topic("orders")).config
    assert (config.partitions, config.retention_seconds, config.max_attempts) == (3, 86_400.0, 4)
    assert (config.ordering, config.lease) == ("key", 30.0)
    await publish(home, "tea", "milk", partition=1)
    shown = await home.get("/topics/orders")
    assert (shown["name"], shown["partitions"], shown["total_messages"]) == ("orders", 3, 2)
    assert shown["partition_offsets"]["1"] == {"earliest": 0, "latest": 2}
    assert (await home.own.get("/topics")).json() == {"topics": ["orders"]}
    assert (await home.get("/topics/orders/partitions"))["partitions"][2]["leader"] == "ortoo"
    deleted = await home.web.delete("/topics/orders")
    assert deleted.json() == {"name": "orders", "deleted": True}
    assert "error" in await home.get("/topics/orders", 404)


async def test_what_is_left_out_has_its_default(home: Home) -> None:
    assert (await home.post("/topics", {"name": "plain"}, 201))["partitions"] == 6
    assert (await home.post("/topics", {"name": "zero", "num_partitions": 0}, 201))["partitions"] == 6
    assert (await home.queue.topic("plain")).config.retention_seconds == 7 * 86_400


# -- publishing


async def test_the_documents_first_message(home: Home) -> None:
    """curl -X POST .../v1/topics/orders/publish; nobody has made the topic."""
    body = {"key": "order-123", "value": "eyJvcmRlcl9pZCI6MTIzfQ==", "delay": "5m"}
    answer = await home.post("/v1/topics/orders/publish", body)
    assert (answer["delayed"], answer["priority"]) == (True, "normal")
    due = datetime.fromisoformat(answer["deliverAt"])
    assert timedelta(minutes=4) < due - datetime.now(UTC) < timedelta(minutes=6)
    page = await home.get(f"/topics/orders/partitions/{answer['partition']}/messages")
    assert page["messages"][0]["value"] == '{"order_id":123}'
    assert page["messages"][0]["key"] == "order-123"
    assert len((await home.queue.topic("orders")).partitions) == 6


async def test_a_batch_has_a_result_for_each_message(home: Home) -> None:
    messages = [
        {"key": "user-123", "value": "a", "priority": "high"},
        {"value": "b", "priority": 0},
        {"value": "c", "partition": 2},
        {"value": "d", "delay": "1h"},
        {"value": "e", "deliverAt": "2035-12-25T09:00:00Z", "priority": "background"},
        {"value": "f", "deliverAt": "2001-01-01T00:00:00Z"},
    ]
    results = (await home.post("/topics/orders/messages", {"messages": messages}))["results"]
    assert [each["priority"] for each in results] == ["high", "critical", "normal", "normal", "background", "normal"]
    assert results[2]["partition"] == 2
    assert [each.get("delayed", False) for each in results] == [False, False, False, True, True, False]
    assert results[4]["deliverAt"] == "2035-12-25T09:00:00Z"
    assert all("error" not in each for each in results)


async def test_what_is_wrong_with_one_message_is_told_and_the_others_are_published(home: Home) -> None:
    messages = [
        {"value": "good"},
        {"value": "x", "priority": "urgent"},
        {"value": "x", "delay": "soon"},
        {"value": "x", "deliverAt": "tomorrow"},
        {"value": "x", "key": "k" * 5000},
        {"value": "good too", "key": "k"},
    ]
    results = (await home.post("/topics/orders/messages", {"messages": messages}))["results"]
    assert [bool(each.get("error")) for each in results] == [False, True, True, True, True, False]
    assert (await home.queue.topic("orders")).messages == 2
    assert all("error" in each for each in await publish(home, "x", priority="urgent"))
    assert (await home.queue.topic("orders")).messages == 2


async def test_priorities_are_lanes(home: Home) -> None:
    await home.post("/topics", {"name": "orders", "num_partitions": 1}, 201)
    names = ["background", "low", "normal", "high", "critical"]
    await home.post("/topics/orders/messages", {"messages": [{"value": name, "priority": name} for name in names]})
    found = await polled(home, await join(home))
    assert [each["value"] for each in found] == names[::-1]
    assert [each["priority"] for each in found] == names[::-1]


async def test_the_names_of_priorities_have_any_case(home: Home) -> None:
    assert (await publish(home, "x", priority="CRITICAL"))[0]["priority"] == "critical"


# -- groups and polls


async def test_joining_tells_what_the_server_and_the_clients_call_it(home: Home) -> None:
    await home.post("/topics", {"name": "orders", "num_partitions": 2}, 201)
    joined = await join(home)
    assert joined["member_id"].startswith("worker-1-")
    assert (joined["generation"], joined["partitions"]) == (1, [0, 1])
    assert joined["assigned_partitions"] == ["orders-0", "orders-1"]
    assert joined["leader_id"] == joined["leader"] == joined["member_id"]
    assert joined["members"] == [joined["member_id"]]
    assert "error" in await home.post("/groups/g/join", {"client_id": "w", "topics": ["nowhere"]}, 404)


async def test_a_poll_answers_by_partition(home: Home) -> None:
    await home.post("/topics", {"name": "orders", "num_partitions": 2}, 201)
    await publish(home, "a", "b", partition=0)
    await publish(home, "c", partition=1, key="user-1")
    member = await join(home)
    found = await poll(home, member, limit=10, generation=1)
    assert [each["value"] for each in found["messages"]["0"]] == ["a", "b"]
    [third] = found["messages"]["1"]
    assert (third["key"], third["offset"], third["topic"], third["attempt"]) == ("user-1", 0, "orders", 1)
    assert found["next_offset"] == {"0": 2, "1": 1}
    assert await poll(home, member) == {"messages": {}, "next_offset": {}}


async def test_a_client_that_gives_max_messages_reads_a_list(home: Home) -> None:
    await publish(home, "a", "b", "c")
    member = await join(home)
    found = (await poll(home, member, max_messages=2))["messages"]
    assert len(found) == 2
    assert {"topic", "partition", "offset", "value", "timestamp", "receipt_handle"} <= found[0].keys()


async def test_a_poll_waits_for_a_message(home: Home) -> None:
    await home.post("/topics", {"name": "orders"}, 201)
    member = await join(home)
    waiting = asyncio.create_task(poll(home, member, timeout="30s", max_messages=1))
    while not home.broker.waiters:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await publish(home, "late")
    assert (await waiting)["messages"][0]["value"] == "late"


async def test_a_member_of_several_topics_gets_one_at_a_time(home: Home) -> None:
    for name in ("a", "b", "c"):
        await home.post("/topics", {"name": name, "num_partitions": 1}, 201)
    member = await join(home, topics=("a", "b", "c"))
    waiting = asyncio.create_task(polled(home, member, timeout="30s"))
    while len(home.broker.waiters) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await asyncio.gather(*(home.queue.publish(name, name) for name in ("a", "b", "c")))
    seen = await waiting
    for _ in range(2):
        seen += await polled(home, member)
    assert sorted(each["value"] for each in seen) == ["a", "b", "c"]
    assert all(each["attempt"] == 1 for each in seen)
    assert not home.broker.waiters


async def test_two_groups_have_all_messages_each(home: Home) -> None:
    await publish(home, "a", "b")
    for group in ("billing", "audit"):
        member = await join(home, group)
        assert {each["value"] for each in await polled(home, member, group)} == {"a", "b"}
    assert (await home.get("/groups"))["groups"] == ["audit", "billing"]


async def test_heartbeat_leave_and_what_there_is(home: Home) -> None:
    await publish(home, "a")
    member = await join(home)
    beat = {"member_id": member["member_id"], "generation": 1}
    assert await home.post("/groups/processors/heartbeat", beat) == {
        "status": "ok",
        "rebalance_required": False,
        "state": "stable",
    }
    shown = await home.get("/groups/processors")
    assert (shown["id"], shown["state"], shown["topics"]) == ("processors", "stable", ["orders"])
    assert [each["client_id"] for each in shown["members"]] == ["worker-1"]
    assert len(await polled(home, member)) == 1
    assert (await home.post("/groups/processors/leave", {"member_id": member["member_id"]}))["left"] is True
    again = await polled(home, await join(home))
    assert [(each["value"], each["attempt"]) for each in again] == [("a", 1)]  # returned, uncounted
    assert (await home.web.delete("/groups/processors")).json()["deleted"] is True
    assert (await home.queue.topic("orders")).groups == []
    assert "error" in await home.get("/groups/processors", 404)


async def test_cooperative_members_are_members(home: Home) -> None:
    await publish(home, "a")
    body = {"client_id": "w", "topics": ["orders"]}
    member = await home.post("/groups/g/join/cooperative", body)
    await home.post("/groups/g/heartbeat/cooperative", {"member_id": member["member_id"], "generation": 1})
    found = await home.get("/groups/g/assignment", member_id=member["member_id"])
    assert found["assigned_partitions"] == member["assigned_partitions"]
    await home.post("/groups/g/leave/cooperative", {"member_id": member["member_id"]})


async def test_offsets_tell_how_far_a_group_is_and_reset_moves_it(home: Home) -> None:
    await home.post("/topics", {"name": "orders", "num_partitions": 1}, 201)
    await publish(home, "a", "b", "c")
    member = await join(home)
    first = (await polled(home, member))[0]
    await home.post("/messages/ack", {"receipt_handle": first["receipt_handle"]})
    told = await home.get("/groups/processors/offsets")
    assert told["topics"] == told["offsets"] == {"orders": {"0": 1}}
    assert (await home.get("/groups/processors/offsets", topic="orders"))["offsets"] == {"orders": {"0": 1}}
    reset = {"topic": "orders", "partition": -1, "strategy": "latest"}
    moved = await home.post("/groups/processors/offsets/reset", reset)
    assert (moved["reset_count"], moved["new_offsets"][0]["offset"]) == (1, 3)
    await home.post("/groups/processors/offsets/reset", {"topic": "orders", "strategy": "earliest"})
    assert len(await polled(home, member)) == 3


async def test_a_commit_acknowledges_everything_before_it(home: Home) -> None:
    await home.post("/topics", {"name": "orders", "num_partitions": 2}, 201)
    await publish(home, *"abcdef", partition=0)
    await publish(home, *"xyz", partition=1)
    member = await join(home)
    assert len((await poll(home, member, limit=4))["messages"]["0"]) == 4
    body = {"member_id": member["member_id"], "generation": 1, "offsets": {"orders": {"0": 3}}}
    told = await home.post("/groups/processors/offsets", body)
    assert (told["status"], told["offsets"]) == ("committed", {"orders": {"0": 3}})
    assert (await home.get("/groups/processors/offsets"))["offsets"] == {"orders": {"0": 3, "1": 0}}
    other = await join(home)
    listed = [
        {"topic": "orders", "partition": 0, "offset": 6},  # of which one is leased, and two are not
        {"topic": "orders", "partition": 1, "offset": 2},
    ]
    await home.post("/groups/processors/offsets", {"member_id": other["member_id"], "offsets": listed})
    assert (await home.get("/groups/processors/offsets"))["offsets"] == {"orders": {"0": 6, "1": 2}}
    body["offsets"] = {"orders": {"0": 1}}  # nothing comes again
    await home.post("/groups/processors/offsets", body)
    assert [(each["value"], each["attempt"]) for each in await polled(home, member)] == [("z", 1)]


# -- settling


async def test_an_ack_settles_and_works_from_anywhere(home: Home) -> None:
    await publish(home, "a")
    [message] = await polled(home, await join(home))
    told = (await home.own.post("/messages/ack", json={"receipt_handle": message["receipt_handle"]})).json()
    assert (told["success"], told["acknowledged"], told["topic"]) == (True, True, "orders")
    assert (await home.queue.group("orders", "processors")).backlog == 0


async def test_a_nack_is_retried_three_times_and_then_dead(home: Home) -> None:
    await publish(home, "poison")
    member = await join(home)
    for attempt in (1, 2, 3, 4):
        [message] = await polled(home, member, timeout="10s")
        assert message["attempt"] == attempt
        body = {"receipt_handle": message["receipt_handle"], "reason": "database timeout", "delay": "0s"}
        told = await home.post("/messages/nack", body)
        assert told["delivery_count"] == attempt
        assert told["action"] == ("dlq" if attempt == 4 else "requeued")
    assert told["dlq_topic"] == "orders.dlq"
    [letter] = await home.queue.dead_letters("orders")
    assert (letter.value, letter.headers["ortoo-error"]) == (b"poison", "database timeout")


async def test_the_attempt_that_a_handle_tells_is_not_believed(home: Home) -> None:
    await publish(home, "x")
    [message] = await polled(home, await join(home))
    topic, partition, offset, attempt, lease = message["receipt_handle"].split(":")
    assert attempt == "1"
    told = await home.post("/messages/nack", {"receipt_handle": f"{topic}:{partition}:{offset}:99:{lease}"})
    assert (told["action"], told["requeued"], told["delivery_count"]) == ("requeued", True, 1)
    assert await home.queue.dead_letters("orders") == []


async def test_a_reject_goes_to_the_dead_letters_at_once(home: Home) -> None:
    await publish(home, "bad")
    [message] = await polled(home, await join(home))
    body = {"receipt_handle": message["receipt_handle"], "reason": "invalid order format"}
    told = await home.post("/messages/reject", body)
    assert (told["rejected"], told["dlq_topic"], told["reason"]) == (True, "orders.dlq", "invalid order format")
    assert len(await home.queue.dead_letters("orders")) == 1


@pytest.mark.parametrize("more", [{"extension_seconds": 60}, {"timeout": "60s"}, {"timeout": "1m"}])
async def test_visibility_is_extended(home: Home, more: dict[str, Any]) -> None:
    await publish(home, "slow")
    [message] = await polled(home, await join(home))
    told = await home.post("/messages/visibility", {"receipt_handle": message["receipt_handle"], **more})
    assert (told["success"], told["extended"], told["extended_by"]) == (True, True, 60)


async def test_many_are_acknowledged_at_once(home: Home) -> None:
    await publish(home, *map(str, range(50)))
    found = await polled(home, await join(home))
    handles = [each["receipt_handle"] for each in found]
    assert len(handles) == 50
    told = await home.post("/messages/ack", {"receipt_handles": handles})
    assert (told["success"], len(told["results"])) == (True, 50)
    assert (await home.queue.group("orders", "processors")).backlog == 0
    mixed = await home.post("/messages/nack", {"receipt_handles": [*handles[:1], "nonsense", "orders:0:99:1:9.9.9"]})
    assert [each["success"] for each in mixed["results"]][1:] == [False, False]
    assert mixed["success"] is False


# -- delays


async def test_delayed_messages_are_listed_and_cancelled(home: Home) -> None:
    await home.post("/topics", {"name": "orders", "num_partitions": 1}, 201)
    await publish(home, "now")
    await publish(home, "later", delay="1h")
    for has_group in (False, True):
        if has_group:
            await join(home)
        listed = await home.get("/topics/orders/delayed", limit=10)
        assert (listed["count"], listed["messages"][0]["offset"], listed["messages"][0]["state"]) == (1, 1, "pending")
        assert listed["messages"][0]["time_remaining"].startswith(("59m", "1h"))
    assert (await home.get("/topics/orders/delayed/1"))["partition"] == 0
    await home.get("/topics/orders/delayed/0", 404)
    assert (await home.get("/delay/stats"))["by_topic"] == {"orders": 1}
    cancelled = await home.web.delete("/topics/orders/delayed/0/1")
    assert cancelled.json()["canceled"] is True
    assert (await home.web.delete("/topics/orders/delayed/0/1")).status_code == 404
    assert (await home.web.delete("/topics/orders/delayed/0/0")).status_code == 404
    assert (await home.get("/topics/orders/delayed"))["messages"] == []


# -- its load tests


async def test_its_load_tests_run(home: Home) -> None:
    config = {"name": "load-test", "partitions": 8, "replicationFactor": 3, "config": {"retention.ms": 86_400_000}}
    assert (await home.post("/api/v1/topics", config, 201))["partitions"] == 8
    assert (await home.queue.topic("load-test")).config.retention_seconds == 86_400
    produced = {"id": "x1", "timestamp": 1_700_000_000_000, "payload": "y", "metadata": {"vu": 1}}
    await home.post("/api/v1/topics/load-test/messages", produced)
    found = await home.get("/api/v1/topics/load-test/consume", group="k6-consumer-group", timeout=1000)
    [message] = found["messages"]
    assert isinstance(message["timestamp"], int)
    acked = {"messageId": message["id"], "group": "k6-consumer-group"}
    assert (await home.post("/api/v1/topics/load-test/ack", acked))["success"] is True
    await home.get("/api/v1/topics/load-test/consume", 204, group="k6-consumer-group", timeout=0)
    [stored] = [each async for each in home.queue.read("load-test")]
    assert stored.json() == produced


async def test_the_load_tests_path_also_takes_batches_and_single_messages(home: Home) -> None:
    path = "/api/v1/topics/orders/messages"
    assert len((await home.post(path, {"messages": [{"value": "a"}, {"value": "b"}]}))["results"]) == 2
    assert "offset" in await home.post(path, {"value": "c", "key": "k", "priority": "high"})
    assert sorted([each.value async for each in home.queue.read("orders")]) == [b"a", b"b", b"c"]


# -- watching


async def test_statistics_are_true(home: Home) -> None:
    await publish(home, "a", "b", priority="high")
    await publish(home, "c")
    found = await polled(home, await join(home))
    await home.post("/messages/ack", {"receipt_handle": found[0]["receipt_handle"]})
    await home.post("/messages/reject", {"receipt_handle": found[1]["receipt_handle"], "reason": "no"})
    await home.post("/messages/nack", {"receipt_handle": found[2]["receipt_handle"], "delay": "0s"})
    told = await home.get("/stats")
    assert (told["topics"], sorted(told["topic_list"])) == (2, ["orders", "orders.dlq"])
    assert told["topic_stats"]["orders"]["messages"] == 3
    told = await home.get("/reliability/stats")
    assert (told["acks_total"], told["nacks_total"], told["rejects_total"], told["dlq_messages"]) == (1, 1, 1, 1)
    assert told["dlq"]["routes_by_reason"]["rejected"] == 1
    told = await home.get("/priority/stats")
    assert sum(told["messages_by_priority"].values()) == 1
    text = (await home.own.get("/metrics")).text
    assert 'goqueue_messages_published_total{topic="orders"} 3' in text
    assert 'goqueue_broker_messages_acked_total{topic="orders"} 1' in text
    assert 'goqueue_consumer_lag{topic="orders",consumer_group="processors"} 1' in text
    assert "goqueue_publish_latency_seconds_bucket" in text


async def test_traces_tell_what_happened(home: Home) -> None:
    await publish(home, "a")
    await publish(home, "b")
    found = await polled(home, await join(home))
    await home.post("/messages/ack", {"receipt_handle": found[0]["receipt_handle"]})
    await home.post("/messages/reject", {"receipt_handle": found[1]["receipt_handle"], "reason": "no"})
    listed = await home.get("/traces/search", topic="orders")
    assert sorted(each["status"] for each in listed["traces"]) == ["completed", "error"]
    [completed] = (await home.get("/traces/search", topic="orders", status="completed"))["traces"]
    assert len(completed["trace_id"]) == 32
    trace = await home.get(f"/traces/{completed['trace_id']}")
    kinds = [each["event_type"] for each in trace["spans"]]
    assert kinds == ["publish.received", "consume.delivered", "ack"]
    assert trace["spans"] == trace["events"]
    assert trace["spans"][1]["consumer_group"] == "processors"
    assert (await home.get("/traces", limit=1))["total"] == 1
    since = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (await home.get("/traces/search", topic="orders", start=since))["traces"] == []
    assert (await home.get("/traces/search", topic="orders", consumer_group="others"))["traces"] == []
    assert (await home.get("/traces/stats"))["traces_completed"] == 1
    await home.get("/traces/4bf92f3577b34da6a3ce929d0e0e4736", 404)
    await home.get("/traces/msg-abc123", 400)


async def test_probes_on_its_own_port(home: Home) -> None:
    assert (await home.own.get("/health")).json()["status"] == "ok"
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await home.own.get(path)).json()["status"] == "pass"
    assert "checks" in (await home.own.get("/readyz", params={"verbose": "true"})).json()
    assert (await home.own.get("/version")).json()["server"] == "ortoo"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/schemas/subjects"),
        ("POST", "/schemas/subjects/orders/versions"),
        ("PUT", "/schemas/config"),
        ("GET", "/schemas/subjects/orders/versions/latest"),
        ("POST", "/schemas/compatibility/subjects/orders/versions/1"),
        ("GET", "/admin/tenants"),
        ("POST", "/admin/topics/orders/partitions"),
        ("POST", "/transactions/begin"),
        ("GET", "/transactions"),
        ("POST", "/producers/init"),
        ("POST", "/producers/7/heartbeat"),
        ("GET", "/cluster/state"),
        ("GET", "/rebalance/stats"),
    ],
)
async def test_what_is_not_served_says_where_to_look(home: Home, method: str, path: str) -> None:
    answer = await home.web.request(method, path, json={"x": 1} if method in ("POST", "PUT") else None)
    assert (answer.status_code, answer.json()["code"]) == (501, "unsupported")
    assert answer.json()["error"]


async def test_on_its_own_port_it_has_the_paths_that_are_ours_elsewhere(home: Home) -> None:
    made = await home.own.post("/v1/topics", json={"name": "orders", "num_partitions": 2})
    assert (made.status_code, made.json()["created"]) == (201, True)
    published = await home.own.post("/v1/topics/orders/messages", json={"messages": [{"value": "a"}]})
    assert published.json()["results"][0]["priority"] == "normal"
    ours = await home.web.post("/v1/topics/orders/messages", json={"messages": [{"value": "b"}]})
    assert ours.status_code == 201
    assert "id" in ours.json()["results"][0]
    assert (await home.own.get("/v1/topics/orders")).json()["total_messages"] == 2
    assert (await home.own.delete("/v1/topics/orders")).json()["deleted"] is True


# -- the same queue


async def test_what_it_publishes_is_leased_over_tcp_and_the_other_way_round(home: Home) -> None:
    async with home.connect() as queue:
        await home.post("/v1/topics/orders/publish", {"key": "k", "value": b64encode(b"\xff\x00").decode()})
        [message] = await queue.lease("orders", group="processors")
        assert (message.value, message.key) == (b"\xff\x00", "k")
        await message.ack()
        await queue.publish("orders", {"item": "tea"}, key="k", priority="low", headers={"a": "b"})
        member = await join(home)
        [message2] = await polled(home, member)
        assert (message2["value"], message2["priority"], message2["headers"]) == ('{"item":"tea"}', "low", {"a": "b"})
        await home.post("/messages/ack", {"receipt_handle": message2["receipt_handle"]})
        await queue.publish("orders", b"\xff\xfe")
        [message3] = await polled(home, member)
        assert (message3["value"], message3["encoding"]) == ("//4=", "base64")
    info = await home.queue.group("orders", "processors")
    assert (info.backlog, info.leased) == (1, 1)
    assert (await home.broker.ask(GetTopic(TopicName("default", "orders")))).messages == 3
