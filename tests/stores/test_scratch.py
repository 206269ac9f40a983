"""What need not survive lies in a file without a name, and its room is used again."""

from __future__ import annotations

import errno
import gc
import os
from array import array
from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo.broker import Broker
from ortoo.engine import keys
from ortoo.stores.disk import scratch
from ortoo.stores.disk.scratch import MappedScratch

COUNT = 1_024


def _piece(number: int) -> array[int]:
    return array("Q", range(number, number + COUNT))


def test_it_has_what_it_was_given(tmp_path: Path) -> None:
    room = MappedScratch(tmp_path)
    kept = [room.keep(_piece(number)) for number in range(5)]
    assert [list(view or ()) for view in kept] == [list(_piece(number)) for number in range(5)]
    assert list(tmp_path.iterdir()) == []


def test_the_room_of_what_is_gone_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "REGION_BYTES", 4 * 8 * COUNT)
    monkeypatch.setattr(scratch, "REGIONS_MAX", 2)
    room = MappedScratch(tmp_path)
    kept = [room.keep(_piece(number)) for number in range(8)]
    assert room.keep(_piece(9)) is None
    kept[3] = None
    gc.collect()
    again = room.keep(_piece(7_777))
    assert again is not None
    assert list(again) == list(_piece(7_777))
    assert [list(view) for view in kept if view is not None] == [list(_piece(n)) for n in range(8) if n != 3]
    assert room.keep(_piece(9)) is None


def test_where_the_disk_is_full_it_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = MappedScratch(tmp_path)
    first = room.keep(_piece(1))

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert room.keep(_piece(2)) is None
    second = room.keep(_piece(3))
    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == (1, 3)


async def _deliver(queue: ortoo.Queue, group: str) -> list[bytes]:
    found = []
    while messages := await queue.lease("t", group=group, max_messages=100):
        found += [message.value for message in messages]
        await queue.ack(messages)
    return found


@pytest.mark.parametrize("encrypted", [False, True])
async def test_keys_leave_memory_and_their_order_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    monkeypatch.setattr(keys, "_CHUNK_BITS", 5)
    monkeypatch.setattr(keys, "_CHUNK", 32)
    values = [b"%d" % number for number in range(1_000)]

    def outside(queue: ortoo.Queue) -> int:
        assert isinstance(queue._link, Broker)
        [topic] = queue._link.state.topics.values()
        return sum(isinstance(chunk, memoryview) for log in topic.partitions for chunk in log.keys.chunks)

    async with ortoo.open(tmp_path, keys={"k": bytes(32)}) as queue:
        await queue.create_topic("t", partitions=2, encrypted=encrypted)
        await queue.publish_many("t", [ortoo.Message(value, key=f"k{int(value) % 7}") for value in values])
    async with ortoo.open(tmp_path, keys={"k": bytes(32)}) as queue:
        assert outside(queue) == (0 if encrypted else pytest.approx(30, abs=1))
        for _ in range(2):
            found = await _deliver(queue, "g")
            assert sorted(found) == sorted(values)
            for key in range(7):
                numbers = [int(value) for value in found if int(value) % 7 == key]
                assert numbers == sorted(numbers)
            await queue.seek("t", "g", "start")
