"""Who published a message stays with it, wherever it comes to lie: in the write-ahead log, in segments, in a copy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ortoo.app.repair import repair_directory
from ortoo.model.batch import Batch
from ortoo.model.limits import BATCH_MESSAGES_MAX
from ortoo.model.names import MessageRef, TopicId
from ortoo.model.publishers import spread
from ortoo.stores.disk.backup import back_up, restore
from ortoo.stores.disk.crypto import KeyRing
from ortoo.stores.disk.files import RealDisk
from ortoo.stores.disk.format import refuse_strangers
from ortoo.stores.disk.logged import as_logged, in_frames
from ortoo.stores.disk.outside import Outside
from ortoo.stores.disk.salvage import Salvage
from ortoo.stores.disk.saved_log import SavedLog
from ortoo.stores.disk.view import ViewDisk
from tests.format.directory import KEYS, Truth, fill, opened, values
from tests.format.strategies import published
from tests.format.worn import readable


@pytest.fixture
async def truth(tmp_path: Path) -> Truth:
    (tmp_path / "data").mkdir()
    found = await fill(RealDisk(tmp_path / "data"))
    named = {value[-1] for value in found.values()}
    assert {None, "orders-app-1", "secret-app-7", "once-app-7"} <= named
    return found


async def check(path: Path, truth: Truth) -> None:
    async with opened(RealDisk(path)) as one:
        assert one.store.problems == []
        found = await readable(one)
        assert found == {ref: truth[ref] for ref in found}
        assert len(found) == len(truth) - 1  # one was deleted


async def test_after_a_restart_and_another_with_all_of_it_flushed(tmp_path: Path, truth: Truth) -> None:
    await check(tmp_path / "data", truth)
    async with opened(RealDisk(tmp_path / "data")) as one:
        await one.checkpoint()
    await check(tmp_path / "data", truth)


async def test_in_a_backup_that_was_restored(tmp_path: Path, truth: Truth) -> None:
    await asyncio.to_thread(back_up, tmp_path / "data", tmp_path / "backup")
    await asyncio.to_thread(restore, tmp_path / "backup", tmp_path / "again")
    await check(tmp_path / "again", truth)


async def test_after_a_repair_with_its_checkpoint_and_without(tmp_path: Path, truth: Truth) -> None:
    await asyncio.to_thread(repair_directory, tmp_path / "data", KEYS)
    await check(tmp_path / "data", truth)
    [checkpoint] = (tmp_path / "data" / "checkpoint").iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    await asyncio.to_thread(repair_directory, tmp_path / "data", KEYS)
    async with opened(RealDisk(tmp_path / "data")) as one:
        found = await readable(one)
    assert {ref: value[-1] for ref, value in found.items()} == {ref: truth[ref][-1] for ref in found}
    assert len(found) >= len(truth) - 1


async def test_in_the_records_that_a_repair_makes_of_a_frame(tmp_path: Path, truth: Truth) -> None:
    salvage = Salvage(ViewDisk(tmp_path / "data"), ViewDisk(tmp_path / "data"), KeyRing(KEYS))
    refuse_strangers(salvage.disk)
    for topic, partition in salvage.partitions():
        log = SavedLog(salvage, topic, partition, None)
        for record in [record for piece in log.pieces for record in log.read(piece).records]:
            for offset, name in enumerate(spread(record.publishers, record.count), record.base):
                assert truth[MessageRef(topic, partition, offset)][-1] == name


async def test_to_whoever_reads_the_files_from_outside(tmp_path: Path, truth: Truth) -> None:
    outside = Outside(tmp_path / "data", KEYS)
    found: Truth = {}
    for place in [(TopicId(topic), partition) for topic, partition in outside._logs]:
        for columns in outside.scan(*place, 1, 1 << 60):  # the first frame in part
            found |= {MessageRef(*place, offset): value for offset, value in values(columns).items()}
    assert found == {ref: truth[ref] for ref in found}
    assert {value[-1] for value in found.values()} >= {None, "orders-app-1", "secret-app-5"}


def test_in_each_part_of_a_publish_that_is_too_large_for_a_frame() -> None:
    count = BATCH_MESSAGES_MAX + 1
    names = [("billing", None, "shop")[number % 3] for number in range(count)]
    record = as_logged(published(Batch([b"a"] * count), 7, 1, publishers=names))
    parts = list(in_frames(record, 4_096, 1 << 20))
    assert len(parts) > 2
    assert [name for part in parts for name in spread(part.publishers, part.count)] == names
