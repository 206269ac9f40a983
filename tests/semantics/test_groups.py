"""Groups: where they start, how long they live, and that they do not touch each other."""

import pytest

from ortoo import ExistsError, InvalidError, NotFoundError, Queue
from ortoo.testing import ManualClock

from .actors import publish, publish_apart, take, values
from .stores import LastingStore, queue_on


async def test_a_named_group_starts_at_the_beginning(queue: Queue) -> None:
    """Named groups start at the beginning (`all`) unless told otherwise."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2")
    await queue.create_group("orders", "made")
    assert values(await take(queue, "orders", group="made")) == [b"1", b"2"]
    assert values(await take(queue, "orders", group="leased")) == [b"1", b"2"]


async def test_a_group_may_start_with_what_is_new(queue: Queue) -> None:
    """Groups start at: all, new only, an offset, a timestamp."""
    await queue.publish("orders", b"old")
    await queue.create_group("orders", "made", "new")
    assert await take(queue, "orders", group="leased", start="new") == []
    await queue.publish("orders", b"new")
    assert values(await take(queue, "orders", group="made")) == [b"new"]
    assert values(await take(queue, "orders", group="leased")) == [b"new"]


async def test_a_group_may_start_at_an_offset_or_a_time(queue: Queue, clock: ManualClock) -> None:
    """Groups start at: all, new only, an offset, a timestamp."""
    start = await publish_apart(queue, clock)
    await queue.create_group("orders", "offset", offset=3)
    await queue.create_group("orders", "time", time=start + 20)
    await queue.create_group("orders", "between", time=start + 20.001)
    assert values(await take(queue, "orders", group="offset")) == [b"3"]
    assert values(await take(queue, "orders", group="time")) == [b"2", b"3"]
    assert values(await take(queue, "orders", group="between")) == [b"3"]


async def test_a_named_group_lives_until_deleted(queue: Queue, clock: ManualClock) -> None:
    """Named groups … live until deleted."""
    await queue.publish("orders", b"1")
    [message] = await take(queue, "orders", group="billing")
    await message.ack()
    clock.jump(86_400)
    await clock.advance(10)
    assert await take(queue, "orders", group="billing") == []
    await queue.delete_group("orders", "billing")
    with pytest.raises(NotFoundError):
        await queue.group("orders", "billing")
    assert values(await take(queue, "orders", group="billing")) == [b"1"]


async def test_an_ephemeral_group_starts_at_new(queue: Queue) -> None:
    """Ephemeral groups start at `new`."""
    await queue.publish("orders", b"old")
    await queue.create_group("orders", "eph", ephemeral=True)
    await queue.publish("orders", b"new")
    assert values(await take(queue, "orders", group="eph")) == [b"new"]


async def test_an_ephemeral_group_vanishes_when_its_consumer_falls_silent(queue: Queue, clock: ManualClock) -> None:
    """Ephemeral groups … vanish with their consumer."""
    await queue.create_topic("orders")
    await queue.create_group("orders", "eph", ephemeral=True)
    await queue.lease("orders", group="eph")
    await clock.advance(9)
    assert [group.name for group in await queue.groups("orders")] == ["eph"]
    await clock.advance(1)
    assert await queue.groups("orders") == []


async def test_an_ephemeral_group_vanishes_when_its_consumer_leaves(queue: Queue) -> None:
    """Ephemeral groups … vanish with their consumer."""
    await queue.publish("orders", b"1")
    await queue.create_group("orders", "eph", "all", ephemeral=True)
    await take(queue, "orders", group="eph", consumer="c")
    await queue.leave("c")
    assert await queue.groups("orders") == []


async def test_an_ephemeral_group_that_nobody_joins_vanishes(queue: Queue, clock: ManualClock) -> None:
    """Ephemeral groups … vanish with their consumer."""
    await queue.create_topic("orders")
    await queue.create_group("orders", "eph", ephemeral=True)
    await clock.advance(10)
    assert await queue.groups("orders") == []


async def test_one_groups_fate_never_touches_anothers(queue: Queue, clock: ManualClock) -> None:
    """One group's fate never touches another's."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    one, two, three = await take(queue, "orders", group="a")
    await one.ack()
    await two.reject("bad")
    await three.nack(delay=60)
    await queue.seek("orders", "a", "end")
    await queue.delete_group("orders", "a")
    assert [(m.value, m.attempt) for m in await take(queue, "orders", group="b")] == [(b"1", 1), (b"2", 1), (b"3", 1)]


async def test_depth_is_the_largest_backlog_of_a_durable_group(queue: Queue) -> None:
    """Depth of a topic = the largest backlog of a durable group."""
    await publish(queue, "orders", b"1", b"2", b"3")
    await queue.ack(await take(queue, "orders", 1, group="slow"))
    await queue.ack(await take(queue, "orders", 3, group="fast"))
    await queue.create_group("orders", "eph", "all", ephemeral=True)
    info = await queue.topic("orders")
    assert {group.name: group.backlog for group in info.groups} == {"slow": 2, "fast": 0, "eph": 3}
    assert info.depth == 2
    assert (await queue.stats()).depth == 2


async def test_the_backlog_counts_whatever_is_not_settled(queue: Queue) -> None:
    """Depth of a topic = the largest backlog of a durable group."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"held", b"blocked", key="k")
    await queue.publish("orders", b"delayed", delay=60)
    await queue.lease("orders")
    await queue.publish("orders", b"ready")
    [*_] = await queue.messages("orders")
    group = await queue.group("orders")
    assert (group.leased, group.blocked, group.delayed, group.ready) == (1, 1, 1, 1)
    assert group.backlog == (await queue.topic("orders")).depth == 4


async def test_without_a_name_the_group_is_default(queue: Queue) -> None:
    """Without a group name the group is `default`."""
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    assert message.group == "default"
    assert [group.name for group in await queue.groups("orders")] == ["default"]


async def test_a_group_cannot_be_made_twice(queue: Queue) -> None:
    """It is there already, and different."""
    await queue.create_topic("orders")
    await queue.create_group("orders", "a")
    with pytest.raises(ExistsError, match="seek"):
        await queue.create_group("orders", "a", "new")


async def test_a_group_starts_at_one_place(queue: Queue) -> None:
    """Groups start at: all, new only, an offset, a timestamp; not at two of them."""
    await queue.create_topic("orders")
    with pytest.raises(InvalidError, match="one of"):
        await queue.create_group("orders", "a", "new", offset=1)
    assert await queue.groups("orders") == []


async def test_an_ephemeral_group_outlives_a_restart_if_its_consumer_comes_back() -> None:
    """Soft state is rebuilt by the living: they have the session timeout for it."""
    clock, store = ManualClock(), LastingStore()
    async with queue_on(store, clock) as queue:
        await queue.create_topic("orders", partitions=1)
        await queue.create_group("orders", "eph", ephemeral=True)
        await queue.create_group("orders", "lonely", ephemeral=True)
        await queue.heartbeat("orders", "eph", "c")
    await clock.advance(3600)
    async with queue_on(store, clock) as queue:
        await clock.advance(9)
        await queue.heartbeat("orders", "eph", "c")
        await clock.advance(9)
        assert [group.name for group in await queue.groups("orders")] == ["eph"]
        await clock.advance(9)
        assert await queue.groups("orders") == []
