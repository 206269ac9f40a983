"""Groups that are paused: nothing is delivered to them, everything else goes on, and the pause ends when it should."""

from pathlib import Path

import pytest

from ortoo import InvalidError, NotFoundError, Queue
from ortoo.broker import Broker
from ortoo.engine import Engine
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model.commands import Command, CreateGroup, CreateTopic, DeleteGroup, PauseGroup
from ortoo.model.names import TopicName
from ortoo.model.records import Restored
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.testing import ManualClock

from .actors import poll, publish, take, values
from .stores import LastingStore


async def paused(queue: Queue, group: str = "default") -> tuple[bool, float | None, str | None]:
    info = await queue.group("orders", group)
    return info.paused, info.paused_until, info.reason


async def begin(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    await queue.create_group("orders", "default")
    await publish(queue, "orders", b"1", b"2", b"3")


async def test_a_paused_group_gets_nothing_until_it_is_resumed(queue: Queue) -> None:
    await begin(queue)
    await queue.pause_group("orders", "default", reason="the bank is down")
    assert await take(queue, "orders") == []
    assert await paused(queue) == (True, None, "the bank is down")
    assert (await queue.topic("orders")).groups[0].paused
    assert (await queue.group("orders")).ready == 3
    await queue.resume_group("orders", "default")
    assert await paused(queue) == (False, None, None)
    assert values(await take(queue, "orders")) == [b"1", b"2", b"3"]


async def test_other_groups_are_not_held_up(queue: Queue) -> None:
    await begin(queue)
    await queue.pause_group("orders", "default")
    assert len(await take(queue, "orders", group="other")) == 3


async def test_a_lease_by_labels_passes_a_paused_group_by(queue: Queue) -> None:
    for topic in ("a", "b"):
        await queue.create_topic(topic, labels={"team": "shop"})
        await queue.create_group(topic, "default")
        await queue.publish(topic, topic.encode())
    await queue.pause_group("a", "default")
    assert values(await queue.lease(labels={"team": "shop"}, max_messages=10)) == [b"b"]


@pytest.mark.parametrize("ordering", ["none", "key", "partition", "strict"])
async def test_settling_goes_on_in_every_order(queue: Queue, ordering: str) -> None:
    await queue.create_topic("orders", partitions=1, ordering=ordering)
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    leased = await take(queue, "orders", 1)
    await queue.pause_group("orders", "default")
    await queue.extend(leased, 60)
    await queue.ack(leased)
    assert await take(queue, "orders", 1) == []
    await queue.resume_group("orders", "default")
    [second] = await take(queue, "orders", 1)
    await queue.pause_group("orders", "default")
    await second.nack(delay=0)
    assert await take(queue, "orders", 1) == []
    assert (await queue.group("orders")).backlog == 2
    await queue.resume_group("orders", "default")
    [again] = await take(queue, "orders", 1)
    assert (again.value, again.attempt) == (b"2", 2)


async def test_whoever_waits_gets_messages_when_it_is_resumed(queue: Queue) -> None:
    await begin(queue)
    await queue.pause_group("orders", "default")
    polling = await poll(queue, wait=50, max_messages=10)
    await queue.publish("orders", b"4")
    await queue.resume_group("orders", "default")
    assert values(await polling) == [b"1", b"2", b"3", b"4"]


async def test_a_pause_for_a_time_ends_by_itself(queue: Queue, clock: ManualClock) -> None:
    await begin(queue)
    start = clock.time()
    await queue.pause_group("orders", "default", seconds=30, reason="a moment")
    assert await paused(queue) == (True, start + 30, "a moment")
    polling = await poll(queue, wait=50, max_messages=10)
    await clock.advance(29)
    assert not polling.done()
    await clock.advance(1)
    assert values(await polling) == [b"1", b"2", b"3"]
    assert await paused(queue) == (False, None, None)


async def test_another_pause_takes_the_place_of_the_first(queue: Queue, clock: ManualClock) -> None:
    await begin(queue)
    await queue.pause_group("orders", "default", seconds=10)
    await queue.pause_group("orders", "default", seconds=20, reason="longer")
    await clock.advance(15)
    assert await take(queue, "orders") == []
    await queue.pause_group("orders", "default")
    await clock.advance(100)
    assert await paused(queue) == (True, None, None)
    await queue.pause_group("orders", "default", seconds=1)
    await clock.advance(2)
    assert len(await take(queue, "orders")) == 3


async def test_a_seek_and_a_purge_leave_the_pause(queue: Queue) -> None:
    await begin(queue)
    await queue.pause_group("orders", "default")
    await queue.seek("orders", "default", "start")
    assert await take(queue, "orders") == []
    await queue.purge("orders")
    await queue.publish("orders", b"4")
    assert await take(queue, "orders") == []
    await queue.resume_group("orders", "default")
    assert values(await take(queue, "orders")) == [b"4"]


async def test_a_group_that_is_made_again_is_not_paused(queue: Queue, clock: ManualClock) -> None:
    await begin(queue)
    await queue.pause_group("orders", "default", seconds=10)
    await queue.delete_group("orders", "default")
    assert len(await take(queue, "orders")) == 3
    await clock.advance(20)
    assert await paused(queue) == (False, None, None)


async def test_what_is_no_pause_is_refused(queue: Queue) -> None:
    await begin(queue)
    with pytest.raises(NotFoundError):
        await queue.pause_group("orders", "nobody")
    with pytest.raises(NotFoundError):
        await queue.resume_group("nowhere", "default")
    for seconds in (0, -1, 1e9):
        with pytest.raises(InvalidError):
            await queue.pause_group("orders", "default", seconds=seconds)
    with pytest.raises(InvalidError):
        await queue.pause_group("orders", "default", reason="x" * (limits.REASON_CHARS_MAX + 1))
    await queue.resume_group("orders", "default")
    assert await paused(queue) == (False, None, None)


# -- restarts


async def test_a_pause_is_there_again_when_records_are_replayed(clock: ManualClock) -> None:
    store = LastingStore()
    async with Queue(Broker(store, clock)) as queue:
        await begin(queue)
        await queue.pause_group("orders", "default", seconds=30, reason="why")
        end = clock.time() + 30
    async with Queue(Broker(store, clock)) as queue:
        assert await paused(queue) == (True, end, "why")
        assert await take(queue, "orders") == []
        await clock.advance(30)
        assert len(await take(queue, "orders")) == 3


def on_disk(path: Path, clock: ManualClock, checkpoint_bytes: int) -> Queue:
    store = DiskStore(RealDisk(path), KeyRing({}), checkpoint_bytes=checkpoint_bytes, in_threads=False)
    return Queue(Broker(store, clock))


@pytest.mark.parametrize("checkpoint_bytes", [1, 1 << 20], ids=["in a checkpoint", "in the write-ahead log"])
async def test_a_pause_is_there_again_when_a_directory_is_opened(
    tmp_path: Path, clock: ManualClock, checkpoint_bytes: int
) -> None:
    async with on_disk(tmp_path, clock, checkpoint_bytes) as queue:
        await begin(queue)
        await queue.create_group("orders", "other")
        await queue.create_group("orders", "timed")
        await queue.pause_group("orders", "default", reason="why")
        await queue.pause_group("orders", "other")
        await queue.resume_group("orders", "other")
        await queue.pause_group("orders", "timed", seconds=30)
        end = clock.time() + 30
    assert bool(list(tmp_path.glob("checkpoint/*.ckpt"))) == (checkpoint_bytes == 1)
    async with on_disk(tmp_path, clock, checkpoint_bytes) as queue:
        assert await paused(queue) == (True, None, "why")
        assert await paused(queue, "other") == (False, None, None)
        assert await paused(queue, "timed") == (True, end, None)
        assert await take(queue, "orders") == []
        await clock.advance(30)
        assert len(await take(queue, "orders", group="timed")) == 3
        await queue.resume_group("orders", "default")
        assert len(await take(queue, "orders")) == 3


async def test_a_pause_is_in_the_snapshot() -> None:
    engine, topic = Engine(), TopicName("default", "orders")
    engine.apply(engine.open(1_000))
    for command in (
        c.CreateTopic(topic, TopicConfig()),
        c.CreateGroup(topic, "g"),
        c.PauseGroup(topic, "g", 5_000, "why"),
    ):
        for record in engine.decide(command, 1_000).records:
            engine.apply(record)
    restored = Engine()
    restored.apply(Restored(1_000, engine.snapshot(), []))
    assert restored.state.names[topic].group_names["g"].paused == (6_000, "why", 1_000)
    while (records := restored.tick(6_000)) is not None:
        for record in records:
            restored.apply(record)
    assert restored.state.names[topic].group_names["g"].paused is None


def test_a_group_that_is_gone_leaves_no_alarm() -> None:
    engine = Engine()
    topic = TopicName("default", "t")

    def do(command: Command) -> None:
        for record in engine.decide(command, 0).records:
            engine.apply(record)

    do(CreateTopic(topic, TopicConfig()))
    before = len(engine.state.soft.alarms)
    for _ in range(3):
        do(CreateGroup(topic, "g"))
        do(PauseGroup(topic, "g", 1_000_000))
        do(DeleteGroup(topic, "g"))
    assert len(engine.state.soft.alarms) == before
