"""What `check` finds, and what it must not take for damage."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from ortoo.model.errors import CorruptionError
from ortoo.stores.disk import File, KeyRing, RealDisk, backup
from ortoo.stores.disk.backup import back_up
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.checkpoint import read_checkpoint, write_checkpoint
from ortoo.stores.disk.format import refuse_strangers
from ortoo.stores.disk.frame import Frame, scan_frames
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import KEYS, START, opened
from tests.format.worn import Files, Worn, files_of, wear


@pytest.fixture(scope="module")
def worn() -> Worn:
    return asyncio.run(wear())


def put(files: Files, root: Path) -> Path:
    """Exchanges what is there for these files, each as a whole."""
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{path}.new").write_bytes(data)
        (root / f"{path}.new").replace(root / path)
    for file in [file for file in root.rglob("*") if file.is_file()]:
        if file.relative_to(root).as_posix() not in files:
            file.unlink()
    return root


def check(path: Path) -> list[str]:
    return check_directory(ViewDisk(path), KeyRing(KEYS)).problems


def of(worn: Worn, folder: str, suffix: str) -> list[str]:
    found = [path for path in worn.files if path.startswith(folder) and path.endswith(suffix)]
    assert found
    return found


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "deleted"])
def test_a_file_of_the_write_ahead_log_that_is_gone_is_found(worn: Worn, tmp_path: Path, emptied: bool) -> None:
    for path in of(worn, "wal/", ".wal")[:-1]:  # the end of the last one may be missing after any crash
        files = {name: data for name, data in worn.files.items() if name != path} | ({path: b""} if emptied else {})
        assert check(put(files, tmp_path)), path


@pytest.mark.parametrize(("stage", "is_old"), [(0, False), (1, False), (2, False), (1, True)])
def test_any_file_of_the_write_ahead_log_that_a_checkpoint_needs_is_missed(
    worn: Worn, tmp_path: Path, stage: int, is_old: bool
) -> None:
    """Also the one that the checkpoint began, which is empty."""
    kept = of_old_version(worn.stages[stage]) if is_old else worn.stages[stage]
    assert check(put(kept, tmp_path)) == []
    for gone in [path for path in kept if path.startswith("wal/")]:
        files = {path: data for path, data in kept.items() if path != gone}
        assert any("missing" in problem for problem in check(put(files, tmp_path))), gone


def of_old_version(files: Files) -> Files:
    """Its checkpoint does not tell which commits have what was staged."""
    disk = SimulatedDisk(Random(1))
    for path, data in files.items():
        disk.open(path).append(data)
    refuse_strangers(disk)  # learns its salt
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    manifest = msgspec.structs.replace(checkpoint.manifest, staged=None)
    write_checkpoint(disk, msgspec.structs.replace(checkpoint, manifest=manifest))
    return files_of(disk)


def test_a_write_ahead_log_that_is_gone_as_a_whole_is_found(worn: Worn, tmp_path: Path) -> None:
    files = {path: data for path, data in worn.files.items() if not path.startswith("wal/")}
    assert any("missing" in problem for problem in check(put(files, tmp_path)))


@pytest.mark.parametrize("suffix", [".seg", ".log"])
def test_a_segment_that_ends_too_early_between_two_frames_is_found(worn: Worn, tmp_path: Path, suffix: str) -> None:
    for path in of(worn, "logs/", suffix):
        *_, last = scan_frames(worn.files[path])
        problems = check(put(worn.files | {path: worn.files[path][: last.position]}, tmp_path))
        assert any(path in problem for problem in problems)


@pytest.mark.parametrize(("folder", "suffix"), [("logs/", ".log"), ("history/", ".hist")])
def test_what_lies_behind_the_end_that_a_checkpoint_knows_is_no_damage(
    worn: Worn, tmp_path: Path, folder: str, suffix: str
) -> None:
    for path in of(worn, folder, suffix):
        data = worn.files[path]
        for more in (data, data[:-3], b"half a frame"):  # a checkpoint was under way when the process ended
            assert check(put(worn.files | {path: data + more}, tmp_path)) == []


def test_files_are_opened_for_reading_only(worn: Worn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(worn.files, tmp_path)
    real, seen = os.open, []

    def watched(path: Any, flags: int, *more: Any, **named: Any) -> int:
        seen.append(flags)
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", watched)
    assert check(tmp_path) == []
    assert len(seen) > 10
    assert not [flags for flags in seen if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)]


class BusyDisk(ViewDisk):
    """A directory whose owner is at work: something happens before one of the looks at it."""

    def __init__(self, root: Path, when: int, work: Callable[[], object]) -> None:
        super().__init__(root)
        self._when = when
        self._work = work
        self.looks = 0

    def _look(self) -> None:
        self.looks += 1
        if self.looks == self._when:
            self._work()

    def open(self, path: str) -> File:
        self._look()
        return super().open(path)

    def list(self, folder: str) -> list[str]:
        self._look()
        return super().list(folder)

    def entries(self, folder: str) -> dict[str, bool]:
        self._look()
        return super().entries(folder)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_checkpoint_that_comes_in_between_is_no_damage(worn: Worn, tmp_path: Path, stage: int) -> None:
    before, after = worn.stages[stage : stage + 2]
    assert before.keys() - after.keys()
    when, looks = 1 + stage, 2
    while when <= looks:
        disk = BusyDisk(put(before, tmp_path), when, lambda: put(after, tmp_path))
        assert check_directory(disk, KeyRing(KEYS)).problems == [], f"before look {when}"
        when, looks = when + 2, max(looks, disk.looks)
    assert looks > 20


async def write(path: Path) -> list[Files]:
    """The same commits in two checkpoints, so of one name: what the second brings to files takes the write-ahead log away."""
    stages = []
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=2)
        await one.queue.create_group("orders", "workers")
        for number in range(6):
            await one.queue.publish("orders", b"%d" % number)
            await one.queue.ack(await one.queue.lease("orders", group="workers"))
            await one.broker.flush()
        for flush in (False, True):
            await one.checkpoint(flush)
            found = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
            stages.append({name: file.read_bytes() for name, file in found.items()})
    first, second = ({name for name in files if name.startswith("checkpoint/")} for files in stages)
    assert first == second
    return stages


async def test_damage_to_history_in_the_write_ahead_log_is_found_all_of_it(tmp_path: Path) -> None:
    files, _ = await write(tmp_path)
    [path] = [path for path, data in files.items() if path.startswith("wal/") and data]
    frames = [frame for frame in scan_frames(files[path]) if isinstance(frame, Frame)]
    acked = [frame for frame in frames if b"Acked" in (frame.body or b"")]
    assert len(acked) == 6
    data = bytearray(files[path])
    for frame in acked[1:4]:
        data[frame.position + frame.fixed.size - 3] ^= 1
    put(files | {path: bytes(data)}, tmp_path)
    for problems in (check(tmp_path), await problems_of(tmp_path)):
        for frame in acked[1:4]:
            assert any(f"{path} is damaged at byte {frame.position}:" in problem for problem in problems)


async def problems_of(path: Path) -> list[str]:
    async with opened(RealDisk(path), clock=ManualClock(START)) as one:
        return one.store.problems


async def test_a_checkpoint_that_takes_the_place_of_another_under_its_name_is_no_damage(tmp_path: Path) -> None:
    before, after = await write(tmp_path)
    when, looks = 1, 2
    while when <= looks:
        disk = BusyDisk(put(before, tmp_path), when, lambda: put(after, tmp_path))
        assert check_directory(disk, KeyRing(KEYS)).problems == [], f"before look {when}"
        when, looks = when + 1, max(looks, disk.looks)
    assert looks > 20


class Interruption:
    """Something happens before one of the steps of a backup."""

    def __init__(self, when: int, work: Callable[[], object]) -> None:
        self._when = when
        self._work = work
        self.steps = 0

    def __call__(self, step: Callable[..., Any], *arguments: Any) -> Any:
        self.steps += 1
        if self.steps == self._when:
            self._work()
        return step(*arguments)


@pytest.mark.parametrize("can_link", [True, False])
async def test_a_backup_does_not_mix_two_checkpoints_of_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    """Where nothing can be held by links, it begins anew."""
    source = tmp_path / "data"
    source.mkdir()
    before, after = await write(source)
    when, steps = 1, 2
    while when <= steps:
        put(before, source)
        interruption = Interruption(when, partial(put, after, source))
        with monkeypatch.context() as patch:
            for name in ("_copy", "read_checkpoint", "list_files", *(["_link"] if can_link else [])):
                patch.setattr(backup, name, partial(interruption, getattr(backup, name)))
            if not can_link:
                patch.setattr(backup, "_make_pins", lambda _: None)
            back_up(source, tmp_path / f"backup {when}")
        report = check_directory(ViewDisk(tmp_path / f"backup {when}"), KeyRing(KEYS))
        assert (report.problems, report.messages) == ([], 6), f"before step {when}"
        when, steps = when + 1, max(steps, interruption.steps)
    assert steps > 4


@pytest.mark.parametrize("which", [0, 1, 2, 3])
async def test_a_backup_of_a_directory_without_a_file_that_it_needs_is_refused(tmp_path: Path, which: int) -> None:
    """Whichever file of the write-ahead log it is."""
    source = tmp_path / "data"
    source.mkdir()
    async with opened(RealDisk(source), clock=ManualClock(START)) as one:
        await one.queue.create_topic("orders", partitions=1)
        for number in range(3):
            await one.queue.publish("orders", b"%d" % number)
            await one.checkpoint(flush=False)
        await one.queue.publish("orders", b"last")
        await one.broker.flush()
        logs = sorted((source / "wal").iterdir())
        assert len(logs) == 4
        back_up(source, tmp_path / "good")
        data = logs[which].read_bytes()
        logs[which].unlink()
        with pytest.raises(CorruptionError, match="missing"):
            back_up(source, tmp_path / "bad")
        assert not (tmp_path / "bad").exists()
        logs[which].write_bytes(data)
    assert check_directory(ViewDisk(tmp_path / "good"), KeyRing({})).problems == []


async def test_a_backup_does_without_files_that_nobody_needs(worn: Worn, tmp_path: Path) -> None:
    """An open transaction keeps an old file, when those behind it are gone."""
    for number, files in enumerate([*worn.stages, worn.files]):
        source = put(files, tmp_path / f"data {number}")
        back_up(source, tmp_path / f"backup {number}")
        assert check(tmp_path / f"backup {number}") == []
