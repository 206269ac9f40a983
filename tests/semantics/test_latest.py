"""Latest per key: a topic that keeps the latest message of each key only."""

from __future__ import annotations

import pytest

from ortoo import FullError, InvalidError, Message, NotFoundError, Queue
from ortoo.model import limits
from ortoo.testing import ManualClock
from ortoo.testing.faulty_store import FaultyStore

from .actors import publish, take, values
from .stores import queue_on

DAY = 86_400


async def latest(queue: Queue, **settings: object) -> None:
    await queue.create_topic("state", **({"partitions": 1, "keep": "latest"} | settings))  # type: ignore[arg-type]


async def kept(queue: Queue) -> list[bytes]:
    return values([message async for message in queue.read("state")])


async def test_a_message_supersedes_the_earlier_ones_of_its_key(queue: Queue) -> None:
    """A message supersedes the earlier ones of its key for every group: those not leased are done."""
    await latest(queue)
    await queue.create_group("state", "a")
    await queue.create_group("state", "b")
    await publish(queue, "state", b"1", b"2", key="k")
    await publish(queue, "state", b"3", key="other")
    await publish(queue, "state", b"4", key="k")
    for group in ("a", "b", "new"):
        assert values(await take(queue, "state", group=group)) == [b"3", b"4"]
    assert await kept(queue) == [b"3", b"4"]


async def test_within_one_batch_the_last_one_of_a_key_stays(queue: Queue) -> None:
    await latest(queue, partitions=3)
    await queue.publish_many("state", [Message(b"%d" % number, key=f"k{number % 3}") for number in range(9)])
    assert sorted(await kept(queue)) == [b"6", b"7", b"8"]
    assert (await queue.topic("state")).messages == 3


@pytest.mark.parametrize("ordering", ["key", "none", "partition", "strict"])
async def test_it_holds_in_every_order(queue: Queue, ordering: str) -> None:
    await latest(queue, ordering=ordering)
    await queue.create_group("state", "a")
    await publish(queue, "state", b"1", b"2", b"3", key="k")
    assert values(await take(queue, "state", group="a")) == [b"3"]


async def test_a_message_without_a_key_is_refused(queue: Queue) -> None:
    """Needs keys, a message without one is refused."""
    await latest(queue)
    with pytest.raises(InvalidError, match="needs a key"):
        await queue.publish("state", b"1")
    with pytest.raises(InvalidError, match="needs a key"):
        await queue.publish_many("state", [Message(b"1", key="k"), Message(b"2")])
    assert await kept(queue) == []


async def test_what_was_staged_without_a_key_is_refused_at_the_commit(python_queue: Queue) -> None:
    queue = python_queue
    await queue.create_topic("state", partitions=1)
    transaction = await queue.begin("t")
    await transaction.publish("state", b"1")
    await queue.update_topic("state", keep="latest")
    with pytest.raises(InvalidError, match="needs a key"):
        await transaction.commit()


async def test_a_leased_message_stays_with_its_holder(queue: Queue) -> None:
    """A leased one stays with its holder, its ack is fine."""
    await latest(queue)
    await publish(queue, "state", b"1", key="k")
    [held] = await queue.lease("state")
    await publish(queue, "state", b"2", key="k")
    assert await kept(queue) == [b"2"]
    assert values(await take(queue, "state")) == []  # its key is held
    await held.extend(60)
    await held.ack()
    assert values(await take(queue, "state")) == [b"2"]


@pytest.mark.parametrize("outcome", ["nack", "release", "expiry"])
async def test_what_was_superseded_is_not_retried(queue: Queue, clock: ManualClock, outcome: str) -> None:
    """Its nack or expiry ends it instead of retrying."""
    await latest(queue, max_attempts=1)
    await publish(queue, "state", b"1", key="k")
    [held] = await queue.lease("state", lease=5)
    [second] = await publish(queue, "state", b"2", key="k")
    if outcome == "expiry":
        await clock.advance(5)
    else:
        await getattr(held, outcome)()
    assert values(await take(queue, "state")) == [b"2"]
    await clock.advance(600)
    assert [letter.value for letter in await queue.dead_letters("state")] in ([], [b"2"])
    trace = await queue.trace(held.id)
    assert [(event.what, event.reason) for event in trace.events if event.what in ("superseded", "dropped")] == [
        ("superseded", second.id),
        ("dropped", "superseded"),
    ]


async def test_a_holder_may_still_reject_what_was_superseded(queue: Queue) -> None:
    await latest(queue)
    await publish(queue, "state", b"1", key="k", headers={"h": "v"})
    [held] = await queue.lease("state")
    await publish(queue, "state", b"2", b"3", key="k")
    await held.reject("bad")
    [letter] = await queue.dead_letters("state")
    assert (letter.value, letter.key, (letter.headers or {})["h"]) == (b"1", "k", "v")
    await publish(queue, "state", b"4", key="k")
    assert values(await queue.dead_letters("state")) == [b"1"]  # dead-letter copies are not touched


async def test_a_dead_letter_that_was_superseded_since_comes_back_for_its_group_alone(queue: Queue) -> None:
    await latest(queue)
    await publish(queue, "state", b"1", key="k")
    [held] = await queue.lease("state", group="a")
    await held.reject()
    await publish(queue, "state", b"2", key="k")
    await queue.redrive("state")
    assert sorted(values(await take(queue, "state", group="a", max_messages=10))) == [b"1", b"2"]
    assert values(await take(queue, "state", group="b")) == [b"2"]


async def test_a_held_message_can_be_settled_by_its_id(queue: Queue) -> None:
    await latest(queue)
    await publish(queue, "state", b"1", key="k")
    [held] = await queue.lease("state", group="a")
    await publish(queue, "state", b"2", key="k")
    await queue.ack_by_id([held.id], group="a")
    assert values(await take(queue, "state", group="a")) == [b"2"]


async def test_what_was_superseded_is_gone_for_who_asks_for_it(queue: Queue) -> None:
    await latest(queue)
    first, second = await publish(queue, "state", b"1", b"2", key="k")
    for ask in (queue.message, queue.delete_message, queue.retry_now, queue.dead_letter):
        with pytest.raises(NotFoundError):
            await ask(first.id)
    superseded = [event for event in (await queue.trace(first.id)).events if event.what == "superseded"]
    assert [event.reason for event in superseded] == [second.id]


async def test_a_delayed_message_supersedes_when_it_becomes_due(queue: Queue, clock: ManualClock) -> None:
    await latest(queue)
    await queue.publish("state", b"delayed", key="k", delay=60)
    await publish(queue, "state", b"1", b"2", key="k")
    [message] = await take(queue, "state", group="a")
    assert message.value == b"2"
    await message.ack()
    await clock.advance(60)
    assert values(await take(queue, "state", group="a")) == [b"delayed"]
    assert await kept(queue) == [b"delayed"]
    await publish(queue, "state", b"3", key="k")
    assert await kept(queue) == [b"3"]


async def test_a_transaction_supersedes_when_it_commits_in_order(python_queue: Queue) -> None:
    queue = python_queue
    await latest(queue)
    await publish(queue, "state", b"before", key="k")
    transaction = await queue.begin("t")
    await transaction.publish("state", b"1", key="k")
    await transaction.publish("state", b"2", key="k")
    await publish(queue, "state", b"meanwhile", key="k")
    assert await kept(queue) == [b"meanwhile"]
    await transaction.commit()
    assert await kept(queue) == [b"2"]


async def test_an_empty_value_deletes_its_key(queue: Queue, clock: ManualClock) -> None:
    """It is delivered like any other, and removed itself by retention."""
    await latest(queue, retention_seconds=None)
    await queue.create_group("state", "slow")
    await publish(queue, "state", b"other", key="other")
    await publish(queue, "state", b"1", b"", key="k")
    messages = await take(queue, "state", group="a")
    assert [(message.key, message.value) for message in messages] == [("other", b"other"), ("k", b"")]
    await queue.ack(messages)
    await clock.advance(DAY - 20)
    assert await kept(queue) == [b"other", b""]
    await clock.advance(40)
    assert await kept(queue) == [b"other"]
    assert values(await take(queue, "state", group="slow")) == [b"other"]
    assert (await queue.group("state", "slow")).skipped == 1
    await publish(queue, "state", b"again", key="k")
    assert await kept(queue) == [b"other", b"again"]


async def test_who_holds_a_deletion_keeps_it(queue: Queue, clock: ManualClock) -> None:
    await latest(queue, retention_seconds=None)
    await publish(queue, "state", b"", key="k")
    [held] = await queue.lease("state", lease=3600)
    for _ in range(25):
        await clock.advance(3500)
        await held.extend(3600)
    await held.ack()
    await clock.advance(20)
    assert await kept(queue) == []


async def test_an_expired_latest_leaves_nothing_behind_it(queue: Queue, clock: ManualClock) -> None:
    """An expired or deleted latest leaves nothing behind it."""
    await latest(queue)
    await queue.create_group("state", "a")
    await publish(queue, "state", b"1", key="k")
    await queue.publish("state", b"2", key="k", ttl=5)
    await clock.advance(5)
    assert values(await take(queue, "state", group="a")) == []
    await publish(queue, "state", b"3", key="k")
    assert values(await take(queue, "state", group="a")) == [b"3"]
    assert await kept(queue) == [b"3"]


async def test_a_deleted_latest_leaves_nothing_behind_it(queue: Queue) -> None:
    await latest(queue)
    _, second = await publish(queue, "state", b"1", b"2", key="k")
    await queue.delete_message(second.id)
    assert await kept(queue) == []
    await publish(queue, "state", b"3", key="k")
    assert await kept(queue) == [b"3"]


async def test_replay_and_seek_show_what_is_still_there(queue: Queue) -> None:
    """Replay shows what is still there, offsets keep their gaps."""
    await latest(queue)
    for number in range(5):
        await publish(queue, "state", b"%d" % number, key=f"k{number % 2}")
    messages = await take(queue, "state")
    assert [(message.offset, message.value) for message in messages] == [(3, b"3"), (4, b"4")]
    await queue.ack(messages)
    await queue.seek("state", "default", "start")
    assert values(await take(queue, "state")) == [b"3", b"4"]
    assert [message.offset async for message in queue.read("state", from_offset=1)] == [3, 4]


async def test_dedup_is_as_everywhere(queue: Queue) -> None:
    await latest(queue)
    first = await queue.publish("state", b"1", key="k", dedup_id="a")
    await queue.publish("state", b"2", key="k", dedup_id="b")
    again = await queue.publish("state", b"1", key="k", dedup_id="a")
    assert again.id == first.id
    assert await kept(queue) == [b"2"]


async def test_depth_and_figures_count_it_as_gone(queue: Queue) -> None:
    await latest(queue, max_depth=3)
    await queue.create_group("state", "a")
    for number in range(20):
        await queue.publish("state", b"v" * 100, key=f"k{number % 2}")
    info = await queue.topic("state")
    assert (info.depth, info.messages, info.groups[0].backlog) == (2, 2, 2)
    assert info.bytes <= 2 * 110
    assert (await queue.stats()).counters.superseded == 18
    with pytest.raises(FullError):
        await queue.publish_many("state", [Message(b"v", key=f"n{number}") for number in range(3)])


async def test_a_quota_counts_it_as_gone(queue: Queue) -> None:
    await queue.set_namespace("tenant", stored_bytes=1_000)
    await queue.create_topic("state", namespace="tenant", partitions=1, keep="latest")
    for _ in range(30):
        await queue.publish("state", b"v" * 300, key="k", namespace="tenant")


async def test_what_is_there_already_counts_when_the_setting_changes(queue: Queue) -> None:
    await queue.create_topic("state", partitions=1)
    await queue.create_group("state", "a")
    await publish(queue, "state", b"1", b"2", key="k")
    await queue.publish("state", b"none")
    await queue.update_topic("state", keep="latest")
    await publish(queue, "state", b"3", key="other")
    assert await kept(queue) == [b"2", b"none", b"3"]
    await queue.update_topic("state", keep="all")
    await publish(queue, "state", b"4", b"5", key="k")
    assert await kept(queue) == [b"2", b"none", b"3", b"4", b"5"]


async def test_a_key_that_moved_to_another_partition_is_still_one_key(queue: Queue) -> None:
    await latest(queue, partitions=1, allow_reorder=True)
    keys = [f"k{number}" for number in range(12)]
    for key in keys:
        await queue.publish("state", b"old", key=key)
    await queue.update_topic("state", partitions=4)
    for key in keys:
        await queue.publish("state", b"new", key=key)
    assert await kept(queue) == [b"new"] * 12
    await queue.publish("state", b"named", key="k0", partition=3)
    await queue.publish("state", b"named again", key="k0", partition=0)
    assert sorted(await kept(queue)) == [b"named again", *[b"new"] * 11]


async def test_the_log_is_trimmed_where_nothing_is_left(queue: Queue, clock: ManualClock) -> None:
    await latest(queue)
    await publish(queue, "state", *[b"%d" % number for number in range(10)], key="k")
    await clock.advance(15)
    [partition] = (await queue.topic("state")).partitions
    assert (partition.start, partition.end) == (9, 10)


async def test_the_number_of_keys_is_bounded(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LATEST_KEYS_MAX", 3)
    await latest(queue)
    for key in ("a", "b", "c", "a"):
        await queue.publish("state", b"v", key=key)
    with pytest.raises(FullError, match="3 keys"):
        await queue.publish("state", b"v", key="d")
    await queue.publish("state", b"new", key="b")
    assert sorted(await kept(queue)) == [b"new", b"v", b"v"]


async def test_an_earlier_one_is_there_until_the_later_one_is_durable(clock: ManualClock) -> None:
    """Once durable, a message supersedes the earlier ones of its key."""
    store = FaultyStore()
    async with queue_on(store, clock) as queue:
        await latest(queue)
        await publish(queue, "state", b"1", key="k")
        store.plan = lambda _: "fail before"
        with pytest.raises(Exception, match="store failed"):
            await queue.publish("state", b"2", key="k")
        store.plan = lambda _: "none"
        await clock.advance(10)
        assert await kept(queue) == [b"1"]
        await publish(queue, "state", b"3", key="k")
        assert await kept(queue) == [b"3"]


async def test_what_was_superseded_and_trimmed_takes_no_room_any_more(queue: Queue, clock: ManualClock) -> None:
    """Also where it was published at one instant with what is still there."""
    await latest(queue, retention_bytes=500)
    await queue.create_group("state", "g")
    await queue.publish_many("state", [Message(b"v" * 100, key="k" if number < 9 else "other") for number in range(10)])
    await clock.advance(3 * limits.RETENTION_INTERVAL_MS / 1000)
    assert await kept(queue) == [b"v" * 100] * 2
    assert 100 <= (await queue.topic("state")).bytes <= 300
    assert (await queue.group("state", "g")).skipped == 0
