"""Every command of the line protocol, and what a client of GoMQ relies on."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from ortoo.testing import ManualClock
from tests.dialects.gomq.home import Client, Home, serving


def in_full(payload: str, **more: Any) -> str:
    return msgspec.json.encode({"payload": payload, **more}).decode()


async def publish(client: Client, line: str) -> str:
    answer = await client.ask(f"PUBLISH {line}")
    assert re.fullmatch(r"OK [0-9a-f-]{36}", answer), answer
    return answer.removeprefix("OK ")


async def test_the_documents_client_publishes_subscribes_and_acks(client: Client) -> None:
    number = await publish(client, f"queue orders {in_full('Hello, World!')}")
    assert await client.ask("SUBSCRIBE queue orders") == "OK subscribed"
    message = await client.delivery()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", message.pop("timestamp"))
    assert message == {
        "id": number,
        "source": "queue",
        "name": "orders",
        "payload": "Hello, World!",
        "headers": {},
        "priority": 0,
    }
    assert await client.ask("PING") == "PONG"  # the subscription goes on meanwhile
    assert await client.ask(f"ACK orders {number}") == "OK acknowledged"
    assert await client.ask(f"ACK orders {number}") == "OK acknowledged"
    again = await publish(client, 'queue orders {"order_id": "12345"}')  # no payload in it: this is the payload
    message = await client.delivery()
    assert (message["id"], message["payload"]) == (again, '{"order_id": "12345"}')
    assert await client.ask("UNSUBSCRIBE queue orders") == "OK unsubscribed"
    assert await client.ask(f"ACK orders {again}") == "OK acknowledged"
    assert await client.ask("QUIT") == "OK goodbye"
    with pytest.raises(ConnectionResetError):
        await client.answer()


async def test_commands_may_be_written_in_any_case(client: Client) -> None:
    assert await client.ask("ping") == "PONG"
    assert (await client.ask("Publish Queue q text  with  spaces ")).startswith("OK ")
    assert await client.ask("subscribe QUEUE q\r") == "OK subscribed"
    assert (await client.delivery())["payload"] == "text  with  spaces "


async def test_the_higher_number_first(client: Client) -> None:
    for priority in (0, 10, 5):
        await publish(client, f"queue q {in_full(str(priority), priority=priority)}")
    assert await client.ask("SUBSCRIBE queue q") == "OK subscribed"
    found = [await client.delivery() for _ in range(3)]
    assert [(message["payload"], message["priority"]) for message in found] == [("10", 10), ("5", 5), ("0", 0)]


async def test_delays_and_times_to_live_are_go_durations() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home, home.client() as client:
        await publish(client, f"queue q {in_full('later', delay='1m30s')}")
        await publish(client, f"queue q {in_full('short', ttl='500ms')}")
        await clock.advance(1)
        assert await client.ask("SUBSCRIBE queue q") == "OK subscribed"
        assert await client.nothing_comes()
        await clock.advance(89)
        assert (await client.delivery())["payload"] == "later"
        assert await client.nothing_comes()


async def test_three_failures_and_it_is_in_the_dlq_with_what_went_wrong() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home, home.client() as client:
        number = await publish(client, f"queue orders {in_full('x', headers={'content-type': 'text/plain'})}")
        assert await client.ask("SUBSCRIBE queue orders") == "OK subscribed"
        for requeue, pause in (("", 1), (" true", 2), ("", 0)):
            assert (await client.delivery())["id"] == number
            assert await client.ask(f"NACK orders {number}{requeue}") == "OK nacked"
            await clock.advance(pause)
        assert await client.nothing_comes()
        assert await client.ask("LIST_QUEUES") == 'OK ["orders","orders-dlq"]'
        assert await client.ask("SUBSCRIBE queue orders-dlq") == "OK subscribed"
        dead = await client.delivery()
        assert (dead["source"], dead["name"], dead["payload"]) == ("queue", "orders-dlq", "x")
        assert dead["headers"] == {
            "content-type": "text/plain",
            "x-death-reason": "max_retries",
            "x-original-queue": "orders",
            "x-delivery-count": "3",
            "x-death-time": dead["timestamp"],
        }
        assert await client.ask(f"ACK orders-dlq {dead['id']}") == "OK acknowledged"
        assert (await home.queue.group("orders.dlq", "default")).backlog == 0


async def test_a_nack_without_requeue_and_an_error_of_ours_are_told_in_the_dlq(home: Home, client: Client) -> None:
    number = await publish(client, "queue orders a")
    await client.ask("SUBSCRIBE queue orders")
    await client.delivery()
    assert await client.ask(f"NACK orders {number} false") == "OK nacked"
    await client.ask("UNSUBSCRIBE queue orders")
    await publish(client, "queue orders b")
    [message] = await home.queue.lease("orders")
    await message.reject("the card was declined")
    await client.ask("SUBSCRIBE queue orders-dlq")
    first, second = await client.delivery(), await client.delivery()
    assert (first["headers"]["x-death-reason"], "x-error" in first["headers"]) == ("rejected", False)
    assert second["headers"]["x-error"] == "the card was declined"


async def test_everybody_who_is_subscribed_to_a_topic_gets_all_from_then_on(home: Home) -> None:
    async with home.client() as one, home.client() as two:
        await publish(one, "topic news before")
        for client in (one, two):
            assert await client.ask("SUBSCRIBE topic news") == "OK subscribed"
        for n in range(30):
            await publish(one, f"topic news {n}")
        for client in (one, two):
            found = [await client.delivery() for _ in range(30)]
            assert [message["payload"] for message in found] == [str(n) for n in range(30)]
            assert {(message["source"], message["name"]) for message in found} == {("topic", "news")}
        assert await one.ask(f"ACK news {found[0]['id']}") == "OK acknowledged"  # it is, and needs none
        assert len((await home.queue.topic("news")).groups) == 2
        assert await one.ask("UNSUBSCRIBE topic news") == "OK unsubscribed"
        assert len((await home.queue.topic("news")).groups) == 1
        await publish(one, "topic news last")
        assert (await two.delivery())["payload"] == "last"
        assert await one.nothing_comes()
    await home.until_alone()
    assert (await home.queue.topic("news")).groups == []


async def test_those_who_are_subscribed_to_a_queue_share_it(home: Home) -> None:
    async with home.client() as one, home.client() as two:
        for client in (one, two):
            await client.ask("SUBSCRIBE queue q")
        numbers = [await publish(one, f"queue q {n}") for n in range(12)]
        await home.queue.group("q", "default")
        found = [(await client.delivery())["id"] for client in (one, two) for _ in range(1)]
        for client in (one, two):
            while not await client.nothing_comes():
                found.append((await client.delivery())["id"])
        assert sorted(found) == sorted(numbers)


async def test_no_more_than_ten_are_on_their_way(home: Home, client: Client) -> None:
    numbers = [await publish(client, f"queue q {n}") for n in range(25)]
    await client.ask("SUBSCRIBE queue q")
    assert [(await client.delivery())["id"] for _ in range(10)] == numbers[:10]
    assert await client.nothing_comes()
    assert (await home.queue.group("q", "default")).leased == 10
    await client.ask(f"ACK q {numbers[0]}")
    assert (await client.delivery())["id"] == numbers[10]
    await client.ask(f"NACK q {numbers[1]} false")
    assert (await client.delivery())["id"] == numbers[11]
    assert await client.nothing_comes()


async def test_queues_and_topics_are_made_listed_and_deleted(client: Client) -> None:
    assert await client.ask("LIST_QUEUES") == "OK []"
    assert await client.ask("CREATE_QUEUE orders") == "OK queue created"
    assert await client.ask("CREATE_QUEUE orders") == "OK queue created"
    assert await client.ask("CREATE_TOPIC news") == "OK topic created"
    assert await client.ask("CREATE_TOPIC orders") == "ERROR topic already exists: orders"
    assert await client.ask("LIST_QUEUES") == 'OK ["orders"]'
    assert await client.ask("LIST_TOPICS") == 'OK ["news"]'
    stats = msgspec.json.decode((await client.ask("STATS")).removeprefix("OK "))
    assert (stats["queues"], stats["topics"], stats["connections"]) == (1, 1, 1)
    assert await client.ask("DELETE_QUEUE orders") == "OK queue deleted"
    assert await client.ask("DELETE_QUEUE orders") == "ERROR queue not found: orders"
    assert await client.ask("DELETE_TOPIC news") == "OK topic deleted"


async def test_stats_are_true(client: Client) -> None:
    numbers = [await publish(client, "queue q x") for _ in range(3)]
    await client.ask("SUBSCRIBE queue q")
    for _ in range(3):
        await client.delivery()
    await client.ask(f"ACK q {numbers[0]}")
    stats = msgspec.json.decode((await client.ask("STATS")).removeprefix("OK "))
    assert (stats["published"], stats["delivered"], stats["acknowledged"], stats["messages"]) == (3, 3, 1, 2)


async def test_many_at_once_are_answered_in_their_order(home: Home, client: Client) -> None:
    lines = [f"PUBLISH queue {'a' if n % 100 < 90 else 'b'} {n}" for n in range(3000)]
    client.say(*lines, "PING", "NOPE", "PING")
    numbers = [(await client.answer()).removeprefix("OK ") for _ in lines]
    assert len(set(numbers)) == 3000
    assert [await client.answer() for _ in range(3)] == ["PONG", "ERROR invalid command", "PONG"]
    values = [message.value async for message in home.queue.read("a")]
    assert values == [str(n).encode() for n in range(3000) if n % 100 < 90]
    info = await home.queue.topic("a")
    assert [partition.messages for partition in info.partitions] == [2700]


async def test_one_bad_message_among_many_is_refused_alone(home: Home, client: Client) -> None:
    lines = [f"PUBLISH queue q {in_full(str(n), priority=11 if n == 5 else 1)}" for n in range(10)]
    client.say(*lines)
    answers = [await client.answer() for _ in lines]
    assert [answer[:2] for answer in answers] == ["OK"] * 5 + ["ER"] + ["OK"] * 4
    assert "priority" in answers[5]
    assert [message.value async for message in home.queue.read("q")] == [b"%d" % n for n in range(10) if n != 5]


async def test_a_queue_that_is_full_says_so(home: Home, client: Client) -> None:
    await home.queue.create_topic("q", max_depth=2)
    client.say(*["PUBLISH queue q x"] * 3)
    answers = [(await client.answer()).split()[0:4] for _ in range(3)]
    assert [answer[0] for answer in answers] == ["OK", "OK", "ERROR"]
    assert answers[2][1:4] == ["queue", "is", "full:"]


async def test_subscriptions_to_one_name_twice_and_to_none(client: Client) -> None:
    assert await client.ask("SUBSCRIBE queue q") == "OK subscribed"
    assert await client.ask("SUBSCRIBE queue q") == "ERROR already subscribed to queue"
    assert await client.ask("SUBSCRIBE topic q") == "OK subscribed"
    assert await client.ask("UNSUBSCRIBE topic other") == "ERROR not subscribed to topic"
    for n in range(98):
        assert await client.ask(f"SUBSCRIBE queue q{n}") == "OK subscribed"
    assert (await client.ask("SUBSCRIBE queue more")).startswith("ERROR a connection has at most 100")


async def test_a_subscription_ends_with_its_queue(client: Client) -> None:
    await client.ask("SUBSCRIBE queue q")
    assert await client.ask("DELETE_QUEUE q") == "OK queue deleted"
    assert "q" in await client.answer()  # says why
    assert await client.ask("SUBSCRIBE queue q") == "OK subscribed"


async def test_what_one_publishes_here_is_leased_and_acked_over_tcp_and_the_other_way_round(
    home: Home, client: Client
) -> None:
    await publish(client, f"queue q {in_full('héllo', headers={'a': 'b'}, priority=10)}")
    async with home.connect() as queue:
        [message] = await queue.lease("q", group="default")
        assert (message.value, message.headers, message.priority) == ("héllo".encode(), {"a": "b"}, 0)
        await message.ack()
        await queue.publish("q", b"\xff\x00 bytes", headers={"c": "d"})
        await client.ask("SUBSCRIBE queue q")
        found = await client.delivery()
        assert (found["payload"], found["headers"], found["priority"]) == ("\ufffd\x00 bytes", {"c": "d"}, 5)
        assert await client.ask(f"ACK q {found['id']}") == "OK acknowledged"
        assert (await queue.group("q", "default")).backlog == 0


async def test_who_says_no_more_still_gets_the_answers(home: Home) -> None:
    async with home.client() as client:
        client.say(*["PUBLISH queue q x"] * 50)
        client.writer.write_eof()
        for _ in range(50):
            assert (await client.answer()).startswith("OK ")
        with pytest.raises(ConnectionResetError):
            await client.answer()


async def test_a_server_that_stops_finishes_what_was_begun_and_takes_back_what_was_delivered() -> None:
    async with serving() as home, home.client() as client:
        await publish(client, "queue q x")
        await client.ask("SUBSCRIBE queue q")
        await client.delivery()
        client.say(*["PUBLISH queue q y"] * 10)
        await client.writer.drain()
        assert (await client.answer()).startswith("OK")
        async with asyncio.timeout(5):
            await home.door.close(10)
        assert (await home.queue.group("q", "default")).leased == 0
        [first, *_] = await home.queue.lease("q", max_messages=20)
        assert (first.value, first.attempt) == (b"x", 1)
