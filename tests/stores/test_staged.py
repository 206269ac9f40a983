"""What is staged lies on the disk: neither the broker nor the store hold it, and a checkpoint leaves it where it is."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from ortoo import Message, Queue
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.model.errors import UnavailableError
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk, flushing, recent

MIB = 1 << 20


def queue_at(path: Path) -> Queue:
    return Queue(Broker(DiskStore(RealDisk(path), checkpoint_bytes=MIB, flush_bytes=MIB), SystemClock()))


async def test_a_transaction_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """48 MiB are staged, found after a restart, and committed, with a few of them in memory at any time."""
    monkeypatch.setattr(limits, "SLICE_BYTES", MIB)
    monkeypatch.setattr(recent, "RECENT_BYTES", 4 * MIB)
    monkeypatch.setattr(flushing, "PASS_BYTES", 4 * MIB)
    count = 96
    tracemalloc.start()
    try:
        async with queue_at(tmp_path) as queue:
            tx = await queue.begin("job")
            for number in range(count):
                await tx.publish_many("out", [Message(os.urandom(MIB // 2), key=str(number))])
            assert tracemalloc.get_traced_memory()[1] < 20 * MIB
        async with queue_at(tmp_path) as queue:
            assert await queue.named("job").commit() == count
            assert (await queue.topic("out")).messages == count
        assert tracemalloc.get_traced_memory()[1] < 36 * MIB
    finally:
        tracemalloc.stop()


async def test_checkpoints_and_restarts_in_the_middle_of_staging_and_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SLICE_MESSAGES", 7)
    wanted = [b"%d" % number for number in range(60)]
    for start in range(0, 60, 20):
        async with queue_at(tmp_path) as queue:
            tx = await queue.begin("job")
            for number in range(start, start + 20, 5):
                await tx.publish_many("out", [Message(value, key="k") for value in wanted[number : number + 5]])
                await queue.publish_many("other", [os.urandom(MIB)])
            await _close_with_checkpoint(queue)
    async with queue_at(tmp_path) as queue:
        assert await queue.named("job").commit() == 60
    async with queue_at(tmp_path) as queue:
        assert [message.value for message in await queue.lease("out", max_messages=100)] == wanted


async def test_an_open_transaction_keeps_only_those_files_of_the_log_that_have_what_it_staged(tmp_path: Path) -> None:
    async with queue_at(tmp_path) as queue:
        tx = await queue.begin("job")
        await tx.publish_many("out", [Message(b"early")])
        for _ in range(5):
            await queue.publish_many("other", [os.urandom(MIB)] * 2)
            await _checkpoint(queue)
        await tx.publish_many("out", [Message(b"late")])
        for _ in range(5):
            await queue.publish_many("other", [os.urandom(MIB)] * 2)
            await _checkpoint(queue)
        assert len(list((tmp_path / "wal").iterdir())) <= 4  # two with batches, the last one, and one that may go next
    async with queue_at(tmp_path) as queue:
        assert await queue.named("job").commit() == 2
        assert {message.value for message in await queue.lease("out", max_messages=9)} == {b"early", b"late"}


async def test_what_follows_a_batch_that_cannot_be_decrypted_is_not_taken_for_that_batch(tmp_path: Path) -> None:
    """Even if its topic is deleted: how far a commit got is told in numbers of batches."""
    ring = KeyRing({"key": bytes(32)})
    async with Queue(Broker(DiskStore(RealDisk(tmp_path), ring), SystemClock())) as queue:
        await queue.create_topic("secret", encrypted=True)
        tx = await queue.begin("job")
        await tx.publish_many("secret", [Message(b"1")])
        await tx.publish_many("open", [Message(b"2")])
        await queue.delete_topic("secret")
    store = DiskStore(RealDisk(tmp_path))
    async with Queue(Broker(store, SystemClock())):
        with pytest.raises(UnavailableError, match="decrypt"):
            await store.staged("default", "job", 0, MIB)
    async with Queue(Broker(DiskStore(RealDisk(tmp_path), ring), SystemClock())) as queue:
        await queue.named("job").commit()
        assert [message.value for message in await queue.lease("open")] == [b"2"]


async def _checkpoint(queue: Queue) -> None:
    broker = queue._link
    assert isinstance(broker, Broker)
    assert isinstance(broker.store, DiskStore)
    await broker.store.checkpoint(*await broker._snapshot())
    if (checkpointing := broker.store._checkpointing) is not None:
        await checkpointing


async def _close_with_checkpoint(queue: Queue) -> None:
    broker = queue._link
    assert isinstance(broker, Broker)
    await broker.close(checkpoint=True)
