"""A place that the disk cannot read is damage like any other: what lies elsewhere goes on, `check` tells it, and `repair` makes a
directory of the rest that opens.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ortoo.app.repair import Repair, repair_directory
from ortoo.model.errors import CorruptionError
from ortoo.model.names import TopicId
from ortoo.stores.disk import KeyRing, RealDisk, files
from ortoo.stores.disk.backup import back_up
from ortoo.stores.disk.check import Report, check_directory
from ortoo.stores.disk.files import RealFile, read_around
from ortoo.stores.disk.frame import SIZE, Frame, UnreadableError, scan_frames
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from ortoo.testing.pieces import in_one
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import KEYS, Opened, opened
from tests.format.worn import files_of

TOLD = "the disk cannot read this place"
Spoil = Callable[[Path, int, int], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty directory."""
    root = tmp_path / "data"
    root.mkdir()
    return root


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Spoil:
    """Makes bytes of a file fail as a bad sector does: what lies before them is given, and then there is an error."""
    bad: dict[tuple[int, int], list[tuple[int, int]]] = {}
    real = os.pread

    def pread(fd: int, size: int, position: int) -> bytes:
        found = os.fstat(fd)
        for start, end in bad.get((found.st_dev, found.st_ino), []):
            if start <= position < end:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if position < start:
                size = min(size, start - position)
        return real(fd, size, position)

    def spoil(path: Path, start: int, end: int) -> None:
        found = path.stat()
        bad.setdefault((found.st_dev, found.st_ino), []).append((start, end))

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(files, "PAGE_BYTES", 1)
    return spoil


def check(root: Path) -> Report:
    return check_directory(ViewDisk(root), KeyRing(KEYS))


async def repair(root: Path) -> Repair:
    """And the directory it makes has nothing to complain about."""
    done = await asyncio.to_thread(repair_directory, root, KEYS)
    assert check(root).problems == []
    return done


async def fill(root: Path) -> None:
    """Three frames of each topic: two in segments, and one that only the write-ahead log has."""
    async with opened(RealDisk(root)) as one:
        for topic in ("bad", "good"):
            await one.queue.create_topic(topic, partitions=1, ordering="none", max_attempts=2, lease=10.0)
        for number in range(3):
            for topic in ("bad", "good"):
                await one.queue.publish(topic, f"{topic} {number} ".encode() * 100)
                await one.queue.ack(await one.queue.lease(topic, group="history"))
            if number < 2:
                await one.checkpoint()


def frames(path: Path) -> list[Frame]:
    return [item for item in scan_frames(path.read_bytes()) if isinstance(item, Frame)]


def body(frame: Frame) -> tuple[int, int]:
    start = frame.position + SIZE + frame.fixed.head_size
    return start, start + 10


def one_file(root: Path, pattern: str) -> Path:
    return max(path for path in root.glob(pattern) if path.stat().st_size)


async def values(one: Opened, topic: str) -> list[bytes]:
    return [message.value[:5] async for message in one.queue.read(topic)]


async def works(one: Opened, topic: str) -> None:
    """All of it can be read, and it goes on."""
    assert (await values(one, topic))[:3] == [f"{topic} {number}".encode()[:5] for number in range(3)]
    await one.queue.publish(topic, b"more")
    await one.checkpoint()
    leased = await one.queue.lease(topic, max_messages=100)
    assert leased[-1].value == b"more"
    await one.queue.ack(leased)


async def test_an_unreadable_body_costs_its_message_and_nothing_else(tmp_path: Path, spoil: Spoil) -> None:
    root, clock = tmp_path / "data", ManualClock()
    root.mkdir()
    await fill(root)
    path = one_file(root, "logs/1/0/*.log")
    spoil(path, *body(frames(path)[1]))
    async with opened(RealDisk(root), clock=clock) as one:
        assert one.store.problems == []
        leased = await one.queue.lease("bad", max_messages=10)
        assert [message.value[:5] for message in leased] == [b"bad 0", b"bad 2"]
        await one.queue.ack(leased)
        await clock.advance(20)
        with pytest.raises(CorruptionError, match=TOLD):
            await one.queue.lease("bad", max_messages=10)
        await clock.advance(20)
        [letter] = await one.queue.dead_letters("bad")
        assert TOLD in letter.headers["ortoo-damaged"]
        with pytest.raises(CorruptionError, match=TOLD):
            await values(one, "bad")
        await works(one, "good")
        [problem] = one.store.problems
        assert TOLD in problem
    report = check(root)
    assert report.damaged
    assert [problem for problem in report.problems if TOLD not in problem] == []
    done = await repair(root)
    assert [(loss.start, loss.end) for loss in done.losses] == [(1, 2)]
    assert any(TOLD in complaint for complaint in done.complaints)
    async with opened(RealDisk(root)) as one:
        assert await values(one, "bad") == [b"bad 0", b"bad 2"]
        await works(one, "good")


async def opens_with_a_quarantine(root: Path) -> None:
    async with opened(RealDisk(root)) as one:
        [problem] = one.store.problems
        assert problem.startswith("partition 0 of topic 'bad' is quarantined")
        assert TOLD in problem
        await works(one, "good")


@pytest.mark.parametrize("which", [0, 1])
async def test_an_unreadable_head_quarantines_its_partition(root: Path, spoil: Spoil, which: int) -> None:
    await fill(root)
    path = one_file(root, "logs/1/0/*.log")
    at = frames(path)[which].position
    spoil(path, at + 2, at + 20)
    for _ in range(2):
        await opens_with_a_quarantine(root)
    report = check(root)
    assert report.damaged
    assert TOLD in report.problems[0]
    done = await repair(root)
    assert any(TOLD in complaint for complaint in done.complaints)
    async with opened(RealDisk(root)) as one:
        await works(one, "good")
        left = await values(one, "bad")
        assert left[-1] == b"bad 2"
        assert len(left) + sum((loss.end or 0) - loss.start for loss in done.losses) == 3


async def test_a_file_that_cannot_be_opened_quarantines_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, real = tmp_path / "data", os.open
    root.mkdir()
    await fill(root)
    bad = [one_file(root, pattern).stat().st_ino for pattern in ("logs/1/0/*.log", "history/1/0/*.hist")]

    def failing(path: Path | str, *more: int, **named: int) -> int:
        if Path(path).exists() and Path(path).stat().st_ino in bad:
            raise OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN))
        return real(path, *more, **named)

    monkeypatch.setattr(os, "open", failing)
    for _ in range(2):
        async with opened(RealDisk(root)) as one:
            assert all(TOLD in problem for problem in one.store.problems)
            assert len(one.store.problems) == 2
            await works(one, "good")
    assert check(root).damaged
    await repair(root)
    async with opened(RealDisk(root)) as one:
        await works(one, "good")


@pytest.mark.parametrize("folder", ["logs/1/0", "history/1/0"])
async def test_a_folder_that_cannot_be_read_hurts_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    root, real = tmp_path / "data", os.scandir
    root.mkdir()
    await fill(root)

    def failing(path: Path) -> object:
        if path == root / folder:
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing)
        async with opened(RealDisk(root)) as one:
            assert any(f"the folder {folder} is damaged: {TOLD}" in problem for problem in one.store.problems)
            await works(one, "good")
        assert check(root).damaged
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing)
        await asyncio.to_thread(repair_directory, root, KEYS)
    async with opened(RealDisk(root)) as one:
        await works(one, "good")


async def test_an_unreadable_commit_quarantines_what_it_spoke_of_and_stays(root: Path, spoil: Spoil) -> None:
    """It is the last one, where a damaged one would pass for the end of a write that was never confirmed."""
    await fill(root)
    async with opened(RealDisk(root)) as one:
        await one.queue.publish("bad", b"bad 3")
    path = one_file(root, "wal/*.wal")
    size, last = path.stat().st_size, frames(path)[-1]
    spoil(path, *body(last))
    report = check(root)
    assert report.damaged
    assert any(TOLD in problem for problem in report.problems)
    for _ in range(2):
        await opens_with_a_quarantine(root)
        assert path.stat().st_size == size
    done = await repair(root)
    assert [lost.first for lost in done.commits] == [last.fixed.number]
    async with opened(RealDisk(root)) as one:
        assert await values(one, "bad") == [b"bad 0", b"bad 1", b"bad 2"]
        await works(one, "good")


@pytest.mark.parametrize("which", [-1, -2])
async def test_the_unreadable_head_of_a_commit_keeps_the_queue_closed_until_it_is_repaired(
    root: Path, spoil: Spoil, which: int
) -> None:
    await fill(root)
    async with opened(RealDisk(root)) as one:
        for number in (3, 4):
            await one.queue.publish("bad", f"bad {number}".encode())
    path = one_file(root, "wal/*.wal")
    size, lost = path.stat().st_size, frames(path)[which]
    spoil(path, lost.position, lost.position + SIZE)
    report = check(root)
    assert report.damaged
    assert any(TOLD in problem for problem in report.problems)
    with pytest.raises(CorruptionError, match=f"{TOLD}; .*repair it"):
        async with opened(RealDisk(root)):
            pass
    assert path.stat().st_size == size
    done = await repair(root)
    assert [(one.first, one.last) for one in done.commits] == [(lost.fixed.number,) * 2]
    async with opened(RealDisk(root)) as one:
        kept = b"bad 3" if which == -1 else b"bad 4"
        assert await values(one, "bad") == [b"bad 0", b"bad 1", b"bad 2", kept]
        await works(one, "good")


@pytest.mark.parametrize("part", ["head", "body"])
async def test_an_unreadable_checkpoint_is_repaired(root: Path, spoil: Spoil, part: str) -> None:
    await fill(root)
    path = one_file(root, "checkpoint/*.ckpt")
    spoil(path, *((40, 50) if part == "head" else body(frames(path)[0])))
    with pytest.raises(CorruptionError, match=TOLD):
        async with opened(RealDisk(root)):
            pass
    assert any(TOLD in problem for problem in check(root).problems)
    done = await repair(root)
    assert any("the disk cannot read" in complaint for complaint in done.complaints)
    async with opened(RealDisk(root)) as one:
        topics = sorted(topic.name for topic in await one.queue.topics() if not topic.name.endswith(".dlq"))
        assert [await values(one, topic) for topic in topics] == [
            [f"{topic} {number}".encode()[:5] for number in range(3)] for topic in ("bad", "good")
        ]


async def test_unreadable_history_costs_history_only(root: Path, spoil: Spoil) -> None:
    await fill(root)
    path = one_file(root, "history/1/0/*.hist")
    first, second = frames(path)[:2]
    spoil(path, first.position, first.position + SIZE)
    async with opened(RealDisk(root)) as one:
        [problem] = one.store.problems
        assert TOLD in problem
        await works(one, "bad")
        assert await in_one(one.store.history(TopicId(1), 0, 1))
    spoil(path, *body(second))
    assert len([problem for problem in check(root).problems if TOLD in problem]) == 2
    done = await repair(root)
    assert len([complaint for complaint in done.complaints if TOLD in complaint]) == 2
    async with opened(RealDisk(root)) as one:
        await works(one, "good")


@pytest.mark.parametrize("name", ["FORMAT", "KEYS"])
async def test_other_unreadable_files_are_repaired(root: Path, spoil: Spoil, name: str) -> None:
    async with opened(RealDisk(root)) as one:
        await one.queue.create_topic("secret", partitions=1, encrypted=True)
        await one.queue.publish("secret", b"tea")
    spoil(root / name, 0, 5)
    assert check(root).damaged
    await repair(root)
    async with opened(RealDisk(root)) as one:
        assert await values(one, "secret") == [b"tea"]


async def test_a_backup_of_what_cannot_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "data"
    root.mkdir()
    await fill(root)

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *more, **named: Failing() if path.suffix == ".log" else real(path, *more, **named)
    )
    with pytest.raises(CorruptionError, match=f"cannot be copied: {TOLD}"):
        await asyncio.to_thread(back_up, root, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


# -- the parts


async def test_a_simulated_disk_has_such_places_too() -> None:
    disk = SimulatedDisk(Random(1))
    async with opened(disk) as one:
        await one.queue.create_topic("bad", partitions=1)
        await one.queue.publish("bad", b"tea")
        await one.checkpoint()
    [path] = [path for path in files_of(disk) if path.startswith("logs/")]
    disk.spoil(path, 0, 10)
    async with opened(disk) as one:
        [problem] = one.store.problems
        assert TOLD in problem


def test_all_but_the_unreadable_pages_is_read(tmp_path: Path, spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PAGE_BYTES", 8)
    data = Random(1).randbytes(45)
    (tmp_path / "file").write_bytes(data)
    spoil(tmp_path / "file", 17, 18)
    spoil(tmp_path / "file", 43, 44)
    file = RealFile(tmp_path / "file")
    with pytest.raises(UnreadableError, match=TOLD) as caught:
        file.read(10, 20)
    assert caught.value.errno == errno.EIO
    found, holes, _ = read_around(file, 5)
    assert holes == [(16 - 5, 24 - 5), (40 - 5, 45 - 5)]
    assert found == data[5:16] + bytes(8) + data[24:40] + bytes(5)
    file.close()


def test_what_the_system_gives_in_pieces_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: real(fd, min(size, 3), position))
    file = RealFile(tmp_path / "file")
    assert file.read(1, 8) == b"12345678"
    assert file.read(8, 8) == b"89"
    file.close()
