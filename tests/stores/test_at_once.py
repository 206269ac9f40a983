"""Whoever is told that a store appends at once is never kept waiting, or two commits would be written at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ortoo.model import records as r
from ortoo.model.batch import Batch
from ortoo.model.topic import Durability, TopicConfig
from ortoo.stores.disk import RealDisk
from ortoo.stores.disk.store import BACKLOG_FACTOR, DiskStore
from ortoo.testing.store_contract import T1, created, published


async def append_now(store: DiskStore, record: r.Record) -> bool:
    """Whether it said so, and then did."""
    if not store.appends_at_once([record]):
        await store.append([record])
        return False
    with pytest.raises(StopIteration):
        store.append([record]).send(None)
    return True


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(RealDisk(tmp_path), reserve_bytes=0, checkpoint_bytes=200_000)


async def opened(store: DiskStore) -> None:
    _ = [commit async for commit in store.recover()]
    config = TopicConfig(partitions=2, durability="none")
    await store.append([r.Opened(1, 1), created(T1), r.TopicChanged(1, T1, config)])


async def test_however_much_more_than_its_values_a_commit_takes(store: DiskStore) -> None:
    await opened(store)
    base, said = 0, []
    for size in (0, 1, 50, 100, 104, 105, 200):
        values = [b"x" * size] * 10_000
        batch = Batch(values, keys=["k" * 20] * 10_000, dedup_ids=[f"{base + n:040d}" for n in range(10_000)])
        record = r.Published(1000, T1, 0, base, 10_000, size * 10_000, batch)
        said.append(await append_now(store, record))
        base += 10_000
    assert said[0]
    assert not said[-1]
    await store.close()


@pytest.mark.parametrize("before", ["none", "interval", "commit"])
@pytest.mark.parametrize("after", ["none", "interval", "commit"])
async def test_when_its_durability_changes(store: DiskStore, before: Durability, after: Durability) -> None:
    await opened(store)
    for durability in (before, after):
        await append_now(store, r.TopicChanged(1, T1, TopicConfig(partitions=2, durability=durability)))
        assert store._wal.is_synced
    assert await append_now(store, published(0, [b"x"])) == (after != "commit")
    await append_now(store, r.TopicDeleted(2, T1))
    assert store._wal.is_synced
    await store.close()


async def test_with_a_checkpoint_that_does_not_keep_up(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await opened(store)
    let_go = asyncio.Event()

    async def slow(*_: object) -> None:
        await let_go.wait()

    monkeypatch.setattr(store, "_run_checkpoint", slow)
    await store.checkpoint(b"", 1)
    bound, base = BACKLOG_FACTOR * 200_000, 0
    asyncio.get_running_loop().call_later(0.2, let_go.set)
    said = []
    while base < 3 * bound // 100_000:
        said.append(await append_now(store, published(base, [b"x" * 100_000])))
        base += 1
    assert said[0]
    assert False in said, "it waits for the checkpoint at last"
    await store.close()
