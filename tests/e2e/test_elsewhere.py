"""Do clients, workers and queues in memory run where there is no POSIX, and the disk store where there is no Linux?"""

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ortoo
from ortoo.stores.disk import syncing
from tests.doors.tcp.home import Home, serving

PROGRAM = Path(__file__).with_name("elsewhere.py")


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, text=True)


async def told(process: subprocess.Popen[str]) -> str:
    out, _ = await asyncio.to_thread(process.communicate, timeout=300)
    assert process.returncode == 0
    return out.strip()


async def test_a_queue_in_memory_needs_no_posix() -> None:
    assert await told(start("memory")) == "tea hello"


async def test_a_client_and_its_worker_need_no_posix(home: Home) -> None:
    assert await told(start(home.url)) == "tea hello"


async def test_a_queue_on_disk_says_what_to_do(tmp_path: Path) -> None:
    said = await told(start("disk", str(tmp_path / "data")))
    assert "needs Linux or macOS; here, keep it in memory with ortoo.open(), or connect to a server" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_worker_stops_where_its_loop_hears_no_signals(home: Home, number: signal.Signals) -> None:
    await home.queue.publish("orders", b"1")
    process = start("worker", home.url)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "handling\n"
    process.send_signal(number)
    assert await told(process) == "handled 1"


class Drive:
    """A macOS whose drive is told to empty its cache, or whose file system knows no such thing."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number
        self.asked: list[int] = []

    def fcntl(self, fd: int, command: int) -> int:
        self.asked.append(command)
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        return 0


@pytest.mark.parametrize(
    ("number", "plain"), [(None, 0), (errno.ENOTSUP, 2), (errno.ENOTTY, 2), (errno.EINVAL, 2), (errno.EIO, None)]
)
def test_macos_empties_the_cache_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, plain: int | None
) -> None:
    drive, synced = Drive(number), list[int]()
    monkeypatch.setattr(fcntl, "fcntl", drive.fcntl)
    monkeypatch.setattr(syncing, "_FULL_SYNC", 51)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    if plain is None:  # a real failure of the disk is not passed over
        with pytest.raises(OSError, match="Input/output error"):
            syncing.sync_data(7)
        return
    syncing.sync_data(7)
    syncing.sync_all(7)
    assert (drive.asked, len(synced)) == ([51, 51], plain)


def test_a_directory_is_written_where_there_is_no_fdatasync(tmp_path: Path) -> None:
    code = f"""
import os; del os.fdatasync
import ortoo
with ortoo.open_sync({str(tmp_path / "data")!r}) as queue:
    queue.publish("orders", b"1")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    with ortoo.open_sync(tmp_path / "data") as queue:
        assert [message.value for message in queue.lease("orders")] == [b"1"]
