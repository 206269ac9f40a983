"""Looking into deliveries: why a message waits, who holds what, how a log lies before a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ortoo import InvalidError, Message, NotFoundError, Queue
from ortoo.broker import Broker, blocked
from ortoo.model.inspection import Explanation, PartitionStrip
from ortoo.model.names import parse_message_id
from ortoo.model.records import Quarantined
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from tests.turns import counting_turns

from .actors import poll, publish, settle, take
from .stores import SlowStore, queue_on


@pytest_asyncio.fixture(params=["memory", "disk"])
async def stored(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Queue]:
    """For what depends on the store: keys and histories are read from it."""
    store = MemoryStore() if request.param == "memory" else open_directory(tmp_path)
    async with queue_on(store, clock) as queue:
        yield queue


async def why(queue: Queue, message_id: str, group: str = "g") -> Explanation:
    found = await queue.explain(message_id, group)
    assert (found.id, found.group) == (message_id, group)
    assert found.text.endswith(".")
    return found


# -- explain


async def test_a_ready_message_without_consumers_needs_one(queue: Queue, clock: ManualClock) -> None:
    [sent] = await publish(queue, "orders", b"1")
    await queue.create_group("orders", "g")
    found = await why(queue, sent.id)
    assert (found.state, found.reason, found.consumers, found.attempt) == ("ready", "no_consumer", 0, 1)
    assert found.since == clock.time()
    assert "ortoo consume orders --group g" in found.text


async def test_a_ready_message_waits_for_consumers_to_ask_for_more(queue: Queue) -> None:
    first, second = await publish(queue, "orders", b"1", b"2", key="ann")
    await queue.lease("orders", group="g", key="bob", consumer="x")
    found = await why(queue, second.id)
    assert (found.state, found.reason, found.consumers) == ("ready", "ready", 1)
    assert "1 earlier message" in found.text
    assert "earlier message" not in (await why(queue, first.id)).text


async def test_a_ready_message_of_a_paused_group_tells_until_when_and_why(queue: Queue, clock: ManualClock) -> None:
    first, second = await publish(queue, "orders", b"1", b"2")
    [leased] = await take(queue, "orders", group="g", max_messages=1)
    began = clock.time()
    await queue.pause_group("orders", "g", seconds=3_600, reason="the bank is down")
    await clock.advance(60)
    found = await why(queue, second.id)
    assert (found.state, found.reason, found.since, found.until) == ("ready", "paused", began, began + 3_600)
    assert "(the bank is down), and resumes in 59 minutes" in found.text
    assert leased.id == first.id
    await queue.pause_group("orders", "g")
    found = await why(queue, second.id)
    assert (found.reason, found.until) == ("paused", None)
    assert "until it is resumed; to end that now, use `ortoo groups resume orders g`" in found.text
    await queue.resume_group("orders", "g")
    assert (await why(queue, second.id)).reason != "paused"


async def test_a_leased_message_names_its_consumer_and_the_end_of_its_lease(queue: Queue, clock: ManualClock) -> None:
    [sent] = await publish(queue, "orders", b"1")
    begun = clock.time()
    await queue.lease("orders", group="g", consumer="ann", lease=30)
    await clock.advance(5)
    found = await why(queue, sent.id)
    assert (found.state, found.reason, found.consumers) == ("leased", "leased", 1)
    assert (found.since, found.until) == (begun, begun + 30)
    assert "'ann'" in found.text
    assert "in 25 seconds" in found.text


async def test_a_delayed_message_tells_when_it_comes_due(queue: Queue, clock: ManualClock) -> None:
    begun = clock.time()
    sent = await queue.publish("orders", b"1", delay=7200)
    await queue.create_group("orders", "g")
    found = await why(queue, sent.id)
    assert (found.state, found.reason, found.until) == ("delayed", "delayed", begun + 7200)
    assert "in 2 hours" in found.text
    await clock.advance(7201)
    assert (await why(queue, sent.id)).reason == "no_consumer"


async def test_a_message_that_failed_tells_when_it_is_tried_again(stored: Queue, clock: ManualClock) -> None:
    [sent] = await publish(stored, "orders", b"1")
    [message] = await stored.lease("orders", group="g")
    await clock.advance(3)
    await stored.nack(message, delay=60)
    found = await why(stored, sent.id)
    assert (found.state, found.reason, found.attempt) == ("delayed", "retrying", 2)
    assert (found.since, found.until) == (clock.time(), clock.time() + 60)


async def test_a_message_behind_another_of_its_key_names_it_and_who_has_it(stored: Queue, clock: ManualClock) -> None:
    first, second = await publish(stored, "orders", b"1", b"2", key="ann")
    [message] = await stored.lease("orders", group="g", consumer="x", lease=30)
    until = clock.time() + 30
    found = await why(stored, second.id)
    assert (found.state, found.reason, found.until) == ("blocked", "behind_key", until)
    assert found.behind is not None
    assert (found.behind.id, found.behind.key, found.behind.consumer) == (first.id, "ann", "x")
    assert found.behind.until == until
    await stored.nack(message, delay=600)
    found = await why(stored, second.id)
    assert found.behind is not None
    assert (found.reason, found.behind.consumer, found.until) == ("behind_key", None, clock.time() + 600)
    assert "tried again in 10 minutes" in found.text


async def test_a_message_in_a_held_partition_names_what_holds_it(queue: Queue) -> None:
    await queue.create_topic("orders", ordering="partition", partitions=1)
    first, second = await publish(queue, "orders", b"1", b"2", key="ann")
    await queue.lease("orders", group="g", consumer="x")
    found = await why(queue, second.id)
    assert (found.state, found.reason) == ("blocked", "partition_held")
    assert found.behind is not None
    assert (found.behind.id, found.behind.key, found.behind.consumer) == (first.id, None, "x")


async def test_a_message_waits_for_the_window(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", window_seconds=20, window_count=0)
    [sent] = await publish(queue, "orders", b"1")
    await queue.create_group("orders", "g")
    found = await why(queue, sent.id)
    assert (found.state, found.reason, found.until) == (None, "window", clock.time() + 20)


async def test_a_message_that_was_acked_is_done(stored: Queue, clock: ManualClock) -> None:
    [sent] = await publish(stored, "orders", b"1")
    [message] = await stored.lease("orders", group="g")
    await clock.advance(4)
    await message.ack()
    found = await why(stored, sent.id)
    assert (found.state, found.reason, found.since) == ("done", "done", clock.time())


async def test_a_dead_message_tells_where_its_dead_letter_is(stored: Queue, clock: ManualClock) -> None:
    [sent] = await publish(stored, "orders", b"1")
    [message] = await stored.lease("orders", group="g")
    await stored.reject(message, error="no such address")
    found = await why(stored, sent.id)
    assert (found.state, found.reason, found.since) == ("dead", "dead", clock.time())
    assert "no such address" in found.text
    assert "'orders.dlq'" in found.text


async def test_a_message_that_the_group_never_settled_was_skipped(stored: Queue) -> None:
    [sent] = await publish(stored, "orders", b"1")
    await stored.create_group("orders", "g", "new")
    found = await why(stored, sent.id)
    assert (found.state, found.reason) == ("done", "skipped")
    await stored.create_group("orders", "h")
    await stored.purge("orders")
    with pytest.raises(NotFoundError):
        await stored.explain(sent.id, "h")


async def test_what_retention_removed_before_it_was_settled_was_skipped(stored: Queue, clock: ManualClock) -> None:
    await stored.create_topic("orders", retention_seconds=60, partitions=1)
    [sent] = await publish(stored, "orders", b"1")
    await stored.create_group("orders", "g")
    await clock.advance(100)
    found = await why(stored, sent.id)
    assert (found.state, found.reason) == (None, "skipped")
    assert "Retention" in found.text


async def test_a_message_that_expired_or_waited_too_long_says_so(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("waits", max_wait=5)
    old = await queue.publish("orders", b"1", ttl=5)
    late = await queue.publish("waits", b"1")
    for topic in ("orders", "waits"):
        await queue.create_group(topic, "g")
    await clock.advance(6)
    expired, evicted = await why(queue, old.id), await why(queue, late.id)
    assert (expired.state, expired.reason, evicted.reason) == (None, "expired", "expired")
    assert "ttl" in expired.text
    assert "max_wait" in evicted.text


async def test_a_message_that_was_superseded_or_deleted_says_so(stored: Queue) -> None:
    await stored.create_topic("places", keep="latest", partitions=1)
    await stored.create_group("places", "g")
    first, second = await publish(stored, "places", b"1", b"2", key="ann")
    found = await why(stored, first.id)
    assert (found.state, found.reason) == (None, "superseded")
    assert second.id in found.text
    await stored.delete_message(second.id)
    assert (await why(stored, second.id)).reason == "deleted"


async def test_a_message_that_is_not_on_disk_yet_says_so(clock: ManualClock) -> None:
    store = SlowStore()
    async with queue_on(store, clock) as queue:
        first = await queue.publish("orders", b"1", key="ann")
        await queue.create_group("orders", "g")
        store.writing.clear()
        publishing = asyncio.create_task(queue.publish("orders", b"2", key="ann"))
        ref = parse_message_id(first.id)
        await settle()
        found = await why(queue, str(ref._replace(offset=ref.offset + 1)))
        assert (found.state, found.reason) == (None, "not_durable")
        store.writing.set()
        await publishing


async def test_a_message_of_a_quarantined_partition_says_why(clock: ManualClock) -> None:
    async with queue_on(MemoryStore(), clock) as queue:
        [sent] = await publish(queue, "orders", b"1", key="ann")
        await queue.create_group("orders", "g")
        broker, ref = queue._link, parse_message_id(sent.id)
        assert isinstance(broker, Broker)
        broker.engine.apply(Quarantined(0, ref.topic, ref.partition, "a checksum does not match"))
        found = await why(queue, sent.id)
        assert found.reason == "quarantined"
        assert "a checksum does not match" in found.text


async def test_what_never_was_cannot_be_explained(queue: Queue) -> None:
    [sent] = await publish(queue, "orders", b"1", partition=0)
    await queue.create_group("orders", "g")
    ref = parse_message_id(sent.id)
    for message in (ref._replace(offset=7), ref._replace(partition=999), ref._replace(topic=999)):  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            await queue.explain(str(message), "g")
    with pytest.raises(NotFoundError, match="no group 'nobody'"):
        await queue.explain(sent.id, "nobody")
    with pytest.raises(InvalidError):
        await queue.explain("tea", "g")


# -- leases


async def test_leases_are_listed_with_who_has_them_the_oldest_first(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, ordering="none", backoff_initial=0)
    await publish(queue, "orders", b"1", b"2", b"3")
    begun = clock.time()
    failed = await take(queue, "orders", 1, group="g", consumer="x")
    await queue.nack(failed)
    await take(queue, "orders", 2, group="g", consumer="ann", lease=30)
    await clock.advance(2)
    await take(queue, "orders", 1, group="g", consumer="bob", lease=60)
    found = await queue.leases("orders", "g")
    assert [(lease.consumer, lease.partition, lease.first, lease.last, lease.messages) for lease in found.leases] == [
        ("ann", 0, 0, 1, 2),
        ("bob", 0, 2, 2, 1),
    ]
    assert [(lease.since, lease.until, lease.attempt) for lease in found.leases] == [
        (begun, begun + 30, 2),
        (begun + 2, begun + 62, 1),
    ]
    assert (found.total, found.next) == (2, None)


@pytest.mark.parametrize(("each", "rows"), [(10, 6), (40, 3)])  # leases of several partitions, and of one each
async def test_a_list_of_leases_goes_on_where_it_ended(queue: Queue, each: int, rows: int) -> None:
    await queue.create_topic("orders", partitions=4)
    for partition in range(40 // each):
        await queue.publish_many("orders", [Message(b"x", partition=partition)] * each)
    for number in range(3):
        await take(queue, "orders", 12, group="g", consumer=f"c{number}")
    whole = await queue.leases("orders", "g")
    assert whole.next is None
    assert len(whole.leases) == rows
    seen, where = [], None
    while True:
        page = await queue.leases("orders", "g", limit=1, next=where)
        assert page.total == 3
        seen += page.leases
        if (where := page.next) is None:
            break
    assert seen == whole.leases
    assert sum(lease.messages for lease in seen) == 36
    for wrong in ("tea", "1", "1.2.3", "-1.0"):
        with pytest.raises(InvalidError, match="continuation"):
            await queue.leases("orders", "g", next=wrong)
    for limit in (0, 1001):
        with pytest.raises(InvalidError):
            await queue.leases("orders", "g", limit=limit)


# -- locks


async def test_locked_keys_are_listed_those_that_most_wait_for_first(stored: Queue, clock: ManualClock) -> None:
    await stored.create_topic("orders", partitions=1)
    ann, *_ = await publish(stored, "orders", b"1", b"2", key="ann")
    bob, *_ = await publish(stored, "orders", b"1", b"2", b"3", b"4", key="bob")
    await publish(stored, "orders", b"1", b"2", key="cem")
    await stored.lease("orders", group="g", key="ann", consumer="x", lease=30)
    [failed] = await stored.lease("orders", group="g", key="bob", consumer="y", lease=30)
    await stored.nack(failed, delay=100)
    found = await stored.locks("orders", "g")
    assert [(lock.key, lock.state, lock.waiting, lock.partition) for lock in found.locks] == [
        ("bob", "retrying", 3, 0),
        ("ann", "leased", 1, 0),
    ]
    held, leased = (lock.holder for lock in found.locks)
    assert held is not None
    assert leased is not None
    assert (held.id, held.consumer, held.until) == (bob.id, None, clock.time() + 100)
    assert (leased.id, leased.consumer, leased.until) == (ann.id, "x", clock.time() + 30)
    assert found.total == 2
    best = await stored.locks("orders", "g", limit=1)
    assert (best.locks, best.total) == (found.locks[:1], 2)


async def test_a_held_partition_is_a_lock_without_a_key(queue: Queue) -> None:
    await queue.create_topic("orders", ordering="partition", partitions=1)
    first, *_ = await publish(queue, "orders", b"1", b"2", b"3")
    await queue.lease("orders", group="g", consumer="x")
    [lock] = (await queue.locks("orders", "g")).locks
    assert (lock.key, lock.partition, lock.state, lock.waiting) == (None, 0, "leased", 2)
    assert lock.holder is not None
    assert (lock.holder.id, lock.holder.consumer) == (first.id, "x")


async def test_nothing_is_locked_where_there_is_no_order(queue: Queue) -> None:
    await queue.create_topic("orders", ordering="none")
    await publish(queue, "orders", b"1", b"2", key="ann")
    await queue.lease("orders", group="g")
    assert (await queue.locks("orders", "g")).total == 0


# -- consumers


async def test_consumers_are_listed_with_what_they_hold(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", ordering="partition", partitions=2)
    for partition in (0, 1):
        await queue.publish("orders", b"1", partition=partition)
    begun = clock.time()
    await take(queue, "orders", group="g", consumer="ann", lease=60)
    await clock.advance(3)
    await queue.heartbeat("orders", "g", "bob")
    ann, bob = (await queue.consumers("orders", "g")).consumers
    assert (ann.name, ann.leases, ann.messages, ann.seen, ann.oldest_lease) == ("ann", 1, 2, begun, begun)
    assert (bob.name, bob.leases, bob.messages, bob.seen, bob.oldest_lease) == ("bob", 0, 0, begun + 3, None)
    assert 0 <= len(ann.partitions) <= 2


async def test_who_waits_is_seen_now(queue: Queue, clock: ManualClock) -> None:
    await queue.publish("orders", b"1")
    await queue.create_group("orders", "g", "new")
    polling = await poll(queue, group="g", consumer="ann")
    await clock.advance(4)
    [ann] = (await queue.consumers("orders", "g")).consumers
    assert (ann.name, ann.seen, ann.leases) == ("ann", clock.time(), 0)
    polling.cancel()


async def test_who_has_only_leases_was_not_seen_since_the_queue_was_opened(tmp_path: Path, clock: ManualClock) -> None:
    async with queue_on(open_directory(tmp_path), clock) as queue:
        await queue.publish("orders", b"1")
        await queue.lease("orders", group="g", consumer="ann", lease=600)
        taken = clock.time()
    await clock.advance(1)
    async with queue_on(open_directory(tmp_path), clock) as queue:
        [ann] = (await queue.consumers("orders", "g")).consumers
        assert (ann.name, ann.leases, ann.messages, ann.seen, ann.oldest_lease) == ("ann", 1, 1, None, taken)


# -- strips


def drawn(strip: PartitionStrip) -> str:
    """Of a strip whose buckets are single messages: a letter for each."""
    assert strip.width == 1
    letters = {"ready": "r", "leased": "l", "delayed": "w", "blocked": "b", "done": "o", "dead": "x", "gone": "-"}
    rows = [[state for state in letters if getattr(strip, state)[at]] for at in range(strip.end - strip.start)]
    assert all(len(row) == 1 for row in rows)
    return "".join(letters[state] for [state] in rows)


async def test_a_strip_shows_the_state_of_each_message(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    for number in range(8):
        more: dict[str, Any] = {"delay": 60} if number == 5 else {}
        await queue.publish("orders", b"%d" % number, key="same" if number in (3, 4) else f"k{number}", **more)
    done, dead, gone, *_ = await take(queue, "orders", 4, group="g")
    await done.ack()
    await queue.reject(dead)
    await queue.delete_message(gone.id)
    found = await queue.strip("orders", "g")
    assert found.group == "g"
    [strip] = found.partitions
    assert (strip.partition, strip.start, strip.end) == (0, 0, 8)
    assert drawn(strip) == "ox-lbwrr"


async def test_a_strip_without_a_group_shows_what_is_stored(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    await queue.publish("orders", b"1", delay=60)
    for _ in range(2):
        sent = await queue.publish("orders", b"1")
    await queue.delete_message(sent.id)
    found = await queue.strip("orders", None)
    assert found.group is None
    assert drawn(found.partitions[0]) == "wr-"


async def test_wide_buckets_count_and_a_partition_can_be_chosen(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=3, ordering="none")
    for partition in range(3):
        for _ in range(10 + partition):
            await queue.publish("orders", b"x", partition=partition)
    await take(queue, "orders", 5, group="g", partition=2)
    found = await queue.strip("orders", "g", width=4)
    assert [(strip.partition, strip.width, len(strip.ready)) for strip in found.partitions] == [
        (0, 3, 4),
        (1, 3, 4),
        (2, 3, 4),
    ]
    [last] = (await queue.strip("orders", "g", width=4, partition=2)).partitions
    assert last == found.partitions[2]
    assert (last.ready, last.leased, last.done) == ([0, 1, 3, 3], [3, 2, 0, 0], [0, 0, 0, 0])
    assert (last.start, last.end) == (0, 12)
    with pytest.raises(InvalidError, match="partitions 0 to 2"):
        await queue.strip("orders", "g", partition=3)
    for width in (0, 2001):
        with pytest.raises(InvalidError):
            await queue.strip("orders", "g", width=width)


async def test_an_empty_log_has_an_empty_strip(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    [strip] = (await queue.strip("orders", None)).partitions
    assert (strip.start, strip.end, strip.width, strip.ready, strip.gone) == (0, 0, 1, [], [])


# -- delayed messages, and when they come due


async def test_delayed_messages_are_counted_by_when_they_come_due(queue: Queue, clock: ManualClock) -> None:
    now = clock.time()
    for delay in (1, 3599, 3600, 7 * 86_400 - 1, 7 * 86_400, 9 * 86_400):
        await queue.publish("orders", b"x", delay=delay)
    await queue.publish("orders", b"x")
    found = await queue.delayed("orders")
    assert (found.start, found.until, found.seconds) == (now, now + 7 * 86_400, 3600)
    assert [(at, count) for at, count in enumerate(found.counts) if count] == [(0, 2), (1, 1), (167, 1)]
    assert (found.total, found.later, found.earlier) == (6, 2, 0)
    near = await queue.delayed("orders", from_time=now + 2, to_time=now + 7202, buckets=2)
    assert (near.counts, near.total, near.later, near.earlier) == ([2, 0], 6, 3, 1)


async def test_what_is_delayed_no_longer_does_not_count(queue: Queue, clock: ManualClock) -> None:
    first, *_ = [await queue.publish("orders", b"x", delay=60) for _ in range(3)]
    await queue.delete_message(first.id)
    assert (await queue.delayed("orders")).total == 2
    await clock.advance(61)
    assert (await queue.delayed("orders")).total == 0


async def test_a_range_of_time_has_to_end_after_it_begins(queue: Queue) -> None:
    await queue.create_topic("orders")
    with pytest.raises(InvalidError, match="end after it begins"):
        await queue.delayed("orders", from_time=100, to_time=100)
    with pytest.raises(InvalidError):
        await queue.delayed("orders", buckets=10_001)
    with pytest.raises(NotFoundError):
        await queue.delayed("nowhere")


async def test_messages_tell_when_they_come_due_and_expire(queue: Queue, clock: ManualClock) -> None:
    now = clock.time()
    await queue.create_topic("orders", max_wait=50)
    sent = await queue.publish("orders", b"1", delay=10, ttl=100)
    soon = await queue.publish("orders", b"2", ttl=20)
    await queue.create_group("orders", "g")
    message = (await queue.message(sent.id)).message
    assert (message.due, message.expires) == (now + 10, now + 60)
    message = (await queue.message(soon.id)).message
    assert (message.due, message.expires) == (None, now + 20)
    [listed] = await queue.messages("orders", group="g", state="delayed")
    assert (listed.due, listed.expires) == (now + 10, now + 60)
    [ready] = await queue.messages("orders", group="g", state="ready")
    assert (ready.due, ready.expires) == (None, now + 20)


async def test_messages_that_never_expire_tell_nothing(queue: Queue) -> None:
    [sent] = await publish(queue, "orders", b"1")
    message = (await queue.message(sent.id)).message
    assert (message.due, message.expires) == (None, None)


async def test_others_have_their_turns_while_much_is_counted(clock: ManualClock) -> None:
    async with queue_on(MemoryStore(), clock) as queue:
        for _ in range(3):
            await queue.publish_many("orders", [Message(b"", delay=60 + number % 7) for number in range(10_000)])
        async with counting_turns() as turns:
            assert (await queue.delayed("orders")).total == 30_000
        assert turns.count >= 2


async def test_very_many_held_keys_are_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "_KEYS_PER_UNIT", 1)
    async with Queue(Broker(MemoryStore(), ManualClock())) as queue:
        await queue.create_topic("orders", partitions=1)
        await queue.create_group("orders", "g")
        count, name = 2_000, "orders"
        for _ in range(2):
            await queue.publish_many("orders", [Message(b"x", key=f"k{number}") for number in range(count)])
        leased = await queue.lease("orders", group="g", max_messages=count)
        assert len({message.key for message in leased}) == count
        await queue.lease("orders", group="g", max_messages=1)  # the others are set aside
        async with counting_turns() as turns:
            locks = await queue.locks("orders", group="g", limit=10)
            assert turns.count >= 2
            turns.count = 0
            strip = await queue.strip(name, group="g", width=1)
            assert turns.count >= 2
            turns.count = 0
            page = await queue.messages_page("orders", group="g", state="blocked", limit=5)
            assert turns.count >= 2
        assert (locks.total, {lock.waiting for lock in locks.locks}) == (count, {1})
        [partition] = strip.partitions
        assert (partition.leased, partition.blocked) == ([count], [count])
        assert [message.offset for message in page.messages] == list(range(count, count + 5))


async def test_locks_that_nobody_waits_for_fill_the_list(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    for key in ("ann", "bob", "cem", "dan"):
        await publish(queue, "orders", b"1", key=key)
    await publish(queue, "orders", b"2", key="cem")
    await queue.lease("orders", group="g", max_messages=4)
    found = await queue.locks("orders", "g", limit=3)
    assert [(lock.key, lock.waiting) for lock in found.locks] == [("cem", 1), ("ann", 0), ("bob", 0)]
    assert found.total == 4
