"""A segment is finished when it is large, and also when it is old."""

from random import Random

from ortoo.model.names import TopicId
from ortoo.stores.disk import KeyRing
from ortoo.stores.disk.log import SEGMENT_AGE_MS, DiskLog
from ortoo.stores.disk.logged import as_logged
from ortoo.testing.simulated_disk import SimulatedDisk
from ortoo.testing.store_contract import published


def flushed(log: DiskLog, base: int, at: int) -> None:
    log.finish_flush(log.flush(log.encode([as_logged(published(base, [b"x"], at=at))], None)), 0)


def test_a_message_a_day_after_the_first_begins_another_file() -> None:
    disk = SimulatedDisk(Random(1))
    log = DiskLog(disk, TopicId(1), 0)
    flushed(log, 0, at=1_000)
    flushed(log, 1, at=1_000 + SEGMENT_AGE_MS - 1)
    assert [segment.base for segment in log.segments] == [0]
    flushed(log, 2, at=1_000 + SEGMENT_AGE_MS)
    assert [segment.base for segment in log.segments] == [0, 2]
    assert [segment.base for segment in log.to_seal()] == [0]


def test_the_age_counts_from_the_first_message_also_after_a_restart() -> None:
    disk = SimulatedDisk(Random(1))
    log = DiskLog(disk, TopicId(1), 0)
    flushed(log, 0, at=1_000)
    again = DiskLog(disk, TopicId(1), 0)
    again.load(log.entry(log.start, 0), KeyRing({}), 0)
    flushed(again, 1, at=1_000 + SEGMENT_AGE_MS)
    assert [segment.base for segment in again.segments] == [0, 1]
