"""Do queues behave as Queen's document says, for clients of both generations?"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from ortoo.model.settings import HttpSettings
from ortoo.stores.disk.crypto import KeyRing
from ortoo.stores.disk.files import RealDisk
from ortoo.stores.disk.store import DiskStore
from ortoo.testing import ManualClock
from tests.dialects.queen.home import API, Home, serving


def on_disk(path: Path) -> DiskStore:
    return DiskStore(RealDisk(path), KeyRing({}), in_threads=False)


def data(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["data"] for message in messages]


# -- order and locks


async def test_the_order_of_a_push_is_kept(home: Home) -> None:
    await home.push("q", *range(50), partition="p")
    assert data(await home.pop("q", batch=50)) == list(range(50))


async def test_a_partition_is_locked_until_all_is_acked(home: Home) -> None:
    await home.push("q", 1, 2, 3, partition="a")
    await home.push("q", 4, partition="b")
    first = await home.pop("q", batch=2)
    assert data(first) == [1, 2]
    assert data(await home.pop("q", batch=10)) == [4]
    assert await home.pop("q", batch=10) == []
    assert await home.pop("q", "a", batch=10) == []
    await home.ack(first[0])
    assert await home.pop("q", "a") == []
    await home.ack(first[1])
    assert data(await home.pop("q", "a")) == [3]


async def test_a_lease_that_runs_out_unlocks_and_counts() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await home.configure("q", {"leaseTime": 5})
        await home.push("q", 1)
        [message] = await home.pop("q")
        await clock.advance(6)
        [again] = await home.pop("q")
        assert (again["retryCount"], again["id"]) == (1, message["id"])
        assert await home.later_ack(message) == [
            {
                "index": 0,
                "transactionId": message["transactionId"],
                "success": False,
                "status": "not_found",
                "error": "Invalid or expired lease: the message is not leased any more",
            }
        ]
        assert (await home.later_ack(again))[0]["success"] is True


async def test_a_pop_takes_of_one_partition_at_a_time(home: Home) -> None:
    for partition in ("a", "b", "c"):
        await home.push("q", partition + "1", partition + "2", partition=partition)
    assert data(await home.pop("q", batch=10)) == ["a1", "a2"]
    assert data(await home.pop("q", batch=3, partitions=5)) == ["b1", "b2", "c1"]


async def test_queue_mode_and_groups_are_apart(home: Home) -> None:
    await home.push("q", 1, 2)
    for query in ({}, {"consumerGroup": "a"}, {"consumer_group": "b"}, {"consumerGroup": "c"}):
        messages = await home.pop("q", batch=5, **query)
        assert data(messages) == [1, 2]
    [first, _] = messages
    assert (await home.ack(first))["status"] == "completed"  # in queue mode
    info = await home.queue.group("q", "c")
    assert info.leased == 2
    assert (await home.ack(first, consumerGroup="c"))["consumerGroup"] == "c"
    assert (await home.queue.group("q", "c")).leased == 1


async def test_where_a_group_begins(home: Home) -> None:
    await home.push("q", 1)
    assert await home.pop("q", consumerGroup="new", subscriptionMode="new") == []
    assert await home.pop("q", consumerGroup="now", subscriptionFrom="now") == []
    since = {"subscriptionFrom": "2020-01-01T00:00:00Z"}
    assert data(await home.pop("q", consumerGroup="since", **since)) == [1]
    assert await home.pop("q", consumerGroup="future", subscriptionFrom="2120-01-01T00:00:00Z") == []
    assert data(await home.pop("q", consumerGroup="all")) == [1]
    await home.push("q", 2, partition="x")
    assert data(await home.pop("q", consumerGroup="new")) == [2]
    assert data(await home.pop("q", consumerGroup="now")) == [2]


async def test_messages_can_be_completed_before_their_lease_ends_only_once(home: Home) -> None:
    await home.push("q", 1)
    [message] = await home.pop("q", autoAck="true")
    assert message["leaseId"] is None
    assert await home.pop("q") == []
    assert (await home.queue.group("q")).backlog == 0


# -- failures


async def test_a_failed_message_comes_again_at_once(home: Home) -> None:
    await home.push("q", 1)
    for retries in range(6):  # without end, unless dead letters are asked for
        [message] = await home.pop("q")
        assert message["retryCount"] == retries
        assert (await home.ack(message, "failed", error="no"))["status"] == "failed"


async def test_dead_letters_come_after_the_retries(home: Home) -> None:
    await home.configure("q", {"retryLimit": 1, "dlqAfterMaxRetries": True})
    await home.push("q", {"n": 1}, transactionId="one", partition="p")
    for _ in range(2):
        [message] = await home.pop("q")
        await home.ack(message, "failed", error="broken")
    assert await home.pop("q") == []
    found = await home.get("/dlq", queue="q")
    [letter] = found["messages"]
    assert found["total"] == 1
    assert (letter["data"], letter["errorMessage"], letter["retryCount"]) == ({"n": 1}, "broken", 1)
    assert (letter["transactionId"], letter["partition"], letter["consumerGroup"]) == ("one", "p", "default")
    assert (await home.get("/dlq", queue="q", partition="other"))["total"] == 0
    assert (await home.get("/dlq", queue="q", to="2020-01-01T00:00:00Z"))["total"] == 0
    assert (await home.get("/dlq", queue="nosuch")) == {"messages": [], "total": 0}


async def test_each_message_of_a_failed_batch_counts(home: Home) -> None:
    await home.configure("q", {"retryLimit": 1, "dlqAfterMaxRetries": True})
    await home.push("q", 1, 2, 3)
    for _ in range(2):
        messages = await home.pop("q", batch=3)
        assert data(messages) == [1, 2, 3]
        acks = [{"transactionId": each["transactionId"], "status": "failed", "error": "no"} for each in messages]
        answer = await home.post("/ack/batch", {"acknowledgments": acks}, 200)
        assert [result["status"] for result in answer["results"]] == ["failed"] * 3
    assert await home.pop("q", batch=3) == []
    assert (await home.get("/dlq", queue="q"))["total"] == 3


async def test_what_was_completed_beside_a_failure_stays_so(home: Home) -> None:
    await home.push("q", 1, 2, 3)
    messages = await home.pop("q", batch=3)
    statuses = ["completed", "failed", "completed"]
    for generation in (1, 2):
        names = ("transactionId", "partitionId", "leaseId")[: 1 if generation == 1 else 3]
        pairs = zip(messages, statuses, strict=False)
        acks = [{name: each[name] for name in names} | {"status": status} for each, status in pairs]
        await home.post("/ack/batch", {"acknowledgments": acks}, 200)
        messages = await home.pop("q", batch=3)
        assert data(messages) == [2]
        assert messages[0]["retryCount"] == generation
        statuses = ["failed"]


async def test_a_message_can_go_to_the_dead_letters_at_once(home: Home) -> None:
    await home.push("q", 1)
    [message] = await home.pop("q")
    assert (await home.later_ack(message, "dlq", error="hopeless"))[0]["success"] is True
    [letter] = (await home.get("/dlq", queue="q"))["messages"]
    assert letter["errorMessage"] == "hopeless"


# -- ids


async def test_acks_work_after_a_restart_and_by_anybody(tmp_path: Path) -> None:
    async with serving(store=on_disk(tmp_path)) as home:
        await home.push("q", 1, 2, partition="a")
        await home.push("q", 3, transactionId="mine", partition="b")
        messages = await home.pop("q", batch=5, partitions=2)
    async with serving(store=on_disk(tmp_path)) as home:
        assert (await home.ack(messages[0]))["status"] == "completed"
        assert (await home.later_ack(messages[1]))[0]["success"] is True
        assert (await home.ack(messages[2]))["status"] == "completed"
        assert (await home.queue.group("q")).backlog == 0


async def test_a_message_that_is_passed_on_with_its_id_is_acked_itself(home: Home) -> None:
    [first] = await home.push("a", 1)
    [message] = await home.pop("a")
    await home.push("b", 2, transactionId=message["transactionId"])
    [again] = await home.push("b", 2, transactionId=message["transactionId"])
    assert again["status"] == "duplicate"
    [passed] = await home.pop("b")
    assert passed["transactionId"] != first["transactionId"]
    await home.ack(passed)
    assert (await home.queue.group("a")).leased == 1
    assert (await home.queue.group("b")).leased == 0


async def test_to_complete_twice_is_to_complete_once(home: Home) -> None:
    await home.push("q", 1)
    [message] = await home.pop("q")
    for _ in range(2):
        assert (await home.ack(message))["status"] == "completed"
    assert (await home.ack(message, "failed"))["status"] == "not_found"


async def test_the_same_transaction_id_in_two_queues(home: Home) -> None:
    for queue in ("a", "b"):
        await home.push(queue, queue, transactionId="same")
    [message] = await home.pop("b")
    assert (await home.later_ack(message))[0]["success"] is True
    assert (await home.queue.group("b")).backlog == 0
    [message] = await home.pop("a")
    assert (await home.ack(message))["status"] == "completed"


# -- payloads


@pytest.mark.parametrize("payload", ["null", "0", '""', "{}", "[1, 2]", '"é \\u00e9 🎵"', '{"a" : 1e400}', "1.0"])
async def test_payloads_are_kept_byte_for_byte(home: Home, payload: str) -> None:
    body = f'{{"items": [{{"queue": "q", "payload": {payload}}}]}}'
    response = await home.web.post(f"{API}/push", content=body.encode())
    assert response.status_code == 201, response.text
    response = await home.web.get(f"{API}/pop/queue/q")
    assert f'"data":{payload},"payload":{payload},'.encode() in response.content
    [message] = await home.queue.lease("q", group="another")
    assert message.value == payload.encode()


async def test_what_others_published_is_text_or_bytes(home: Home) -> None:
    await home.queue.create_topic("q")
    await home.queue.publish("q", "plain text", key="Default")
    await home.queue.publish("q", b"\xff\x00", key="Default")
    messages = await home.pop("q", batch=5)
    assert data(messages) == ["plain text", {"base64": base64.b64encode(b"\xff\x00").decode()}]


async def test_a_trace_id_travels_along(home: Home) -> None:
    trace = "9b2f4c1e-7d53-4d9e-8a55-0d7e4f3b9c11"
    [pushed] = await home.push("q", 1, traceId=trace)
    assert pushed["traceId"] == trace
    assert (await home.pop("q"))[0]["traceId"] == trace


# -- with others


async def test_messages_go_from_queen_to_us_and_back(home: Home) -> None:
    async with home.connect() as queue:
        await home.push("q", {"n": 1}, partition="ann")
        [message] = await queue.lease("q")
        assert (message.json(), message.key) == ({"n": 1}, "ann")
        await message.ack()
        assert await home.pop("q") == []
        await queue.publish("q", {"n": 2}, key="bob", dedup_id="two")
        [popped] = await home.pop("q")
        assert (popped["data"], popped["partition"], popped["transactionId"]) == ({"n": 2}, "bob", "two")
        assert (await home.ack(popped))["status"] == "completed"
        assert await queue.lease("q") == []


async def test_a_topic_in_another_order_can_be_popped(home: Home) -> None:
    await home.queue.create_topic("plain", ordering="none", partitions=1)
    await home.queue.publish("plain", {"n": 1})
    assert data(await home.pop("plain")) == [{"n": 1}]
    answer = await home.get("/pop/queue/plain/partition/p", 400)
    assert "ordering" in answer["error"]


async def test_one_push_to_several_queues_is_done_as_a_whole(home: Home) -> None:
    await home.configure("full", {"maxSize": 1})
    await home.push("full", 0)
    items = [{"queue": queue, "payload": queue} for queue in ("free", "full", "free")]
    await home.post("/push", {"items": items}, 503)
    assert await home.pop("free") == []
    await home.configure("full", {})
    answer = await home.post("/push", {"items": items}, 201)
    assert [message["status"] for message in answer["messages"]] == ["queued"] * 3
    assert data(await home.pop("free", batch=5)) == ["free", "free"]


@pytest.mark.parametrize(("generation", "is_list"), [("first", False), ("later", True), ("auto", None)])
async def test_the_generation_can_be_forced(generation: Any, is_list: bool | None) -> None:
    async with serving(settings=HttpSettings(queen_generation=generation)) as home:
        named = {"queue": "q", "payload": 1, "transactionId": "x"}
        bare = {"queue": "q", "payload": 1}
        bodies: list[Any] = [{"items": [named], "config": {}}, {"items": [named]}, {"items": [bare, named]}]
        kinds = [isinstance(await home.post("/push", body, 201), list) for body in bodies]
        assert kinds == ([False, True, False] if is_list is None else [is_list] * 3)


async def test_a_server_that_makes_no_topics_makes_none() -> None:
    async with serving(auto_create=False) as home:
        answer = await home.post("/push", {"items": [{"queue": "q", "payload": 1}]}, 404)
        assert "q" in answer["error"]


async def test_names_are_percent_decoded(home: Home) -> None:
    await home.push("a/b c", 1, partition="x/y?")
    assert data(await home.pop("a%2Fb%20c", "x%2Fy%3F")) == [1]


async def test_large_messages_are_popped_whole(home: Home) -> None:
    for letter in "abcdefgh":
        await home.push("q", letter * 1_000_000, partition="p")
    assert data(await home.pop("q", batch=20)) == [letter * 1_000_000 for letter in "abcdefgh"]


async def test_a_server_that_chooses_the_size_says_so(home: Home) -> None:
    """As the newest clients ask for."""
    for partition in ("a", "b"):
        await home.push("q", 1, 2, partition=partition)
    answer = await home.get("/pop/queue/q", autopilot="true", wait="false", timeout=1000)
    assert len(answer["messages"]) == 4
    assert answer["autopilot"] == {"batch": 100, "partitions": 10, "waitMs": 100}
