"""One partition's log: segments on disk, and a tail in memory that the write-ahead log keeps safe until it is written.

segments (durable, listed in the checkpoint) | writing (being flushed by a checkpoint) | tail (newest)
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from ortoo.model.batch import Batch
from ortoo.model.errors import CorruptionError
from ortoo.model.limits import BATCH_MESSAGES_MAX
from ortoo.model.names import TopicId
from ortoo.model.records import LogIndex, Published
from ortoo.model.replies import Columns, join_columns
from ortoo.stores.stretch import Stretch

from .codec import MessageHead, encode_messages, to_columns
from .contents import SEGMENT_FILES, list_files
from .crypto import KeyRing
from .files import Disk
from .open_files import FilePool
from .segment import Segment, SegmentEntry

FRAME_MESSAGES, FRAME_BYTES = 4_096, 1 << 20
_LARGE_BYTES = 16 << 20
SEGMENT_BYTES = 64 << 20
SEGMENT_AGE_MS = 24 * 3_600_000


class TailStretch(Stretch):
    """What becomes one frame."""

    __slots__ = ("dedup_ids", "hashes", "size")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.hashes: array[int] | None = None
        self.dedup_ids: list[str | None] | None = None
        self.size = 0

    def append(self, record: Published) -> None:
        before = len(self.values)
        super().append(record)
        self.size += record.size
        if record.key_hashes or self.hashes is not None:
            if self.hashes is None:
                self.hashes = array("Q", bytes(8 * before))
            self.hashes.frombytes(record.key_hashes or bytes(8 * record.count))
        ids = record.batch.dedup_ids
        if ids is not None or self.dedup_ids is not None:
            if self.dedup_ids is None:
                self.dedup_ids = [None] * before
            self.dedup_ids.extend(ids if ids is not None else [None] * record.count)

    @property
    def is_full(self) -> bool:
        return len(self.values) >= FRAME_MESSAGES or self.size >= FRAME_BYTES

    def encode(self, topic: TopicId, partition: int, ring: KeyRing | None) -> bytes:
        columns = self.read(range(self.base, self.end))
        hashes = self.hashes.tobytes() if self.hashes is not None else None
        return encode_messages(topic, partition, columns, self.size, hashes, self.dedup_ids, ring)


class LogEntry(NamedTuple):
    """A log as a checkpoint knows it."""

    topic: TopicId
    partition: int
    start: int
    end: int
    segments: list[SegmentEntry]


class DiskLog:
    def __init__(self, disk: Disk, topic: TopicId, partition: int, files: FilePool | None = None) -> None:
        self.disk = disk
        self.files = files or FilePool(disk)
        self.topic = topic
        self.partition = partition
        self.folder = f"logs/{topic}/{partition}"
        self.start = 0
        self.segments: list[Segment] = []
        self.writing: list[TailStretch] = []
        self.tail: list[TailStretch] = []
        self._cached: tuple[Segment, int, Columns] | None = None

    @property
    def end(self) -> int:
        if self.tail:
            return self.tail[-1].end
        return self.written_end if not self.writing else max(self.writing[-1].end, self.start)

    @property
    def written_end(self) -> int:
        return max(self.segments[-1].end, self.start) if self.segments else self.start

    def append(self, record: Published) -> None:
        for part in _in_frames(record):
            if not self.tail or self.tail[-1].is_full or self.tail[-1].end != part.base:
                self.tail.append(TailStretch(part.base))
            self.tail[-1].append(part)

    # -- reading

    def read(self, offsets: Sequence[int], ring: KeyRing) -> Columns:
        """Ascending offsets; those that are not there are left out."""
        parts: list[Columns] = []
        at = bisect_left(offsets, self.start)
        while at < len(offsets):
            stretch = self._in_memory(offsets[at])
            if stretch is not None:
                upto = bisect_right(offsets, stretch.end - 1, lo=at)
                parts.append(stretch.read(offsets[at:upto]))
            else:
                frame = self._on_disk(offsets[at], ring)
                if frame is None or offsets[at] > frame.offsets[-1]:
                    at += 1
                    continue
                upto = bisect_right(offsets, frame.offsets[-1], lo=at)
                parts.append(_pick(frame, offsets[at:upto]))
            at = upto
        return join_columns(parts)

    def scan(self, start: int, count: int, ring: KeyRing) -> Columns:
        start = max(start, self.start)
        return self.read(range(start, min(start + count, self.end)), ring)

    def _in_memory(self, offset: int) -> TailStretch | None:
        for stretches in (self.tail, self.writing):
            if stretches and stretches[0].base <= offset < stretches[-1].end:
                stretch = stretches[bisect_right(stretches, offset, key=lambda stretch: stretch.base) - 1]
                return stretch if offset < stretch.end else None  # in a gap that a repair left
        return None

    def _on_disk(self, offset: int, ring: KeyRing) -> Columns | None:
        """The frame that holds the offset, whole."""
        index = bisect_right(self.segments, offset, key=lambda segment: segment.base) - 1
        if index < 0 or offset >= self.segments[index].end:
            return None
        segment = self.segments[index]
        which = segment.frame_of(offset)
        if self._cached is None or self._cached[:2] != (segment, which):
            base, head, body = segment.read(which, self.topic, self.partition, ring)
            self._cached = (segment, which, to_columns(base, head, body))
        return self._cached[2]

    # -- writing behind

    def begin_flush(self) -> bool:
        """Hands the tail over to be written; False when there is nothing."""
        waiting = self.writing + self.tail  # what an earlier flush failed to write comes first
        self.writing, self.tail = [stretch for stretch in waiting if stretch.end > self.start], []
        return bool(self.writing)

    def flush(self, ring: KeyRing | None) -> list[Segment]:
        """Writes what was handed over, and syncs. Runs beside the event loop; the segments it touched are `finish`ed there."""
        active = self.segments[-1] if self.segments and not self.segments[-1].is_sealed else None
        before = None if active is None else active.mark()
        touched: list[Segment] = []
        self.disk.make_dir(self.folder)
        try:
            with ExitStack() as opened:  # from the first byte until it is synced
                self._write(active, touched, ring, opened)
                for segment in touched:
                    segment.sync()
            self.disk.sync_dir(self.folder)
        except BaseException:
            for segment in touched:  # as it was, so that the next flush may write it all again
                segment.back_to(before if segment in self.segments else None)
            raise
        return touched

    def _write(self, active: Segment | None, touched: list[Segment], ring: KeyRing | None, opened: ExitStack) -> None:
        for stretch in self.writing:
            if active is None or _is_complete(active, stretch.timestamps[0]):
                active = Segment(self.disk, self.folder, stretch.base, False, self.files)
            if active not in touched:
                touched.append(active)
                file = opened.enter_context(active.opened())
                if file.size() > active.size:  # what a flush left that failed, or that no checkpoint followed
                    file.truncate(active.size)
            frame = stretch.encode(self.topic, self.partition, ring)
            active.add(frame, stretch.base, len(stretch.values), stretch.timestamps[0])

    def finish_flush(self, touched: list[Segment]) -> None:
        for segment in touched:
            if segment not in self.segments:
                self.segments.append(segment)
        self.writing = []

    def entry(self, start: int) -> LogEntry:
        """As of a cut at which the log began at `start`; it may have been trimmed further since."""
        segments = [segment for segment in self.segments if segment.end > start]
        return LogEntry(
            self.topic,
            self.partition,
            start,
            segments[-1].end if segments else start,
            [SegmentEntry(segment.base, segment.size, segment.end) for segment in segments],
        )

    def trim(self, start: int) -> None:
        """Forgets what lies before; `drop_before` gives the files up, once a checkpoint no longer names them."""
        self.start = max(self.start, start)  # what is replayed may be older than the checkpoint's files
        while self.tail and self.tail[0].end <= start:
            del self.tail[0]

    def drop_before(self, start: int) -> list[str]:
        """The files that a checkpoint cut at `start` does not name any more."""
        gone = [segment for segment in self.segments if segment.end <= start]
        self.segments = [segment for segment in self.segments if segment.end > start]
        for segment in gone:
            segment.close()
        return [segment.path for segment in gone]

    def to_seal(self) -> list[Segment]:
        """Files that will not be appended to any more, and are still as they were written."""
        return [segment for segment in self.segments[:-1] if segment.can_be_sealed]

    def replace(self, old: Segment, new: Segment) -> None:
        self.segments = [new if segment is old else segment for segment in self.segments]
        self._cached = None

    def close(self) -> None:
        for segment in self.segments:
            segment.close()

    # -- recovery

    def load(self, entry: LogEntry, ring: KeyRing, dedup_since: int) -> LogIndex:
        """Opens the files the checkpoint names, removes others, and tells the engine what the log knows."""
        self.start = entry.start
        present = set(list_files(self.disk, self.folder, SEGMENT_FILES, drafts=True))
        wanted: set[str] = set()
        proved: set[str] = set()  # keys that have decrypted something
        index = IndexBuilder(self.topic, self.partition)
        for known in entry.segments:
            sealed = f"{known.base:020d}.seg" in present
            segment = Segment(self.disk, self.folder, known.base, sealed, self.files)
            name = segment.path.rpartition("/")[2]
            if name not in present:
                raise CorruptionError(f"{segment.path} is missing")
            wanted.add(name)
            self.segments.append(segment)
            for which, (base, head) in enumerate(segment.load(known.size)):
                index.add(base, head)
                remembers = head.has_dedup_ids and head.timestamps()[-1] >= dedup_since
                if remembers or (head.sealed and head.has_keys):
                    index.add_private(base, head, segment.read(which, self.topic, self.partition, ring)[2])
                elif head.sealed and head.sealed.key not in proved:
                    segment.read(which, self.topic, self.partition, ring)  # better to learn now that a key is missing
                if head.sealed:
                    proved.add(head.sealed.key)
            if segment.end != known.end:
                raise CorruptionError(
                    f"{segment.path} is damaged at byte {segment.size}: it ends before message {segment.end}, "
                    f"the checkpoint knows of messages up to {known.end}"
                )
        for stranger in present - wanted:
            self.disk.remove(f"{self.folder}/{stranger}")
        return index.build()


def _in_frames(record: Published) -> Iterator[Published]:
    """A frame is read as a whole, so what a large transaction published at once becomes several."""
    if record.count <= BATCH_MESSAGES_MAX and record.size <= _LARGE_BYTES:
        yield record
        return
    step = max(1, min(FRAME_MESSAGES, record.count * FRAME_BYTES // max(1, record.size)))
    for first in range(0, record.count, step):
        rows = slice(first, first + step)
        columns = {name: getattr(record.batch, name) for name in record.batch.__struct_fields__}
        batch = Batch(**{name: column[rows] for name, column in columns.items() if column is not None})
        hashes = record.key_hashes[8 * first : 8 * (first + step)] if record.key_hashes else None
        size = sum(map(len, batch.values))
        yield Published(record.at, record.topic, record.partition, record.base + first, len(batch), size, batch, hashes)


def _is_complete(segment: Segment, now: int) -> bool:
    """Large enough, or old enough: the next message begins another file, and this one is sealed."""
    return segment.size >= SEGMENT_BYTES or (segment.since is not None and now - segment.since >= SEGMENT_AGE_MS)


class IndexBuilder:
    """Collects what the heads of a log's frames tell."""

    def __init__(self, topic: TopicId, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._offsets: array[int] = array("Q")
        self._times: array[int] = array("Q")
        self._sizes: list[int] = []
        self._keys: list[tuple[int, int, bytes | None]] = []
        self._dedup_ids: list[tuple[str, int, int]] = []

    def add(self, base: int, head: MessageHead) -> None:
        times = head.timestamps() if not isinstance(head.times, int) else [head.times]
        for offset, time in enumerate(times, base):
            if not self._times or self._times[-1] != time:
                self._offsets.append(offset)
                self._times.append(time)
                self._sizes.append(0)
        self._sizes[-1] += head.size  # to the frame's last instant: exact enough for retention by bytes
        if not (head.sealed and head.has_keys):
            self._keys.append((base, head.count, head.hashes))

    def add_private(self, base: int, head: MessageHead, body: object) -> None:
        hashes, ids = getattr(body, "hashes", None), getattr(body, "dedup_ids", None)
        if head.sealed and head.has_keys:
            self._keys.append((base, head.count, hashes))
        for offset, (dedup_id, time) in enumerate(zip(ids or (), head.timestamps(), strict=False), base):
            if dedup_id is not None:
                self._dedup_ids.append((dedup_id, time, offset))

    def build(self) -> LogIndex:
        return LogIndex(
            self._topic,
            self._partition,
            self._offsets.tobytes(),
            self._times.tobytes(),
            self._sizes,
            self._keys,
            self._dedup_ids,
        )


def _pick(frame: Columns, offsets: Sequence[int]) -> Columns:
    """The columns of those ascending offsets, which the frame has."""
    if len(offsets) == len(frame.offsets):
        return frame
    base = frame.offsets[0]
    first, last = offsets[0] - base, offsets[-1] - base
    is_run = last - first + 1 == len(offsets)
    rows = () if is_run else [offset - base for offset in offsets]
    picked: dict[str, Sequence[Any]] = {}
    for name in frame.__struct_fields__:
        column: Sequence[Any] | None = getattr(frame, name)
        if column is not None:
            picked[name] = column[first : last + 1] if is_run else [column[row] for row in rows]
    return Columns(**picked)  # type: ignore[arg-type]
