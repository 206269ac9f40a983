"""What others leave in the folders of a data directory, as file managers, archivers and operators do: it is told, it hinders
nothing, and nobody touches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortoo.app.repair import repair_directory
from ortoo.model.errors import UnavailableError
from ortoo.stores.disk import KeyRing, RealDisk, backup
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.contents import tell_strays
from ortoo.stores.disk.format import refuse_strangers
from ortoo.stores.disk.outside import Outside
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from tests.format.directory import KEYS, opened, small_files
from tests.format.worn import END, Worn, readable, wear

STRAYS = [
    "wal/.DS_Store",
    "wal/._00000000000000000001.wal",
    "wal/²²².wal",
    "wal/٣.wal",
    "wal/7.wal",
    "wal/00000000000000000999.wal/",
    "checkpoint/zz.ckpt",
    "checkpoint/folder/",
    "checkpoint/99999999999999999999.ckpt/",
    "logs/.DS_Store",
    "logs/²/",
    "logs/01/0/",
    "logs/{topic}/.DS_Store",
    "logs/{topic}/0/._00000000000000000000.log",
    "logs/{topic}/0/folder/",
    "history/.DS_Store",
    "history/{topic}/.DS_Store",
    "history/{topic}/0/._0000000001.hist",
    "history/{topic}/0/²²².hist",
    "history/{topic}/0/0000000999.hist/",
]


@pytest.fixture(scope="module")
def worn() -> Worn:
    return asyncio.run(wear())


def put(worn: Worn, root: Path, stray: str) -> Path:
    """The directory with the stray in it; returns where that is."""
    for path, data in worn.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    topic = next(path.split("/")[1] for path in worn.files if path.startswith("history/"))
    place = root / stray.format(topic=topic)
    if stray.endswith("/"):
        place.mkdir(parents=True)
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"theirs")
    return place


def check(path: Path) -> Iterator[str]:
    report = check_directory(ViewDisk(path), KeyRing(KEYS))
    assert not report.damaged  # there is nothing to repair
    return iter(report.problems)


class GrowingDisk(ViewDisk):
    """A directory whose owner is at work: before each look at a folder, one more file or folder of its own is in it."""

    def list(self, folder: str) -> list[str]:
        self._grow(folder)
        return super().list(folder)

    def entries(self, folder: str) -> dict[str, bool]:
        self._grow(folder)
        return super().entries(folder)

    def _grow(self, folder: str) -> None:
        """Not for ever: the folders that it makes are looked at, too."""
        place, number = self.root / folder, 5 + len(super().list(folder))
        if folder == "wal":
            (place / f"{number:020d}.wal").touch()
        elif folder == "checkpoint":
            (place / f"{number:020d}.ckpt.tmp").touch()
        elif folder.count("/") == 2:
            (place / (f"{number:020d}.log" if folder.startswith("logs") else f"{number:010d}.hist")).touch()
        elif number < 10:
            (place / str(number)).mkdir()


def test_what_a_running_queue_adds_is_no_stray(tmp_path: Path) -> None:
    for folder in ("wal", "checkpoint", "logs/1", "history/1"):
        (tmp_path / folder).mkdir(parents=True)
    assert tell_strays(GrowingDisk(tmp_path)) == []


@pytest.mark.parametrize("stray", STRAYS)
async def test_a_stray_is_told_once_and_hinders_nothing_and_stays(worn: Worn, tmp_path: Path, stray: str) -> None:
    root = tmp_path / "data"
    place = put(worn, root, stray)
    [told] = check(root)
    assert "is ignored" in told
    Outside(root, KEYS)
    await asyncio.to_thread(backup.back_up, root, tmp_path / "backup")
    assert list(check(tmp_path / "backup")) == []
    with small_files():
        for _ in range(2):
            async with opened(RealDisk(root), clock=ManualClock(END)) as one:
                assert one.store.problems == [told]
                assert await readable(one) == worn.truth
                await one.checkpoint()
                assert one.store.problems == [told]
            assert place.exists()
    await asyncio.to_thread(repair_directory, root, KEYS)
    assert list(check(root)) == []
    async with opened(RealDisk(root), clock=ManualClock(END)) as one:
        assert await readable(one) == worn.truth


def test_a_directory_without_a_format_whose_folder_wal_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "wal" / "whale").mkdir(parents=True)
    with pytest.raises(UnavailableError, match="none of Ortoo's"):
        refuse_strangers(RealDisk(tmp_path))
