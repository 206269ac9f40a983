"""Following what happens: offsets of a position, and a partition's history by position."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ortoo import HistoryEvent, InvalidError, NotFoundError, Queue
from ortoo.model.queries import ScanHistory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

from .actors import publish, take
from .stores import LastingStore, SlowStore, queue_on


async def told(queue: Queue, from_position: int = 0, partition: int = 0) -> list[HistoryEvent]:
    history = queue.read_history("orders", partition=partition, from_position=from_position)
    return [event async for events in history for event in events]


async def test_offsets_are_told_of_each_partition(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=2, retention_seconds=60)
    await publish(queue, "orders", b"1", b"2", partition=0)
    await clock.advance(40)
    later = clock.time()
    await publish(queue, "orders", b"3", partition=0)
    await publish(queue, "orders", b"4", partition=1)
    assert await queue.offsets("orders") == [3, 1]
    assert await queue.offsets("orders", at="start") == [0, 0]
    assert await queue.offsets("orders", time=later) == [2, 0]
    assert await queue.offsets("orders", time=later + 1) == [3, 1]
    await clock.advance(30)
    assert await queue.offsets("orders", at="start") == [2, 0]
    with pytest.raises(NotFoundError):
        await queue.offsets("nothing")


async def test_the_end_is_what_is_durable(clock: ManualClock) -> None:
    store = SlowStore()
    async with queue_on(store, clock) as queue:
        await queue.publish("orders", b"1", partition=0)
        store.writing.clear()
        task = asyncio.create_task(queue.publish("orders", b"2", partition=0))
        await clock.advance(0)
        meanwhile = await queue.offsets("orders")
        store.writing.set()
        await task
        assert meanwhile[0] == 1
        assert (await queue.offsets("orders"))[0] == 2


async def test_everything_that_happens_is_told_in_order_with_its_words(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, max_attempts=2, backoff_initial=5, ordering="none")
    first, _, _ = await publish(queue, "orders", b"1", b"2", b"3")
    one, two, three = await take(queue, "orders", group="g", consumer="ann", lease=30)
    began = clock.time()
    await queue.ack(one)
    await queue.nack(two, "no", delay=7)
    await queue.release(three)
    await queue.reject(await take(queue, "orders", group="g", consumer="bob"), "never")
    await queue.retry_now(first.id, group="g")
    await queue.delete_message(first.id)
    shown = [(e.offset, e.what, e.group, e.consumer, e.reason, e.error) for e in await told(queue)]
    assert shown == [
        (0, "delivered", "g", "ann", None, None),
        (1, "delivered", "g", "ann", None, None),
        (2, "delivered", "g", "ann", None, None),
        (0, "acknowledged", "g", None, None, None),
        (1, "nacked", "g", None, "nack", "no"),
        (2, "released", "g", None, "release", None),
        (2, "delivered", "g", "bob", None, None),
        (2, "dead-lettered", "g", None, "rejected", "never"),
        (0, "retried now", "g", None, None, None),
        (0, "deleted", None, None, None, None),
    ]
    events = await told(queue)
    assert [event.position for event in events] == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert {event.time for event in events} == {began}
    assert (events[0].until, events[4].until, events[3].until) == (began + 30, began + 7, None)
    assert events[0].lease == events[4].lease != events[6].lease
    assert events[7].lease is None


async def test_expired_leases_skips_and_redrives_are_told(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, max_attempts=1, retention_seconds=60)
    await publish(queue, "orders", b"1", b"2")
    await take(queue, "orders", 1, lease=10)
    await clock.advance(11)
    await queue.redrive("orders")
    await clock.advance(60)
    assert [(event.offset, event.what) for event in await told(queue)] == [
        (0, "delivered"),
        (0, "dead-lettered"),
        (0, "redriven"),
        (0, "skipped"),
        (1, "skipped"),
    ]
    assert (await told(queue))[-1].reason == "retention"


async def test_a_reader_goes_on_where_it_was(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=2)
    await publish(queue, "orders", b"1", b"2", partition=0)
    await publish(queue, "orders", b"3", partition=1)
    await queue.ack(await take(queue, "orders"))
    seen = await told(queue)
    assert await told(queue, from_position=seen[-1].position + 1) == []
    await publish(queue, "orders", b"4", partition=0)
    await take(queue, "orders")
    more = await told(queue, from_position=seen[-1].position + 1)
    assert [(event.position, event.offset) for event in more] == [(seen[-1].position + 1, 2)]
    assert [event.position for event in await told(queue, partition=1)] == [0, 1]
    assert await told(queue, from_position=1_000_000) == []


async def test_what_a_deleted_group_did_is_still_told(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1")
    await take(queue, "orders", group="gone")
    await queue.delete_group("orders", "gone")
    [event] = await told(queue)
    assert event.group is not None
    assert event.group.startswith("(deleted group ")


async def test_histories_that_are_not_there_are_refused(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    assert await told(queue) == []
    with pytest.raises(InvalidError):
        await told(queue, partition=1)
    with pytest.raises(InvalidError):
        await told(queue, from_position=-1)
    with pytest.raises(NotFoundError):
        _ = [events async for events in queue.read_history("nothing", partition=0)]


async def test_a_long_history_comes_in_pages(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1, ordering="none")
    await queue.publish_many("orders", [b"x"] * 1_200)
    for _ in range(1_200):
        await queue.lease("orders", auto_ack=True)
    pages = [events async for events in queue.read_history("orders", partition=0)]
    assert len(pages) > 1
    assert [event.position for events in pages for event in events] == list(range(2_400))


async def test_what_happens_while_someone_reads_is_not_chased(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1, ordering="none")
    await queue.publish_many("orders", [b"x"] * 1_010)
    for _ in range(1_005):
        await queue.lease("orders")
    seen = []
    async for events in queue.read_history("orders", partition=0):
        seen += events
        await queue.lease("orders", auto_ack=True)
    assert [event.position for event in seen] == list(range(1_005))


async def test_positions_are_the_same_after_a_restart(clock: ManualClock) -> None:
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", partitions=1)
        await publish(queue, "orders", b"1", b"2")
        await take(queue, "orders")
        before = await told(queue)
    async with queue_on(store, clock) as queue:
        await clock.advance(60)
        await take(queue, "orders")
        after = await told(queue)
    assert after[: len(before)] == before
    assert [event.what for event in after[len(before) :]] == ["lease expired"] * 2 + ["delivered"] * 2
    assert [event.position for event in after] == [0, 0, 1, 1, 2, 2]


async def test_a_page_has_no_more_bytes_than_an_answer_may_have(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortoo.model.limits.ANSWER_BYTES_MAX", 1_000)
    async with queue_on(MemoryStore(), clock) as queue:
        await queue.create_topic("orders", partitions=1)
        await publish(queue, "orders", *[b"x"] * 20)
        for _ in range(20):
            await queue.ack(await queue.lease("orders"))
        name = queue._name("orders", None)
        page = await queue._link.ask(ScanHistory(name, 0, 0))
        assert 0 < len(page.records) <= 1_000
        assert page.next < page.end
        assert [event.position for event in await told(queue)] == list(range(40))


@pytest.fixture
async def forgetful(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Queue]:
    """Keeps a hundred records of what happened."""
    monkeypatch.setattr("ortoo.model.limits.HISTORY_RECORDS_MAX", 100)
    async with queue_on(MemoryStore(), clock) as queue:
        await queue.create_topic("orders", partitions=1)
        yield queue


async def test_a_memory_store_forgets_the_oldest_and_never_a_number(forgetful: Queue) -> None:
    for _ in range(150):
        await forgetful.publish("orders", b"x")
        await forgetful.lease("orders", auto_ack=True)
    events = await told(forgetful)
    assert events[-1].position == 299
    assert 90 <= len(events) <= 100
    assert [event.position for event in events] == list(range(300 - len(events), 300))


async def test_a_memory_store_forgets_also_what_happened_to_one_message(forgetful: Queue) -> None:
    sent = await forgetful.publish("orders", b"x")
    for _ in range(150):
        await forgetful.release(await forgetful.lease("orders"))
    told = [event.what for event in (await forgetful.trace(sent.id)).events]
    assert 90 <= len(told) <= 102
    assert told[-1] == "released"
