"""One of everything that can happen in a queue, for the golden directory: every kind of record that is ever written."""

from __future__ import annotations

from ortoo.client import Queue
from ortoo.model.message import Message
from ortoo.stores.disk.files import Disk
from ortoo.testing.clock import ManualClock
from tests.format.directory import Opened, opened


async def everything(disk: Disk, clock: ManualClock) -> None:
    """Within a minute, and on topics of its own. What a checkpoint has to tell comes first, so that what follows it is still in
    the write-ahead log."""
    async with opened(disk, clock=clock) as one:
        await _forget(one.queue)
        await _supersede(one.queue)
        await clock.advance(1)
        await one.checkpoint(flush=False)  # so that some of it has blocks
        await _commit(one.queue)
        await _deliver(one.queue)
        await _wait(one.queue, clock)
        await _change(one.queue)
        await _end(one.queue)
        await _bury(one)
        await one.queue.publish("states", b"later", key="k1")


async def _forget(queue: Queue) -> None:
    """Dedup ids that the log still has, and that count no more."""
    await queue.set_namespace("shop", messages_per_minute=600, stored_bytes=1 << 20)
    await queue.create_topic("forgetful", partitions=2)
    await queue.publish_many("forgetful", [Message(b"%d" % number, dedup_id=f"d{number}") for number in range(4)])
    await queue.update_topic("forgetful", dedup_scope="namespace")
    await queue.publish("forgetful", b"again", dedup_id="d0")


async def _supersede(queue: Queue) -> None:
    """And a message that deletes its key."""
    await queue.create_topic("states", partitions=1, keep="latest")
    for number in range(4):
        await queue.publish("states", b"%d" % number if number else b"", key=f"k{number % 3}")
    await queue.publish("states", b"", key="k2")


async def _commit(queue: Queue) -> None:
    await queue.create_topic("various", partitions=2, ordering="none")
    await queue.create_group("various", "workers")
    await queue.create_group("various", "others")
    for name in ("kept", "given up"):
        transaction = await queue.begin(name)
        await transaction.publish_many("various", [b"%s %d" % (name.encode(), number) for number in range(6)])
        await (transaction.commit() if name == "kept" else transaction.abort())


async def _deliver(queue: Queue) -> None:
    leased = await queue.lease("various", group="workers", max_messages=6)
    await queue.extend(leased[:1], 3000.0)
    await queue.reject(leased[1:2], error="never")
    await queue.release(leased[2:3])
    await queue.nack(leased[3:4], delay=3000.0)
    await queue.ack(leased[4:])
    await queue.redrive("various", group="workers")
    await queue.retry_now(leased[3].id, group="workers")
    await queue.create_topic("undone", partitions=1, dlq=False)
    await queue.publish("undone", b"dropped")
    await queue.reject(await queue.lease("undone"))


async def _wait(queue: Queue, clock: ManualClock) -> None:
    """What time brings: a window closes, a delay and a time to live run out, and retention takes what a group has not seen."""
    await queue.create_topic("windowed", partitions=1, window_seconds=2.0)
    await queue.publish("windowed", b"waits for the window")
    await queue.publish("various", b"comes later", delay=2.0)
    await queue.publish("various", b"is gone soon", ttl=2.0)
    await queue.create_topic("short", partitions=1, retention_seconds=3.0)
    await queue.create_group("short", "workers")
    await queue.publish("short", b"nobody wants it")
    for _ in range(25):
        await clock.advance(1)


async def _change(queue: Queue) -> None:
    await queue.update_topic("various", labels={"team": "shop"})
    await queue.mark_archived("various", {0: 1})
    await queue.seek("various", "others", "end")
    await queue.pause_group("various", "others", seconds=60, reason="a test")
    await queue.resume_group("various", "others")
    await queue.delete_group("various", "others")
    places = await queue.publish_many("various", [b"stays", b"is deleted"])
    await queue.delete_message(places[1].id)


async def _end(queue: Queue) -> None:
    for topic in ("purged", "deleted"):
        await queue.create_topic(topic, partitions=1)
        await queue.publish(topic, b"goes")
    await queue.purge("purged")
    await queue.delete_topic("deleted")
    await queue.set_namespace("ended", topics=1)
    await queue.delete_namespace("ended")


async def _bury(one: Opened) -> None:
    """Together what several have published, so that one record names them all."""
    await one.queue.create_topic("mixed", partitions=1)
    for publisher in ("billing", None, "shop"):
        one.broker.publisher = publisher
        await one.queue.publish("mixed", b"nobody wants it")
    await one.queue.reject(await one.queue.lease("mixed", max_messages=3), error="never")
