"""A topic may get more partitions, and its groups may be thousands."""

from typing import Any

from ortoo import Queue
from ortoo.testing import ManualClock, open_manual

from .actors import take, values


async def test_more_partitions_cost_nothing_for_each_group(clock: ManualClock) -> None:
    """Each heeds them when it has something to do there."""
    async with open_manual(clock) as queue:
        await queue.create_topic("orders", partitions=1)
        for number in range(40):
            await queue.create_group("orders", f"g{number:02}")
        await queue.update_topic("orders", partitions=100, allow_reorder=True)
        broker: Any = queue._link
        [topic] = broker.engine.state.topics.values()
        assert {len(group.feeds._feeds) for group in topic.groups.values()} == {1}
        assert {len(group.feeds) for group in topic.groups.values()} == {100}


async def test_every_group_gets_what_new_partitions_have(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1, ordering="none")
    await queue.create_group("orders", "late", "new")
    await queue.publish("orders", b"0")
    await queue.ack(await take(queue, "orders", group="late"))
    await queue.update_topic("orders", partitions=4)
    assert len((await queue.group("orders", "late")).cursors) == 4
    await queue.create_group("orders", "new", "new")
    for partition in (3, 1):
        await queue.publish("orders", b"%d" % partition, partition=partition)
    for group in ("late", "new"):
        assert sorted(values(await take(queue, "orders", group=group))) == [b"1", b"3"]
        assert (await queue.group("orders", group)).leased == 2
    await queue.seek("orders", "late", "start")
    assert sorted(values(await take(queue, "orders", group="late"))) == [b"0", b"1", b"3"]
