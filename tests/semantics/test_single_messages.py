"""Single messages: looking at one, and what an operator may do with it."""

import pytest

from ortoo import InvalidError, NotFoundError, Queue, Received
from ortoo.model.replies import MessageState
from ortoo.testing import ManualClock

from .actors import is_stale, poll, publish, take, values


async def test_a_message_can_be_inspected(queue: Queue) -> None:
    """Single messages can be inspected."""
    sent = await queue.publish("orders", {"a": 1}, key="k", headers={"h": "v"}, priority=3)
    info = await queue.message(sent.id)
    message = info.message
    assert (message.id, message.key, message.headers, message.priority) == (sent.id, "k", {"h": "v"}, 3)
    assert message.json() == {"a": 1}
    assert info.states == {}
    [held] = await queue.lease("orders", group="a")
    await queue.create_group("orders", "b")
    assert (await queue.message(sent.id)).states == {"a": "leased", "b": "ready"}
    with pytest.raises(InvalidError, match="read, not leased"):
        await message.ack()
    await held.ack()
    assert (await queue.message(sent.id)).states == {"a": "done", "b": "ready"}


async def test_a_message_can_be_deleted(queue: Queue) -> None:
    """Single messages can be … deleted."""
    await queue.create_topic("orders", partitions=1)
    first, second, _ = await publish(queue, "orders", b"1", b"2", b"3")
    await queue.create_group("orders", "a")
    [held] = await queue.lease("orders", group="b")
    await queue.delete_message(first.id)
    await queue.delete_message(second.id)
    assert await is_stale(queue, held)
    for group in ("a", "b", "new"):
        assert values(await take(queue, "orders", group=group)) == [b"3"]
    assert values([message async for message in queue.read("orders")]) == [b"3"]
    assert (await queue.topic("orders")).messages == 1
    for again in (queue.delete_message, queue.message, queue.retry_now, queue.dead_letter):
        with pytest.raises(NotFoundError):
            await again(first.id)


async def test_a_delayed_message_can_be_retried_now(queue: Queue) -> None:
    """Single messages can be … retried now."""
    sent = await queue.publish("orders", b"1", delay=600)
    waiting = await poll(queue)
    await queue.retry_now(sent.id)
    assert values(await waiting) == [b"1"]


async def test_a_message_in_backoff_can_be_retried_now(queue: Queue) -> None:
    """Single messages can be … retried now."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [message] = await queue.lease("orders")
    await message.nack(delay=600)
    await queue.retry_now(message.id)
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"1", 2), (b"2", 1)]


async def test_a_done_message_can_be_delivered_once_more(queue: Queue) -> None:
    """Whatever the message waits for, it becomes deliverable at once; for one group, or for all."""
    sent = await queue.publish("orders", b"1")
    for group in ("a", "b"):
        await queue.ack(await take(queue, "orders", group=group))
    await queue.retry_now(sent.id, group="a")
    assert values(await take(queue, "orders", group="a")) == [b"1"]
    assert await take(queue, "orders", group="b") == []
    with pytest.raises(NotFoundError, match="nobody"):
        await queue.retry_now(sent.id, group="nobody")


async def test_a_leased_message_that_is_retried_now_leaves_its_lease(queue: Queue) -> None:
    """Single messages can be … retried now."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders", consumer="stuck")
    await queue.retry_now(message.id)
    assert values(await take(queue, "orders", consumer="other")) == [b"1"]
    assert await is_stale(queue, message)


async def test_a_message_can_be_moved_to_the_dlq(queue: Queue) -> None:
    """Single messages can be … moved to the DLQ."""
    sent = await queue.publish("orders", b"1")
    for group in ("a", "b", "done"):
        await queue.create_group("orders", group)
    await queue.ack(await take(queue, "orders", group="done"))
    [held] = await take(queue, "orders", group="a")
    await queue.dead_letter(sent.id, error="by hand")
    assert await is_stale(queue, held)
    letters = await queue.dead_letters("orders")
    assert sorted(letter.headers["ortoo-group"] for letter in letters) == ["a", "b"]
    assert {letter.headers["ortoo-reason"] for letter in letters} == {"moved"}
    assert {letter.headers["ortoo-error"] for letter in letters} == {"by hand"}
    with pytest.raises(InvalidError, match="pending in no group"):
        await queue.dead_letter(sent.id)


async def test_a_message_can_be_moved_to_the_dlq_for_one_group(queue: Queue) -> None:
    """… for one group, or for all that have it pending."""
    sent = await queue.publish("orders", b"1")
    for group in ("a", "b"):
        await queue.create_group("orders", group)
    await queue.dead_letter(sent.id, group="a")
    assert await take(queue, "orders", group="a") == []
    assert values(await take(queue, "orders", group="b")) == [b"1"]


async def listed(queue: Queue) -> dict[str, list[bytes]]:
    states: list[MessageState] = ["ready", "delayed", "leased", "blocked", "done", "dead"]
    return {state: values(await queue.messages("orders", state=state)) for state in states}


async def test_messages_are_listed_by_state(queue: Queue, clock: ManualClock) -> None:
    """… listed by state (ready, delayed, leased, blocked, done, dead) for a group."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"done", b"dead", b"retrying")
    done, dead, retrying = await take(queue, "orders")
    await done.ack()
    await dead.reject()
    await retrying.nack(delay=60)
    await queue.publish("orders", b"delayed", delay=60)
    await publish(queue, "orders", b"leased", b"blocked", b"blocked too", key="k")
    await queue.lease("orders", lease=600)
    await queue.publish("orders", b"ready")
    assert await listed(queue) == {
        "ready": [b"ready"],
        "delayed": [b"retrying", b"delayed"],
        "leased": [b"leased"],
        "blocked": [b"blocked", b"blocked too"],
        "done": [b"done"],
        "dead": [b"dead"],
    }
    await clock.advance(60)
    assert (await listed(queue))["ready"] == [b"retrying", b"delayed", b"ready"]


async def test_a_fifo_partition_lists_what_is_blocked(queue: Queue) -> None:
    """… listed by state for a group; in `partition` order what is behind a delivered message is blocked."""
    await queue.create_topic("orders", ordering="partition", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    await queue.lease("orders")
    found = await listed(queue)
    assert (found["leased"], found["blocked"], found["ready"]) == ([b"1"], [b"2", b"3"], [])


async def test_a_listing_is_bounded(queue: Queue) -> None:
    """… listed by state, up to a limit."""
    await publish(queue, "orders", *[b"%d" % number for number in range(20)])
    await queue.create_group("orders", "default")
    assert len(await queue.messages("orders", limit=7)) == 7
    with pytest.raises(InvalidError, match="lost"):
        await queue.messages("orders", state="lost")  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="nobody"):
        await queue.messages("orders", group="nobody")


async def test_a_trace_tells_what_happened(queue: Queue, clock: ManualClock) -> None:
    """Per-message trace."""
    start = clock.time()
    sent = await queue.publish("orders", b"1", delay=5)
    assert [event.what for event in (await queue.trace(sent.id)).events] == ["published", "due"]
    await clock.advance(5)
    [message] = await queue.lease("orders", group="g", consumer="c", lease=10)
    await message.nack("oops", delay=1)
    await clock.advance(1)
    await queue.lease("orders", group="g", consumer="d", lease=10)
    await clock.advance(20)
    [message] = await queue.lease("orders", group="g", consumer="e")
    await message.ack()
    trace = await queue.trace(sent.id)
    told = [(round(event.time - start, 3), event.what, event.consumer, event.attempt) for event in trace.events]
    assert told == [
        (0, "published", None, None),
        (5, "delivered", "c", 1),
        (5, "nacked", "c", 1),
        (6, "redelivered", "d", 2),
        (16, "lease expired", "d", 2),
        (26, "redelivered", "e", 3),
        (26, "acknowledged", "e", None),
    ]
    assert trace.events[2].error == "oops"
    with pytest.raises(NotFoundError):
        await queue.trace("1.5.77")


async def test_a_log_can_be_read_without_a_group(queue: Queue, clock: ManualClock) -> None:
    """Replay without a group: from_offset, from_time, to_time, to_offset, partition."""
    await queue.create_topic("orders", partitions=2)
    start = clock.time()
    for number in range(8):
        await queue.publish("orders", b"%d" % number, partition=number % 2)
        await clock.advance(10)
    await queue.ack(await take(queue, "orders"))

    async def read(**options: float) -> list[int]:
        return [int(message.value) async for message in queue.read("orders", **options)]  # type: ignore[arg-type]

    assert await read() == list(range(8))
    assert await read(partition=1) == [1, 3, 5, 7]
    assert await read(from_offset=2) == [4, 5, 6, 7]
    assert await read(from_offset=1, to_offset=2) == [2, 3]
    assert await read(from_time=start + 30, to_time=start + 60) == [3, 4, 5]
    assert await read(from_time=start + 1000) == []


async def test_reading_in_batches(queue: Queue) -> None:
    """One partition's messages in batches: the fast way to replay."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", *[b"%d" % number for number in range(10)])
    batches: list[list[Received]] = [batch async for batch in queue.read_batches("orders", partition=0, batch=4)]
    assert [values(batch) for batch in batches] == [
        [b"0", b"1", b"2", b"3"],
        [b"4", b"5", b"6", b"7"],
        [b"8", b"9"],
    ]


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_what_is_retried_at_once_does_not_overtake_what_has_become_ready(
    queue: Queue, clock: ManualClock, ordering: str
) -> None:
    await queue.create_topic("jobs", partitions=1, ordering=ordering, window_seconds=3.0)
    await queue.lease("jobs")  # the group is there
    await queue.publish("jobs", b"1", key="k")
    second = await queue.publish("jobs", b"2", key="k")
    await queue.retry_now(second.id)
    await clock.advance(6_000)
    assert [message.value for message in await queue.lease("jobs", max_messages=1)] == [b"1"]
