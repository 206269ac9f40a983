"""A process that works on a data directory until it is killed: `python -m tests.e2e.worker DATA JOURNAL SEED CHECKPOINT_BYTES`.

It says "opening" and "working" on its standard output when it gets there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random

from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.stores.disk.lock import DirectoryLock

from .journal import Journal
from .load import Load


def open_small(root: Path, checkpoint_bytes: int) -> Queue:
    root.mkdir(exist_ok=True)
    store = DiskStore(RealDisk(root), KeyRing({}), checkpoint_bytes=checkpoint_bytes, lock=DirectoryLock(root))
    return Queue(Broker(store, SystemClock()))


async def work(root: Path, journal: Journal, seed: int, checkpoint_bytes: int) -> None:
    os.write(1, b"opening\n")
    async with open_small(root, checkpoint_bytes) as queue:
        os.write(1, b"working\n")
        await Load(queue, journal, Random(seed), f"p{os.getpid()}-{seed}").run()


if __name__ == "__main__":
    data, lines, seed, size = sys.argv[1:]
    asyncio.run(work(Path(data), Journal(Path(lines)), int(seed), int(size)))
