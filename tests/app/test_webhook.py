"""Is a receiver told of every dead letter, and is the queue itself never held up by one?"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

import ortoo
from ortoo.app.clock import SystemClock
from ortoo.app.post import PostError, SilentError, post_json
from ortoo.app.webhook import POSTS_AT_ONCE, POSTS_MAX, Webhook
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.records import Record
from ortoo.stores.memory import MemoryStore
from tests.app.receiver import receiving


@asynccontextmanager
async def running(
    pauses: Sequence[float] = (0.01, 0.01), letters_max: int = 100
) -> AsyncIterator[tuple[Queue, Webhook]]:
    broker = Broker(MemoryStore(), SystemClock())
    webhook = Webhook(broker, broker.on_dead_letters, pauses, letters_max)
    async with Queue(broker) as queue:
        webhook.start()
        yield queue, webhook
        await webhook.close(5)


async def reject(queue: Queue, topic: str, count: int = 1, namespace: str = "default") -> list[str]:
    """Publishes so many messages and rejects them; returns their ids."""
    sent = await queue.publish_many(topic, [b"private"] * count, namespace=namespace)
    for message in await queue.lease(topic, group="billing", max_messages=count, namespace=namespace):
        await message.reject("the card was declined")
    return [one.id for one in sent]


async def until_told(webhook: Webhook) -> None:
    async with asyncio.timeout(300):
        while webhook.pending:
            await asyncio.gather(*webhook._tasks)


async def test_a_dead_letter_is_told_with_its_story() -> None:
    async with receiving() as receiver, running() as (queue, _):
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        [message_id] = await reject(queue, "payments")
        await receiver.until(letters=1)
        [letter] = receiver.letters
        [dead] = await queue.dead_letters("payments")
    first, moved = (datetime.fromisoformat(letter.pop(name)) for name in ("first_attempt", "moved_to_dlq_at"))
    assert letter.pop("total_duration") == pytest.approx((moved - first).total_seconds())
    assert letter == {
        "queue_name": "payments",
        "topic": "payments",
        "namespace": "default",
        "dlq_topic": "payments.dlq",
        "dlq_id": dead.id,
        "message_id": message_id,
        "group": "billing",
        "failure_reason": "rejected",
        "error": "the card was declined",
        "retry_count": 0,
        "attempts": 1,
    }
    assert receiver.heads[0].startswith("POST /hook?x=1 HTTP/1.1\r\n")
    assert "application/json" in receiver.heads[0]


async def test_the_first_attempt_and_the_retries_are_told() -> None:
    async with receiving() as receiver, running() as (queue, _):
        await queue.create_topic("payments", dlq_webhook=receiver.url, max_attempts=3, backoff_initial=0)
        await queue.publish("payments", b"x")
        for _ in range(3):
            [message] = await queue.lease("payments", wait=5)
            await message.nack("no answer")
        await receiver.until(letters=1)
    [letter] = receiver.letters
    assert (letter["retry_count"], letter["attempts"], letter["failure_reason"]) == (2, 3, "attempts")
    assert letter["total_duration"] >= 0
    assert letter["first_attempt"] <= letter["moved_to_dlq_at"]


async def test_a_receiver_that_fails_is_asked_again_until_it_takes_the_letter() -> None:
    async with receiving() as receiver, running() as (queue, webhook):
        receiver.answers = [500, 0]
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments")
        await receiver.until(letters=1)
        await until_told(webhook)
        assert (webhook.tally.delivered, webhook.tally.retried, webhook.tally.failed) == (1, 2, 0)
        assert receiver.requests == 3


async def test_a_letter_survives_a_short_outage() -> None:
    async with receiving() as receiver, running(pauses=(0.01,) * 500) as (queue, _):
        await receiver.stop()
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        [message_id] = await reject(queue, "payments")
        with pytest.raises(OSError, match="Errno 111"):  # so was the letter's first try: it was made before this one
            await asyncio.open_connection("127.0.0.1", receiver.port)
        await receiver.start()
        await receiver.until(letters=1)
        assert receiver.letters[0]["message_id"] == message_id


async def test_after_the_last_try_the_letter_is_counted_and_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with receiving() as receiver, running() as (queue, webhook):
        receiver.answers = [503] * 3
        url = receiver.url.replace("127.0.0.1", "ann:s3cret@127.0.0.1").replace("x=1", "key=s3cret")
        await queue.create_topic("payments", dlq_webhook=url)
        await reject(queue, "payments")
        await receiver.until(requests=3)
        await until_told(webhook)
        assert (webhook.tally.delivered, webhook.tally.failed) == (0, 1)
        assert len(await queue.dead_letters("payments")) == 1
    [record] = [record for record in caplog.records if record.name == "ortoo.webhook"]
    assert record.levelno == logging.ERROR
    assert "503" in record.__dict__["error"]
    assert "s3cret" not in str(record.__dict__)
    assert "Authorization: Basic YW5uOnMzY3JldA==" in receiver.heads[0]


async def test_the_queue_goes_on_while_a_receiver_does_not_answer() -> None:
    async with receiving() as slow, receiving() as quick, running() as (queue, _):
        slow.gate.clear()
        await queue.create_topic("slow", dlq_webhook=slow.url)
        await queue.create_topic("quick", dlq_webhook=quick.url)
        await reject(queue, "slow", 20)
        await slow.until(requests=POSTS_AT_ONCE)
        await reject(queue, "quick", 20)
        await quick.until(letters=20)
        assert slow.letters == []
        slow.gate.set()
        await slow.until(letters=20)
        assert slow.most_at_once == POSTS_AT_ONCE
        assert sorted(letter["dlq_id"] for letter in slow.letters) == sorted(
            dead.id for dead in await queue.dead_letters("slow")
        )


async def test_letters_beyond_the_bound_are_dropped_and_counted() -> None:
    async with receiving() as receiver, running(letters_max=5) as (queue, webhook):
        receiver.gate.clear()
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments", 8)
        assert (webhook.pending, webhook.tally.dropped) == (3, 5), "half of the room is left to others"
        receiver.gate.set()
        await receiver.until(letters=3)
        await until_told(webhook)
        assert len(await queue.dead_letters("payments")) == 8


async def test_one_receiver_that_is_down_leaves_room_for_the_others() -> None:
    async with receiving() as down, receiving() as up, running((60.0,), letters_max=20) as (queue, webhook):
        await down.stop()
        await queue.create_topic("down", dlq_webhook=down.url)
        await queue.create_topic("up", dlq_webhook=up.url)
        await reject(queue, "down", 50)
        for count in (5, 10, 15):
            await reject(queue, "up", 5)
            await up.until(letters=count)
        assert webhook.tally.dropped == 40


async def test_posts_are_bounded_whatever_the_number_of_addresses_and_receivers() -> None:
    """Each is an open file."""
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(receiving()) for _ in range(POSTS_MAX // POSTS_AT_ONCE + 3)]
        queue, webhook = await stack.enter_async_context(running(letters_max=10_000))
        for receiver in receivers:
            receiver.gate.clear()
        for number, receiver in enumerate(receivers * 3):
            await queue.create_topic(f"t{number}", dlq_webhook=f"{receiver.url}&topic={number}")
            await reject(queue, f"t{number}", 4)
        async with asyncio.timeout(60):
            while sum(receiver.at_once for receiver in receivers) < POSTS_MAX // 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert sum(receiver.at_once for receiver in receivers) == POSTS_MAX // 2, "half is left to other namespaces"
        assert max(receiver.most_at_once for receiver in receivers) == POSTS_AT_ONCE
        for receiver in receivers:
            receiver.gate.set()
        await until_told(webhook)
        assert webhook.tally.delivered == 12 * len(receivers)


async def test_silent_receivers_of_a_namespace_do_not_hold_up_those_of_another() -> None:
    async with AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(receiving()) for _ in range(2 * POSTS_MAX // POSTS_AT_ONCE)]
        quick = await stack.enter_async_context(receiving())
        queue, webhook = await stack.enter_async_context(running(letters_max=10_000))
        for number, receiver in enumerate(silent):
            receiver.gate.clear()
            await queue.create_topic(f"t{number}", namespace="theirs", dlq_webhook=receiver.url)
            await reject(queue, f"t{number}", 8, "theirs")
        await queue.create_topic("payments", namespace="ours", dlq_webhook=quick.url)
        for count in (1, 2, 3):
            await reject(queue, "payments", namespace="ours")
            await quick.until(letters=count)
        assert webhook.tally.retried == 0, "nobody waited for them to time out"
        for receiver in silent:
            receiver.gate.set()
        await until_told(webhook)


async def test_a_namespace_does_not_hold_up_what_another_sends_to_the_same_receiver() -> None:
    async with receiving() as receiver, running(letters_max=10_000) as (queue, _):
        receiver.gate.clear()
        for namespace in ("theirs", "ours"):
            await queue.create_topic("payments", namespace=namespace, dlq_webhook=receiver.url)
        await reject(queue, "payments", 2 * POSTS_AT_ONCE, "theirs")
        await receiver.until(requests=POSTS_AT_ONCE)
        await reject(queue, "payments", namespace="ours")
        await receiver.until(requests=POSTS_AT_ONCE + 1)
        assert [json.loads(body)["namespace"] for body in receiver.bodies][-1] == "ours"


async def test_many_lines_of_a_namespace_leave_room_for_the_letters_of_another() -> None:
    async with receiving() as down, receiving() as up, running((60.0,), letters_max=20) as (queue, webhook):
        await down.stop()
        for number in range(30):
            url = f"http://127.0.0.{number + 1}:{down.port}/"
            await queue.create_topic(f"t{number}", namespace="theirs", dlq_webhook=url)
            await reject(queue, f"t{number}", namespace="theirs")
        dropped = webhook.tally.dropped
        await queue.create_topic("up", namespace="ours", dlq_webhook=up.url)
        await reject(queue, "up", 2, "ours")
        await up.until(letters=2)
        assert webhook.tally.dropped == dropped


async def test_a_receiver_that_does_not_answer_gets_one_post_at_a_time_until_it_does() -> None:
    at_once: list[int] = []  # at the start of each post
    open_posts = 0
    is_silent = True
    are_all_open = asyncio.Event()

    async def post(*_: object) -> None:
        nonlocal open_posts
        open_posts += 1
        at_once.append(open_posts)
        if open_posts == POSTS_AT_ONCE:
            are_all_open.set()
        await are_all_open.wait()  # so that the first ones end together
        for _turn in range(20):  # the others get theirs, if they may
            await asyncio.sleep(0)
        open_posts -= 1
        if is_silent:
            raise SilentError("no answer")

    broker = Broker(MemoryStore(), SystemClock())
    webhook = Webhook(broker, broker.on_dead_letters, (0.0, 0.0), post=post)
    async with Queue(broker) as queue:
        webhook.start()
        await queue.create_topic("payments", dlq_webhook="http://receiver.example/")
        await reject(queue, "payments", 3 * POSTS_AT_ONCE)
        await until_told(webhook)
        assert max(at_once[:POSTS_AT_ONCE]) == POSTS_AT_ONCE
        assert set(at_once[POSTS_AT_ONCE:]) == {1}
        assert webhook.tally.failed == 3 * POSTS_AT_ONCE
        is_silent = False
        at_once.clear()
        await reject(queue, "payments", 3 * POSTS_AT_ONCE)
        await until_told(webhook)
        assert max(at_once) == POSTS_AT_ONCE
        await webhook.close()


async def test_an_interim_answer_without_end_is_a_failure_and_holds_nobody_up() -> None:
    sent = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 100 Continue\r\n")
        while not writer.is_closing():
            writer.write(b"a: b\r\n" * 10_000)
            sent += 10_000
            try:
                await writer.drain()
            except OSError:
                break

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PostError, match="too many headers"):
            await post_json(f"http://127.0.0.1:{port}/", b"{}", 60.0)
    assert sent < 1_000_000


async def test_only_dead_letters_of_topics_with_a_webhook_are_told() -> None:
    async with receiving() as receiver, running() as (queue, webhook):
        await queue.create_topic("silent")
        await queue.create_topic("loud", dlq_webhook=receiver.url)
        await queue.create_topic("loud.dlq", dlq_webhook=receiver.url, partitions=1, ordering="none")
        await reject(queue, "silent")
        [message_id] = await reject(queue, "loud")
        await queue.delete_message(message_id)
        assert await queue.redrive("loud") == 1  # by a copy, which is no dead letter
        await until_told(webhook)
    assert [letter["topic"] for letter in receiver.letters] == ["loud"]


async def test_closing_tells_what_is_left() -> None:
    async with receiving() as receiver, running(pauses=(60, 60, 60)) as (queue, webhook):
        receiver.answers = [503]
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments")
        await receiver.until(requests=1)
        await webhook.close(10)
        assert (webhook.tally.delivered, webhook.pending) == (1, 0)


async def test_closing_does_not_wait_longer_than_it_may(caplog: pytest.LogCaptureFixture) -> None:
    async with receiving() as receiver, running() as (queue, webhook):
        receiver.gate.clear()
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments", 10)
        await receiver.until(requests=POSTS_AT_ONCE)
        async with asyncio.timeout(300):
            await webhook.close(0.05)
        assert (webhook.tally.delivered, webhook.tally.failed, webhook.pending) == (0, 10, 0)
    assert [record.__dict__["letters"] for record in caplog.records if record.name == "ortoo.webhook"] == [10]


async def test_an_embedded_queue_tells_its_webhooks_also_while_it_closes(tmp_path: Path) -> None:
    async with receiving() as receiver:
        async with ortoo.open(tmp_path / "data") as queue:
            await queue.create_topic("payments", dlq_webhook=receiver.url)
            await reject(queue, "payments")
        assert len(receiver.letters) == 1


async def test_an_observer_that_fails_does_not_stop_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    def fail(records: list[Record]) -> None:
        raise RuntimeError("a mistake")

    broker = Broker(MemoryStore(), SystemClock())
    broker.on_commit.append(fail)
    async with Queue(broker) as queue:
        await queue.publish("orders", b"tea")
        assert [message.value for message in await queue.lease("orders")] == [b"tea"]
    assert "an observer of commits failed" in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.example",
        "a.example/hook",
        "http://",
        "http://a b",
        "http://a:99999",
        "http://é.example",
        "http://a.example/\r\nX: y",
        "http://" + "a" * 2048,
        "",
    ],
)
async def test_a_webhook_that_is_no_web_address_is_refused(url: str) -> None:
    async with ortoo.open() as queue:
        with pytest.raises(ortoo.ConfigError, match="dlq_webhook must be an http:// or https:// address"):
            await queue.create_topic("payments", dlq_webhook=url)
        await queue.create_topic("payments", dlq_webhook="https://a.example:8443/x?y=z")
        with pytest.raises(ortoo.ConfigError, match="dlq_webhook"):
            await queue.update_topic("payments", dlq_webhook=url)


async def test_an_answer_that_is_not_http_is_a_failure() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with running(pauses=()) as (queue, webhook):
        await queue.create_topic("payments", dlq_webhook=f"http://127.0.0.1:{port}/")
        await reject(queue, "payments")
        await until_told(webhook)
        assert webhook.tally.failed == 1
    server.close()
