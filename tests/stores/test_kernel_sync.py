"""Syncs by the kernel: they end, they fail aloud, and one whose caller has gone disturbs nobody."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ortoo.stores.disk.kernel_sync import KernelSync


class Syncs:
    def __init__(self, kernel: KernelSync, path: Path) -> None:
        self.kernel = kernel
        self.failures: list[OSError] = []
        self.file = os.open(path / "file", os.O_CREAT | os.O_WRONLY)


@pytest_asyncio.fixture
async def syncs(tmp_path: Path) -> AsyncIterator[Syncs]:
    failures: list[OSError] = []
    kernel = KernelSync.open(failures.append)
    if kernel is None:
        pytest.skip("this system has no asynchronous sync")
    made = Syncs(kernel, tmp_path)
    made.failures = failures
    yield made
    made.kernel.close()
    os.close(made.file)


async def test_what_was_written_is_synced_again_and_again(syncs: Syncs) -> None:
    for _ in range(50):
        os.write(syncs.file, b"x" * 1000)
        assert await syncs.kernel.sync(syncs.file)
    assert syncs.failures == []


async def test_several_who_ask_take_turns(syncs: Syncs) -> None:
    os.write(syncs.file, b"x" * 1_000_000)
    assert await asyncio.gather(*(syncs.kernel.sync(syncs.file) for _ in range(20))) == [True] * 20


async def test_what_cannot_be_synced_is_said_before_it_begins(syncs: Syncs) -> None:
    reading, writing = os.pipe()
    assert not await syncs.kernel.sync(writing)
    os.close(reading)
    os.close(writing)
    assert not await syncs.kernel.sync(writing)  # closed
    assert await syncs.kernel.sync(syncs.file)


async def test_one_whose_caller_has_gone_disturbs_nobody(syncs: Syncs) -> None:
    for _ in range(20):
        os.write(syncs.file, b"x" * 100_000)
        gone = asyncio.create_task(syncs.kernel.sync(syncs.file))
        await asyncio.sleep(0)
        gone.cancel()
        assert await syncs.kernel.sync(syncs.file)


async def test_a_failure_is_told_to_whoever_waits_and_to_the_log(syncs: Syncs, monkeypatch: pytest.MonkeyPatch) -> None:
    end = KernelSync._end
    monkeypatch.setattr(KernelSync, "_end", lambda kernel, _: end(kernel, -errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        await syncs.kernel.sync(syncs.file)
    assert [failure.errno for failure in syncs.failures] == [errno.EIO]


async def test_it_closes_in_the_middle_of_a_sync(tmp_path: Path) -> None:
    kernel = KernelSync.open(lambda _: None)
    if kernel is None:
        pytest.skip("this system has no asynchronous sync")
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x" * 10_000_000)
        file.flush()
        task = asyncio.create_task(kernel.sync(file.fileno()))
        await asyncio.sleep(0)
        kernel.close()
        with pytest.raises(asyncio.CancelledError):
            await task
