"""Fan-out: many groups on one topic, ephemeral subscribers, and consuming across topics by labels."""

import asyncio

import pytest

from ortoo import Message, NotFoundError, Queue
from ortoo.testing import ManualClock

from .actors import poll, publish, take, until, values, waiters


async def test_a_dozen_groups_each_get_everything(queue: Queue) -> None:
    """*pub/sub* (bus mode) is one group per subscriber."""
    await queue.publish_many("events", [Message(b"%d" % number) for number in range(50)])
    for group in range(12):
        messages = await take(queue, "events", group=f"g{group}")
        assert sorted(values(messages)) == sorted(b"%d" % number for number in range(50))
        await queue.ack(messages)
    assert (await queue.topic("events")).depth == 0
    assert (await queue.stats()).groups == 12


async def test_consumers_of_one_group_compete(queue: Queue) -> None:
    """A *queue* is a topic read by one group (competing consumers)."""
    await publish(queue, "events", *[b"%d" % number for number in range(20)])
    got = [values(await take(queue, "events", 5, consumer=f"c{number}")) for number in range(4)]
    assert sorted(value for batch in got for value in batch) == sorted(b"%d" % number for number in range(20))


async def collect(queue: Queue, into: list[bytes], count: int) -> None:
    async for message in queue.subscribe("events"):
        into.append(message.value)
        if len(into) == count:
            return


async def has_groups(queue: Queue, count: int) -> bool:
    return len(await queue.groups("events")) == count


async def is_listened_to(queue: Queue) -> bool:
    return await waiters(queue) == 1


async def test_a_subscriber_whose_group_is_gone_makes_it_again_where_it_was(
    python_queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Ephemeral groups vanish with their consumer, and this one is alive."""
    queue = python_queue
    await queue.create_topic("events", partitions=1)
    async with queue.subscribe("events") as events:
        await queue.publish("events", b"1")
        got = [(await anext(events)).value]
        [group] = await queue.groups("events")
        await queue.delete_group("events", group.name)
        await queue.publish("events", b"2")
        got += [(await asyncio.wait_for(anext(events), 60)).value]
    assert got == [b"1", b"2"]
    assert "the subscription to 'events' was lost" in caplog.text


async def test_a_subscription_ends_with_its_topic(python_queue: Queue) -> None:
    """Delete: waiters get an error at once."""
    await python_queue.create_topic("events")
    async with python_queue.subscribe("events") as events:
        await python_queue.delete_topic("events")
        with pytest.raises(NotFoundError):
            await asyncio.wait_for(anext(events), 60)


async def test_ephemeral_subscribers_each_get_everything_new(queue: Queue) -> None:
    """Ephemeral fan-out subscribers (10+ on one topic)."""
    await queue.create_topic("events", partitions=1)
    await queue.publish("events", b"old")
    boxes: list[list[bytes]] = [[] for _ in range(15)]
    tasks = [asyncio.create_task(collect(queue, box, 3)) for box in boxes]
    await until(lambda: has_groups(queue, 15))
    await publish(queue, "events", b"1", b"2", b"3")
    await asyncio.gather(*tasks)
    assert boxes == [[b"1", b"2", b"3"]] * 15
    await until(lambda: has_groups(queue, 0))


async def test_a_subscriber_that_is_cancelled_leaves_nothing_behind(queue: Queue) -> None:
    """Ephemeral groups … vanish with their consumer."""
    await queue.create_topic("events")
    task = asyncio.create_task(collect(queue, [], 1))
    await until(lambda: is_listened_to(queue))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: has_groups(queue, 0))


async def test_a_slow_subscriber_gets_each_message_once(queue: Queue, clock: ManualClock) -> None:
    """Ephemeral groups … vanish with their consumer: one that thinks about a message for minutes is still there."""
    await queue.create_topic("events", partitions=1)
    await queue.publish("events", b"old")
    stream = queue.subscribe("events")
    first = asyncio.ensure_future(anext(aiter(stream)))
    await until(lambda: is_listened_to(queue))
    await queue.publish("events", b"1")
    assert (await first).value == b"1"
    await clock.advance(300)
    await queue.publish("events", b"2")
    assert (await anext(aiter(stream))).value == b"2"
    assert [group.ephemeral for group in await queue.groups("events")] == [True]
    await stream.aclose()
    assert await queue.groups("events") == []


async def test_a_subscriber_whose_topic_goes_is_told(queue: Queue) -> None:
    """Delete: waiters get an error at once."""
    await queue.create_topic("events")
    task = asyncio.create_task(collect(queue, [], 1))
    await until(lambda: is_listened_to(queue))
    await queue.delete_topic("events")
    with pytest.raises(NotFoundError):
        await task


async def labelled(queue: Queue) -> None:
    for topic, priority, task in [("low", 9, "process"), ("high", 1, "process"), ("mid", 5, "process"), ("no", 0, "x")]:
        await queue.create_topic(topic, priority=priority, labels={"task": task, "team": "a"})
        await publish(queue, topic, *[f"{topic}{number}".encode() for number in range(2)], partition=0)


async def test_consuming_by_labels_takes_the_topic_of_highest_priority_first(queue: Queue) -> None:
    """Consume across every topic of a namespace/task, highest topic priority first."""
    await labelled(queue)
    assert values(await queue.lease(labels={"task": "process"}, max_messages=3)) == [b"high0", b"high1", b"mid0"]
    assert values(await queue.lease(labels={"task": "process"}, max_messages=9)) == [b"mid1", b"low0", b"low1"]
    assert await queue.lease(labels={"task": "process"}) == []


async def test_all_labels_must_match(queue: Queue) -> None:
    """Consume across every topic of a namespace/task."""
    await labelled(queue)
    assert values(await queue.lease(labels={"task": "x", "team": "a"}, max_messages=9)) == [b"no0", b"no1"]
    assert await queue.lease(labels={"task": "x", "team": "b"}) == []
    assert await queue.lease(labels={"task": "process"}, namespace="other") == []


async def test_waiting_by_labels(queue: Queue, clock: ManualClock) -> None:
    """Consume across every topic of a namespace/task: a long poll sees topics that come later too."""
    waiting = await poll(queue, None, labels={"task": "process"})
    await queue.create_topic("other")
    await queue.publish("other", b"not this")
    assert await waiters(queue) == 1
    await queue.create_topic("late", labels={"task": "process"})
    await queue.publish("late", b"1")
    assert values(await waiting) == [b"1"]
    waiting = await poll(queue, None, labels={"task": "process"})
    await clock.advance(30)
    assert await waiting == []


async def test_a_lease_by_labels_touches_no_other_topic(queue: Queue) -> None:
    """Labels … are for consuming across topics."""
    await labelled(queue)
    await queue.lease(labels={"task": "process"}, group="g", max_messages=10)
    assert await queue.groups("no") == []
