"""The data directory: one owner, no strangers, no room, no sync."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import ortoo
from ortoo import FullError, Message, OutcomeUnknownError, Queue, UnavailableError
from ortoo.stores.disk import File, RealDisk
from ortoo.stores.disk.frame import Buffer
from ortoo.stores.disk.lock import DirectoryLock

from .home import NEVER, Home, WatchedFile, take, values

ROOT = Path(__file__).resolve().parents[2]

HOLD = """
import os, sys, time, ortoo
with ortoo.open_sync(sys.argv[1]) as queue:
    queue.publish("t", b"from the holder")
    os.write(1, b"open\\n")
    time.sleep(60)
"""

OPEN = """
import sys, ortoo
try:
    with ortoo.open_sync(sys.argv[1]) as queue:
        sys.stdout.write("opened")
except ortoo.UnavailableError as error:
    sys.stdout.write(f"unavailable: {error}")
"""

SYNC_FAILS = """
import os, sys, ortoo
from ortoo.stores.disk.kernel_sync import KernelSync
if len(sys.argv) > 2:
    KernelSync.open = lambda _: None
with ortoo.open_sync(sys.argv[1]) as queue:
    queue.publish("t", b"1")
    def fail(fd):
        raise OSError(5, "Input/output error")
    os.fdatasync = fail
    end = KernelSync._end
    KernelSync._end = lambda sync, value: end(sync, -5)
    queue.publish("t", b"2")
    sys.stdout.write("confirmed")
"""


def run(script: str, data: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, str(data), *more], capture_output=True, text=True, timeout=300, check=False
    )


def start_sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)


def can_mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


def unmount(path: Path) -> None:
    subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    data = tmp_path / "data"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(data)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process
        process.kill()


# -- one owner


async def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(UnavailableError, match=rf"in use by process {holder.pid}\b"):
        await ortoo.open(tmp_path / "data").open()


async def test_so_is_a_second_queue_in_the_same_process(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "data") as queue:
        with pytest.raises(UnavailableError, match=rf"in use by process {os.getpid()}\b"):
            await ortoo.open(tmp_path / "data").open()
        with pytest.raises(UnavailableError, match=rf"in use by process {os.getpid()}\b"):
            ortoo.open_sync(tmp_path / "data")
        await queue.publish("t", b"the first is not disturbed")
    async with ortoo.open(tmp_path / "data") as queue:
        assert values(await queue.lease("t")) == [b"the first is not disturbed"]


async def test_a_killed_holder_leaves_a_directory_that_opens_at_once(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    holder.kill()
    holder.wait()
    async with ortoo.open(tmp_path / "data") as queue:
        assert values(await queue.lease("t")) == [b"from the holder"]


async def test_a_stopped_holder_still_holds(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(UnavailableError, match=str(holder.pid)):
        await ortoo.open(tmp_path / "data").open()


async def test_a_child_process_does_not_keep_the_directory(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "data"):
        child = start_sleeping()
    try:
        async with ortoo.open(tmp_path / "data") as queue:
            await queue.publish("t", b"1")
    finally:
        child.kill()
        child.wait()


def test_a_child_that_has_it_open_for_a_moment_more_does_not_keep_it(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    assert lock._fd is not None
    inherited = os.dup(lock._fd)
    try:
        lock.release()
        again = DirectoryLock(tmp_path)
        again.acquire()
        again.release()
    finally:
        os.close(inherited)


# -- strangers


async def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "photos"
    data.mkdir()
    (data / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(UnavailableError, match=re.escape(str(data))):
        await ortoo.open(data).open()
    assert [path.name for path in data.iterdir()] == ["cat.jpg"]


async def test_a_newer_format_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with ortoo.open(data) as queue:
        await queue.publish("t", b"1")
    ours = (data / "FORMAT").read_bytes()
    (data / "FORMAT").write_bytes(b"ortoo data directory, format 99\n")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "LOCK"}
    with pytest.raises(UnavailableError, match=r"format 99.*reads formats \d"):
        await ortoo.open(data).open()
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "LOCK"} == before
    (data / "FORMAT").write_bytes(ours)
    async with ortoo.open(data) as queue:  # and in this very process it opens once that is put right
        assert values(await queue.lease("t")) == [b"1"]


async def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(UnavailableError, match=re.escape(str(tmp_path / "data"))):
        await ortoo.open(tmp_path / "data").open()


async def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with ortoo.open(data) as queue:
        await queue.publish("t", b"1")
    done = _run_without_permission(data) if os.geteuid() else _run_read_only(data)
    assert done.stdout.startswith("unavailable"), done
    assert str(data) in done.stdout


def _run_without_permission(data: Path) -> subprocess.CompletedProcess[str]:
    (data / "LOCK").unlink(missing_ok=True)
    data.chmod(0o500)
    try:
        return run(OPEN, data)
    finally:
        data.chmod(0o700)


def _run_read_only(data: Path) -> subprocess.CompletedProcess[str]:
    """Permissions do not stop root, but a mount that cannot be written does."""
    if not can_mount("--bind", str(data), str(data)):
        pytest.skip("nothing can be mounted here")
    try:
        assert can_mount("-o", "remount,bind,ro", str(data))
        return run(OPEN, data)
    finally:
        unmount(data)


# -- no room


class TightDisk(RealDisk):
    """A disk of which others take room."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.free = 1 << 40
        self.is_full = False

    def free_bytes(self) -> int:
        return self.free

    def open(self, path: str) -> File:
        return TightFile(super().open(path), self)


class TightFile:
    descriptor = None

    def __init__(self, inner: File, disk: TightDisk) -> None:
        self.read, self.size, self.truncate = inner.read, inner.size, inner.truncate
        self.sync, self.close = inner.sync, inner.close
        self._inner = inner
        self._disk = disk

    def append(self, *parts: Buffer) -> None:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._inner.append(*parts)


async def test_below_the_reserve_publishing_stops_and_settling_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path / "data", checkpoint_bytes=NEVER)
    home.root.mkdir()
    disk = TightDisk(home.root)
    queue = await home.open(disk)
    await queue.publish("t", bytes(1000))
    disk.free = 10 << 20
    await queue.publish_many("t", [Message(bytes(1000)) for _ in range(8_999)])  # then it looks how much is free
    held = await take(queue, "t")
    with pytest.raises(FullError, match=r"10 MiB.*free.*settling still works"):
        await queue.publish("t", b"no")
    with pytest.raises(FullError):
        await queue.publish_many("t", [Message(b"no")])
    with pytest.raises(FullError):
        async with queue.transaction() as tx:
            tx.publish("t", b"no")
    await queue.ack(held[:50])
    await queue.nack(held[50:60])
    await queue.extend(held[60:], 60)
    await queue.release(held[60:])
    assert (await queue.group("t")).backlog == 8_950
    disk.free = 1 << 40
    await queue.publish("t", b"yes")
    queue = await home.open(disk)
    assert (await queue.group("t")).backlog == 8_951
    await home.end()


async def test_a_full_disk_refuses_and_heals_by_itself(tmp_path: Path) -> None:
    home = Home(tmp_path / "data", checkpoint_bytes=NEVER)
    home.root.mkdir()
    disk = TightDisk(home.root)
    queue = await home.open(disk)
    await queue.publish("t", b"1")
    disk.is_full, disk.free = True, 0
    with pytest.raises(OutcomeUnknownError, match="No space left"):
        await queue.publish("t", b"2")
    for _ in range(5):
        await home.clock.advance(10)
        with pytest.raises((FullError, UnavailableError), match=r"No space left|free"):
            await queue.publish("t", b"3")
    disk.is_full, disk.free = False, 1 << 40
    await home.clock.advance(10)
    await queue.publish("t", b"4")
    assert values(await take(queue, "t")) == [b"1", b"4"]
    await home.end()


async def test_a_small_disk_that_fills_up_and_is_emptied(tmp_path: Path) -> None:
    """The real thing: a file system of 80 MiB."""
    if not can_mount("-t", "tmpfs", "-o", "size=80m", "tmpfs", str(tmp_path)):
        pytest.skip("nothing can be mounted here")
    try:
        await fill_up(tmp_path)
    finally:
        unmount(tmp_path)


async def fill_up(root: Path) -> None:
    async with ortoo.open(root / "data") as queue:
        await queue.create_topic("t", ordering="none")
        sent = 0
        with pytest.raises(FullError, match=r"of the disk"):
            for _ in range(80):
                await queue.publish_many("t", [Message(bytes(100_000)) for _ in range(10)])
                sent += 10
        assert 0 < sent < 400
        acked = 0
        while messages := await take(queue, "t"):
            await queue.ack(messages)
            acked += len(messages)
        assert acked == sent
        ballast = root / "ballast"
        ballast.write_bytes(bytes(40 << 20))
        with pytest.raises(FullError):
            await queue.publish("t", b"no")
        ballast.unlink()
        await queue.purge("t")
        assert can_mount("-o", "remount,size=200m", str(root))
        await queue.publish("t", b"yes")
        assert values(await queue.lease("t")) == [b"yes"]


# -- no sync


@pytest.mark.parametrize("where", [(), ("in a thread",)], ids=["wherever", "thread"])
def test_a_sync_that_fails_ends_the_process_and_a_new_one_recovers(tmp_path: Path, where: tuple[str, ...]) -> None:
    done = run(SYNC_FAILS, tmp_path / "data", *where)
    assert (done.returncode, done.stdout) == (74, "")
    assert "failed to sync" in done.stderr
    with ortoo.open_sync(tmp_path / "data") as queue:
        found = [message.value for message in queue.lease("t", max_messages=10)]
        assert found[:1] == [b"1"]
        assert found[1:] in ([], [b"2"])  # never confirmed


class UnsyncedDisk(RealDisk):
    """A disk whose files of one kind cannot be synced any more."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.failing: str | None = None

    def open(self, path: str) -> File:
        return WatchedFile(super().open(path), path, self._fail)

    def _fail(self, path: str) -> None:
        if self.failing is not None and path.startswith(self.failing):
            raise OSError(errno.EIO, "simulated")


@asynccontextmanager
async def failing_to_sync(tmp_path: Path) -> AsyncIterator[tuple[Home, Queue, UnsyncedDisk]]:
    """A failure to sync is told by the end of the block."""
    failures: list[OSError] = []
    home = Home(tmp_path / "data", ending="kill")
    home.root.mkdir()
    disk = UnsyncedDisk(home.root)
    yield home, await home.open(disk, on_sync_failure=failures.append), disk
    assert [error.errno for error in failures][:1] == [errno.EIO]
    disk.failing = None
    await home.end()


async def test_every_failed_sync_of_the_write_ahead_log_is_told(tmp_path: Path) -> None:
    async with failing_to_sync(tmp_path) as (_, queue, disk):
        await queue.publish("t", b"1")
        disk.failing = "wal/"
        with pytest.raises(OutcomeUnknownError):
            await queue.publish("t", b"2")


async def test_also_when_a_checkpoint_syncs_what_was_not_urgent(tmp_path: Path) -> None:
    async with failing_to_sync(tmp_path) as (home, queue, disk):
        await queue.publish_many("t", [Message(b"1"), Message(b"2")])
        disk.failing = "wal/"
        await queue.lease("t")  # a lease is written, not synced; the checkpoint that follows would sync it
        await home.clock.advance(0.1)
        with suppress(UnavailableError):
            await queue.lease("t")
        await home.clock.advance(0.1)


@pytest.mark.parametrize("folder", ["logs/", "history/", "checkpoint/"])
async def test_a_checkpoint_that_cannot_be_synced_costs_nothing(tmp_path: Path, folder: str) -> None:
    home = Home(tmp_path / "data", ending="kill")
    home.root.mkdir()
    disk = UnsyncedDisk(home.root)
    queue = await home.open(disk)
    await queue.create_topic("t", ordering="none", partitions=1)
    await queue.publish("t", b"before")
    disk.failing = folder
    for number in range(5):
        await queue.publish("t", b"%d" % number)
        await queue.ack(await queue.lease("t"))
    assert any("checkpoint failed" in problem for problem in home.store.problems)
    queue = await home.open(disk)
    assert values(await take(queue, "t")) == [b"4"]
    disk.failing = None
    queue = await home.open(disk)
    for number in range(5, 8):
        await queue.publish("t", b"%d" % number)
    queue = await home.open(disk)
    assert [message.value async for message in queue.read("t")] == [b"before", *(b"%d" % n for n in range(8))]
    await home.end()
