"""What one command, or one instant, asks of a turn of the event loop is bounded in every order. Counted, not timed."""

import asyncio
import itertools
from typing import Any

import pytest

import ortoo
from ortoo import Queue
from ortoo.broker import Broker
from ortoo.broker.waiters import Waiters
from ortoo.client import dead_letters
from ortoo.engine import Engine
from ortoo.engine import members as members_module
from ortoo.engine import snapshot as snapshot_module
from ortoo.engine.feed import Feed
from ortoo.engine.keys import KeyColumn, KeyOrder
from ortoo.engine.members import Members
from ortoo.engine.partition import Partition
from ortoo.engine.picker import Budget
from ortoo.engine.snapshot import Snapshot
from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock, open_manual

from .actors import crowd, poll, take, until, watch


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    return open_manual(clock)


async def test_a_lease_in_strict_order_looks_up_few_priorities(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one partition there is nothing to choose between."""
    async with queue:
        await queue.create_topic("orders", partitions=1, ordering="strict")
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, priority=n % 7) for n in range(500)])
        looked = watch(monkeypatch, Partition, "lane_of", lambda partition, offset: offset)
        messages = await queue.lease("orders", max_messages=500)
        assert [int(message.value) for message in messages] == list(range(500))
        assert len(looked) <= 2


async def test_partitions_in_order_take_turns_by_priority(queue: Queue) -> None:
    """The most urgent of what each of them has next goes first, the oldest first of those."""
    async with queue:
        await queue.create_topic("orders", partitions=2, ordering="partition")
        for partition, priorities in ((0, [5, 5, 1, 9, 9]), (1, [3, 3, 9, 2, 2, 2])):
            for number, priority in enumerate(priorities):
                await queue.publish("orders", b"%d" % number, partition=partition, priority=priority)
        messages = await queue.lease("orders", max_messages=20)
    assert [(message.partition, int(message.value)) for message in messages] == [
        *((1, number) for number in (0, 1)),
        *((0, number) for number in (0, 1, 2, 3, 4)),
        *((1, number) for number in (2, 3, 4, 5)),
    ]


async def test_a_lease_takes_a_bounded_number_of_stretches_and_the_next_goes_on(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where partitions alternate, each message is read by itself."""
    monkeypatch.setattr(limits, "LEASE_RUNS_MAX", 10)
    async with queue:
        await queue.create_topic("orders", partitions=3)
        for number in range(25):
            await queue.publish("orders", b"%d" % number, partition=number % 3)
            await clock.advance(0.001)
        leased = [await queue.lease("orders", max_messages=100) for _ in range(4)]
    assert [len(messages) for messages in leased] == [10, 10, 5, 0]
    assert [int(message.value) for messages in leased for message in messages] == list(range(25))


async def test_what_one_partition_gives_in_order_is_one_stretch(queue: Queue) -> None:
    async with queue:
        await queue.create_topic("orders", partitions=2, ordering="partition")
        for number in range(100):
            await queue.publish("orders", b"%d" % number, partition=0, priority=number % 7)
        await queue.publish("orders", b"last", partition=1, priority=9)
        broker: Any = queue._link
        reads: list[int] = []
        read = broker.store.read

        async def counted(topic: Any, partition: int, offsets: list[int]) -> Any:
            reads.append(len(offsets))
            return await read(topic, partition, offsets)

        broker.store.read = counted
        messages = await queue.lease("orders", max_messages=200)
    assert reads == [100, 1]
    assert [message.value for message in messages] == [*(b"%d" % n for n in range(100)), b"last"]


async def test_a_bounded_seek_changes_sets_and_sorts_when_messages_are_leased(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many were done or wait for a retry; they come in the order of their keys all the same."""
    monkeypatch.setattr(limits, "SORTED_AT_ONCE", 10)
    sorted_now: list[int] = []
    offer, give_back, decide = KeyOrder.offer, KeyOrder.give_back, Engine.decide

    def decided(engine: Engine, *args: Any) -> Any:
        sorted_now.append(0)
        return decide(engine, *args)

    def offered(order: KeyOrder, offsets: Any, keys: Any) -> Any:
        sorted_now[-1] += len(offsets)
        return offer(order, offsets, keys)

    def given_back(order: KeyOrder, offsets: Any, keys: Any) -> Any:
        sorted_now[-1] += len(offsets)
        return give_back(order, offsets, keys)

    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n % 200}") for n in range(400)])
        await queue.ack(await take(queue, "orders", 200))
        await queue.nack(await take(queue, "orders", 100), delay=3600)
        await take(queue, "orders", 20)
        monkeypatch.setattr(KeyOrder, "offer", offered)
        monkeypatch.setattr(KeyOrder, "give_back", given_back)
        monkeypatch.setattr(Engine, "decide", decided)
        await queue.seek("orders", "default", offset=0, to_offset=400)
        assert sum(sorted_now) <= 10
        group = await queue.group("orders")
        assert (group.ready, group.leased, group.delayed) == (400, 0, 0)
        monkeypatch.setattr(limits, "SCAN_MESSAGES_MAX", 50)
        again: list[ortoo.Received] = []
        while messages := await take(queue, "orders", 400):
            again += messages
            await queue.ack(messages)
        assert max(sorted_now) <= 50
        assert [int(message.value) for message in again] == list(range(400))
        assert {message.attempt for message in again} == {1}


async def test_polls_that_time_out_together_end_a_bounded_number_at_a_time(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TIMEOUTS_PER_TURN", 10)
    ended: list[int] = []
    time_out = Waiters.time_out

    def counted(waiters: Waiters, now: int) -> None:
        before = len(waiters)
        time_out(waiters, now)
        ended.append(before - len(waiters))

    async with queue:
        await queue.create_topic("orders")
        polls = await crowd(queue, 95)
        monkeypatch.setattr(Waiters, "time_out", counted)
        await clock.advance(30)
        assert [len(messages) for messages in await asyncio.gather(*polls)] == [0] * 95
    assert max(ended) == 10
    assert sum(ended) == 95


@pytest.mark.parametrize("end", ["time out", "cancel"])
async def test_polls_by_label_that_end_together_let_others_run(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Each has to be noted in every topic; that is due work like other. They have their session's time to come again."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 50)
    spent: list[int] = []
    tick, unpark = Engine.tick, Members.unpark

    def ticked(engine: Engine, now: int, budget: Budget) -> Any:
        spent.append(0)
        return tick(engine, now, budget)

    def unparked(members: Members, consumer: str, now: int) -> None:
        spent[-1] += 1
        unpark(members, consumer, now)

    async with queue:
        for number in range(40):
            await queue.create_topic(f"t{number}", labels={"task": "t"})
        assert await queue.lease(labels={"task": "t"}) == []
        polls = [await poll(queue, None, labels={"task": "t"}, consumer=f"c{n}") for n in range(5)]
        spent.append(0)
        monkeypatch.setattr(Engine, "tick", ticked)
        monkeypatch.setattr(Members, "unpark", unparked)
        if end == "cancel":
            for one in polls:
                one.cancel()
        else:
            await clock.advance(30)
        await asyncio.gather(*polls, return_exceptions=True)

        async def is_noted() -> bool:
            await clock.advance(0)
            return sum(spent) == 200

        await until(is_noted)
        assert max(spent) <= 50
        assert "c0" in (await queue.group("t39")).consumers
        await clock.advance(11)
        assert (await queue.group("t39")).consumers == {}


async def test_consumers_that_wait_are_looked_after_a_bounded_number_at_a_time(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many that wait in many groups: what was noted of each is looked at when its session's time is over."""
    monkeypatch.setattr(limits, "DUE_PER_TURN", 50)
    async with queue:
        for number in range(20):
            await queue.create_topic(f"t{number}", labels={"task": "t"})
        await queue.lease(labels={"task": "t"})
        polls = [await poll(queue, None, labels={"task": "t"}, consumer=f"c{n}") for n in range(15)]
        groups = [topic.group_names["default"] for topic in queue._link.engine.state.topics.values()]  # type: ignore[attr-defined]
        seen = [sum(group.members.looked_at for group in groups)]
        go_on = Broker._do_due

        def counted(broker: Broker, now: int) -> None:
            go_on(broker, now)
            seen.append(sum(group.members.looked_at for group in groups))

        monkeypatch.setattr(Broker, "_do_due", counted)
        await clock.advance(11)
        assert seen[-1] - seen[0] >= 20 * 15
        assert max(after - before for before, after in itertools.pairwise(seen)) <= 50 + 16
        for one in polls:
            one.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def test_topics_by_label_are_put_in_order_once(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until one comes, goes or changes."""
    asked = watch(monkeypatch, State, "topics_labelled", lambda state, *args: args)
    async with queue:
        await queue.create_topic("a", labels={"task": "t"}, priority=5)
        await queue.create_topic("b", labels={"task": "t"}, priority=7)
        for name in ("b", "a", "b", "a"):
            await queue.publish(name, name)
        assert [message.topic for _ in range(2) for message in await queue.lease(labels={"task": "t"})] == ["a", "a"]
        assert len(asked) == 1
        await queue.publish("a", "a")
        await queue.update_topic("b", priority=1)
        assert [message.topic for _ in range(3) for message in await queue.lease(labels={"task": "t"})] == [
            "b",
            "b",
            "a",
        ]
        assert len(asked) == 2
        await queue.delete_topic("b")
        assert await queue.lease(labels={"task": "t"}) == []


async def tick(turns: list[int]) -> None:
    """Begins a new count in every turn of the event loop."""
    while True:
        turns.append(0)
        await asyncio.sleep(0)


async def test_what_is_told_of_a_topic_with_many_groups_lets_others_run(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    look = Feed.backlog

    def counted(feed: Feed) -> int:
        looked[-1] += 1
        return look(feed)

    async with queue:
        await queue.create_topic("orders", partitions=50)
        for number in range(40):
            await queue.create_group("orders", f"g{number}")
        await queue.publish_many("orders", [b"v"] * 7)
        ticking = asyncio.create_task(tick(looked))
        await asyncio.sleep(0)
        monkeypatch.setattr(Feed, "backlog", counted)
        info = await queue.topic("orders")
        ticking.cancel()
    assert (len(info.groups), info.depth, {group.backlog for group in info.groups}) == (40, 7, {7})
    assert 0 < max(looked) <= 250


async def test_how_many_are_blocked_is_known_not_counted(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys are held."""
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n % 100}") for n in range(300)])
        held = await take(queue, "orders", 100)
        await queue.nack(held[:50], delay=3600)
        await queue.lease("orders", key="none")  # looks at all of them

        def refused(*_: Any) -> Any:
            raise AssertionError("went through all that is held")

        monkeypatch.setattr(KeyColumn, "of", refused)
        group = await queue.group("orders")
        assert (group.blocked, group.delayed, group.leased, group.ready) == (200, 50, 50, 0)
        monkeypatch.undo()
        await queue.ack(held[50:80])
        assert (await queue.group("orders")).blocked == 140


async def test_a_nack_of_one_message_does_not_look_at_its_whole_lease(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later ones of its key are revoked all the same."""
    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [ortoo.Message(b"%d" % n, key=f"k{n % 400}") for n in range(1000)])
        held = await take(queue, "orders", 1000)
        looked = watch(monkeypatch, KeyColumn, "of", lambda column, offsets: len(offsets))
        await queue.nack(held[7], delay=3600)
        assert max(looked) <= 3
        group = await queue.group("orders")
        assert (group.leased, group.delayed, group.blocked) == (997, 1, 2)
        with pytest.raises(ortoo.LeaseLostError):
            await queue.ack(held[407])
        await queue.ack(held[8])
        await queue.nack([held[408], held[808]], delay=3600)
        assert max(looked) <= 3
        group = await queue.group("orders")
        assert (group.leased, group.delayed, group.blocked) == (994, 2, 3)


async def test_who_owns_what_among_many_consumers_is_found_without_putting_them_in_order(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more consumers than partitions the owners keep theirs, and the first of the others get what is free."""
    sizes: list[int] = []

    def counted(items: Any, **options: Any) -> Any:
        found = sorted(items, **options)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(members_module, "sorted", counted, raising=False)
    async with queue:
        await queue.create_topic("orders", partitions=3, ordering="partition")
        await queue.create_group("orders", "default")
        for number in range(300):
            await queue.heartbeat("orders", "default", f"c{number:03}")
        await queue.leave("c001")
        owned = (await queue.group("orders")).consumers
    assert {consumer: partitions for consumer, partitions in owned.items() if partitions} == {
        "c000": [0],
        "c002": [1],
        "c003": [2],
    }
    assert max(sizes) <= 3


async def test_while_many_dead_letters_are_looked_at_others_run(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redriving and purging begin with that."""
    monkeypatch.setattr(dead_letters, "_PAGE", 20)
    seen: list[int] = []
    read = MemoryStore.read

    async def counted(store: MemoryStore, *args: Any) -> Any:
        columns = await read(store, *args)
        seen[-1] += len(columns)
        return columns

    async with queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish_many("orders", [b"%d" % n for n in range(200)])
        await queue.reject(await take(queue, "orders", 200))
        ticking = asyncio.create_task(tick(seen))
        await asyncio.sleep(0)
        monkeypatch.setattr(MemoryStore, "read", counted)
        assert await queue.redrive("orders") == 200
        ticking.cancel()
    assert max(seen) <= 20
    assert sum(seen) == 200


async def test_a_snapshot_of_one_large_topic_lets_others_run(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes meanwhile is dumped first, and no more than that: it is a snapshot of one instant all the same."""
    monkeypatch.setattr(limits, "SNAPSHOT_PER_TURN", 20)
    dumped: list[int] = []
    go_on, dump = Snapshot.go_on, snapshot_module._dump_feed

    def counted_turn(snapshot: Snapshot, most: int) -> bool:
        dumped.append(0)
        return go_on(snapshot, most)

    def counted(feed: Feed) -> Any:
        dumped[-1] += 1
        return dump(feed)

    monkeypatch.setattr(Snapshot, "go_on", counted_turn)
    monkeypatch.setattr(snapshot_module, "_dump_feed", counted)
    async with queue:
        await queue.create_topic("orders", partitions=30)
        for number in range(9):
            await queue.create_group("orders", f"g{number}")
        for partition in range(30):
            await queue.publish("orders", b"before", partition=partition)
        held = await queue.lease("orders", group="g3", partition=29)
        before = queue._link.engine.snapshot()  # type: ignore[attr-defined]
        dumped.clear()
        making = asyncio.create_task(queue._link._snapshot())  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        await queue.publish("orders", b"meanwhile", partition=28)
        await queue.ack(held)
        assert not making.done()
        snapshot, _, _ = await making
    assert snapshot == before
    assert len(dumped) > 10
    assert sum(dumped) == 30 * 9
    assert max(dumped) <= 20 + 2 * 9
