"""What a large transaction publishes at once must stay easy to read: in frames of the usual size. And reading over gaps."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from ortoo.model.batch import Batch
from ortoo.model.names import TopicId
from ortoo.model.records import Published
from ortoo.stores.disk.crypto import KeyRing
from ortoo.stores.disk.files import RealDisk
from ortoo.stores.disk.log import DiskLog, Shared
from ortoo.stores.disk.logged import CommitReader, LoggedPublish, PublishPlace, as_logged
from ortoo.stores.disk.new_frames import FRAME_BYTES, FRAME_MESSAGES
from ortoo.stores.disk.wal import Wal


@pytest.mark.parametrize(("count", "size"), [(25_000, 10), (300, 100_000), (10_000, 10), (1, 20 << 20)])
def test_a_large_record_becomes_many_frames_of_the_same_messages(tmp_path: Path, count: int, size: int) -> None:
    log = DiskLog(RealDisk(tmp_path), TopicId(1), 0)
    values = [number.to_bytes(4, "big") * (size // 4) for number in range(count)]
    keys: list[str | None] = [f"k{number}" for number in range(count)]
    priorities = [number % 7 for number in range(count)]
    hashes = b"".join(number.to_bytes(8, "little") for number in range(count))
    batch = Batch(values, keys=keys, priorities=priorities)
    record = Published(1, TopicId(1), 0, 0, count, sum(map(len, values)), batch, hashes)
    log.finish_flush(log.flush(log.encode([as_logged(record)], None)), 0)
    assert log.end == count
    found = log.scan(0, count, KeyRing({}))
    assert (found.values, found.keys, found.priorities) == (values, keys, priorities)
    heads = [segment.head(which)[1] for segment in log.segments for which in range(len(segment.bases))]
    assert b"".join(head.hashes or b"" for head in heads) == hashes
    if count > 10_000 or (count > 1 and size > 10_000):
        for head in heads:
            assert head.count <= 2 * FRAME_MESSAGES
            assert head.size <= 2 * FRAME_BYTES


class Commits(CommitReader):
    """A write-ahead log that is not there."""

    known: ClassVar[dict[int, LoggedPublish]] = {}

    def publish(self, number: int, position: int, place: PublishPlace) -> LoggedPublish | None:
        return self.known[number]


@pytest.mark.parametrize("written", [0, 1, 2], ids=["write-ahead log", "files and write-ahead log", "files"])
def test_what_lies_in_a_gap_is_left_out_wherever_its_neighbours_are(tmp_path: Path, written: int) -> None:
    disk, ring, commits = RealDisk(tmp_path), KeyRing({}), Commits(Wal(RealDisk(tmp_path)), KeyRing({}))
    log = DiskLog(disk, TopicId(1), 0, Shared(disk, commits=commits))
    for number, base in enumerate((0, 5)):
        record = Published(1, TopicId(1), 0, base, 2, 2, Batch([b"a", b"b"]))
        if written > number:
            log.finish_flush(log.flush(log.encode([as_logged(record)], None)), 0)
        else:
            commits.known[number] = as_logged(record)
            log.append(record, number, 0)
            log.recent.clear()
    assert list(log.scan(0, 10, ring).offsets) == [0, 1, 5, 6]
    for offset in range(8):
        expected = [offset] if offset in (0, 1, 5, 6) else []
        assert list(log.read([offset], ring).offsets) == expected
    log.close()
