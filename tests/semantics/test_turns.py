"""Work in one turn of the event loop is bounded, whatever there is much of. Counted, not timed."""

import asyncio
from array import array
from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo import Queue
from ortoo.broker import Broker
from ortoo.engine import Engine
from ortoo.engine.dumps import peek
from ortoo.engine.feed import Feed
from ortoo.engine.key_lines import Waiting
from ortoo.engine.leases import LeaseState
from ortoo.engine.members import Members
from ortoo.engine.picker import Budget, Picker
from ortoo.engine.topic import Topic
from ortoo.engine.wheel import Wheel
from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Extend, Leave, Publish, Settle
from ortoo.model.names import TopicName
from ortoo.model.records import GroupCreated, Released, TransactionEnded
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock, open_manual

from .actors import take, until, watch


def decisions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[Any]]]:
    """Each command from now on, and the records that were decided on."""
    made: list[tuple[Any, list[Any]]] = []
    decide = Engine.decide

    def decided(engine: Engine, command: Any, now: int) -> Any:
        decision = decide(engine, command, now)
        made.append((command, list(decision.records)))
        return decision

    monkeypatch.setattr(Engine, "decide", decided)
    return made


def ticking(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[Any]]]:
    """What each tick from now on has spent of its budget, and its records."""
    ticks: list[tuple[int, list[Any]]] = []
    tick = Engine.tick

    def ticked(engine: Engine, now: int, budget: Budget) -> Any:
        before = budget.left
        records = tick(engine, now, budget)
        ticks.append((before - budget.left, list(records or ())))
        return records

    monkeypatch.setattr(Engine, "tick", ticked)
    return ticks


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    return open_manual(clock)


async def test_while_much_comes_due_others_are_served(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn does a bounded part of what is due; a command in between does not wait for the rest."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 10)
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.create_group("orders", "default")
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, delay=60.0) for n in range(500)])
        clock.jump(60)
        await queue.publish("other", b"1")
        group = await queue.group("orders")
        assert group.delayed > 0
        await until(lambda: _is_ready(queue, 500))
        assert [int(m.value) for m in await take(queue, "orders", 500)] == list(range(500))


async def _is_ready(queue: Queue, count: int) -> bool:
    return (await queue.group("orders")).ready == count


async def test_while_much_expires_others_are_served(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expired messages go a bounded number at a time, and each of them once."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 10)
    async with queue:
        await queue.create_topic("orders", partitions=1, on_expire="dlq")
        await queue.create_group("orders", "default")
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, ttl=60.0) for n in range(200)])
        clock.jump(60)
        await queue.publish("other", b"1")
        assert (await queue.group("orders")).ready > 0
        await until(lambda: _is_ready(queue, 0))
        letters = await queue.dead_letters("orders", limit=1000)
        assert sorted(int(letter.value) for letter in letters) == list(range(200))


async def test_retention_looks_at_a_bounded_part_of_the_topics_at_a_time(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round robin: every topic has its turn, and none of them waits for all."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 50)
    ticks = ticking(monkeypatch)
    async with queue:
        for number in range(40):
            await queue.create_topic(f"t{number}", partitions=20, retention_seconds=5)
            await queue.publish(f"t{number}", b"1", partition=19)
        await clock.advance(10)

        async def is_done() -> bool:
            return all(topic.messages == 0 for topic in await queue.topics())

        await until(is_done)
        assert max(spent for spent, _ in ticks) <= 60


async def test_a_reject_looks_at_few_of_many_open_leases(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease that holds a message is found, not searched for."""
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [b"1"] * 2000)
        leased = [await queue.lease("orders") for _ in range(2000)]
        looked = watch(monkeypatch, LeaseState, "drop", lambda lease, *_: lease.id)
        await queue.reject(leased[1000])
        assert len(looked) <= 256


async def test_a_reject_looks_at_no_other_topic(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a topic holds dead letters is known, not searched for."""
    async with queue:
        for number in range(50):
            await queue.create_topic(f"t{number}")
        await queue.publish("orders", b"1")
        messages = await take(queue, "orders")
        asked = watch(monkeypatch, Topic, "dlq_name", lambda topic, *_: topic.name.name)
        await queue.reject(messages)
        assert {name for name in asked if name.startswith("t")} == set()


async def test_what_was_done_when_is_remembered_in_bounded_room(queue: Queue, clock: ManualClock) -> None:
    """Retention by being done looks every ten seconds, for weeks."""
    async with queue:
        await queue.create_topic("orders", partitions=1, retention_done_seconds=86_400)
        for _ in range(300):
            await queue.publish("orders", b"1")
            await queue.ack(await take(queue, "orders"))
            await clock.advance(60)
        [topic] = queue._link.engine.state.topics.values()  # type: ignore[attr-defined]
        assert sum(map(len, topic.done_marks.values())) <= 66
        await clock.advance(86_400 + 1_400)
        assert (await queue.topic("orders")).messages == 0


async def test_looking_at_messages_sorts_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking never changes anything: fresh messages stay fresh, and cost nothing."""
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.create_group("orders", "default")
        sent = await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n % 3}") for n in range(30)])
        [held] = await queue.lease("orders")

        def refused(*_: Any) -> Any:
            raise AssertionError("sorted fresh messages")

        monkeypatch.setattr(Feed, "admit", refused)
        assert [(await queue.message(sent[n].id)).states["default"] for n in (0, 3, 4)] == [
            "leased",
            "blocked",
            "ready",
        ]
        assert len(await queue.messages("orders", state="ready")) == 20
        assert len(await queue.messages("orders", state="blocked", limit=5)) == 5
        assert (await queue.messages("orders", state="leased"))[0].id == held.id


async def test_a_lease_by_key_looks_at_a_bounded_number_of_messages_at_a_time(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are ready, the key's message is found, and others run meanwhile."""
    monkeypatch.setattr(limits, "SCAN_MESSAGES_MAX", 100)
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.create_group("orders", "default")
        await queue.publish_many("orders", [ortoo.Message(b"1", key=f"k{n}") for n in range(1000)])
        seen: list[int] = []
        decide, admit = Engine.decide, Feed.admit

        def decided(engine: Engine, *args: Any) -> Any:
            seen.append(0)
            return decide(engine, *args)

        def admitted(feed: Feed, upto: int) -> int:
            count = admit(feed, upto)
            seen[-1] += count
            return count

        monkeypatch.setattr(Engine, "decide", decided)
        monkeypatch.setattr(Feed, "admit", admitted)
        [last] = await queue.lease("orders", key="k999")
        assert last.key == "k999"
        assert max(seen) <= 100
        assert sum(seen) == 1000
        seen.clear()
        [middle] = await queue.lease("orders", key="k500")
        assert (middle.key, sum(seen)) == ("k500", 0)


async def test_a_lease_looks_only_into_partitions_that_have_something(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty partitions cost next to nothing."""
    async with queue:
        await queue.create_topic("orders", partitions=100)
        await queue.create_group("orders", "default")
        await queue.publish("orders", b"1", partition=70)
        looked = watch(monkeypatch, Picker, "__init__", lambda picker, feed, *_: feed.partition.index)
        assert len(await take(queue, "orders")) == 1
        assert looked == [70]


async def test_a_trace_does_not_go_through_all_that_is_delayed(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies ahead of one message is looked up."""
    async with queue:
        await queue.create_topic("orders", partitions=1, max_wait=500)
        await queue.publish_many("orders", [ortoo.Message(b"1", delay=60.0 + n, ttl=100.0) for n in range(50)])
        sent = await queue.publish("orders", b"1", delay=7.0, ttl=100.0)

        def refused(_: Wheel) -> Any:
            raise AssertionError("went through all pairs")

        monkeypatch.setattr(Wheel, "entries", refused)
        events = (await queue.trace(sent.id)).events
        ahead = [(event.what, event.reason, round(event.time - events[0].time)) for event in events[1:]]
        assert ahead == [("due", None, 7), ("expires", "ttl", 107), ("expires", "max_wait", 507)]


async def test_redriving_many_waits_for_few_commits(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters are redriven, and purged, many at a time."""
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [b"%d" % number for number in range(200)])
        await queue.reject(await take(queue, "orders", 200))
        monkeypatch.setattr(MemoryStore, "appends_at_once", lambda *_: False)  # as with every store that it matters for
        appends = watch(monkeypatch, MemoryStore, "append", lambda store, records: len(records))
        assert await queue.redrive("orders") == 200
        assert len(appends) <= 10
        again = await take(queue, "orders", 200)
        assert [int(message.value) for message in again] == list(range(200))
        await queue.reject(again)
        appends.clear()
        assert await queue.purge_dead_letters("orders") == 200
        assert len(appends) <= 10
        assert await queue.dead_letters("orders") == []


async def test_leases_that_were_settled_are_not_watched_for_ever(queue: Queue) -> None:
    """A wheel keeps what is in flight, not what once was; an extension replaces what it extends."""
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [b"1"] * 6000)
        [held] = await queue.lease("orders", lease=3600)
        for _ in range(3000):
            await queue.ack(await queue.lease("orders", lease=3600))
            await queue.extend(held, 1800)
        wheel = queue._link.engine.state.soft.leases_due  # type: ignore[attr-defined]
        assert len(wheel) == len(wheel.entries()) <= 1200


async def test_a_lease_that_is_held_is_still_watched(queue: Queue, clock: ManualClock) -> None:
    """Whatever was settled beside it."""
    async with queue:
        await queue.create_topic("orders", partitions=1, backoff_initial=0.0)
        await queue.publish_many("orders", [b"%d" % n for n in range(4000)])
        [held] = await queue.lease("orders", lease=600)
        for _ in range(3000):
            await queue.ack(await queue.lease("orders", lease=300))
        await clock.advance(600)
        [again] = await queue.lease("orders")
        assert (again.id, again.attempt) == (held.id, 2)


async def test_times_to_live_of_messages_that_are_gone_are_swept_away(queue: Queue) -> None:
    """The wheel of expiries keeps in step with the log."""
    async with queue:
        await queue.create_topic("orders", partitions=1, ttl=86_400)
        for _ in range(20):
            await queue.publish_many("orders", [b"1"] * 500)
            await queue.purge("orders")
        [topic] = queue._link.engine.state.topics.values()  # type: ignore[attr-defined]
        assert len(topic.partitions[0].expiries) <= 4 * 500 + 1024


async def test_leaving_looks_at_no_group_that_the_consumer_is_not_in(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many groups there are."""
    async with queue:
        for number in range(30):
            await queue.publish(f"t{number}", b"1")
            await queue.create_group(f"t{number}", "default")
        await queue.lease("t7", consumer="me", auto_ack=True)
        asked = watch(monkeypatch, Members, "remove", lambda members, consumers: consumers)
        await queue.leave("me")
        assert len(asked) == 1


async def test_many_dead_letters_are_copied_a_few_at_a_time(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the value of its own original, though many are read together."""
    async with queue:
        await queue.create_topic("orders", partitions=3)
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n}") for n in range(2000)])
        messages = await take(queue, "orders", 2000)
        read_together = watch(monkeypatch, MemoryStore, "read", lambda store, topic, partition, offsets: len(offsets))
        await queue.reject(messages)
        assert max(read_together) <= 500
        assert len(read_together) <= 8
        letters = [letter for _ in range(2) for letter in await queue.lease("orders.dlq", max_messages=1000)]
        assert {letter.headers["ortoo-origin"]: letter.value for letter in letters} == {m.id: m.value for m in messages}


async def test_a_late_one_among_many_that_wait_for_their_key_is_found_not_searched_for() -> None:
    """However many wait."""
    waiting = Waiting()
    for offset in range(0, 20_000, 2):
        waiting.push(offset)

    class Counted(array):  # type: ignore[type-arg]
        looked = 0

        def __getitem__(self, index: Any) -> Any:
            Counted.looked += 1
            return super().__getitem__(index)

    waiting.items = Counted("Q", waiting.items)
    assert waiting.discard(19_998)
    assert not waiting.discard(19_997)
    assert len(waiting) == 9_999
    assert Counted.looked <= 64


async def test_a_consumer_that_leaves_with_much_returns_it_in_slices(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are served in between; when it is answered, all has returned, uncounted and in order."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 50)
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n // 10}") for n in range(500)])
        for _ in range(5):
            assert len(await queue.lease("orders", max_messages=100, consumer="me")) == 100
        decided = decisions(monkeypatch)
        await queue.leave("me")
        returned = [
            sum(len(record.offsets) for record in records if isinstance(record, Released))
            for command, records in decided
            if isinstance(command, Leave)
        ]
        assert max(returned) <= 50
        assert sum(returned) == 500
        again = await take(queue, "orders", 500)
        assert {message.attempt for message in again} == {1}
        assert [int(message.value) for message in again] == list(range(500))


async def hold_a_hundred_in_order(queue: Queue) -> None:
    """As the consumer `me`, who owns the partition."""
    await queue.create_topic("orders", partitions=1, ordering="partition")
    await queue.publish_many("orders", [b"%d" % n for n in range(100)])
    assert len(await queue.lease("orders", max_messages=100, consumer="me")) == 100


async def test_a_consumer_in_partition_order_that_leaves_in_slices_is_not_overtaken(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner gets the first message first, however little has returned."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 30)
    async with queue:
        await hold_a_hundred_in_order(queue)
        waits = asyncio.create_task(queue.lease("orders", max_messages=100, consumer="you", wait=60))
        await asyncio.sleep(0)
        await queue.leave("me")
        assert [int(message.value) for message in await waits] == list(range(100))


async def test_a_lease_by_label_makes_groups_a_bounded_number_at_a_time(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lease over many topics finds the message all the same."""
    monkeypatch.setattr(limits, "SCAN_MESSAGES_MAX", 300)
    async with queue:
        for number in range(50):
            await queue.create_topic(f"t{number:02}", partitions=1)
        await queue.publish("t49", b"1")
        decided = decisions(monkeypatch)
        [message] = await queue.lease(labels={})
        assert message.value == b"1"
        made = [sum(isinstance(record, GroupCreated) for record in records) for _, records in decided]
        assert sum(made) == 50
        assert max(made) <= 5


async def test_transactions_time_out_a_bounded_number_at_a_time(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DUE_PER_TURN", 50)
    async with queue:
        for number in range(100):
            await queue.begin(f"tx{number}", timeout=30)
        ticks = ticking(monkeypatch)
        await clock.advance(30)
        await until(lambda: _are_ended(queue))
        ended = [sum(isinstance(record, TransactionEnded) for record in records) for _, records in ticks]
        assert max(ended) <= 10
        assert sum(ended) == 100


async def _are_ended(queue: Queue) -> bool:
    await queue.stats()
    return not queue._link.engine.state.transactions  # type: ignore[attr-defined]


@pytest.mark.parametrize("outcome", ["ack", "nack", "reject", "release", "extend"])
async def test_what_is_settled_in_pieces_ends_as_if_settled_at_once(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    """A message whose lease was lost is told as such, whichever piece it was in; one that a nack revokes is not."""
    ends: list[Any] = []
    for most in (100, 1_000_000):
        monkeypatch.setattr(limits, "SETTLED_PER_COMMAND", most)
        async with open_manual(clock) as queue:
            await queue.create_topic("orders", partitions=2, backoff_initial=0.0)
            messages = [ortoo.Message(b"%d" % n, key=f"k{n // 3}") for n in range(150)]
            await queue.publish_many("orders", messages)
            leased = [await queue.lease("orders", max_messages=15) for _ in range(10)]
            await queue.release(leased[1])
            await queue.ack(leased[8][::3])
            with monkeypatch.context() as patch:
                asked = watch(patch, Engine, "decide", lambda engine, command, now: command)
                with pytest.raises(ortoo.LeaseLostError) as lost:
                    await getattr(queue, outcome)([message for batch in leased for message in batch])
            group = await queue.group("orders")
            counts = (group.ready, group.blocked, group.leased, group.delayed, (await queue.topic("orders")).messages)
            ends.append((lost.value.lost, counts))
            pieces = sum(isinstance(command, Settle | Extend) for command in asked)
            assert pieces == 1 if most > 100 else pieces > 5
    assert ends[0] == ends[1]


async def test_a_lease_takes_of_a_bounded_number_of_partitions_and_the_next_of_the_others(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEASE_PARTITIONS_MAX", 3)
    async with queue:
        await queue.create_topic("orders", partitions=8)
        for n in range(16):
            await queue.publish("orders", b"%d" % n, partition=n % 8)
        leased = [await queue.lease("orders", max_messages=100) for _ in range(4)]
    assert [len({message.partition for message in messages}) for messages in leased] == [3, 3, 2, 0]
    assert sorted(int(message.value) for messages in leased for message in messages) == list(range(16))


async def test_a_checkpoint_of_many_topics_lets_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published meanwhile is no part of it, and comes back all the same."""
    monkeypatch.setattr(limits, "SNAPSHOT_PER_TURN", 1)
    async with ortoo.open(tmp_path) as queue:
        for number in range(20):
            await queue.publish(f"t{number}", b"before")
        broker = queue._link
        assert isinstance(broker, Broker)
        snapshotting = asyncio.create_task(broker._snapshot())
        await asyncio.sleep(0)
        broker.submit(Publish(TopicName("default", "t19"), Outgoing([b"meanwhile"])))
        assert not snapshotting.done()
        snapshot, _, _ = await snapshotting
        [dumped] = [topic for topic in peek(snapshot).topics if topic.name == "t19"]
        assert sum(partition.end for partition in dumped.partitions) == 1
    async with ortoo.open(tmp_path) as queue:
        assert [message.value for message in await take(queue, "t19", 2)] == [b"before", b"meanwhile"]


async def test_a_leave_that_is_cancelled_is_finished_all_the_same(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DUE_PER_TURN", 10)
    async with queue:
        await hold_a_hundred_in_order(queue)
        leaving = asyncio.create_task(queue.leave("me"))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await until(lambda: _has_returned(queue))
        assert len(await take(queue, "orders", 100)) == 100


async def _has_returned(queue: Queue) -> bool:
    return (await queue.group("orders")).leased == 0


async def test_a_large_lease_whose_dead_letters_have_no_place_stops_nobody_else(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DUE_PER_TURN", 10)
    async with queue:
        await queue.create_topic("orders", partitions=1, ordering="none", max_attempts=1)
        await queue.publish("orders", b"first")
        await queue.reject(await queue.lease("orders"))
        broker = queue._link
        assert isinstance(broker, Broker)
        for partition in broker.engine.state.names[TopicName("default", "orders.dlq")].partitions:
            partition.quarantine_reason = "it is damaged"
        await queue.publish_many("orders", [b"x"] * 100)
        assert len(await queue.lease("orders", max_messages=100, lease=1)) == 100
        await queue.publish("other", b"late", delay=2)
        for _ in range(3):
            await clock.advance(1)
        assert [message.value for message in await queue.lease("other")] == [b"late"]
