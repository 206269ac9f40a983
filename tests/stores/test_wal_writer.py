"""Where commits are written: at once where nothing has to be synced, and in a thread where the disk may take its time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.commands import CreateGroup, Position
from ortoo.model.names import TopicName
from ortoo.model.topic import Durability
from ortoo.stores.disk import RealDisk, wal_writer
from ortoo.stores.disk.kernel_sync import KernelSync
from ortoo.stores.disk.store import DiskStore
from ortoo.stores.disk.wal import Wal
from ortoo.stores.disk.wal_writer import (
    AT_ONCE_BYTES,
    BLOCKED_WRITE_S,
    INTERVAL_S,
    SLOW_PAUSE_S,
    SLOW_WRITE_S,
    WalWriter,
)
from tests.turns import counting_turns


class Watched:
    """A queue on disk, and what its writer did in its thread."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.in_thread: list[str] = []
        self.written = 0
        self.slow_s = self.ticks = (
            0.0  # how long a write takes, whatever else the machine does; and all of them together
        )
        self.store = DiskStore(RealDisk(path), reserve_bytes=0, now=lambda: self.now)
        self.broker = Broker(self.store, SystemClock())
        self.queue = Queue(self.broker)
        run, append = WalWriter.run, Wal.append

        async def watched_run(writer: WalWriter, work: Any, *args: Any) -> Any:
            self.in_thread.append(work.__name__)
            return await run(writer, work, *args)

        def watched_append(wal: Wal, head: bytes, body: bytes, flags: int) -> int:
            self.written += 1
            self.ticks += self.slow_s
            return append(wal, head, body, flags)

        monkeypatch.setattr(WalWriter, "run", watched_run)
        monkeypatch.setattr(Wal, "append", watched_append)
        monkeypatch.setattr(wal_writer, "perf_counter", lambda: self.ticks)

    async def make(self, durability: Durability) -> None:
        await self.queue.create_topic(durability, durability=durability, max_message_bytes=8 << 20)
        self.in_thread.clear()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


@pytest.mark.parametrize("has_kernel", [False, True])
@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
async def test_the_thread_syncs_where_the_kernel_does_not(
    watched: Watched, durability: Durability, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_kernel:
        monkeypatch.setattr(KernelSync, "open", lambda _: None)
    elif KernelSync.open(lambda _: None) is None:
        pytest.skip("this system has no asynchronous sync")
    async with watched.queue as queue:
        await watched.make(durability)
        await queue.publish(durability, b"x")
        assert watched.in_thread == (["_append"] if durability == "commit" and not has_kernel else [])
        assert watched.store._wal.is_synced == (durability == "commit")
        assert (await queue.lease(durability))[0].value == b"x"


async def test_a_sync_that_the_kernel_does_not_begin_is_left_to_the_thread(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> bool:
        return False

    monkeypatch.setattr(KernelSync, "sync", refuse)
    async with watched.queue as queue:
        await watched.make("commit")
        for _ in range(3):
            await queue.publish("commit", b"x")
            assert watched.store._wal.is_synced
        assert set(watched.in_thread) <= {"_sync", "_append"}


async def test_an_interval_is_kept(watched: Watched) -> None:
    async with watched.queue as queue:
        await watched.make("interval")
        before = watched.store.figures().sync_seconds.count
        await queue.publish("interval", b"x")
        assert watched.store.figures().sync_seconds.count == before
        async with asyncio.timeout(60):
            while watched.store.figures().sync_seconds.count == before:  # noqa: ASYNC110
                await asyncio.sleep(INTERVAL_S / 5)
        assert watched.in_thread == ["_sync"]


async def test_what_is_large_is_written_in_the_thread(watched: Watched) -> None:
    async with watched.queue as queue:
        await watched.make("none")
        await queue.publish("none", bytes(range(256)) * (AT_ONCE_BYTES // 256 + 1))
        assert watched.in_thread == ["_append"]


@pytest.mark.parametrize(("slow_s", "writes"), [(2 * SLOW_WRITE_S, 2), (2 * BLOCKED_WRITE_S, 1)])
async def test_after_slow_writes_the_thread_writes_for_a_while(watched: Watched, slow_s: float, writes: int) -> None:
    """A disk that cannot keep up makes writes wait, and with them everything else in the caller's thread. One that took a few
    milliseconds may have waited for the processor."""
    async with watched.queue as queue:
        await watched.make("none")
        watched.slow_s = slow_s
        for _ in range(writes):
            await queue.publish("none", b"slow")
        assert watched.in_thread == []
        await queue.publish("none", b"slow, but others run")
        assert watched.in_thread == ["_append"]
        watched.slow_s, watched.now = 0.0, watched.now + SLOW_PAUSE_S
        await queue.publish("none", b"quick")
        assert watched.in_thread == ["_append"]
        assert len(await queue.lease("none", max_messages=10)) == writes + 2


async def test_slow_writes_that_are_far_apart_are_no_reason_for_the_thread(watched: Watched) -> None:
    async with watched.queue as queue:
        await watched.make("none")
        watched.slow_s = 2 * SLOW_WRITE_S
        for _ in range(3):
            await queue.publish("none", b"slow")
            watched.now += SLOW_PAUSE_S
        assert watched.in_thread == []


async def test_what_several_ask_for_in_one_turn_is_written_together(watched: Watched) -> None:
    async with watched.queue as queue:
        await watched.make("none")
        before, name = watched.written, TopicName("default", "none")
        await asyncio.gather(
            *(watched.broker.call(CreateGroup(name, f"g{number}", Position(at="start"))) for number in range(50))
        )
        assert watched.written - before <= 3
        assert len(await queue.groups("none")) == 50


async def test_one_who_publishes_in_a_loop_lets_others_run(watched: Watched) -> None:
    async with watched.queue as queue:
        await watched.make("none")
        async with counting_turns() as turns:
            for number in range(200):
                await queue.publish("none", b"%d" % number)
        assert turns.count >= 10
