"""A re-encryption that is killed anywhere has lost nothing, and the next one goes on from there."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from ortoo.stores.disk import log as log_module
from ortoo.stores.disk.reencryption import Reencryptor
from ortoo.testing.crash import kill
from ortoo.testing.simulated_disk import DiskFault, SimulatedDisk
from tests.format.directory import Opened, opened, small_files

from .reencrypting import BOTH, NEW, filled, picture, reencrypt, without_staged


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    with small_files():
        yield


@asynccontextmanager
async def crashing(disk: SimulatedDisk, keys: dict[str, bytes]) -> AsyncIterator[Opened]:
    """A queue that is gone at the end, whatever it was doing; the next one finds what the disk has kept."""
    one = Opened(disk, keys)
    await one.queue.open()
    try:
        yield one
    finally:
        running = one.store.keys()._reencryptor
        if running is not None and running.task is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
        await kill(one.broker)
        disk.power_off()


async def crash_points() -> tuple[SimulatedDisk, dict[str, Any], int]:
    """A disk to begin with, what is on it, and how many operations a whole run takes."""
    disk = await without_staged(await filled())
    async with crashing(copy.deepcopy(disk), BOTH) as one:
        before, begun = await picture(one), one.store.disk.operations  # type: ignore[attr-defined]
        assert (await reencrypt(one)).problems == []
        count = one.store.disk.operations - begun  # type: ignore[attr-defined]
    return disk, before, count


@pytest.mark.parametrize("when", ["crash before", "crash after"])
async def test_a_crash_at_any_step_loses_nothing_and_it_goes_on_from_there(when: DiskFault) -> None:
    base, before, count = await crash_points()
    assert count > 50
    for at in range(0 if when == "crash before" else 1, count, 4):
        disk = copy.deepcopy(base)
        disk.random = Random(at)
        async with crashing(disk, BOTH) as one:
            last = disk.operations + at
            disk.plan = lambda operation, _, last=last: when if operation == last else "none"  # type: ignore[misc]
            await reencrypt(one)
            assert disk.is_off
        disk.plan = lambda *_: "none"
        async with opened(disk, BOTH) as one:
            assert one.store.problems == [], at
            assert await picture(one) == before, at
            assert (await reencrypt(one)).problems == []
        async with opened(disk, NEW) as one:
            assert one.store.problems == [], at
            assert await picture(one) == before, at


async def test_what_was_done_before_a_crash_is_not_done_again() -> None:
    base, _, count = await crash_points()
    whole = copy.deepcopy(base)
    async with crashing(whole, BOTH) as one:
        everything = (await reencrypt(one)).done_bytes
    async with crashing(base, BOTH) as one:
        last = base.operations + count - 10
        base.plan = lambda operation, _: "crash before" if operation == last else "none"
        await reencrypt(one)
    base.plan = lambda *_: "none"
    async with opened(base, BOTH) as one:
        assert (await reencrypt(one)).done_bytes < everything / 2


async def test_a_segment_of_which_the_last_checkpoint_knows_only_a_part_is_not_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = await without_staged(await filled())
    monkeypatch.setattr(log_module, "SEGMENT_BYTES", 1 << 20)  # so that what comes is appended
    async with crashing(disk, BOTH) as one:
        await one.checkpoint()
        store = one.store
        reencryptor = Reencryptor(disk, store.ring, store._beside, None, None, 0, lambda: None)
        reencryptor.attach(store._catalog, store._wal, store._changing_files, lambda: store._is_settled)
        reencryptor.wants_checkpoint = False
        sent = await one.queue.publish("secret", b"flushed, and in no checkpoint", key="k1")
        disk.plan = lambda _, kind: "no space" if kind == "rename" else "none"
        await one.checkpoint()  # it fails when all is flushed
        disk.plan = lambda *_: "none"
        await reencryptor._rewrite_segments()
        assert reencryptor.wants_checkpoint
    async with opened(disk, BOTH) as one:
        assert one.store.problems == []
        assert (await one.queue.message(sent.id)).message.value == b"flushed, and in no checkpoint"
