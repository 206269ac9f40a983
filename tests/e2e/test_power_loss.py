"""When the power goes, what was confirmed is on the disk; what was not may be there, in part, or not at all."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from random import Random

import pytest

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.stores.disk import DiskStore, RealDisk, log
from ortoo.stores.disk.files import make_durable_dir

from .journal import Journal, Line
from .load import Load, drain
from .shadow import ShadowDisk, path_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason=f"{sys.platform} does not tell what a fd is")


class Lives:
    """One directory that lives, loses its power, and lives again with what was left of it."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.seed = seed
        self.random = Random(seed)
        self.root = folder / "life0"
        self.journal = Journal()
        self.disk = ShadowDisk(self.root)
        fsync = os.fsync

        def watched(fd: int) -> None:
            fsync(fd)
            self.disk.synced(path_of(fd))

        monkeypatch.setattr(os, "fsync", watched)
        self.root.mkdir()

    async def live(self, number: int, seconds: float, cuts: int) -> None:
        """A while under load, with cuts at random moments; the next life begins with what the last of them left."""
        self.disk = ShadowDisk(self.root)
        size = self.random.choice([2_000, 20_000, 200_000])
        broker = Broker(DiskStore(self.disk, checkpoint_bytes=size), SystemClock())
        queue = Queue(broker)
        await queue.open()
        load = asyncio.create_task(Load(queue, self.journal, self.random, f"life{number}", pause=0.002).run())
        images = []
        for cut in range(cuts):
            await asyncio.sleep(self.random.uniform(0, 2 * seconds / cuts))
            assert not load.done(), load
            image = self.folder / f"image{number}-{cut}"
            lines = list(self.journal.lines)  # with nothing awaited between this and the cut
            self.disk.cut(image, self.random)
            images.append((image, lines))
        self.root = self.folder / f"life{number + 1}"
        lines = list(self.journal.lines)
        self.disk.cut(self.root, self.random)
        self.journal = Journal(lines=lines)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await queue.close()
        for image, known in images:
            await self.judge(image, known)

    async def judge(self, image: Path, lines: list[Line]) -> int:
        journal = Journal(lines=lines)
        shadow, self.disk = self.disk, ShadowDisk(self.folder / "nowhere")
        try:
            faults = await drain(image, journal)
        finally:
            self.disk = shadow
        assert faults == {}, f"seed {self.seed}, {image}: {faults}"
        shutil.rmtree(image)
        return sum(verdict.published for verdict in journal.verdicts().values())

    async def end(self) -> int:
        return await self.judge(self.root, list(self.journal.lines))


async def live_through_cuts(lives: Lives, count: int) -> None:
    for number in range(count):
        await lives.live(number, seconds=0.2, cuts=4)
    assert await lives.end() > 50


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nothing_confirmed_is_lost(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 3_000)  # so that segments are sealed, too
    await live_through_cuts(Lives(tmp_path, seed, monkeypatch), 5)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 110))
async def test_nothing_confirmed_is_ever_lost(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 3_000)
    await live_through_cuts(Lives(tmp_path, seed, monkeypatch), 30)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """What was synced since the test began."""
    found: set[Path] = set()
    fsync = os.fsync

    def watched(fd: int) -> None:
        fsync(fd)
        found.add(path_of(fd))

    monkeypatch.setattr(os, "fsync", watched)
    return found


async def test_a_new_directory_is_itself_durable(tmp_path: Path, synced: set[Path]) -> None:
    data = tmp_path / "a" / "b" / "data"
    async with ortoo.open(data) as queue:
        await queue.publish("t", b"1")
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b", data, data / "wal"} <= synced


async def test_so_is_one_whose_folders_were_made_by_a_process_that_came_no_further(
    tmp_path: Path, synced: set[Path]
) -> None:
    data = tmp_path / "data"
    (data / "wal").mkdir(parents=True)
    (data / "logs" / "1" / "0").mkdir(parents=True)
    disk = RealDisk(data)
    make_durable_dir(data)
    disk.make_dir("wal")
    disk.make_dir("logs/1/0")
    assert {tmp_path, data, data / "logs", data / "logs" / "1"} <= synced
