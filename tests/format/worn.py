"""A data directory that has been through something: trimmed logs, purged and deleted topics, deleted messages, encrypted ones,
an open transaction, several files of write-ahead log. And what may be read in it.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import NamedTuple

from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish
from ortoo.model.errors import OrtooError
from ortoo.model.message import Message
from ortoo.model.names import MessageRef, TopicId, TopicName
from ortoo.model.records import HistoryRecord
from ortoo.stores.disk.checkpoint import read_checkpoint
from ortoo.stores.disk.commit import decode_touched
from ortoo.stores.disk.files import Disk
from ortoo.stores.disk.format import refuse_unknown
from ortoo.stores.disk.frame import Frame, scan_frames
from ortoo.stores.disk.wal import SYNCED_BYTES
from ortoo.testing.clock import ManualClock
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import START, Opened, Truth, opened, publisher_of, small_files, values

Files = dict[str, bytes]
Told = dict[tuple[TopicId, int, int], HistoryRecord]  # by topic, partition and number
TOPICS = ("orders", "short", "purged", "secret")
END = START + 50.0
DELETED = (1, 3, 5)  # messages, and when
STAGED = [(f"staged {number}".encode(), "orders" if number % 2 else "secret") for number in range(4)]


class Worn(NamedTuple):
    files: Files
    truth: Truth  # what can be read at the end
    ever: Truth  # and whatever was there at some time
    stages: list[Files]  # how the files looked after each checkpoint
    told: Told  # the history
    history_ends: dict[tuple[TopicId, int], int]  # up to which number the checkpoint knows it
    deleted: set[MessageRef]  # one by one, as history tells


async def wear(steps: int = 6, flush: bool = True) -> Worn:
    """`flush`: whether checkpoints bring messages and history to files of their own."""
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
                    await one.checkpoint(flush)
                    stages.append(files_of(disk))
        clock = ManualClock(END)
        async with opened(disk, clock=clock) as one:
            await _stage(one, STAGED[2:])
            await _publish(one, ever, steps)
            await _work(one, steps)
        async with opened(disk, clock=clock) as one:
            await _publish(one, ever, steps + 1)
            await _learn(one, ever)
            truth, told = await readable(one), await numbered_history(one)
    deleted = {MessageRef(TopicId(1), 0, number) for number in DELETED if number <= steps}
    files = files_of(disk)
    return Worn(files, truth, ever | truth, stages, told, checkpointed_history(files), deleted)


def files_of(disk: SimulatedDisk) -> Files:
    return {path: bytes(content.now) for path, content in sorted(disk.names.items())}


async def _create(one: Opened) -> None:
    await one.queue.create_topic("orders", partitions=2)
    await one.queue.create_topic("short", partitions=2, retention_seconds=20.0)
    await one.queue.create_topic("purged", partitions=1, ordering="strict")
    await one.queue.create_topic("secret", partitions=1, encrypted=True)
    await one.queue.create_topic("doomed", partitions=2)
    await one.queue.create_topic("emptied", partitions=1)
    for topic in TOPICS:
        await one.queue.create_group(topic, "workers")


async def _publish(one: Opened, ever: Truth, number: int) -> None:
    for topic in (*TOPICS, "doomed", "emptied"):
        if topic not in TOPICS and number > 2:
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
        one.broker.publisher = publisher = publisher_of(topic, number)
        for place, message in zip(await one.queue.publish_many(topic, messages), messages, strict=True):
            assert isinstance(message.value, bytes)
            ref = MessageRef(place.topic_id, place.partition, place.offset)
            ever[ref] = (message.value, message.key, message.headers, int(message.priority), False, publisher)
    one.broker.publisher = publisher = publisher_of("once", number)
    publish = Publish(TopicName("default", "orders"), Outgoing([b"numbered %d" % number]))
    placed = await one.broker.call(Once("producer", number, number, publish))
    [partition], [offset] = placed.partitions, placed.offsets
    ever[MessageRef(placed.topic, partition, offset)] = (b"numbered %d" % number, None, None, 5, False, publisher)


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
        await queue.purge("emptied")
        await queue.delete_topic("doomed")
    if number in DELETED:
        await queue.delete_message(f"1.0.{number}")


async def _stage(one: Opened, staged: list[tuple[bytes, str]]) -> None:
    one.broker.publisher = f"stager of {staged[0][0].decode()}"
    transaction = await one.queue.begin("job", part=str(len(staged[0][0])), timeout=86_400.0)
    for value, topic in staged:
        await transaction.publish(topic, value)


async def go_on(worn: Worn, disk: Disk) -> Worn:
    """The queue works on beside what is quarantined, with checkpoints that leave it behind."""
    published: Truth = {}
    with small_files():
        for _ in range(2):
            async with opened(disk, clock=ManualClock(END)) as one:
                for topic in await one.queue.topics():
                    for partition in range(len(topic.partitions)):
                        with suppress(OrtooError):
                            sent = await one.queue.publish(topic.name, b"later", partition=partition)
                            ref = MessageRef(sent.topic_id, sent.partition, sent.offset)
                            published[ref] = (b"later", None, None, 5, False, None)
                await one.checkpoint()
            told = await numbered_history(one)
    return worn._replace(truth=worn.truth | published, ever=worn.ever | published, told=told | worn.told)


async def quarantine_some(worn: Worn) -> Worn:
    """The same, after a commit that spoke of one partition only was damaged, and much happened beside it."""
    disk, files = SimulatedDisk(Random(1)), dict(worn.files)
    path = max(path for path in files if path.startswith("wal/"))
    damaged = next(
        frame
        for frame in scan_frames(files[path])
        if isinstance(frame, Frame) and [spoken for _, spoken in decode_touched(frame.head[SYNCED_BYTES:])] == [0]
    )
    at = damaged.position + damaged.fixed.size - 1
    files[path] = files[path][:at] + bytes([files[path][at] ^ 1]) + files[path][at + 1 :]
    for name, data in files.items():
        disk.open(name).append(data)
    later = await go_on(worn, disk)
    async with opened(disk, clock=ManualClock(END)) as one:
        assert any("quarantined" in problem for problem in one.store.problems)
    return later._replace(files=files_of(disk), history_ends=checkpointed_history(files_of(disk)))


async def _learn(one: Opened, ever: Truth) -> None:
    """Dead letters, which nobody published."""
    for topic in one.broker.engine.state.topics.values():
        if topic.name.name.endswith(".dlq"):
            for offset, value in values(await one.store.scan(topic.id, 0, 0, 1000)).items():
                ever[MessageRef(topic.id, 0, offset)] = value


async def numbered_history(one: Opened) -> Told:
    """All that can be read."""
    found: Told = {}
    for topic in one.broker.engine.state.topics.values():
        for partition in range(len(topic.partitions)):
            at = end = 0
            while at <= end:
                some = await one.store.read_history(topic.id, partition, at, 1000)
                found |= {
                    (topic.id, partition, number): record for number, record in enumerate(some.records, some.start)
                }
                at, end = max(at, some.start) + len(some.records) + 1 - bool(some.records), some.end
    return found


def checkpointed_history(files: Files) -> dict[tuple[TopicId, int], int]:
    """How far the checkpoint knows the numbers of history, by partition."""
    disk = SimulatedDisk(Random(1))
    for name, data in files.items():
        disk.open(name).append(data)
    refuse_unknown(disk)  # learns its salt
    checkpoint = read_checkpoint(disk)
    entries = checkpoint.manifest.histories if checkpoint is not None else []
    return {(entry.topic, entry.partition): entry.end + entry.logged for entry in entries}


async def readable(one: Opened) -> Truth:
    """Everything that replay shows, by place; what is quarantined is not shown."""
    found: Truth = {}
    for topic in one.broker.engine.state.topics.values():
        for partition in topic.partitions:
            if partition.quarantine_reason is not None:
                continue
            start = partition.start
            while start < partition.end:
                columns = await one.store.scan(topic.id, partition.index, start, 1000)
                for offset, value in values(columns).items():
                    if offset not in partition.deleted:
                        found[MessageRef(topic.id, partition.index, offset)] = value
                start += 1000
    return found
