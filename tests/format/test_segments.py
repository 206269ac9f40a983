"""A partition's log against a plain list: appended, forgotten in memory, flushed, sealed, trimmed, reloaded, it always reads
like the list."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ortoo.engine.heads import News
from ortoo.engine.partition import Partition
from ortoo.engine.timeline import Timeline
from ortoo.model.batch import Batch
from ortoo.model.names import TopicId
from ortoo.model.publishers import spread
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY, TopicConfig
from ortoo.stores.disk import KeyRing, new_frames
from ortoo.stores.disk import log as log_module
from ortoo.stores.disk.commit import encode_commit
from ortoo.stores.disk.log import DiskLog, LogEntry, Shared
from ortoo.stores.disk.logged import CommitReader
from ortoo.stores.disk.segment import Segment
from ortoo.stores.disk.wal import Wal
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format import strategies as some
from tests.property.machines import run_machine

TOPIC = TopicId(1)
RING = KeyRing({"test": b"k" * 32})
CONFIG = TopicConfig()
Row = tuple[int, bytes, int, str | None, dict[str, str] | None, int, bool, str | None]


def rows(columns: Columns) -> list[Row]:
    """Message by message; it does not matter which columns exist, or whether no headers are None or empty."""
    blanks: dict[str, Any] = {"keys": None, "headers": None, "priorities": DEFAULT_PRIORITY, "json": False}
    optional = [getattr(columns, name) or [blank] * len(columns) for name, blank in blanks.items()]
    publishers = spread(columns.publishers, len(columns))
    return list(zip(columns.offsets, columns.values, columns.timestamps, *optional, publishers, strict=True))


class LogMachine(RuleBasedStateMachine):
    """`rows` is the model of the log, `partition` what the engine knows of it."""

    @initialize(encrypted=st.booleans(), base=st.sampled_from([0, 0, 1000]))
    def begin(self, encrypted: bool, base: int) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.ring = RING if encrypted else None
        self.wal = Wal(self.disk)
        self.wal.rotate()
        self.log = self._open()
        self.partition = Partition(0, News())
        self.rows: dict[int, Row] = {}
        self.dedup_ids: list[tuple[str, int, int]] = []
        self.start, self.end, self.now = base, base, 1_700_000_000_000
        self.flushing: tuple[list[Segment], int] | None = None
        self.log.trim(base)
        self.partition.start = self.partition.end = base

    def _open(self) -> DiskLog:
        return DiskLog(self.disk, TOPIC, 0, Shared(self.disk, commits=CommitReader(self.wal, RING, 1_000)))

    @rule(batch=some.batches(), later=st.integers(0, 2), data=st.data())
    def append(self, batch: Batch, later: int, data: st.DataObject) -> None:
        self.now += later
        publishers = data.draw(some.publishers(len(batch)))
        record = some.published(batch, self.end, self.now, publishers=publishers)
        commit = encode_commit(self.wal.next_number, [record], lambda _: TOPIC if self.ring is not None else 0, RING)
        number = self.wal.append(*commit)
        self.log.append(record, number, self.wal.position)
        self.partition.append(record, CONFIG)
        offsets = list(range(self.end, self.end + len(batch)))
        own = (batch.keys, batch.headers, batch.priorities, batch.json, publishers)
        columns = Columns(offsets, batch.values, [self.now] * len(batch), *own)
        self.rows.update({row[0]: row for row in rows(columns)})
        for offset, dedup_id in zip(offsets, batch.dedup_ids or (), strict=False):
            if dedup_id is not None:
                self.dedup_ids.append((dedup_id, self.now, offset))
        self.end += len(batch)

    @rule()
    def forget_in_memory(self) -> None:
        self.log.recent.clear()

    # -- flushing, in steps, as a checkpoint does it beside the appends

    def _flush(self, count: int) -> tuple[list[Segment], int]:
        """Of so many blocks."""
        records = [self.log.logged(self.log.blocks[at]) for at in range(count)]
        wanted = [record for record in records if record.end > self.start]
        return self.log.flush(self.log.encode(wanted, self.ring)), self.log.blocks.numbers[count - 1]

    @precondition(lambda self: self.flushing is None and len(self.log.blocks) > 0)
    @rule(share=st.floats(0, 1))
    def flush(self, share: float) -> None:
        self.flushing = self._flush(max(1, round(share * len(self.log.blocks))))

    @precondition(lambda self: self.flushing is not None)
    @rule()
    def finish_flush(self) -> None:
        assert self.flushing is not None
        self.log.finish_flush(*self.flushing)
        self.flushing = None

    @precondition(lambda self: self.flushing is None and self.log.end > self.start and len(self.log.blocks) > 0)
    @rule()
    def fail_to_flush(self) -> None:
        """The disk is full half way; what was to be written must be written the next time."""
        self.disk.plan = lambda _, kind: "no space" if kind == "sync" else "none"
        with pytest.raises(OSError, match="no space"):
            self._flush(len(self.log.blocks))
        self.disk.plan = lambda _operation, _kind: "none"

    @rule()
    def seal(self) -> None:
        for segment in self.log.to_seal():
            sealed = segment.seal()
            self.log.replace(segment, sealed)
            segment.close()
            self.disk.remove(segment.path)
        assert self.log.to_seal() == []

    # -- trimming

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        self._trim_to(self.start + round(share * (self.end - self.start)))

    @rule()
    def purge(self) -> None:
        self._trim_to(self.log.end)
        assert self.start == self.end

    def _trim_to(self, start: int) -> None:
        self.start = start
        self.log.trim(start)
        self.partition.trim(start)

    @precondition(lambda self: self.flushing is None)
    @rule()
    def drop_trimmed(self) -> None:
        for path in self.log.drop_before(self.start):
            self.disk.remove(path)

    # -- recovery

    @precondition(lambda self: self.flushing is None)
    @rule(leave_something=st.booleans())
    def reload(self, leave_something: bool) -> None:
        """A checkpoint, then a new process; files that no checkpoint names, and ends that it does not count, go."""
        self.drop_trimmed()
        number = self.wal.next_number - 1
        entry = self.log.entry(self.start, number)
        if leave_something:
            self.disk.open(f"{self.log.folder}/{self.end + 9:020d}.log").append(
                b"of a flush that no checkpoint followed"
            )
            if self.log.segments and not self.log.segments[-1].is_sealed:
                with self.log.segments[-1].opened() as file:
                    file.append(b"so is this")
        self.log.close()
        self.log = self._open()
        index = self.log.load(LogEntry(*entry), RING, 0)
        assert self.log.entry(self.start, number) == entry
        assert set(self.disk.list(self.log.folder)) == {s.path.rpartition("/")[2] for s in self.log.segments}
        for at in range(len(self.log.blocks)):
            index.add_block(self.log.logged(self.log.blocks[at]))
        self._check_index(index.build())

    def _check_index(self, index: Any) -> None:
        """The engine's knowledge, rebuilt from the heads of the frames."""
        mine = [found for found in self.dedup_ids if found[2] >= self.start]
        assert [found for found in index.dedup_ids if found[2] >= self.start] == mine
        again = Partition(0, News())
        again.timeline = Timeline()
        held = self.partition.bytes_total - sum(index.sizes)
        for offset, time, size in zip(array("Q", index.offsets), array("Q", index.times), index.sizes, strict=True):
            again.timeline.append(offset, time, held)
            held += size
        assert held == self.partition.bytes_total
        for base, count, hashes in index.keys:
            again.append_keys(base, count, hashes)
        for offset in range(self.start, self.end):
            assert again.keys.at(offset) == self.partition.keys.at(offset)
            assert again.timeline.time_of(offset) == self.partition.timeline.time_of(offset) == self.rows[offset][2]
        for time in {row[2] + more for row in self.rows.values() for more in (0, 1)}:
            assert self._from_start(again, time) == self._from_start(self.partition, time)

    def _from_start(self, partition: Partition, time: int) -> int:
        found = partition.timeline.first_at(time)
        return self.end if found is None else max(found, self.start)

    # -- reading

    @rule(data=st.data())
    def read_some(self, data: st.DataObject) -> None:
        wanted = sorted(data.draw(st.sets(st.integers(max(0, self.start - 3), self.end + 3), max_size=8)))
        there = [offset for offset in wanted if self.start <= offset < self.end]
        assert rows(self.log.read(wanted, RING)) == [self.rows[offset] for offset in there]

    @rule(data=st.data())
    def scan_some(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(max(0, self.start - 3), self.end + 3))
        count = data.draw(st.integers(1, 20))
        low = max(first, self.start)
        found = rows(self.log.scan(first, count, RING))
        assert found == [self.rows[offset] for offset in range(low, min(low + count, self.end))]

    @invariant()
    def looks_like_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start, self.log.end) == (self.start, self.end)
        everything = rows(self.log.read(range(self.start, self.end), RING))
        assert everything == [self.rows[offset] for offset in range(self.start, self.end)]
        for segment in self.log.segments:
            for which, (base, position) in enumerate(zip(segment.bases, segment.positions, strict=True)):
                assert segment.frame_of(base) == which
                assert 0 <= position < segment.size


def run(examples: int, steps: int, derandomize: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_frames, "FRAME_MESSAGES", 4)
        patch.setattr(log_module, "SEGMENT_BYTES", 500)
        run_machine(LogMachine, examples, steps, derandomize)


def test_a_log_reads_like_a_list() -> None:
    run(examples=40, steps=40, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_log_reads_like_a_list_for_long() -> None:
    run(examples=3_000, steps=80, derandomize=False)
