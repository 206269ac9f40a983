"""What is said in an encrypted topic is in no file as it is: not in the data directory, whatever has happened to it, nor in a
backup."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.stores.disk import DiskStore, RealDisk, open_ring
from ortoo.stores.disk.backup import back_up, restore
from ortoo.stores.disk.key_file import make_key_file
from ortoo.testing import ManualClock
from tests.stores.reencrypting import finished, needed

MARKER = "xyzzy-plugh"
KEY, HEADERS = f"key {MARKER}", {f"name {MARKER}": f"header {MARKER}"}


class Home:
    def __init__(self, folder: Path, encrypted: bool) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.keys = folder / "keys"
        self.encrypted = encrypted
        self.clock = ManualClock()
        self.data.mkdir()
        make_key_file(self.keys, "first")

    @asynccontextmanager
    async def open(self, data: Path | None = None) -> AsyncIterator[Queue]:
        """Writes a checkpoint, and flushes, only when it is told to."""
        ring = open_ring(f"file:{self.keys}")
        self.store = DiskStore(RealDisk(data or self.data), ring, checkpoint_bytes=1 << 40, in_threads=False)
        self.broker = Broker(self.store, self.clock)
        async with Queue(self.broker, consumer="tester") as queue:
            yield queue

    async def checkpoint(self, flush: bool) -> None:
        await self.broker.flush()
        self.store._flush_bytes = 0 if flush else 1 << 40
        await self.store.checkpoint(*await self.broker._snapshot())

    def look(self, *folders: str) -> None:
        """No file has it. Where nothing is encrypted, some do: so this would notice."""
        for folder in folders or ("data",):
            files = [path for path in (self.folder / folder).rglob("*") if path.is_file()]
            found = [path for path in files if MARKER.encode() in path.read_bytes()]
            assert bool(found) != self.encrypted, found


async def speak(home: Home, queue: Queue) -> None:
    """All that a user can write, on every way that it can take."""
    await queue.create_topic("secret", encrypted=home.encrypted, partitions=1, ordering="none", max_attempts=2)
    await queue.publish("secret", f"value {MARKER}", key=KEY, headers=HEADERS, dedup_id=f"dedup {MARKER}")
    await queue.publish_many("secret", [Message(f"many {MARKER} {n}", key=KEY, headers=HEADERS) for n in range(9)])
    await queue.publish("secret", f"delayed {MARKER}", delay=60, key=KEY)
    await queue.publish("secret", {"json": MARKER}, headers=HEADERS)
    home.look()
    leased = await queue.lease("secret", max_messages=8)
    await queue.ack(leased[:2])
    await queue.nack(leased[2:4], error=f"error {MARKER}", delay=0)
    await queue.nack(leased[4:5], error=f"later {MARKER}", delay=500)
    await queue.reject(leased[5:6], error=f"rejected {MARKER}")
    again = await queue.lease("secret", max_messages=2)
    await queue.nack(again, error=f"for the last time {MARKER}")
    async with queue.transaction() as together:
        together.ack(leased[6])
        together.publish("secret", f"together {MARKER}", key=KEY)
    staged = await queue.begin("job")
    await staged.publish("secret", f"staged {MARKER}", key=KEY, headers=HEADERS, dedup_id=f"staged {MARKER}")
    await home.clock.advance(120)
    await queue.publish("plain", b"open words")


@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "as it is, to see that the test looks"])
async def test_nothing_of_it_is_found_whatever_happens_to_it(tmp_path: Path, encrypted: bool) -> None:
    home = Home(tmp_path, encrypted)
    async with home.open() as queue:
        await speak(home, queue)
        home.look()
        await home.checkpoint(flush=False)
        home.look()
        back_up(home.data, tmp_path / "backup of the log")
        await home.checkpoint(flush=True)
        home.look("data", "backup of the log")
        await queue.rotate_key("second")
        await queue.publish("secret", f"under the second key {MARKER}", key=KEY, headers=HEADERS)
        back_up(home.data, tmp_path / "backup of segments")
        home.look("data", "backup of segments")
    async with home.open() as queue:
        await (await queue.begin("job")).commit()
        home.store.keys().reencrypt(None, None, home.broker._commits.look)
        assert (await finished(home.store)).problems == []
        assert needed(await queue.keys()) == ({"second"} if encrypted else set())
        home.look()
        back_up(home.data, tmp_path / "backup afterwards")
        await queue.purge("secret")
        await home.checkpoint(flush=True)
    restore(tmp_path / "backup afterwards", tmp_path / "restored")
    async with home.open(tmp_path / "restored") as queue:
        said = [message.value.decode() async for message in queue.read("secret")]
        assert sum(MARKER in text for text in said) == len(said) == 15
        assert len(await queue.dead_letters("secret")) == 3
        assert (await queue.publish("secret", b"", dedup_id=f"dedup {MARKER}")).duplicate
    home.look("backup afterwards", "restored")
    if encrypted:
        home.look()


async def test_the_keys_themselves_are_nowhere_either(tmp_path: Path) -> None:
    home = Home(tmp_path, encrypted=True)
    async with home.open() as queue:
        await speak(home, queue)
        await queue.rotate_key("second")
        await home.checkpoint(flush=True)
        back_up(home.data, tmp_path / "backup")
    secrets = list(open_ring(f"file:{home.keys}")._keys.values())
    for folder in ("data", "backup"):
        for path in (tmp_path / folder).rglob("*"):
            assert not path.is_file() or not any(secret in path.read_bytes() for secret in secrets)
