"""Topics: how they come and go, purge, and seek."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from ortoo import ConfigError, ExistsError, InvalidError, NotFoundError, Queue
from ortoo.testing import ManualClock, open_manual

from .actors import is_stale, poll, publish, publish_apart, take, values


async def test_a_topic_with_other_settings_is_refused_by_naming_them(queue: Queue) -> None:
    """Errors say what to do."""
    await queue.create_topic("orders", partitions=2, lease=10)
    with pytest.raises(ExistsError, match=r"partitions is 2, not 3; lease is 10\.0, not 30\.0.*update_topic"):
        await queue.create_topic("orders", partitions=3)
    with pytest.raises(ExistsError, match=r"exists already$"):
        await queue.create_topic("orders", partitions=2, lease=10, exist_ok=False)


async def test_ensuring_a_topic_makes_it_or_changes_what_differs(python_queue: Queue) -> None:
    """ensure_topic makes a topic, or gives the one there is the settings named."""
    queue = python_queue
    made = await queue.ensure_topic("orders", partitions=2, max_attempts=7, ordering="none")
    assert (made.config.partitions, made.config.max_attempts) == (2, 7)
    await queue.publish("orders", b"x")
    changed = await queue.ensure_topic("orders", partitions=3)
    assert (changed.config.partitions, changed.config.max_attempts, changed.messages) == (3, 7, 1)
    assert await queue.ensure_topic("orders", partitions=3) == changed
    with pytest.raises(InvalidError, match="increased only"):
        await queue.ensure_topic("orders", partitions=1)


async def test_a_topic_that_several_ensure_at_once_is_made_once(python_queue: Queue) -> None:
    """ensure_topic is for the start of a program, and programs start together."""
    infos = await asyncio.gather(*(python_queue.ensure_topic("orders", partitions=2) for _ in range(10)))
    assert len({info.id for info in infos}) == 1


async def test_publishing_creates_a_topic(queue: Queue) -> None:
    """Only publishing creates a topic by itself (when allowed)."""
    await queue.publish("orders", b"1")
    assert [info.name for info in await queue.topics()] == ["orders"]
    assert len((await queue.topic("orders")).partitions) == 6


async def test_publishing_creates_nothing_where_that_is_switched_off() -> None:
    """Only publishing creates a topic by itself (when allowed)."""
    async with open_manual(auto_create=False) as queue:
        with pytest.raises(NotFoundError, match="not created by first use"):
            await queue.publish("orders", b"1")
        await queue.create_topic("orders")
        await queue.publish("orders", b"1")
        assert [info.name for info in await queue.topics()] == ["orders"]


UNKNOWN: dict[str, Callable[[Queue], Awaitable[object]]] = {
    "lease": lambda queue: queue.lease("nowhere", wait=1),
    "seek": lambda queue: queue.seek("nowhere", "default", "start"),
    "topic": lambda queue: queue.topic("nowhere"),
    "group": lambda queue: queue.group("nowhere"),
    "groups": lambda queue: queue.groups("nowhere"),
    "create_group": lambda queue: queue.create_group("nowhere", "g"),
    "delete_group": lambda queue: queue.delete_group("nowhere", "g"),
    "purge": lambda queue: queue.purge("nowhere"),
    "delete_topic": lambda queue: queue.delete_topic("nowhere"),
    "update_topic": lambda queue: queue.update_topic("nowhere", lease=5),
    "messages": lambda queue: queue.messages("nowhere"),
    "dead_letters": lambda queue: queue.dead_letters("nowhere"),
    "redrive": lambda queue: queue.redrive("nowhere"),
    "heartbeat": lambda queue: queue.heartbeat("nowhere", "g", "c"),
    "read": lambda queue: anext(aiter(queue.read("nowhere"))),
    "consume": lambda queue: anext(aiter(queue.consume("nowhere"))),
    "subscribe": lambda queue: anext(aiter(queue.subscribe("nowhere"))),
}


@pytest.mark.parametrize("what", UNKNOWN)
async def test_nothing_else_creates_a_topic(queue: Queue, what: str) -> None:
    """Lease, seek, stats on an unknown topic: not found."""
    with pytest.raises(NotFoundError, match="nowhere"):
        await UNKNOWN[what](queue)
    assert await queue.topics() == []


async def test_seeking_an_unknown_group_is_not_found(queue: Queue) -> None:
    """Lease, seek, stats on an unknown topic: not found; likewise for an unknown group."""
    await queue.create_topic("orders")
    with pytest.raises(NotFoundError, match="nobody"):
        await queue.seek("orders", "nobody", "start")


async def test_creating_a_topic_again_is_fine_if_it_is_the_same(queue: Queue) -> None:
    """One that exists with the same settings is fine if `exist_ok`."""
    first = await queue.create_topic("orders", partitions=2)
    assert (await queue.create_topic("orders", partitions=2)).id == first.id
    with pytest.raises(ExistsError):
        await queue.create_topic("orders", partitions=3)
    with pytest.raises(ExistsError):
        await queue.create_topic("orders", partitions=2, exist_ok=False)


async def test_an_update_changes_some_settings_and_leaves_the_others(queue: Queue, clock: ManualClock) -> None:
    """Topics are created with a config; update, list, describe, purge, delete."""
    await queue.create_topic("orders", partitions=2, max_attempts=7)
    config = (await queue.update_topic("orders", lease=5)).config
    assert (config.partitions, config.max_attempts, config.lease) == (2, 7, 5)
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await clock.advance(5)
    assert await is_stale(queue, message)


async def test_the_order_of_a_topic_cannot_be_changed(queue: Queue) -> None:
    """What is in flight was promised the old order."""
    await queue.create_topic("orders")
    with pytest.raises(InvalidError, match="ordering"):
        await queue.update_topic("orders", ordering="none")


async def test_strict_order_needs_one_partition(queue: Queue) -> None:
    """`strict` (global FIFO, one partition)."""
    with pytest.raises(ConfigError, match="partitions=1"):
        await queue.create_topic("orders", ordering="strict", partitions=2)
    assert await queue.topics() == []


async def test_a_delete_fails_the_waiters_at_once(queue: Queue) -> None:
    """Delete: waiters get an error at once."""
    await queue.create_topic("orders")
    waiting = [await poll(queue, group=group) for group in ("a", "a", "b")]
    await queue.delete_topic("orders")
    for task in waiting:
        with pytest.raises(NotFoundError, match="orders"):
            await task


async def test_after_a_purge_the_log_starts_at_its_end(queue: Queue) -> None:
    """Purge: the log starts at its end."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    await queue.publish("orders", b"delayed", delay=60)
    await queue.lease("orders", group="a")
    assert await queue.purge("orders") == 4
    info = await queue.topic("orders")
    assert (info.partitions[0].start, info.partitions[0].end) == (4, 4)
    assert (info.messages, info.bytes, info.depth) == (0, 0, 0)
    for group in ("a", "new"):
        assert await take(queue, "orders", group=group) == []
    assert [message async for message in queue.read("orders")] == []
    assert await queue.purge("orders") == 0


async def test_after_a_purge_new_messages_flow(queue: Queue, clock: ManualClock) -> None:
    """Purge: the log starts at its end, receipts go stale."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", key="k")
    await queue.publish("orders", b"delayed", key="k", delay=5)
    [held] = await queue.lease("orders", lease=10)
    await queue.purge("orders")
    await queue.publish("orders", b"3", key="k")
    assert await is_stale(queue, held)
    await clock.advance(20)
    assert values(await take(queue, "orders")) == [b"3"]


async def test_a_seek_to_the_start_delivers_everything_again(queue: Queue) -> None:
    """Seek/replay a group to an offset or a time."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2")
    await queue.ack(await take(queue, "orders"))
    await queue.seek("orders", "default", "start")
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_a_seek_to_the_end_skips_everything(queue: Queue) -> None:
    """Seek/replay a group to an offset or a time."""
    await publish(queue, "orders", b"1", b"2")
    await queue.lease("orders")
    await queue.seek("orders", "default", "end")
    await queue.publish("orders", b"3")
    assert values(await take(queue, "orders")) == [b"3"]


async def test_a_seek_may_go_to_an_offset_or_a_time(queue: Queue, clock: ManualClock) -> None:
    """Seek/replay a group to an offset or a time."""
    start = await publish_apart(queue, clock)
    await take(queue, "orders")
    await queue.seek("orders", "default", offset=2)
    assert values(await take(queue, "orders")) == [b"2", b"3"]
    await queue.seek("orders", "default", time=start + 30)
    assert values(await take(queue, "orders")) == [b"3"]
    await queue.seek("orders", "default", time=datetime.fromtimestamp(start + 10, UTC))
    assert values(await take(queue, "orders")) == [b"1", b"2", b"3"]


async def test_a_seek_resets_attempts(queue: Queue) -> None:
    """Seek: … attempts reset."""
    await queue.publish("orders", b"1")
    for _ in range(2):
        [message] = await queue.lease("orders")
        await message.nack(delay=0)
    await queue.seek("orders", "default", "start")
    assert [message.attempt for message in await take(queue, "orders")] == [1]


async def test_a_seek_ends_a_backoff(queue: Queue) -> None:
    """Seek: … attempts reset."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [message] = await queue.lease("orders")
    await message.nack(delay=600)
    await queue.seek("orders", "default", "start")
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_a_bounded_seek_delivers_that_stretch_and_leaves_the_rest(queue: Queue) -> None:
    """A bounded seek makes [from, to) deliverable and leaves the rest."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", *[b"%d" % number for number in range(8)])
    await queue.ack(await take(queue, "orders", 6))
    await queue.seek("orders", "default", offset=2, to_offset=4)
    assert values(await take(queue, "orders")) == [b"2", b"3", b"6", b"7"]


async def test_a_bounded_seek_by_time(queue: Queue, clock: ManualClock) -> None:
    """Seek/replay a group to an offset or a time, also bounded (from–to)."""
    start = clock.time()
    for number in range(5):
        await queue.publish("orders", b"%d" % number)
        await clock.advance(10)
    await queue.ack(await take(queue, "orders"))
    await queue.seek("orders", "default", time=start + 10, to_time=start + 30)
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_a_bounded_seek_resets_attempts_in_its_stretch_only(queue: Queue) -> None:
    """A bounded seek makes [from, to) deliverable and leaves the rest."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"0", b"1")
    await queue.nack(await take(queue, "orders"), delay=0)
    await queue.seek("orders", "default", offset=0, to_offset=1)
    assert [(m.value, m.attempt) for m in await take(queue, "orders")] == [(b"0", 1), (b"1", 2)]


async def test_a_bounded_seek_revives_dead_letters_of_its_stretch(queue: Queue) -> None:
    """A bounded seek makes [from, to) deliverable."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"0", b"1")
    await queue.reject(await take(queue, "orders"))
    await queue.seek("orders", "default", offset=1, to_offset=2)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_a_seek_wakes_who_waits(queue: Queue) -> None:
    """A bounded seek makes [from, to) deliverable: also for a parked long poll."""
    await queue.publish("orders", b"1")
    await queue.ack(await take(queue, "orders"))
    waiting = await poll(queue)
    await queue.seek("orders", "default", "start")
    assert values(await waiting) == [b"1"]


async def test_a_seek_says_where_to(queue: Queue) -> None:
    """A seek names one place."""
    await queue.publish("orders", b"1")
    await queue.lease("orders")
    with pytest.raises(InvalidError, match="where to"):
        await queue.seek("orders", "default")
    with pytest.raises(InvalidError, match="one of"):
        await queue.seek("orders", "default", "start", offset=3)
    with pytest.raises(InvalidError, match="middle"):
        await queue.seek("orders", "default", "middle")  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="time zone"):
        await queue.seek("orders", "default", time=datetime(2024, 1, 1))
    assert (await queue.group("orders")).leased == 1


async def test_a_topic_that_was_made_again_is_not_the_one_that_was_meant(queue: Queue) -> None:
    """if_id: a name may have come to mean another topic meanwhile."""
    before = await queue.create_topic("orders")
    await queue.delete_topic("orders", if_id=before.id)
    again = await queue.create_topic("orders")
    await publish(queue, "orders", b"1")
    for destroy in (queue.delete_topic, queue.purge):
        with pytest.raises(NotFoundError, match=f"another was made under its name, with id {again.id}"):
            await destroy("orders", if_id=before.id)
    assert (await queue.topic("orders")).messages == 1
    assert await queue.purge("orders", if_id=again.id) == 1
