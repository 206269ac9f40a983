"""Data directories and queues for tests of the source, read without a Spark session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortoo import SyncQueue
from ortoo.broker import Broker
from ortoo.pipeline.source.options import read_options
from ortoo.pipeline.source.schema import TABLES
from ortoo.pipeline.source.stream import StreamReader
from ortoo.stores.disk.store import DiskStore


def in_its_loop(queue: SyncQueue, work: Callable[[Broker], Any]) -> Any:
    """What an embedded queue's broker does, done where it lives."""

    async def done() -> Any:
        return await work(queue._queue._link)  # type: ignore[arg-type]

    return queue._run(done())


def checkpoint(queue: SyncQueue, flush: bool = True) -> None:
    """What a store does by itself for every 32 MiB; and for every 256, it flushes, too."""

    async def done(broker: Broker) -> None:
        store = broker.store
        assert isinstance(store, DiskStore)
        store._flush_bytes = 0 if flush else 1 << 40
        await broker.flush()
        await store.checkpoint(broker.engine.snapshot(), broker.engine.state.now)
        if store._checkpointing is not None:
            await store._checkpointing
        assert not store.problems, store.problems

    in_its_loop(queue, done)


def made(queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1, max_attempts=9, backoff_initial=0.01, backoff_max=0.01)


def live(queue: SyncQueue) -> None:
    """Everything that can happen to messages."""
    made(queue)
    queue.publish_many("orders", [str(number).encode() for number in range(8)])
    batch = queue.lease("orders", max_messages=8, consumer="me")
    queue.ack(batch[0])
    queue.nack(batch[1], error="not yet", delay=0.0)
    queue.reject(batch[2], error="never")
    queue.release(batch[3])
    queue.delete_message(batch[4].id)
    queue.ack(batch[5:])
    queue.ack(queue.lease("orders", max_messages=2, wait=5, group="others"))
    again = queue.lease("orders", max_messages=2, wait=5, lease=0.01, consumer="slow")
    assert {message.offset for message in again} == {1, 3}
    found = queue.lease("orders", max_messages=2, wait=5)  # until a lease of the slow one has run out
    queue.nack(found, error="later", delay=3600)
    queue.retry_now(found[0].id)
    queue.redrive("orders")


def read(**options: str) -> list[dict[str, Any]]:
    """What Spark would get, task after task."""
    from ortoo.pipeline.source.batch import BatchReader
    from ortoo.pipeline.source.options import read_options
    from ortoo.pipeline.source.schema import TABLES

    wanted = read_options(options, streaming=False)
    reader = BatchReader(wanted, TABLES[wanted.table])
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def reader(**options: str) -> StreamReader:
    """Of a stream, as Spark asks for one."""
    wanted = read_options(options, streaming=True)
    return StreamReader(wanted, TABLES[wanted.table])
