"""The numbers of what happened: the disk store keeps them through checkpoints, dropped files, power loss and damage."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Leased, Trimmed
from ortoo.ports import StoredHistory
from ortoo.stores.disk import DiskStore
from ortoo.stores.disk import history as disk_history
from ortoo.testing.pieces import in_one
from ortoo.testing.simulated_disk import SimulatedDisk
from ortoo.testing.store_contract import T1, created, leased, published

NEVER = 1 << 40


async def opened(disk: SimulatedDisk, flush_bytes: int = 0) -> DiskStore:
    store = DiskStore(disk, in_threads=False, reserve_bytes=0, flush_bytes=flush_bytes)
    _ = [commit async for commit in store.recover()]
    return store


async def filled(disk: SimulatedDisk, count: int = 12, each: int = 3, flush_bytes: int = 0) -> DiskStore:
    """Some frames of history on disk, `each` records long, and two more records that are only in the write-ahead log."""
    store = await opened(disk, flush_bytes)
    await store.append([created(T1), published(0, [b"x"] * (count + 2))])
    for number in range(count):
        await store.append([one(number)])
        if number % each == each - 1:
            await store.checkpoint(b"", 1)
    await store.append([one(count), one(count + 1)])
    return store


def one(number: int) -> Leased:
    return msgspec.structs.replace(leased(number), offsets=OffsetSet([number]))


async def everything(store: DiskStore, start: int = 0, count: int = 4) -> dict[int, Leased]:
    """As a reader follows it, page by page."""
    seen: dict[int, Leased] = {}
    while True:
        page = await store.read_history(T1, 0, start, count)
        assert page.start >= start
        assert len(page.records) <= count
        seen.update(enumerate(page.records, page.start))  # type: ignore[arg-type]
        after = page.start + len(page.records)
        if after >= page.end:
            return seen
        assert after > start, "a page must lead on"
        start = after


def history_files(disk: SimulatedDisk) -> list[str]:
    return sorted(path for path in disk.names if path.startswith("history/"))


@pytest.mark.parametrize("seed", range(20))
async def test_what_was_told_is_there_after_a_power_loss(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    store = await filled(disk)
    told = await everything(store)
    assert told == {number: one(number) for number in range(14)}
    disk.power_off()
    assert await everything(await opened(disk)) == told


@pytest.mark.parametrize("seed", range(20))
async def test_no_number_that_was_told_is_given_again_after_a_power_loss(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    store = await filled(disk, 4, 3)
    await store.append([one(6)])
    end = (await store.read_history(T1, 0, 0, 1)).end
    await store.append([one(7)])  # a lease is not synced by itself, so that this one may be lost
    disk.power_off()
    store = await opened(disk)
    await store.append([one(8)])
    told = await everything(store)
    assert {number: told[number] for number in range(end)} == {n: one(n) for n in (*range(6), 6)}
    assert [told[number] for number in range(end, len(told))] in ([one(8)], [one(7), one(8)])


async def test_files_that_go_leave_the_others_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_history, "FILE_BYTES", 1)
    disk = SimulatedDisk(Random(1))
    store = await filled(disk)
    await store.append([Trimmed(2000, T1, 0, 7)])
    await store.checkpoint(b"", 1)
    told = await everything(store)
    assert told == {number: one(number) for number in range(6, 14)}
    assert (await store.read_history(T1, 0, 0, 1)).first == 6
    for _ in range(2):
        disk.power_off()
        store = await opened(disk)
        assert await everything(store) == told
        found = await store.read_history(T1, 0, 0, 1)
        assert (found.start, found.first, found.end) == (6, 6, 14)
        await store.checkpoint(b"", 1)
    await store.append([one(20)])
    assert (await store.read_history(T1, 0, 14, 5)).records == [one(20)]


async def test_only_the_oldest_files_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number between two others never goes before them, or who follows the history would take it for damaged."""
    monkeypatch.setattr(disk_history, "FILE_BYTES", 1)
    store = await opened(SimulatedDisk(Random(1)))
    await store.append([created(T1), published(0, [b"x"] * 20)])
    for offset in (1, 15, 2, 16):
        await store.append([one(offset)])
        await store.checkpoint(b"", 1)
    await store.append([Trimmed(2000, T1, 0, 10)])
    await store.checkpoint(b"", 1)
    assert await everything(store) == {1: one(15), 2: one(2), 3: one(16)}


@pytest.mark.parametrize("part", ["head", "body"])
async def test_a_damaged_frame_costs_its_records_and_no_others(part: str) -> None:
    disk = SimulatedDisk(Random(1))
    await (await filled(disk)).close()
    [path] = history_files(disk)
    place = (await opened(disk))._catalog.history(T1, 0).places[1]
    spoil(disk, path, place.position + (25 if part == "head" else place.size - 1))
    store = await opened(disk)
    wanted = {number: one(number) for number in (0, 1, 2, *range(6, 14))}
    assert await everything(store) == await everything(store, count=100) == wanted
    found = await store.read_history(T1, 0, 3, 100)
    assert (found.start, len(found.records), found.end) == (6, 8, 14)
    assert any("damaged" in problem for problem in store.status().problems)


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_a_file_that_is_missing_costs_its_records_and_no_others(
    which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_history, "FILE_BYTES", 1)
    disk = SimulatedDisk(Random(1))
    await (await filled(disk)).close()
    files = history_files(disk)
    del disk.names[files[which]]
    lost = 3 * (which % len(files))
    store = await opened(disk)
    wanted = {number: one(number) for number in range(14) if not lost <= number < lost + 3}
    assert await everything(store) == wanted
    await store.checkpoint(b"", 1)
    await store.append([one(14)])
    await store.close()
    assert await everything(await opened(disk)) == wanted | {14: one(14)}


async def test_a_directory_from_before_there_were_numbers_is_numbered_from_its_first_record() -> None:
    disk = SimulatedDisk(Random(1))
    with WithoutNumbers():
        await (await filled(disk)).close()
    told = {number: one(number) for number in range(14)}
    store = await opened(disk)
    assert all(place.head.start is None for place in store._catalog.history(T1, 0).places)
    assert await everything(store) == told
    await store.checkpoint(b"", 1)
    await store.append([one(14)])
    await store.close()
    assert await everything(await opened(disk)) == told | {14: one(14)}


async def test_files_of_old_that_go_leave_the_others_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_history, "FILE_BYTES", 1)
    disk = SimulatedDisk(Random(1))
    with WithoutNumbers():
        await (await filled(disk)).close()
    store = await opened(disk)
    await store.append([Trimmed(2000, T1, 0, 7)])
    await store.checkpoint(b"", 1)
    await store.close()
    assert await everything(await opened(disk)) == {number: one(number) for number in range(6, 14)}


class WithoutNumbers:
    """Heads and checkpoints as they were written before numbers were."""

    def __enter__(self) -> None:
        self._encode = disk_history._encode
        self._entry = disk_history.DiskHistory.entry
        disk_history._encode = lambda head: self._encode(msgspec.structs.astuple(head)[:4])
        entry = self._entry
        disk_history.DiskHistory.entry = lambda history, *cut: entry(history, *cut)[:3]  # type: ignore[assignment, method-assign]

    def __exit__(self, *_: object) -> None:
        disk_history._encode = self._encode
        disk_history.DiskHistory.entry = self._entry  # type: ignore[method-assign]


async def test_a_reader_is_not_disturbed_by_a_checkpoint_under_way() -> None:
    disk = SimulatedDisk(Random(1))
    store = await filled(disk)
    history = store._catalog.history(T1, 0)
    number = store._wal.next_number - 1
    places = history.flush([(12, one(12)), (13, one(13))], None)
    await store.append([one(14)])
    told = {number: one(number) for number in range(15)}
    assert await everything(store) == told
    history.finish_flush(places, number)
    assert await everything(store) == told


@pytest.mark.parametrize("flush_bytes", [0, 300, NEVER])
async def test_numbers_are_the_same_wherever_the_records_lie(flush_bytes: int) -> None:
    disk = SimulatedDisk(Random(1))
    store = await filled(disk, flush_bytes=flush_bytes)
    told = {number: one(number) for number in range(14)}
    assert await everything(store) == told
    assert [await in_one(store.history(T1, 0, number)) for number in range(14)] == [
        [one(number)] for number in range(14)
    ]
    again = await opened(disk, flush_bytes)
    assert await everything(again) == told
    await again.append([one(14)])
    await again.checkpoint(b"", 1)
    assert await everything(await opened(disk, flush_bytes)) == told | {14: one(14)}


async def test_a_reader_is_never_sent_back() -> None:
    store = await filled(SimulatedDisk(Random(1)))
    assert await store.read_history(T1, 0, 99, 5) == StoredHistory([], 99, 0, 14)


def spoil(disk: SimulatedDisk, path: str, position: int) -> None:
    content = disk.names[path]
    content.now[position] ^= 0xFF
    content.durable = bytes(content.now)
