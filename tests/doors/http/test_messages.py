"""Publishing, leasing and settling over HTTP, as a client without any library would do it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import suppress
from typing import Any

import httpx
import pytest

from ortoo.doors.http import messages
from ortoo.model.settings import HttpSettings
from ortoo.testing import ManualClock
from tests.doors.http.home import Home, serving, until
from tests.turns import counting_turns

JSON = {"content-type": "application/json"}


async def test_a_published_message_is_leased_and_acked(home: Home) -> None:
    [sent] = await home.publish("orders", {"item": "tea"})
    assert sent == {"id": sent["id"], "partition": 0, "offset": 0, "duplicate": False}
    [message] = await home.lease("orders", "billing")
    assert message["value"] == {"item": "tea"}
    assert (message["id"], message["attempt"], message["group"]) == (sent["id"], 1, "billing")
    response = await home.post("/v1/topics/orders/groups/billing/ack", {"receipts": [message["receipt"]]})
    assert response.json() == {"results": [{"receipt": message["receipt"], "ok": True, "error": None}]}
    assert (await home.queue.group("orders", "billing")).backlog == 0


async def test_every_field_of_a_message_arrives(home: Home) -> None:
    fields = {"key": "ann", "headers": {"a": "ü"}, "priority": "high", "dedup_id": "d-1"}
    body = {"messages": [{"value": 1, **fields}, {"value": 2, "dedup_id": "d-1"}]}
    first, second = (await home.post("/v1/topics/t/messages", body)).json()["results"]
    assert (second["id"], second["duplicate"]) == (first["id"], True)
    [message] = await home.lease("t")
    assert (message["key"], message["headers"], message["priority"]) == ("ann", {"a": "ü"}, 0)


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1e999",
        "123456789012345678901234567890",
        '"\\u00fc \\/"',
        '"ü"',
        '{"a" : 1,\n "a":2 }',
        "null",
        '""',
        "[ ]",
        "-0",
    ],
)
async def test_a_json_value_keeps_its_exact_bytes(home: Home, text: str) -> None:
    content = f'{{"messages": [ {{"value":  {text} }} ]}}'.encode()
    await home.client.post("/v1/topics/t/messages", content=content, headers=JSON)
    response = await home.post("/v1/topics/t/groups/g/lease")
    assert f'"value":{text},"group"'.encode() in response.content
    [message] = [message async for message in home.queue.read("t")]
    assert (message.value, message.is_json) == (text.encode(), True)


async def test_bytes_travel_as_base64(home: Home) -> None:
    value = bytes(range(256))
    body = {"messages": [{"value_base64": b64encode(value).decode()}]}
    await home.post("/v1/topics/t/messages", body)
    [message] = await home.lease("t")
    assert message["value_base64"] == b64encode(value).decode()
    assert "value" not in message
    [read] = [message async for message in home.queue.read("t")]
    assert (read.value, read.is_json) == (value, False)


async def test_bytes_that_look_like_json_are_not_taken_for_it(home: Home) -> None:
    await home.queue.publish("t", b'{"a":1}')
    [message] = await home.lease("t")
    assert message["value_base64"] == b64encode(b'{"a":1}').decode()


@pytest.mark.parametrize("lie", [b'{"a":', b'1,"receipt":"x"', b'"\xff"', b"", b"[" * 50_000 + b"]" * 50_000])
async def test_a_value_that_only_claims_to_be_json_cannot_break_the_answer(home: Home, lie: bytes) -> None:
    from ortoo.model.batch import Outgoing
    from ortoo.model.commands import Publish
    from ortoo.model.names import TopicName

    await home.gate.host().publish(Publish(TopicName("default", "t"), Outgoing([lie, b"2"], json=[True, True])))
    messages = await home.lease("t")
    assert messages[0]["value_base64"] == b64encode(lie).decode()
    assert messages[1]["value"] == 2


@pytest.mark.parametrize("name", ["a/b", "'; DROP TABLE", "ü ☃", "a%2Fb", "?#&=+", "..."])
async def test_names_are_percent_encoded(home: Home, name: str) -> None:
    from urllib.parse import quote

    path = f"/v1/topics/{quote(name, safe='')}"
    assert (await home.post(f"{path}/messages", {"messages": [{"value": 1}]})).status_code == 201
    [topic] = await home.queue.topics()
    assert topic.name == name
    response = await home.post(f"{path}/groups/{quote(name, safe='')}/lease")
    assert response.json()["messages"][0]["group"] == name
    assert [group.name for group in await home.queue.groups(name)] == [name]


async def test_every_route_takes_a_namespace(home: Home) -> None:
    await home.post("/v1/topics/t/messages?namespace=other", {"messages": [{"value": 1}]})
    assert [topic.name for topic in await home.queue.topics(namespace="other")] == ["t"]
    assert (await home.client.get("/v1/topics/t")).status_code == 404
    response = await home.post("/v1/topics/t/groups/g/lease?namespace=other")
    assert response.json()["messages"][0]["namespace"] == "other"


async def test_leasing_by_labels_takes_the_most_urgent_topic_first(home: Home) -> None:
    await home.queue.create_topic("slow", labels={"task": "mail"}, priority=9)
    await home.queue.create_topic("fast", labels={"task": "mail"}, priority=1)
    await home.publish("slow", 1)
    await home.publish("fast", 2)
    response = await home.post("/v1/lease", {"labels": {"task": "mail"}, "group": "g", "max_messages": 10})
    messages = response.json()["messages"]
    assert [message["topic"] for message in messages] == ["fast", "slow"]
    response = await home.post("/v1/ack", {"receipts": [message["receipt"] for message in messages]})
    assert [result["ok"] for result in response.json()["results"]] == [True, True]


async def test_a_settle_answers_for_each_receipt(home: Home) -> None:
    await home.publish("t", 1, 2)
    good, stale = await home.lease("t")
    await home.queue.release(stale["receipt"])
    receipts = [stale["receipt"], "nonsense", good["receipt"], "1.2.3.4.x", f"0{stale['receipt']}"]
    response = await home.post("/v1/topics/t/groups/g/ack", {"receipts": receipts})
    assert response.status_code == 200
    assert [(result["receipt"], result["ok"], result["error"]) for result in response.json()["results"]] == [
        (stale["receipt"], False, "lease_lost"),
        ("nonsense", False, "invalid"),
        (good["receipt"], True, None),
        ("1.2.3.4.x", False, "invalid"),
        (f"0{stale['receipt']}", False, "invalid"),
    ]


async def test_receipts_with_leading_zeros_are_the_same_receipts(home: Home) -> None:
    await home.publish("t", 1, 2)
    first, second = await home.lease("t")
    response = await home.post("/v1/ack", {"receipts": [first["receipt"], f"0{second['receipt']}"]})
    assert [result["ok"] for result in response.json()["results"]] == [True, True]
    assert (await home.queue.group("t", "g")).backlog == 0


async def test_nack_reject_release_extend_and_ack_through() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await home.queue.create_topic("t", partitions=1, ordering="none")
        await home.publish("t", *range(6))
        messages = await home.lease("t", lease=10)
        receipts = [message["receipt"] for message in messages]
        path = "/v1/topics/t/groups/g"
        await home.post(f"{path}/ack_through", {"receipts": [receipts[1]]})
        await home.post(f"{path}/nack", {"receipts": [receipts[2]], "error": "not yet", "delay": 5})
        await home.post(f"{path}/reject", {"receipts": [receipts[3]], "error": "never"})
        await home.post(f"{path}/release", {"receipts": [receipts[4]]})
        await home.post(f"{path}/extend", {"receipts": [receipts[5]], "seconds": 100})
        assert [message["value"] for message in await home.lease("t")] == [4]
        await clock.advance(5)
        [again] = await home.lease("t")
        assert (again["value"], again["attempt"]) == (2, 2)
        await clock.advance(20)
        assert [message["value"] for message in await home.lease("t", lease=1)] == []  # 5 is held still
        [letter] = (await home.client.get("/v1/topics/t/dlq")).json()["messages"]
        assert (letter["value"], letter["headers"]["ortoo-error"]) == (3, "never")


async def test_a_nack_tells_what_was_revoked(home: Home) -> None:
    body = {"messages": [{"value": 1, "key": "k"}, {"value": 2, "key": "k"}]}
    await home.post("/v1/topics/t/messages", body)
    first, second = await home.lease("t")
    response = await home.post("/v1/topics/t/groups/g/nack", {"receipts": [first["receipt"]]})
    assert response.json()["revoked"] == [second["receipt"]]


async def test_auto_ack_leaves_nothing_to_settle(home: Home) -> None:
    await home.publish("t", 1)
    assert len(await home.lease("t", auto_ack=True)) == 1
    assert (await home.queue.group("t", "g")).backlog == 0


async def test_a_lease_may_ask_for_a_partition_or_a_key(home: Home) -> None:
    await home.post("/v1/topics/t/messages", {"messages": [{"value": n, "partition": n} for n in range(3)]})
    assert [message["value"] for message in await home.lease("t", partition=1)] == [1]
    await home.post("/v1/topics/k/messages", {"messages": [{"value": key, "key": key} for key in "abc"]})
    assert [message["value"] for message in await home.lease("k", key="b")] == ["b"]


async def test_the_requests_of_a_connection_are_one_consumer(home: Home) -> None:
    await home.publish("t", 1, 2)
    async with httpx.AsyncClient(base_url=home.url) as other:
        for client in (home.client, home.client, other):
            await client.post("/v1/topics/t/groups/g/lease")
    assert len((await home.queue.group("t", "g")).consumers) == 2
    await home.lease("t", "h", consumer="me")
    assert list((await home.queue.group("t", "h")).consumers) == ["me"]


# -- long polls


async def test_a_long_poll_gets_what_is_published_meanwhile(home: Home) -> None:
    await home.queue.create_topic("t")
    poll = asyncio.create_task(home.lease("t", wait=30))
    await home.waiters(1)
    await home.publish("t", "at last")
    assert [message["value"] for message in await poll] == ["at last"]


async def test_a_long_poll_ends_empty_when_its_time_is_over() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await home.queue.create_topic("t")
        poll = asyncio.create_task(home.lease("t", wait=30))
        await home.waiters(1)
        await clock.advance(30)
        assert await poll == []


async def test_who_hangs_up_does_not_wait_any_more(home: Home) -> None:
    await home.queue.create_topic("t")
    poll = asyncio.create_task(home.lease("t", wait=30))
    await home.waiters(1)
    poll.cancel()
    await home.waiters(0)
    await home.publish("t", "for somebody else")
    assert (await home.queue.group("t", "g")).leased == 0
    assert len(await home.lease("t")) == 1


async def test_who_hangs_up_after_sending_the_next_request_does_not_wait_either(home: Home) -> None:
    await home.queue.create_topic("t")
    request = b"POST /v1/topics/t/groups/g/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: 11\r\n\r\n"
    reader, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(request + b'{"wait":30}' + request + b'{"wait":29}')
    await home.waiters(1)
    writer.transport.abort()
    del reader
    await home.waiters(0)


async def test_what_was_leased_for_a_client_that_left_returns() -> None:
    from tests.semantics.stores import SlowStore

    store = SlowStore()
    async with serving(store=store) as home:
        await home.publish("t", 1)
        store.reading.clear()
        leasing = asyncio.create_task(home.lease("t"))
        await until(lambda: any(group.leases for _, group in home.broker.engine.state.groups()))
        leasing.cancel()
        await until(lambda: home.gate.connections == 0)
        store.reading.set()
        await until(lambda: not home.door._state.tasks)
        assert (await home.queue.group("t", "g")).leased == 0


async def test_publishing_to_a_full_topic_may_wait_for_room(home: Home) -> None:
    await home.queue.create_topic("t", max_depth=1)
    await home.queue.create_group("t", "g")
    await home.publish("t", 1)
    refused = await home.post("/v1/topics/t/messages", {"messages": [{"value": 2}]})
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "full", "1")
    waiting = asyncio.create_task(home.post("/v1/topics/t/messages", {"messages": [{"value": 2}], "wait": 30}))
    [message] = await home.lease("t", wait=30)
    await home.post("/v1/ack", {"receipts": [message["receipt"]]})
    assert (await waiting).status_code == 201


# -- closing


async def test_closing_ends_long_polls_with_an_empty_answer(home: Home) -> None:
    await home.queue.create_topic("t")
    polls = [asyncio.create_task(home.lease("t", wait=60)) for _ in range(5)]
    await home.waiters(5)
    await home.door.close(30)
    assert await asyncio.gather(*polls) == [[]] * 5
    with pytest.raises(httpx.ConnectError):
        await home.client.get("/health")


async def test_closing_lets_requests_finish_and_then_ends_them() -> None:
    from tests.semantics.stores import SlowStore

    store = SlowStore()
    async with serving(store=store) as home:
        await home.publish("t", 0)
        store.writing.clear()
        publishing = asyncio.create_task(home.publish("t", 1))
        await until(lambda: home.gate.budget.bytes > 0)
        closing = asyncio.create_task(home.door.close(30))
        await asyncio.sleep(0)
        assert not closing.done()
        store.writing.set()
        assert len(await publishing) == 1
        await closing
    async with serving(store=(store := SlowStore())) as home:
        store.writing.clear()
        publishing = asyncio.create_task(home.publish("t", 1))
        await until(lambda: home.gate.budget.bytes > 0)
        await home.door.close(0)  # no time is left for it
        with suppress(httpx.HTTPError):
            await publishing
        store.writing.set()
    assert home.gate.connections == 0
    assert home.gate.budget.bytes == 0


async def test_a_port_that_is_taken_is_a_clear_error(home: Home) -> None:
    from ortoo import ConfigError
    from ortoo.doors.http import HttpDoor

    async def metrics(*asked: object) -> bytes:
        return b""

    second: Any = HttpDoor(home.gate, HttpSettings(port=home.port), metrics=metrics, ready=lambda: None)
    with pytest.raises(ConfigError, match=f"HTTP cannot listen on 127.0.0.1:{home.port}: .*in use"):
        await second.open()


async def test_dead_letters_come_in_pages_of_so_many_bytes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_PAGE_BYTES", 5_000)
    monkeypatch.setattr(messages, "_PART_BYTES", 1_000)
    await home.queue.create_topic("t", partitions=1)
    await home.queue.publish_many("t", [b"%d" % (n % 10) * 1_000 for n in range(20)])
    await home.queue.reject(await home.queue.lease("t", max_messages=20))
    found, sizes, where = list[str](), list[int](), None
    while where is not None or not found:
        given: dict[str, str] = {} if where is None else {"next": where}
        async with counting_turns() as turns:
            page = (await home.client.get("/v1/topics/t/dlq", params={"limit": 10_000, **given})).json()
        assert turns.count >= len(page["messages"])
        found += [letter["headers"]["ortoo-origin"] for letter in page["messages"]]
        sizes.append(len(page["messages"]))
        where = page["next"]
    assert found == [f"1.0.{offset}" for offset in range(20)]
    assert max(sizes) <= 6


async def test_a_path_settles_what_is_of_its_own_group(home: Home) -> None:
    await home.publish("t", 1)
    await home.publish("u", 2)
    mine, other = (await home.lease("t", "g"))[0]["receipt"], (await home.lease("t", "h"))[0]["receipt"]
    far = (await home.lease("u", "g"))[0]["receipt"]
    for action in ("ack", "nack", "extend"):
        answer = await home.post(f"/v1/topics/t/groups/h/{action}", {"receipts": [mine, far, "x"]})
        assert [result["error"] for result in answer.json()["results"]] == ["invalid"] * 3
    answer = await home.post("/v1/topics/t/groups/g/ack", {"receipts": [other, mine]})
    assert [result["error"] for result in answer.json()["results"]] == ["invalid", None]
    assert (await home.queue.group("t", "h")).leased == 1
    assert (await home.post("/v1/ack", {"receipts": [other, far]})).json()["results"][1]["ok"]
    for path in ("none/groups/g", "t/groups/none"):
        assert (await home.post(f"/v1/topics/{path}/ack", {"receipts": [mine]})).status_code == 404
