"""A small data directory with something of everything in it, and what a reader of it must find.

The clock stands still unless it is moved, and consumers have names, so it is written alike each time, but for the nonces of
what is encrypted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from ortoo.client import Queue
from ortoo.engine.view import offsets_in_state
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish
from ortoo.model.message import Message
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.publishers import spread
from ortoo.model.records import encode_records
from ortoo.model.replies import Columns, MessageState
from ortoo.stores.disk import DiskStore, KeyRing, new_frames
from ortoo.stores.disk import history as history_module
from ortoo.stores.disk import log as log_module
from ortoo.stores.disk.files import Disk
from ortoo.testing.clock import ManualClock
from ortoo.testing.pieces import in_one
from tests.stamping import StampingBroker

KEYS = {"test": b"a key for tests, of 32 bytes ...."[:32]}
START = 1_700_000_000.0
STATES: tuple[MessageState, ...] = ("ready", "delayed", "leased", "blocked", "done", "dead")

Value = tuple[bytes, str | None, dict[str, str] | None, int, bool, str | None]  # at the end, who published it
Truth = dict[MessageRef, Value]  # of every message that was published


@contextmanager
def small_files() -> Iterator[None]:
    """Frames and segments of a few messages, so that there are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_frames, "FRAME_MESSAGES", 3)
        patch.setattr(log_module, "SEGMENT_BYTES", 400)
        patch.setattr(history_module, "FRAME_RECORDS", 4)
        patch.setattr(history_module, "FILE_BYTES", 600)
        yield


def make_store(disk: Disk, keys: dict[str, bytes] | None = None) -> DiskStore:
    ring = KeyRing(KEYS if keys is None else keys)
    return DiskStore(disk, ring, checkpoint_bytes=1 << 40, flush_bytes=0, reserve_bytes=0, in_threads=False)


class Opened:
    """A queue on a disk, and its parts."""

    def __init__(self, disk: Disk, keys: dict[str, bytes] | None = None, clock: ManualClock | None = None) -> None:
        self.store = make_store(disk, keys)
        self.clock = clock or ManualClock(START + 70)
        self.broker = StampingBroker(self.store, self.clock)
        self.queue = Queue(self.broker, consumer="tester")

    async def checkpoint(self, flush: bool = True) -> None:
        await self.broker.flush()
        self.store._flush_bytes = 0 if flush else 1 << 40
        await self.store.checkpoint(self.broker.engine.snapshot(), self.broker.engine.state.now)


@asynccontextmanager
async def opened(
    disk: Disk, keys: dict[str, bytes] | None = None, clock: ManualClock | None = None
) -> AsyncIterator[Opened]:
    found = Opened(disk, keys, clock)
    async with found.queue:
        yield found


# -- writing


async def fill(disk: Disk, between: Callable[[Disk, ManualClock], Awaitable[None]] | None = None) -> Truth:
    """`between`: what happens after the checkpoints, within a minute."""
    truth: Truth = {}
    clock = ManualClock(START)
    with small_files():
        async with opened(disk, clock=clock) as one:
            await _create(one.queue)
            for number in range(4):
                await _publish(one, truth, number)
                await clock.advance(1)
            await _work(one)
            one.broker.publisher = "stager"
            staged = await one.queue.begin("staged", part="p")
            await staged.publish("orders", b"staged before the checkpoint", key="k1")
            await staged.publish("secret", b"staged in secret")
            await one.checkpoint()
            await _publish(one, truth, 4)
            await _work(one)
            await one.checkpoint()  # the first segments are sealed
            await _publish(one, truth, 5)
            await _work(one)
            await one.checkpoint(flush=False)  # this stays in the write-ahead log
        later = clock.time() + 60
        if between is not None:
            await between(disk, clock)
        await clock.advance(later - clock.time())
        async with opened(disk, clock=clock) as one:  # the write-ahead log goes on in another file
            await _publish(one, truth, 6)
            await _work(one)
            await one.queue.delete_message("1.1.2")
            one.broker.publisher = "another stager"
            staged = await one.queue.begin("staged", part="q")
            await staged.publish("secret", b"staged in secret, again")
            await _publish(one, truth, 7)
            await _learn_dead_letters(one, truth)
    return truth


async def _create(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=3, labels={"team": "shop"})
    await queue.create_topic("loose", partitions=2, ordering="none", max_attempts=1)
    await queue.create_topic("line", partitions=1, ordering="strict", dlq=False)
    await queue.create_topic("secret", partitions=2, encrypted=True)
    for topic in ("orders", "loose", "line", "secret"):
        await queue.create_group(topic, "workers")
    await queue.create_group("orders", "audit")


def publisher_of(topic: str, number: int) -> str | None:
    """Some publish in nobody's name, so that a frame has all kinds."""
    return f"{topic}-app-{number}" if number % 3 else None


async def _publish(one: Opened, truth: Truth, number: int) -> None:
    for topic in ("orders", "loose", "line", "secret"):
        one.broker.publisher = publisher = publisher_of(topic, number)
        messages = [
            Message(
                f"{topic} {number}.{which} ".encode() + b"some text that compresses " * which,
                key=f"k{which}" if which else None,
                headers={"number": str(number), "kopf": "ü"} if which == 1 else None,
                priority=3 if which == 2 else 5,
                delay=500.0 if which == 3 and number == 4 else None,
                ttl=1e6 if which == 1 else None,
                dedup_id=f"{topic}-{number}" if which == 2 and number % 4 == 0 else None,
            )
            for which in range(4)
        ]
        sent = await one.queue.publish_many(topic, [*messages, Message({"json": number})])
        for place, message in zip(sent, messages, strict=False):
            assert isinstance(message.value, bytes)
            value = (message.value, message.key, message.headers, int(message.priority), False, publisher)
            truth[MessageRef(place.topic_id, place.partition, place.offset)] = value
        last = MessageRef(sent[-1].topic_id, sent[-1].partition, sent[-1].offset)
        truth[last] = (b'{"json":%d}' % number, None, None, 5, True, publisher)
    await _publish_once(one, truth, number)


async def _publish_once(one: Opened, truth: Truth, number: int) -> None:
    """A numbered command, as clients send them over a connection."""
    one.broker.publisher = publisher = publisher_of("once", number)
    publish = Publish(TopicName("default", "line"), Outgoing([b"once"]))
    placed = await one.broker.call(Once("producer", number, number, publish))
    ref = MessageRef(placed.topic, placed.partitions[0], placed.offsets[0])
    truth[ref] = (b"once", None, None, 5, False, publisher)


async def _work(one: Opened) -> None:
    """Acks, failures, a dead letter, and a lease that stays."""
    queue = one.queue
    for topic in ("orders", "loose", "line", "secret"):
        leased = await queue.lease(topic, group="workers", max_messages=6, lease=5000.0)
        if not leased:
            continue
        await queue.ack(leased[0])
        if len(leased) > 3 and topic != "line":
            await queue.reject(leased[3], error="never")
        await queue.nack(leased[1:2], error=f"not now, {topic}", delay=2000.0)
    held = await queue.lease("orders", group="audit", max_messages=2, lease=9000.0)
    await queue.ack(held[:1])
    await one.clock.advance(1)


async def _learn_dead_letters(one: Opened, truth: Truth) -> None:
    for topic in one.broker.engine.state.topics.values():
        if topic.name.name.endswith(".dlq"):
            for offset, value in values(await one.store.scan(topic.id, 0, 0, 100)).items():
                truth[MessageRef(topic.id, 0, offset)] = value


# -- reading


def values(columns: Columns) -> dict[int, Value]:
    blank: list[Any] = [None] * len(columns)
    rows = zip(
        columns.values,
        columns.keys or blank,
        columns.headers or blank,
        columns.priorities or [5] * len(columns),
        columns.json or [False] * len(columns),
        spread(columns.publishers, len(columns)),
        strict=True,
    )
    return dict(zip(columns.offsets, rows, strict=True))


def partition_states(one: Opened) -> dict[tuple[str, int], Any]:
    """What the engine holds of each partition, as it can be observed."""
    found: dict[tuple[str, int], Any] = {}
    for topic in one.broker.engine.state.topics.values():
        for partition in topic.partitions:
            groups = {
                group.name: (
                    {state: list(offsets_in_state(group.feeds.look(partition.index), state)) for state in STATES},
                    sorted(group.feeds.look(partition.index).failures.items()),
                )
                for group in topic.groups.values()
                if group.name != "reader"
            }
            bounds = (partition.start, partition.end, list(partition.deleted), list(partition.delayed))
            found[topic.name.name, partition.index] = (*bounds, groups)
    return found


def quarantine_reasons(one: Opened) -> dict[tuple[str, int], str]:
    return {
        (topic.name.name, partition.index): partition.quarantine_reason
        for topic in one.broker.engine.state.topics.values()
        for partition in topic.partitions
        if partition.quarantine_reason is not None
    }


async def histories(one: Opened, truth: Truth) -> dict[MessageRef, bytes]:
    return {ref: encode_records(await in_one(one.store.history(*ref))) for ref in truth}
