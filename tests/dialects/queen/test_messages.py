"""Can messages be looked at, and changed, one by one, as with Queen? And transactions of its later clients?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ortoo.dialects.queen.popping import transaction_ids
from ortoo.model.records import Record
from ortoo.model.replies import Columns
from ortoo.stores.disk import open_directory
from tests.dialects.queen.home import Home, serving


def data(answer: Any) -> list[Any]:
    return [message["data"] for message in answer["messages"]]


async def filled(home: Home) -> list[dict[str, Any]]:
    """One message in each state."""
    await home.configure("q", {"retryLimit": 0, "dlqAfterMaxRetries": True}, namespace="shop")
    for state in ("done", "dead", "leased", "waiting"):
        await home.push("q", state, partition=state, transactionId=f"id-{state}")
    popped = [(await home.pop("q", state))[0] for state in ("done", "dead", "leased")]
    await home.ack(popped[0])
    await home.ack(popped[1], "failed", error="broken")
    return popped


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("pending", ["waiting"]),
        ("processing", ["leased"]),
        ("completed", ["done"]),
        ("dead_letter", ["dead"]),
        ("failed", ["dead"]),
        (None, ["done", "dead", "leased", "waiting"]),
    ],
)
async def test_messages_are_listed_by_status(home: Home, status: str | None, found: list[str]) -> None:
    await filled(home)
    query = {} if status is None else {"status": status}
    for where in ({"queue": "q"}, {"namespace": "shop"}):
        answer = await home.get("/messages", **where, **query)
        assert data(answer) == found
    assert data(await home.get("/messages", queue="q", partition="leased")) == ["leased"]
    assert data(await home.get("/messages", queue="nosuch")) == []
    assert data(await home.get("/messages", namespace="nosuch")) == []


async def test_lists_have_pages(home: Home) -> None:
    await home.push("q", *range(10))
    assert data(await home.get("/messages", queue="q", limit=3)) == [0, 1, 2]
    assert data(await home.get("/messages", queue="q", limit=3, offset=8)) == [8, 9]
    await home.pop("q", "nosuch")  # makes the group
    assert data(await home.get("/messages", queue="q", limit=3, offset=2, status="pending")) == [2, 3, 4]


async def test_a_message_tells_its_state_in_each_group(home: Home) -> None:
    await home.push("q", 1, transactionId="x")
    await home.pop("q")
    assert (await home.get("/messages/x"))["status"] == "processing"
    await home.pop("q", "other", consumerGroup="g")
    message = await home.get("/messages/x")
    assert message["statuses"] == {"default": "processing", "g": "pending"}


async def test_a_message_is_deleted(home: Home) -> None:
    await home.push("q", 1, transactionId="x")
    assert await home.delete("/messages/x") == {"transactionId": "x", "success": True, "deleted": True}
    assert await home.pop("q") == []
    assert (await home.delete("/messages/x", 404))["error"]
    assert (await home.delete("/messages/nosuch", 404))["error"] == "Message not found"


async def test_a_message_is_delivered_again(home: Home) -> None:
    [done, dead, _] = await filled(home)
    for message in (done, dead):
        answer = await home.post(f"/messages/{message['transactionId']}/retry")
        assert (answer["retried"], answer["transactionId"]) == (True, message["transactionId"])
    assert [message["data"] for message in await home.pop("q", batch=5, partitions=5)] == ["done", "dead", "waiting"]
    assert (await home.get("/dlq", queue="q"))["total"] == 0
    assert (await home.post("/messages/nosuch/retry", None, 404))["error"] == "Message not found"


async def test_a_message_is_moved_to_the_dead_letters(home: Home) -> None:
    await filled(home)
    assert (await home.post("/messages/id-waiting/dlq"))["movedToDLQ"] is True
    assert await home.pop("q", "waiting") == []
    assert [letter["data"] for letter in (await home.get("/dlq", queue="q"))["messages"]] == ["dead", "waiting"]
    assert "pending in no group" in (await home.post("/messages/id-done/dlq", None, 400))["error"]


async def test_messages_beside_one(home: Home) -> None:
    await home.push("q", *range(30), partition="a")
    [one] = await home.push("q", "other", partition="b")
    messages = await home.pop("q", "a", batch=30)
    answer = await home.get(f"/messages/{messages[20]['transactionId']}/related")
    assert data(answer) == [15, 16, 17, 18, 19, 21, 22, 23, 24, 25]
    assert data(await home.get(f"/messages/{one['id']}/related")) == []


async def test_one_partition_is_emptied(home: Home) -> None:
    await home.push("q", 1, 2, partition="a")
    await home.push("q", 3, partition="b")
    answer = await home.delete("/queues/q/clear", partition="a")
    assert answer == {"cleared": True, "count": 2, "queue": "q", "partition": "a"}
    assert [message["data"] for message in await home.pop("q", batch=5, partitions=5)] == [3]
    assert (await home.delete("/queues/nosuch/clear", 404))["error"]


async def test_a_queue_is_deleted(home: Home) -> None:
    await home.push("q", 1)
    assert await home.delete("/resources/queues/q") == {"deleted": True, "queue": "q", "existed": True}
    assert await home.delete("/resources/queues/q") == {"deleted": True, "queue": "q", "existed": False}


# -- transactions


def step(message: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"type": "ack", "status": status} | {name: message[name] for name in ("transactionId", "partitionId")}


async def test_a_transaction_acks_and_pushes(home: Home) -> None:
    await home.push("a", 1, 2, 3, transactionId=None)
    messages = await home.pop("a", batch=3)
    items = [{"queue": "b", "payload": 10, "transactionId": "ten"}, {"queue": "c", "payload": 20}]
    body = {
        "operations": [step(messages[0]), {"type": "push", "items": items}, step(messages[1], "failed")],
        "requiredLeases": [messages[0]["leaseId"]],
    }
    answer = await home.post("/transaction", body, 200)
    assert answer["success"] is True
    assert [result["type"] for result in answer["results"]] == ["ack", "push", "push", "ack"]
    assert answer["results"][1]["transactionId"] == "ten"
    assert [message["data"] for message in await home.pop("b")] == [10]
    assert [message["data"] for message in await home.pop("c")] == [20]
    again = await home.pop("a", batch=3)
    assert [(message["data"], message["retryCount"]) for message in again] == [(2, 1), (3, 0)]


@pytest.mark.parametrize("leases", [[], ["1.1.1.0-0"]])
async def test_a_transaction_needs_the_leases_of_its_messages(home: Home, leases: list[str]) -> None:
    await home.push("a", 1)
    [message] = await home.pop("a")
    push = {"type": "push", "items": [{"queue": "b", "payload": 1}]}
    body = {"operations": [step(message), push], "requiredLeases": leases}
    answer = await home.post("/transaction", body, 200)
    assert answer["success"] is False
    assert "lease" in answer["error"]
    assert await home.pop("b") == []
    assert (await home.queue.group("a")).leased == 1


async def test_a_transaction_whose_lease_is_over_does_nothing(home: Home) -> None:
    await home.push("a", 1)
    [message] = await home.pop("a")
    await home.ack(message, "failed")
    push = {"type": "push", "items": [{"queue": "b", "payload": 1}]}
    body = {"operations": [step(message), push], "requiredLeases": [message["leaseId"]]}
    assert (await home.post("/transaction", body, 200))["success"] is False
    assert await home.pop("b") == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"operations": []},
        {"operations": [{"type": "nope"}]},
        {"operations": [{"type": "push", "items": []}]},
        {"operations": [{"type": "ack", "transactionId": "x"}]},
        {"operations": [{"type": "ack", "status": "completed"}]},
        {"operations": [{"type": "push", "items": [{"queue": "q", "payload": 1}]}], "requiredLeases": ["x"]},
        {"operations": [{"type": "push", "items": [{"queue": "q", "payload": 1}]}], "kv": []},
    ],
)
async def test_a_transaction_that_is_wrong(home: Home, body: Any) -> None:
    assert (await home.post("/transaction", body, 400))["error"]
    assert await home.pop("q") == []


# -- leases


async def test_a_lease_is_extended(home: Home) -> None:
    await home.push("q", 1, 2)
    messages = await home.pop("q", batch=2)
    lease = messages[0]["leaseId"]
    for body in (None, {}, {"seconds": 60}):
        answer = await home.post(f"/lease/{lease}/extend", body)
        assert (answer["success"], answer["leaseId"]) == (True, lease)
        assert answer["newExpiresAt"] == answer["lease_expires_at"]
    await home.ack(messages[0], "failed")
    answer = await home.post(f"/lease/{lease}/extend")
    assert (answer["success"], answer["newExpiresAt"]) == (False, None)
    assert (await home.post("/lease/9.9.9.0-1/extend"))["success"] is False
    assert (await home.post("/lease/nonsense/extend", None, 400))["error"]


@pytest.mark.parametrize(
    "wrong", [{"status": "failed"}, {"status": "failed", "transactionId": "t", "leaseId": "nonsense"}]
)
async def test_a_transaction_is_refused_before_any_of_it_has_happened(home: Home, wrong: dict[str, str]) -> None:
    """Else whoever sends it again would push twice."""
    push = {"type": "push", "items": [{"queue": "out", "payload": 1}]}
    await home.post("/transaction", {"operations": [push, {"type": "ack", **wrong}]}, 400)
    assert await home.pop("out") == []


async def test_a_failed_ack_without_effect_is_told_in_a_transaction(home: Home) -> None:
    push = {"type": "push", "items": [{"queue": "out", "payload": 1}]}
    failed = {"type": "ack", "transactionId": "nobody", "status": "failed"}
    answer = await home.post("/transaction", {"operations": [push, failed]})
    assert [result.get("success", True) for result in answer["results"]] == [True, False]


async def test_an_ack_is_of_the_queue_that_it_names(home: Home) -> None:
    """Of a queue that has gone, it is of nothing; and a lease has one queue."""
    await home.push("gone", 1, transactionId="same")
    [old] = await home.pop("gone")
    await home.push("here", 2, transactionId="same")
    [mine] = await home.pop("here")
    await home.delete("/resources/queues/gone")
    [result] = await home.post(
        "/ack", {"transactionId": "same", "status": "completed", "partitionId": old["partitionId"]}
    )
    assert (result["success"], result["status"]) == (False, "not_found")
    assert data(await home.get("/messages", queue="here", status="processing")) == [2]
    await home.push("another", 3, transactionId="same")
    await home.pop("another")
    await home.ack({"transactionId": "same"}, leaseId=mine["leaseId"])
    assert data(await home.get("/messages", queue="here", status="completed")) == [2]
    assert data(await home.get("/messages", queue="another", status="processing")) == [3]


async def test_a_push_makes_no_more_queues_than_one_request_may(home: Home) -> None:
    items = [{"queue": f"q{number}", "payload": 1} for number in range(101)]
    assert "at most 100 queues" in (await home.post("/push", {"items": items}, 400))["error"]
    assert await home.queue.topics() == []
    await home.post("/push", {"items": items[:100]}, 201)
    await home.post("/push", {"items": items}, 201)


async def test_a_transaction_id_is_of_its_partition(home: Home) -> None:
    """Each partition has its own: the same event may be pushed to several."""
    for partition in ("mail", "sms"):
        [pushed] = await home.push("q", partition, partition=partition, transactionId="event")
        assert (pushed["status"], pushed["transactionId"]) == ("queued", "event")
        [again] = await home.push("q", "again", partition=partition, transactionId="event")
        assert (again["status"], again["id"]) == ("duplicate", pushed["id"])
    [sms], [mail] = [await home.pop("q", partition) for partition in ("sms", "mail")]
    assert [message["transactionId"] for message in (sms, mail)] == ["event", "event"]
    [result] = await home.later_ack(mail)
    assert (result["success"], result["status"]) == (True, "completed")
    assert data(await home.get("/messages", queue="q", status="processing")) == ["sms"]
    assert (await home.ack(sms))["status"] == "completed"
    assert data(await home.get("/messages", queue="q", status="processing")) == []


async def test_what_was_completed_cannot_have_failed(home: Home) -> None:
    await home.push("q", 1, transactionId="one")
    [message] = await home.pop("q")
    for status, is_good in (("completed", True), ("failed", False), ("completed", True)):
        [result] = await home.later_ack(message, status)
        assert result["success"] is is_good
    assert data(await home.get("/messages", queue="q", status="completed")) == [1]


async def test_a_message_is_found_by_its_partition_too(home: Home) -> None:
    """As clients of the later generation do."""
    await home.configure("q", {"retryLimit": 0, "dlqAfterMaxRetries": True})
    await home.push("other", 0, partition="A", transactionId="x")
    for name in "AB":
        await home.push("q", name, partition=name, transactionId=f"{name}/1")
    [a], [b] = await home.pop("q", "A"), await home.pop("q", "B")
    [elsewhere] = await home.pop("other", "A")
    path = f"/messages/{a['partitionId']}"
    for given in ("A%2F1", a["id"]):
        found = await home.get(f"{path}/{given}")
        assert (found["data"], found["partition"], found["status"]) == ("A", "A", "processing")
    for wrong in (f"{path}/B%2F1", f"{path}/{b['id']}", f"{path}/x", f"/messages/{elsewhere['partitionId']}/{a['id']}"):
        for ask in (home.get, home.delete):
            assert (await ask(wrong, 404))["error"] == "Message not found"
        for action in ("retry", "dlq"):
            assert (await home.post(f"{wrong}/{action}", None, 404))["error"] == "Message not found"
    for nowhere in ("nonsense", "99.0123456789abcdef"):
        assert (await home.get(f"/messages/{nowhere}/A%2F1", 404))["error"] == "Message not found"
    assert (await home.post(f"{path}/A%2F1/dlq", None, 200))["movedToDLQ"]
    assert (await home.get(f"{path}/A%2F1"))["status"] == "dead_letter"
    assert (await home.post(f"{path}/A%2F1/retry", None, 200))["retried"]
    [again] = await home.pop("q", "A")
    assert again["data"] == "A"
    assert (await home.delete(f"{path}/A%2F1", 200))["deleted"]
    assert (await home.get(f"{path}/A%2F1", 404))["error"] == "Message not found"


async def test_a_name_that_two_partitions_have_is_told_apart(home: Home) -> None:
    for name in "AB":
        await home.push("q", name, partition=name, transactionId="same")
    [a], [b] = await home.pop("q", "A"), await home.pop("q", "B")
    for message in (a, b):
        assert (await home.get(f"/messages/{message['partitionId']}/same"))["data"] == message["data"]
    assert (await home.delete(f"/messages/{a['partitionId']}/same", 200))["deleted"]
    assert (await home.get(f"/messages/{b['partitionId']}/same"))["data"] == "B"
    assert (await home.get(f"/messages/{a['partitionId']}/same", 404))["error"] == "Message not found"


async def test_clearing_a_partition_takes_a_commit_for_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_directory(tmp_path)
    commits, append = list[int](), store.append

    async def counted(records: Sequence[Record]) -> None:
        commits.append(len(records))
        await append(records)

    async with serving(store=store) as home:
        for name in "AB":
            await home.push("q", *range(1_000), partition=name)
        monkeypatch.setattr(store, "append", counted)
        answer = await home.delete("/queues/q/clear", 200, partition="A")
        assert (answer["count"], answer["partition"]) == (1_000, "A")
        assert len(commits) <= 20
        assert [message["partition"] for message in await home.pop("q", batch=1)] == ["B"]


async def two_partitions(home: Home) -> dict[str, dict[str, Any]]:
    """The same id in both, popped together."""
    for partition in ("one", "two"):
        await home.push("q", partition, partition=partition, transactionId="same")
    popped = await home.pop("q", batch=10, partitions=2)
    assert len({message["leaseId"] for message in popped}) == 1
    return {message["partition"]: message for message in popped}


async def in_state(home: Home, status: str) -> list[Any]:
    return sorted(data(await home.get("/messages", queue="q", status=status)))


def named(message: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: message[name] for name in ("transactionId", "partitionId", *names)}


@pytest.mark.parametrize("has_lease", [True, False])
async def test_an_ack_is_of_the_partition_that_it_names(home: Home, has_lease: bool) -> None:
    messages = await two_partitions(home)
    names = ["leaseId"] if has_lease else []
    acks = [
        named(messages["one"], *names) | {"status": "completed"},
        named(messages["two"], *names) | {"status": "failed"},
    ]
    results = await home.post("/ack/batch", {"acknowledgments": acks})
    assert [result["success"] for result in results] == [True, True]
    assert await in_state(home, "completed") == ["one"]
    assert await in_state(home, "pending") == ["two"]


async def test_a_transaction_acks_in_the_partition_that_it_names(home: Home) -> None:
    messages = await two_partitions(home)
    step = {"type": "ack", "status": "completed", **named(messages["one"], "leaseId")}
    assert (await home.post("/transaction", {"operations": [step]}))["success"] is True
    assert await in_state(home, "completed") == ["one"]
    assert await in_state(home, "processing") == ["two"]


async def test_a_trace_is_of_the_partition_that_it_names(home: Home) -> None:
    messages = await two_partitions(home)
    traces = [await home.get(f"/traces/{one['partitionId']}/same") for one in messages.values()]
    assert len({trace[0]["id"] for trace in traces}) == 2


def test_a_name_that_was_used_again_is_popped_once() -> None:
    """Else an ack of the one would settle the other."""
    columns = Columns(range(4), [b""] * 4, [0] * 4, keys=["a", "b", "a", "a"], dedup_ids=["x", "x", "y", "x"])
    assert transaction_ids(columns, ["0", "1", "2", "3"]) == ["0", "x", "y", "x"]
