"""The largest requests that are allowed, and the largest answers: nobody else waits long for them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from http.client import HTTPConnection
from typing import Any

import httpx
import msgspec
import pytest

from ortoo.dialects.queen.popping import group_name
from ortoo.doors.http.shapes import BODY_BYTES_MAX, LIST_BYTES_MAX
from ortoo.model import limits
from tests.dialects.goqueue.home import serving as goqueue
from tests.dialects.mqueue.home import serving as mqueue
from tests.dialects.queen.home import serving as queen
from tests.doors.watching import Watch, calmest

MB = 1 << 20
TURN_SECONDS = 0.1  # CPU time: what is held to take less than 50 ms may take longer on a busy machine


async def ask(web: httpx.AsyncClient, method: str, path: str, body: Any = None) -> tuple[bytes, dict[str, str]]:
    """The answer, and its headers, by a client in a thread: what that spends is not measured."""
    content = None if body is None else msgspec.json.encode(body)

    def request() -> tuple[int, bytes, dict[str, str]]:
        connection = HTTPConnection(web.base_url.host, web.base_url.port or 0, timeout=60)
        connection.request(method, path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        found = answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        return found

    results: list[tuple[int, bytes, dict[str, str]]] = []

    async def measure() -> Watch:
        async with Watch() as watch:
            results.append(await asyncio.to_thread(request))
        return watch

    watch = await calmest(measure, turn=TURN_SECONDS)
    assert watch.longest_turn < TURN_SECONDS, (path, watch)
    status, text, headers = results[0]
    assert status in (200, 201), text[:500]
    return text, headers


async def test_goqueue_publishes_as_many_delayed_messages_as_one_request_may_have() -> None:
    messages = [{"value": "x", "delay": "1h30m", "priority": "high"}] * limits.BATCH_MESSAGES_MAX
    async with goqueue() as home:
        text, _ = await ask(home.web, "POST", "/topics/t/messages", {"messages": messages})
        results = msgspec.json.decode(text)["results"]
        assert [result["delayed"] for result in results] == [True] * limits.BATCH_MESSAGES_MAX


async def test_goqueue_reads_polls_and_consumes_large_messages() -> None:
    values = ["x" * MB + str(number) for number in range(20)]
    async with goqueue() as home:
        await home.queue.create_topic("t", partitions=1, max_message_bytes=2 * MB)
        await home.queue.publish_many("t", [value.encode() for value in values])
        member = (await home.post("/groups/g/join", {"client_id": "c", "topics": ["t"]}))["member_id"]
        text, headers = await ask(home.web, "GET", "/topics/t/partitions/0/messages?limit=1000")
        page = msgspec.json.decode(text)
        assert ([each["value"] for each in page["messages"]], page["next_offset"]) == (values, 20)
        assert headers["transfer-encoding"] == "chunked"
        for group, path, by in (
            ("g", f"/groups/g/poll?member_id={member}&timeout=0s", "0"),
            ("g", f"/groups/g/poll?member_id={member}&timeout=0s&max_messages=100", None),
            ("h", "/api/v1/topics/t/consume?group=h", None),
        ):
            text, headers = await ask(home.web, "GET", path)
            messages = msgspec.json.decode(text)["messages"]
            assert [each["value"] for each in (messages if by is None else messages[by])] == values
            assert headers["transfer-encoding"] == "chunked"
            await home.queue.seek("t", group, "start")


async def test_mqueue_dequeues_large_items() -> None:
    async with mqueue() as home:
        await home.queue.create_topic("t", namespace="n", partitions=1, max_attempts=1)
        for _ in range(20):
            await home.queue.publish("t", b"x" * 900_000, namespace="n")
        text, headers = await ask(home.web, "GET", "/dequeue?namespace=n&topic=t&limit=1000")
        items = msgspec.json.decode(text)
        assert [item["Payload"] for item in items] == [b64encode(b"x" * 900_000).decode()] * 20
        assert headers["transfer-encoding"] == "chunked"
        for item in items:
            assert (await home.web.post("/nack", json={"id": item["ID"], "namespace": "n", "topic": "t"})).text == "OK"
        text, headers = await ask(home.web, "GET", "/dlq?namespace=n&topic=t&limit=1000")
        assert len(msgspec.json.decode(text)) >= 16
        assert headers["transfer-encoding"] == "chunked"


@pytest.mark.parametrize("has_group", [True, False])
async def test_queen_lists_large_messages(has_group: bool) -> None:
    async with queen() as home:
        await home.queue.create_topic("q", partitions=1, max_message_bytes=8 * MB)
        for number in range(8):
            await home.queue.publish("q", {"number": number, "text": "x" * (7 * MB)}, key=str(number))
        if has_group:
            await home.queue.create_group("q", group_name(None))
        text, headers = await ask(home.web, "GET", "/api/v1/messages?queue=q&limit=1000")
        messages = msgspec.json.decode(text)["messages"]
        assert [message["data"]["number"] for message in messages] == [0, 1, 2, 3]  # as many as one answer has
        assert messages[0]["payload"] == messages[0]["data"]
        assert headers["transfer-encoding"] == "chunked"


async def test_queen_lists_no_more_than_one_answer_has_from_many_queues() -> None:
    """What is held meanwhile is no more than that, and what one queue gives."""
    async with queen() as home:
        for queue in range(20):
            await home.queue.create_topic(f"q{queue:02}", partitions=1, max_message_bytes=8 * MB)
            await home.queue.publish(f"q{queue:02}", "x" * (7 * MB), key="a")
        async with Watch() as watch:
            text, _ = await ask(home.web, "GET", "/api/v1/messages?limit=1000")
        queues = [message["queue"] for message in msgspec.json.decode(text)["messages"]]
        assert queues == [f"q{queue:02}" for queue in range(5)]
        assert watch.grown < 400 * MB  # with the client's own


async def test_queen_lists_what_lies_far_behind() -> None:
    async with queen() as home:
        await home.queue.create_topic("q", partitions=1)
        await home.queue.publish_many("q", [f"{number}" for number in range(10_000)])
        text, _ = await ask(home.web, "GET", "/api/v1/messages?queue=q&limit=1000&offset=9000")
        messages = msgspec.json.decode(text)["messages"]
        assert [message["data"] for message in messages] == [f"{number}" for number in range(9_000, 10_000)]


# -- what no client needs


@pytest.mark.parametrize("action", ["ack", "nack", "reject", "visibility"])
async def test_goqueue_settles_as_many_as_one_poll_gives(action: str) -> None:
    body = {"receipt_handles": [f"t:0:{at}:1:1.{at}.{at}" for at in range(1_001)], "extension_seconds": 5}
    async with goqueue() as home:
        answer = await home.web.post(f"/messages/{action}", json=body)
        assert (answer.status_code, "at most 1000 items" in answer.json()["error"]) == (400, True)
        body["receipt_handles"] = ["x" * (LIST_BYTES_MAX + 1)]
        assert (await home.web.post(f"/messages/{action}", json=body)).status_code == 413
        body["receipt_handles"] = [f"{'t' * 255}:0:{at}:1:1.{at}.{at}" for at in range(1_000)]
        assert len((await home.post(f"/messages/{action}", body))["results"]) == 1_000


async def test_goqueue_commits_as_much_as_a_topic_has() -> None:
    async with goqueue() as home:
        await home.queue.create_topic("t", partitions=limits.PARTITIONS_MAX)
        member = (await home.post("/groups/g/join", {"client_id": "c", "topics": ["t"]}))["member_id"]
        offsets = {str(partition): 0 for partition in range(limits.PARTITIONS_MAX)}
        await home.post("/groups/g/offsets", {"member_id": member, "offsets": {"t": offsets}})
        many = {"member_id": member, "offsets": {"t": {str(partition): 0 for partition in range(20_000)}}}
        answer = await home.web.post("/groups/g/offsets", json=many)
        assert (answer.status_code, str(BODY_BYTES_MAX) in answer.json()["error"]) == (413, True)


@pytest.mark.parametrize("action", ["ack", "nack"])
async def test_mqueue_settles_as_many_as_one_dequeue_gives(action: str) -> None:
    items = [{"id": number, "namespace": "n", "topic": "t", "error": str(number)} for number in range(1, 1_002)]
    async with mqueue() as home:
        answer = await home.web.post(f"/{action}", json=items)
        assert (answer.status_code, "1 to 1000 items" in answer.text) == (400, True)
        await home.web.post("/enqueue", json=[{"namespace": "n", "topic": "t"}] * 1_000)
        taken = (await home.web.get("/dequeue?namespace=n&topic=t&limit=1000")).json()
        items = [{"id": item["ID"], "namespace": "n", "topic": "t", "error": str(item["ID"])} for item in taken]
        assert (await ask(home.web, "POST", f"/{action}", items))[0] == b"OK"
