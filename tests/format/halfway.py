"""A data directory whose queue was closed in the middle of a commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ortoo import Message, Queue
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.model.records import Staged
from ortoo.stores.disk import DiskStore, RealDisk
from ortoo.stores.disk.files import Disk

VALUES = [b"%d" % number for number in range(12)]


class HalfStore(DiskStore):
    """What was staged can be read as far as the third batch."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.is_halfway = asyncio.Event()

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        if start >= 3:
            self.is_halfway.set()
            await asyncio.Event().wait()
        return (await super().staged(namespace, transaction, start, bytes_max))[:1]


async def half_committed(path: Path, checkpoint: bool) -> None:
    path.mkdir(0o700)
    store = HalfStore(RealDisk(path))
    broker = Broker(store, SystemClock())
    queue = Queue(broker)
    await queue.open()
    await queue.create_topic("out", partitions=2)
    tx = await queue.begin("job", timeout=3600)
    for at in range(0, 12, 2):
        await tx.publish_many("out", [Message(value, key="k") for value in VALUES[at : at + 2]])
    committing = asyncio.create_task(tx.commit())
    async with asyncio.timeout(60):
        await store.is_halfway.wait()
    await queue.publish("out", b"behind", key="k")
    await broker.close(checkpoint=checkpoint)
    await asyncio.gather(committing, return_exceptions=True)
