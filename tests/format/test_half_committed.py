"""A directory in the middle of a commit: it is repaired, copied and read from outside without showing half of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.app.repair import repair_directory
from ortoo.broker import Broker
from ortoo.engine.dumps import peek
from ortoo.stores.disk import DiskStore, RealDisk
from ortoo.stores.disk.checkpoint import read_checkpoint

from .halfway import VALUES, half_committed


async def check_whole(path: Path) -> None:
    async with Queue(Broker(DiskStore(RealDisk(path)), SystemClock())) as queue:
        assert await queue.named("job").commit() == 0
        messages = await queue.lease("out", max_messages=100)
        assert [message.value for message in messages] == [*VALUES[:6], b"behind", *VALUES[6:]]


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_the_next_opening_finishes_it(tmp_path: Path, checkpoint: bool) -> None:
    await half_committed(tmp_path / "data", checkpoint)
    await check_whole(tmp_path / "data")


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_a_repair_keeps_how_far_it_was(tmp_path: Path, checkpoint: bool) -> None:
    await half_committed(tmp_path / "data", checkpoint)
    repair = repair_directory(tmp_path / "data")
    assert (repair.losses, repair.commits, repair.transactions) == ([], [], [])
    await check_whole(tmp_path / "data")


async def test_a_snapshot_tells_what_nobody_may_see_yet(tmp_path: Path) -> None:
    await half_committed(tmp_path / "data", checkpoint=True)
    checkpoint = read_checkpoint(RealDisk(tmp_path / "data"))
    assert checkpoint is not None
    [commit] = peek(checkpoint.snapshot).commits
    assert (commit.name, commit.number, commit.row) == ("job", 3, 0)
    [(_, _, first)] = commit.firsts
    assert first == 0
    assert sum(commit.topics.values()) == len(VALUES) - 6
