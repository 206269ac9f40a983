"""Everything is kept when a queue is closed and opened again, and when its process dies; with checkpoints and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ortoo import ExistsError, LeaseLostError, Message, NotFoundError

from .home import AFTER_EACH_COMMIT, NEVER, Home, take, values


@pytest_asyncio.fixture(params=["close", "kill"])
async def plain_home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(tmp_path / "data", ending=request.param)
    yield home
    await home.end()


@pytest.fixture(params=[NEVER, AFTER_EACH_COMMIT], ids=["no checkpoints", "checkpoints"])
def home(request: pytest.FixtureRequest, plain_home: Home) -> Home:
    plain_home.checkpoint_bytes = request.param
    return plain_home


async def test_what_was_acked_stays_acked_and_the_rest_is_there(home: Home) -> None:
    queue = await home.open()
    await queue.publish_many("t", [Message(b"%d" % number, headers={"n": str(number)}) for number in range(10)])
    messages = await take(queue, "t")
    await queue.ack(messages[:4])
    await queue.release(messages[4:])
    queue = await home.open()
    again = await take(queue, "t")
    assert values(again) == [b"%d" % number for number in range(4, 10)]
    assert [message.headers for message in again] == [{"n": str(number)} for number in range(4, 10)]
    assert [message.attempt for message in again] == [1] * 6
    await queue.ack(again)
    queue = await home.open()
    assert await take(queue, "t") == []
    assert [message.value async for message in queue.read("t")] == [b"%d" % n for n in range(10)]


async def test_ids_and_times_and_types_are_kept(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", partitions=1)
    sent = await queue.publish_many(
        "t", [Message({"a": 1}, key="k"), Message(b"\x00\xff"), Message("text", priority=0)]
    )
    before = [await queue.message(one.id) for one in sent]
    queue = await home.open()
    assert [(await queue.message(one.id)).message.value for one in sent] == [b'{"a":1}', b"\x00\xff", b"text"]
    after = [await queue.message(one.id) for one in sent]
    assert [info.message.timestamp for info in after] == [info.message.timestamp for info in before]
    assert [info.message.is_json for info in after] == [True, False, False]
    assert [info.message.priority for info in after] == [5, 5, 0]
    assert [info.message.key for info in after] == ["k", None, None]


async def test_attempts_are_kept_up_to_the_last(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", max_attempts=3, backoff_initial=10.0, backoff_factor=1.0)
    await queue.publish("t", b"hard")
    for attempt in (1, 2, 3):
        message = (await take(queue, "t"))[0]
        assert message.attempt == attempt
        await message.nack(f"failure {attempt}")
        queue = await home.open()
        assert await take(queue, "t") == []  # not before its backoff is over, which is kept, too
        await home.clock.advance(20)
    assert await take(queue, "t") == []
    letters = await queue.dead_letters("t")
    assert values(letters) == [b"hard"]
    assert letters[0].headers["ortoo-error"] == "failure 3"
    assert letters[0].headers["ortoo-attempts"] == "3"


async def test_dead_letters_can_be_redriven_after_a_restart(home: Home) -> None:
    queue = await home.open()
    await queue.publish("t", b"bad", key="k", headers={"a": "b"})
    await queue.reject(await take(queue, "t", group="g"), "never works")
    queue = await home.open()
    assert values(await queue.dead_letters("t")) == [b"bad"]
    assert (await queue.group("t", "g")).dead == 1
    assert await queue.redrive("t") == 1
    queue = await home.open()
    assert await queue.dead_letters("t") == []
    message = (await take(queue, "t", group="g"))[0]
    assert (message.value, message.key, message.headers, message.attempt) == (b"bad", "k", {"a": "b"}, 1)


async def test_delays_are_kept(home: Home) -> None:
    queue = await home.open()
    await queue.publish("t", b"later", delay=60)
    await queue.publish("t", b"at", deliver_at=home.clock.time() + 120)
    queue = await home.open()
    assert await take(queue, "t") == []
    assert (await queue.messages("t", group="default", state="delayed")) != []
    await home.clock.advance(59)
    assert await take(queue, "t") == []
    await home.clock.advance(2)
    assert values(await take(queue, "t")) == [b"later"]
    queue = await home.open()
    await home.clock.advance(60)
    queue = await home.open()
    assert b"at" in values(await take(queue, "t"))


async def test_a_delay_that_ended_while_it_was_closed_is_over(home: Home) -> None:
    queue = await home.open()
    await queue.publish("t", b"later", delay=60)
    await home.end()
    home.clock.jump(61)
    queue = await home.open()
    assert values(await take(queue, "t")) == [b"later"]


async def test_times_to_live_are_kept(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", on_expire="dlq")
    await queue.publish("t", b"short", ttl=10)
    await queue.publish("t", b"long", ttl=100)
    await queue.create_group("t", "g")
    queue = await home.open()
    await home.clock.advance(11)
    assert values(await take(queue, "t", group="g")) == [b"long"]
    assert values(await queue.dead_letters("t")) == [b"short"]


async def test_dedup_ids_are_remembered_for_their_time(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", dedup_window=100, encrypted=False)
    first = await queue.publish("t", b"once", dedup_id="d1")
    queue = await home.open()
    again = await queue.publish("t", b"twice", dedup_id="d1")
    assert (again.id, again.duplicate) == (first.id, True)
    queue = await home.open()
    assert values(await take(queue, "t")) == [b"once"]
    await home.clock.advance(101)
    queue = await home.open()
    assert not (await queue.publish("t", b"new", dedup_id="d1")).duplicate


async def test_dedup_ids_of_a_namespace_are_remembered(home: Home) -> None:
    queue = await home.open()
    for topic in ("a", "b"):
        await queue.create_topic(topic, dedup_scope="namespace")
    first = await queue.publish("a", b"once", dedup_id="d1")
    queue = await home.open()
    assert (await queue.publish("b", b"twice", dedup_id="d1")).id == first.id


async def test_groups_and_seeks_are_kept(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", partitions=1)
    await queue.publish_many("t", [Message(b"%d" % number) for number in range(6)])
    await queue.create_group("t", "late", "new")
    await queue.create_group("t", "third", offset=3)
    for group in ("sought", "bounded"):
        await queue.ack(await take(queue, "t", group=group))
    await queue.seek("t", "sought", offset=4)
    await queue.seek("t", "bounded", offset=1, to_offset=3)
    await queue.create_group("t", "gone")
    await queue.delete_group("t", "gone")
    queue = await home.open()
    assert sorted(group.name for group in await queue.groups("t")) == ["bounded", "late", "sought", "third"]
    assert await take(queue, "t", group="late") == []
    assert values(await take(queue, "t", group="third")) == [b"3", b"4", b"5"]
    assert values(await take(queue, "t", group="sought")) == [b"4", b"5"]
    assert values(await take(queue, "t", group="bounded")) == [b"1", b"2"]


async def test_a_seek_makes_receipts_stale_also_after_a_restart(home: Home) -> None:
    queue = await home.open()
    await queue.publish("t", b"1")
    message = (await take(queue, "t"))[0]
    await queue.seek("t", "default", "start")
    queue = await home.open()
    with pytest.raises(LeaseLostError):
        await queue.ack(message.receipt)
    assert values(await take(queue, "t")) == [b"1"]


async def test_a_lease_outlives_the_restart(home: Home) -> None:
    queue = await home.open()
    await queue.publish_many("t", [Message(b"%d" % number) for number in range(4)])
    messages = await queue.lease("t", max_messages=3, lease=30)
    receipts = [message.receipt for message in messages]
    await queue.extend(receipts[:1], 300)
    queue = await home.open()
    assert values(await take(queue, "t")) == [b"3"]  # nobody else gets what is leased
    await queue.ack(receipts[0])
    await queue.nack(receipts[1], delay=0)
    await queue.ack(receipts[0])  # twice is fine
    queue = await home.open()
    await queue.ack(receipts[0])
    with pytest.raises(LeaseLostError):
        await queue.ack(receipts[1])
    assert [(m.value, m.attempt) for m in await take(queue, "t")] == [(b"1", 2)]
    await queue.ack(receipts[2])
    assert (await queue.group("t")).backlog == 2


async def test_a_lease_runs_out_after_the_restart(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", backoff_initial=0.0)
    await queue.publish("t", b"1")
    message = (await queue.lease("t", lease=30))[0]
    queue = await home.open()
    await home.clock.advance(31)
    with pytest.raises(LeaseLostError):
        await queue.ack(message.receipt)
    assert [(m.value, m.attempt) for m in await take(queue, "t")] == [(b"1", 2)]


async def test_new_receipts_are_never_like_old_ones(home: Home) -> None:
    queue = await home.open()
    receipts = set()
    await queue.publish_many("t", [Message(b"%d" % number) for number in range(4)])
    for _ in range(4):
        receipts.add((await queue.lease("t"))[0].receipt)
        queue = await home.open()
    assert len({receipt.split(".")[2] for receipt in receipts}) == 4


async def test_an_open_transaction_keeps_what_was_staged(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("out", partitions=1)
    transaction = await queue.begin("job", part="a")
    await transaction.publish("out", b"1", key="k", headers={"a": "b"}, priority=0)
    await queue.publish("other", b"a commit in between")
    queue = await home.open()
    transaction = await queue.begin("job", part="b")
    await transaction.publish("out", b"2")
    failed = await queue.begin("job", part="c")
    await failed.publish("out", b"never")
    await queue.publish("other", b"a commit in between")
    queue = await home.open()
    assert [message async for message in queue.read("out")] == []
    assert await (await queue.begin("job")).commit(["a", "b"]) == 2
    queue = await home.open()
    messages = await take(queue, "out")
    assert values(messages) == [b"1", b"2"]
    assert (messages[0].key, messages[0].headers) == ("k", {"a": "b"})
    with pytest.raises(ExistsError, match="committed already"):
        await queue.begin("job")


async def test_an_aborted_transaction_stays_aborted(home: Home) -> None:
    queue = await home.open()
    transaction = await queue.begin("job")
    await transaction.publish("out", b"1")
    await transaction.abort()
    queue = await home.open()
    with pytest.raises(ExistsError, match="aborted already"):
        await queue.begin("job")
    with pytest.raises(NotFoundError):
        await queue.topic("out")


async def test_a_transaction_times_out_after_the_restart(home: Home) -> None:
    queue = await home.open()
    transaction = await queue.begin("job", timeout=60)
    await transaction.publish("out", b"1")
    queue = await home.open()
    await home.clock.advance(61)
    with pytest.raises(ExistsError, match="aborted already"):
        await queue.begin("job")


async def test_traces_are_kept(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", backoff_initial=0.0)
    sent = await queue.publish("t", b"1")
    await (await take(queue, "t", group="g"))[0].nack("boom")
    queue = await home.open()
    message = (await take(queue, "t", group="g"))[0]
    queue = await home.open()
    await queue.ack(message.receipt)
    queue = await home.open()
    events = (await queue.trace(sent.id)).events
    assert [event.what for event in events] == ["published", "delivered", "nacked", "redelivered", "acknowledged"]
    assert [event.error for event in events if event.error] == ["boom"]


async def test_a_purged_topic_stays_empty_and_a_deleted_one_gone(home: Home) -> None:
    queue = await home.open()
    for topic in ("purged", "deleted", "again"):
        await queue.publish_many(topic, [Message(b"old %d" % number, key=f"k{number}") for number in range(20)])
        held = (await queue.lease(topic, max_messages=2))[0]
    await queue.purge("purged")
    await queue.delete_topic("deleted")
    await queue.delete_topic("again")
    await queue.publish("again", b"new", key="k1")
    queue = await home.open()
    assert await take(queue, "purged") == []
    assert (await queue.topic("purged")).messages == 0
    with pytest.raises(NotFoundError):
        await queue.topic("deleted")
    assert values(await take(queue, "again")) == [b"new"]
    with pytest.raises((LeaseLostError, NotFoundError)):
        await queue.ack(held.receipt)
    await queue.publish("purged", b"fresh", key="k1")
    queue = await home.open()
    assert values(await take(queue, "purged")) == [b"fresh"]
    await queue.publish("other", b"so that a checkpoint sees it")
    if home.checkpoint_bytes == AFTER_EACH_COMMIT:
        old = [name for name, data in home.files().items() if b"old 7" in data]
        assert old == []


async def test_a_deleted_message_stays_deleted(home: Home) -> None:
    queue = await home.open()
    sent = await queue.publish_many("t", [Message(b"%d" % number) for number in range(3)])
    await queue.delete_message(sent[1].id)
    queue = await home.open()
    assert values(await take(queue, "t")) == [b"0", b"2"]
    with pytest.raises(NotFoundError):
        await queue.message(sent[1].id)


async def test_what_retention_trimmed_stays_trimmed(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", partitions=1, retention_seconds=100.0)
    await queue.create_group("t", "slow")
    await queue.publish("t", b"old", key="k")
    await home.clock.advance(90)
    await queue.publish("t", b"young", key="k")
    await home.clock.advance(90)
    await queue.publish("other", b"a commit")
    queue = await home.open()
    assert (await queue.group("t", "slow")).skipped == 1
    assert values(await take(queue, "t", group="slow")) == [b"young"]
    assert (await queue.topic("t")).partitions[0].start == 1


async def test_priorities_are_kept(home: Home) -> None:
    queue = await home.open()
    for priority in (9, 5, 0, 5, 2):
        await queue.publish("t", b"%d" % priority, priority=priority)
    queue = await home.open()
    assert values(await take(queue, "t")) == [b"0", b"2", b"5", b"5", b"9"]


async def test_keys_stay_in_order_and_blocked(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", backoff_initial=10.0)
    for number in range(3):
        await queue.publish_many("t", [Message(b"%s%d" % (key.encode(), number), key=key) for key in ("a", "b")])
    held = (await queue.lease("t", key="a"))[0]
    failed = (await queue.lease("t", key="b"))[0]
    await failed.nack()
    queue = await home.open()
    assert await take(queue, "t") == []  # one key has its first message leased, the other's waits for its retry
    await queue.ack(held.receipt)
    assert values(await take(queue, "t")) == [b"a1", b"a2"]
    queue = await home.open()
    await home.clock.advance(11)
    again = await take(queue, "t")
    assert values(again) == [b"b0", b"b1", b"b2"]
    assert [message.attempt for message in again] == [2, 1, 1]


@pytest.mark.parametrize("ordering", ["partition", "strict"])
async def test_partitions_stay_in_order(home: Home, ordering: str) -> None:
    queue = await home.open()
    await queue.create_topic("t", partitions=1, ordering=ordering)
    await queue.publish_many("t", [Message(b"%d" % number, key="k", priority=9 - number) for number in range(5)])
    held = (await queue.lease("t", max_messages=2))[1]
    queue = await home.open()
    assert await take(queue, "t") == []
    await queue.ack(held.receipt)
    assert await take(queue, "t") == []
    await home.clock.advance(31)
    await home.clock.advance(10)
    queue = await home.open()
    assert values(await take(queue, "t")) == [b"0", b"2", b"3", b"4"]


async def test_settings_and_more_partitions_are_kept(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", partitions=2, ordering="none", labels={"task": "a"})
    await queue.publish_many("t", [Message(b"%d" % number, partition=number % 2) for number in range(4)])
    await queue.create_group("t", "g")
    await queue.update_topic("t", partitions=4, max_attempts=7)
    await queue.publish("t", b"4", partition=3)
    queue = await home.open()
    info = await queue.topic("t")
    assert (info.config.partitions, info.config.max_attempts, info.config.labels) == (4, 7, {"task": "a"})
    await queue.publish("t", b"5", partition=2)
    queue = await home.open()
    found = await queue.lease(labels={"task": "a"}, group="g", max_messages=10)
    assert sorted(values(found)) == [b"%d" % number for number in range(6)]


async def test_a_window_is_kept(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("t", window_seconds=10.0)
    await queue.publish("t", b"1")
    queue = await home.open()
    assert await take(queue, "t") == []
    await home.clock.advance(11)
    assert values(await take(queue, "t")) == [b"1"]


async def test_a_transaction_across_topics_is_kept_as_a_whole(home: Home) -> None:
    queue = await home.open()
    await queue.publish("in", b"1")
    message = (await take(queue, "in"))[0]
    async with queue.transaction() as tx:
        tx.ack(message)
        tx.publish("out", b"2")
        tx.publish("audit", b"3", delay=5)
    queue = await home.open()
    assert (await queue.group("in")).backlog == 0
    assert values(await take(queue, "out")) == [b"2"]
    await home.clock.advance(6)
    assert values(await take(queue, "audit")) == [b"3"]


async def test_time_does_not_run_backwards_over_a_restart(home: Home) -> None:
    queue = await home.open()
    await queue.publish("t", b"1", delay=60)
    first = await queue.publish("t", b"2")
    await home.end()
    home.clock.jump(-3600)
    queue = await home.open()
    second = await queue.publish("t", b"3")
    times = [(await queue.message(sent.id)).message.timestamp for sent in (first, second)]
    assert times[0] <= times[1]


async def test_much_is_kept_over_many_restarts(home: Home) -> None:
    home.checkpoint_bytes = 20_000 if home.checkpoint_bytes == AFTER_EACH_COMMIT else home.checkpoint_bytes
    queue = await home.open()
    await queue.create_topic("t", partitions=3, lease=3600.0)
    left: set[bytes] = set()
    for life in range(6):
        batch = [Message(b"%d.%d" % (life, number) + bytes(50), key=f"k{number % 17}") for number in range(200)]
        left.update(message.value for message in batch if isinstance(message.value, bytes))
        await queue.publish_many("t", batch)
        messages = await queue.lease("t", max_messages=150)
        await queue.ack(messages)
        left.difference_update(values(messages))
        queue = await home.open()
    found: list[bytes] = []
    while messages := await take(queue, "t"):
        found += values(messages)
        await queue.ack(messages)
    assert len(found) == len(left)
    assert set(found) == left
