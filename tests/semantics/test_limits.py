"""Limits: each has its own error, with words that say what to do, and nothing is changed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ortoo
from ortoo import FullError, InvalidError, Message, Queue, Received, TooManyError
from ortoo.broker import Broker
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.commands import Publish, unwrap

from .actors import settle, take, values
from .refusing import refused


async def test_leasing_by_key_needs_key_order(queue: Queue) -> None:
    await queue.create_topic("orders", ordering="none")
    await refused(queue, lambda queue: queue.lease("orders", key="k"), InvalidError, "ordering='key'")


async def test_settling_nothing_is_fine(queue: Queue) -> None:
    for how in ("ack", "nack", "reject", "release", "extend"):
        await getattr(queue, how)([])


async def test_priorities_in_use_are_bounded(queue: Queue) -> None:
    batch = [Message(b"", priority=number) for number in range(257)]
    await refused(queue, lambda queue: queue.publish_many("new", batch), InvalidError, "256 different priorities")
    await queue.publish_many("new", batch[:256])


async def test_priorities_that_are_used_no_more_leave_room_for_others(queue: Queue) -> None:
    await queue.publish_many("new", [Message(b"", priority=number) for number in range(256)])
    await queue.purge("new")
    await queue.publish_many("new", [Message(b"", priority=number) for number in range(256, 512)])


async def _seek(queue: Queue) -> None:
    await queue.seek("orders", "default", "start")


async def _redrive(queue: Queue) -> None:
    await queue.redrive("orders")


async def _add_group(queue: Queue) -> None:
    await queue.create_group("orders", "another")


async def _delete_group(queue: Queue) -> None:
    await queue.delete_group("orders", "default")


async def _deliver_once_more(queue: Queue) -> None:
    for message in [message async for message in queue.read("orders")]:
        await queue.retry_now(message.id)


@pytest.mark.parametrize("again", [_seek, _redrive, _add_group, _delete_group, _deliver_once_more])
async def test_what_is_to_be_delivered_once_more_counts_towards_the_depth(
    queue: Queue, again: Callable[[Queue], Awaitable[None]]
) -> None:
    await queue.create_topic("orders", max_depth=4)
    await queue.publish_many("orders", [b"1", b"2"])
    await queue.reject(await queue.lease("orders", max_messages=2), error="no")
    await queue.publish("orders", b"3")
    await queue.ack(await queue.lease("orders"))
    await queue.publish_many("orders", [b"4", b"5"])  # there is room for two more
    await again(queue)
    await refused(queue, lambda queue: queue.publish_many("orders", [b"6"]), FullError, "max_depth of 4")


async def test_pending_messages_are_not_counted_with_each_publish(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Topic] = []
    count = Topic.depth

    def depth(topic: Topic) -> int:
        counted.append(topic)
        return count(topic)

    await queue.create_topic("orders", max_depth=1_000)
    monkeypatch.setattr(Topic, "depth", depth)
    for number in range(100):
        await queue.publish("orders", b"%d" % number)
    assert len(counted) <= 1


async def test_topics_that_one_command_makes_are_bounded(queue: Queue) -> None:
    names = [f"t{number}" for number in range(limits.NEW_TOPICS_MAX + 1)]

    async def publish_to_all(queue: Queue) -> None:
        async with queue.transaction() as transaction:
            for name in names:
                transaction.publish(name, b"")

    await refused(queue, publish_to_all, TooManyError, "create the others first")
    assert await queue.topics() == []
    await queue.create_topic(names[0])
    await publish_to_all(queue)
    assert len(await queue.topics()) == len(names)


async def test_groups_of_a_topic_are_bounded(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS_MAX", 2)
    await queue.publish("orders", b"1")
    for group in ("a", "b"):
        await queue.lease("orders", group=group)
    await refused(queue, lambda queue: queue.lease("orders", group="c"), TooManyError, "delete some first")
    assert len(await queue.groups("orders")) == 2


async def test_topics_are_bounded(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_MAX", 2)
    for topic in ("a", "b"):
        await queue.publish(topic, b"1")
    await refused(queue, lambda queue: queue.publish("c", b"1"), TooManyError, "delete some first")


async def test_open_transactions_are_bounded(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSACTIONS_OPEN_MAX", 1)
    await queue.begin("a")
    await refused(queue, lambda queue: queue.begin("b"), TooManyError, "commit or abort some")


async def test_open_transactions_of_a_namespace_are_bounded_and_leave_room_for_others(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NAMESPACE_TRANSACTIONS_OPEN_MAX", 2)
    first = await queue.begin("a")
    await queue.begin("b")
    await queue.begin("b")
    await refused(
        queue, lambda queue: queue.begin("c"), TooManyError, "in namespace 'default' already; commit or abort"
    )
    await queue.begin("c", namespace="other")
    await first.abort()
    await queue.begin("c")


async def test_waiters_are_bounded(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITERS_MAX", 0)
    await queue.create_topic("orders")
    with pytest.raises(TooManyError, match="poll without wait"):
        await queue.lease("orders", wait=1)


async def test_a_full_topic_refuses_a_whole_batch(queue: Queue) -> None:
    """Depth limit (off by default; when hit, the producer gets a clear "full" error)."""
    await queue.create_topic("orders", max_depth=3)
    await queue.publish_many("orders", [Message(b"1"), Message(b"2")])
    batch = [Message(b"3"), Message(b"4")]
    await refused(queue, lambda queue: queue.publish_many("orders", batch), FullError, "max_depth of 3; retry later")
    assert (await queue.topic("orders")).messages == 2


async def test_a_stranger_in_the_dlq_is_no_dead_letter(queue: Queue) -> None:
    """Whoever publishes to a DLQ by hand does not break its listing."""
    sent = await queue.publish("orders", b"1")
    await queue.reject(await take(queue, "orders"))
    await queue.publish("orders.dlq", b"stranger", headers={"ortoo-origin": sent.id})
    letters: list[Received] = await queue.dead_letters("orders")
    assert values(letters) == [b"1"]
    assert await queue.redrive("orders") == 1


async def test_no_more_producers_are_woken_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of hundreds would try and wait again, for every message that is settled."""
    async with ortoo.open() as queue:
        await queue.create_topic("orders", max_depth=1)
        await queue.publish("orders", b"first")
        broker = queue._link
        assert isinstance(broker, Broker)
        waiting = [asyncio.create_task(queue.publish("orders", b"%d" % number, wait=60)) for number in range(50)]
        await settle(200)
        tries = 0
        submit = broker.submit

        def counted(command: Any) -> Any:
            nonlocal tries
            tries += isinstance(unwrap(command), Publish)
            return submit(command)

        monkeypatch.setattr(broker, "submit", counted)
        got: list[bytes] = []
        while len(got) < 51:
            messages = await queue.lease("orders", wait=30)
            await queue.ack(messages)
            got += values(messages)
        await asyncio.gather(*waiting)
        assert got == [b"first", *(b"%d" % number for number in range(50))]  # first come, first served
        assert tries <= 2 * 50


async def test_a_group_has_a_bounded_number_of_consumers(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONSUMERS_MAX", 3)
    await queue.publish("orders", b"1")
    for name in ("a", "b", "c"):
        await queue.lease("orders", consumer=name)
    with pytest.raises(TooManyError, match="3 consumers already"):
        await queue.lease("orders", consumer="d")
    with pytest.raises(TooManyError):
        await queue.heartbeat("orders", "default", "d")
    await queue.heartbeat("orders", "default", "a")
    await queue.leave("b")
    await queue.lease("orders", consumer="d")
