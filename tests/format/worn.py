"""A data directory that has been through something: trimmed logs, purged and deleted topics, deleted messages, encrypted ones,
an open transaction, several files of write-ahead log. And what may be read in it.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish
from ortoo.model.message import Message
from ortoo.model.names import MessageRef, TopicName
from ortoo.testing.clock import ManualClock
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import START, Opened, Truth, opened, small_files, values

Files = dict[str, bytes]
TOPICS = ("orders", "short", "purged", "secret")
END = START + 50.0
STAGED = [(f"staged {number}".encode(), "orders" if number % 2 else "secret") for number in range(4)]


class Worn(NamedTuple):
    files: Files
    truth: Truth  # what can be read at the end
    ever: Truth  # and whatever was there at some time
    stages: list[Files]  # how the files looked after each checkpoint


async def wear(steps: int = 6) -> Worn:
    disk, clock, ever = SimulatedDisk(Random(1)), ManualClock(START), Truth()
    stages: list[Files] = []
    with small_files():
        async with opened(disk, clock=clock) as one:
            await _create(one)
            for number in range(steps):
                await _publish(one, ever, number)
                await _work(one, number)
                await clock.advance(8)
                if number == max(0, steps - 3):
                    await _stage(one, STAGED[:2])
                if number % 2 == 1:
                    await one.checkpoint()
                    stages.append(files_of(disk))
        clock = ManualClock(END)
        async with opened(disk, clock=clock) as one:
            await _stage(one, STAGED[2:])
            await _publish(one, ever, steps)
            await _work(one, steps)
        async with opened(disk, clock=clock) as one:
            await _publish(one, ever, steps + 1)
            await _learn(one, ever)
            truth = await readable(one)
    return Worn(files_of(disk), truth, ever | truth, stages)


def files_of(disk: SimulatedDisk) -> Files:
    return {path: bytes(content.now) for path, content in sorted(disk.names.items())}


async def _create(one: Opened) -> None:
    await one.queue.create_topic("orders", partitions=2)
    await one.queue.create_topic("short", partitions=2, retention_seconds=20.0)
    await one.queue.create_topic("purged", partitions=1, ordering="strict")
    await one.queue.create_topic("secret", partitions=1, encrypted=True)
    await one.queue.create_topic("doomed", partitions=2)
    for topic in TOPICS:
        await one.queue.create_group(topic, "workers")


async def _publish(one: Opened, ever: Truth, number: int) -> None:
    for topic in (*TOPICS, "doomed"):
        if topic == "doomed" and number > 2:
            continue
        messages = [
            Message(
                f"{topic} {number}.{which} ".encode() + b"text " * which,
                key=f"k{which % 3}" if which else None,
                headers={"n": str(number)} if which == 1 else None,
                priority=3 if which == 2 else 5,
                delay=500.0 if which == 3 and number == 4 else None,
                dedup_id=f"{topic}-{number}" if which == 2 else None,
            )
            for which in range(5)
        ]
        for place, message in zip(await one.queue.publish_many(topic, messages), messages, strict=True):
            assert isinstance(message.value, bytes)
            ref = MessageRef(place.topic_id, place.partition, place.offset)
            ever[ref] = (message.value, message.key, message.headers, int(message.priority), False)
    publish = Publish(TopicName("default", "orders"), Outgoing([b"numbered %d" % number]))
    placed = await one.broker.call(Once("producer", number, number, publish))
    [partition], [offset] = placed.partitions, placed.offsets
    ever[MessageRef(placed.topic, partition, offset)] = (b"numbered %d" % number, None, None, 5, False)


async def _work(one: Opened, number: int) -> None:
    queue = one.queue
    for topic in TOPICS:
        leased = await queue.lease(topic, group="workers", max_messages=4, lease=900.0)
        await queue.ack(leased[:2])
        await queue.nack(leased[2:3], error="not now", delay=100.0)
        if number == 1:
            await queue.reject(leased[3:], error="never")
    if number == 2:
        await queue.purge("purged")
        await queue.delete_topic("doomed")
    if number in (1, 3, 5):
        await queue.delete_message(f"1.0.{number}")


async def _stage(one: Opened, staged: list[tuple[bytes, str]]) -> None:
    transaction = await one.queue.begin("job", part=str(len(staged[0][0])), timeout=86_400.0)
    for value, topic in staged:
        await transaction.publish(topic, value)


async def _learn(one: Opened, ever: Truth) -> None:
    """Dead letters, which nobody published."""
    for topic in one.broker.engine.state.topics.values():
        if topic.name.name.endswith(".dlq"):
            for offset, value in values(await one.store.scan(topic.id, 0, 0, 1000)).items():
                ever[MessageRef(topic.id, 0, offset)] = value


async def readable(one: Opened) -> Truth:
    """Everything that replay shows, by place; what is quarantined is not shown."""
    found: Truth = {}
    for topic in one.broker.engine.state.topics.values():
        for partition in topic.partitions:
            if partition.trouble is not None:
                continue
            start = partition.start
            while start < partition.end:
                columns = await one.store.scan(topic.id, partition.index, start, 1000)
                for offset, value in values(columns).items():
                    if offset not in partition.deleted:
                        found[MessageRef(topic.id, partition.index, offset)] = value
                start += 1000
    return found
