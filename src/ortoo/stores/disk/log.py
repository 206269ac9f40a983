"""One partition's log: segments in files of their own, and behind them blocks, which lie in the write-ahead log until they are
flushed. What was published last is in memory, too.

segments (listed in the checkpoint) | blocks (where each publish lies in the write-ahead log)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import Published
from ortoo.model.replies import Columns, join_columns

from .blocks import Block, Blocks
from .codec import to_columns
from .contents import SEGMENT_FILES, list_files
from .crypto import KeyRing
from .files import Disk
from .log_index import IndexBuilder
from .logged import CommitReader, LoggedPublish
from .new_frames import NewFrame, new_frames
from .open_files import FilePool
from .recent import FrameCache, Recent, RecentStretch
from .segment import Mark, Segment, SegmentEntry

SEGMENT_BYTES = 64 << 20
SEGMENT_AGE_MS = 24 * 3_600_000
_FEW, _MANY_BLOCKS = 256, 64  # small blocks are read together: until there are so many messages, or blocks
_FRAME_COST = 4_096  # of reading one, in bytes: many are short where most was discarded
AHEAD_BYTES = 64 << 10  # and no further on in the file


class LogEntry(NamedTuple):
    """A log as a checkpoint knows it."""

    topic: TopicId
    partition: int
    start: int
    end: int
    segments: list[SegmentEntry]
    blocks: bytes = b""  # as Blocks.to_bytes gives them


class Shared:
    """What all logs of a store share."""

    def __init__(
        self,
        disk: Disk,
        files: FilePool | None = None,
        commits: CommitReader | None = None,
        recent_bytes: int | None = None,
    ) -> None:
        self.files = files or FilePool(disk)
        self._commits = commits
        self.recent = Recent(recent_bytes)
        self.frames = FrameCache()
        self.segment_bytes: int | None = None  # where it is not the usual

    def spend(self, size: int) -> None:
        """So many bytes of a segment were read."""
        if self._commits is not None:
            self._commits.spent += size

    @property
    def commits(self) -> CommitReader:
        assert self._commits is not None  # there are no blocks without a write-ahead log
        return self._commits


class DiskLog:
    def __init__(self, disk: Disk, topic: TopicId, partition: int, shared: Shared | None = None) -> None:
        self.disk = disk
        self._shared = shared or Shared(disk)
        self.files = self._shared.files
        self.topic = topic
        self.partition = partition
        self.folder = f"logs/{topic}/{partition}"
        self.start = 0
        self.segments: list[Segment] = []
        self.blocks = Blocks()
        self.recent: list[RecentStretch] = []
        self.discarded: OffsetSet = NOTHING  # messages that nobody asks for again
        self.is_stuck = False  # some of it cannot be flushed, for it is damaged in the write-ahead log
        self._end = 0  # of the last block

    @property
    def end(self) -> int:
        return max(self._end, self.start) if self.blocks else self.written_end

    @property
    def written_end(self) -> int:
        return max(self.segments[-1].end, self.start) if self.segments else self.start

    def append(self, record: Published, number: int, position: int) -> None:
        """It lies in that commit, which begins at that place of its file."""
        self.blocks.append(record.base, number, position)
        self._end = record.base + record.count
        self._shared.recent.add(self, record)

    # -- reading

    def read(self, offsets: Sequence[int], ring: KeyRing) -> Columns:
        """Ascending offsets; those that are not there are left out."""
        return join_columns(list(self.parts(offsets, ring)))

    def parts(self, offsets: Sequence[int], ring: KeyRing) -> Iterator[Columns]:
        """The same one after the other: each is read when it is asked for."""
        at = bisect_left(offsets, self.start)
        while at < len(offsets):
            stretch = self._in_memory(offsets[at])
            if stretch is not None:
                upto = bisect_right(offsets, stretch.end - 1, lo=at)
                yield stretch.read(offsets[at:upto])
            else:
                frame = self._on_disk(offsets[at], ring)
                if frame is None or offsets[at] > frame.offsets[-1]:
                    at += 1
                    continue
                upto = bisect_right(offsets, frame.offsets[-1], lo=at)
                yield _pick(frame, offsets[at:upto])
            at = upto

    def scan(self, start: int, count: int, ring: KeyRing) -> Columns:
        return self.read(self.span(start, count), ring)

    def span(self, start: int, count: int) -> range:
        """So many offsets from that one on, or from where the log begins."""
        start = max(start, self.start)
        return range(start, min(start + count, self.end))

    def _in_memory(self, offset: int) -> RecentStretch | None:
        recent = self.recent
        if not recent or offset < recent[0].base:
            return None
        stretch = recent[bisect_right(recent, offset, key=lambda stretch: stretch.base) - 1]
        return stretch if offset < stretch.end else None

    def _on_disk(self, offset: int, ring: KeyRing) -> Columns | None:
        """The frame, or the blocks, that have the offset."""
        frames = self._shared.frames
        found = frames.get(self, offset)
        if found is not None:
            return found
        if len(self.blocks) and offset >= self.blocks.bases[0]:
            records = list(self._logged_from(self.blocks.find(offset)))
            found = join_columns([record.to_columns() for record in records])
            size = sum([record.size for record in records])
        else:
            index = bisect_right(self.segments, offset, key=lambda segment: segment.base) - 1
            if index < 0 or offset >= self.segments[index].end:
                return None
            segment = self.segments[index]
            which = segment.frame_of(offset)
            if which < 0:  # what lay there was discarded
                return None
            base, head, body = segment.read(which, self.topic, self.partition, ring)
            found, size = to_columns(base, head, body), sum(map(len, body.values))
            self._shared.spend(size + _FRAME_COST)
        frames.put(self, found, size)
        return found

    def read_blocks(self, offset: int) -> Columns:
        """The block that has the offset, and those that follow it as long as they are small."""
        return join_columns([record.to_columns() for record in self._logged_from(self.blocks.find(offset))])

    def _logged_from(self, index: int) -> Iterator[LoggedPublish]:
        """Only what lies close together: a large commit is not read for a few messages that nobody has asked for."""
        count, first = 0, self.blocks[index]
        end, after = first.base, first.position + AHEAD_BYTES
        for at in range(index, min(index + _MANY_BLOCKS, len(self.blocks))):
            block = self.blocks[at]
            if count >= _FEW or block.base != end or not first.position <= block.position < after:
                return
            try:
                record = self.logged(block)
            except CorruptionError:
                if at == index:
                    raise
                return  # whoever asks for that one is told
            count, end = count + record.count, record.end
            yield record

    def logged(self, block: Block) -> LoggedPublish:
        place = (self.topic, self.partition, block.base)
        record = self._shared.commits.publish(block.number, block.position, place)
        if record is None:
            raise CorruptionError(
                f"commit {block.number} of the write-ahead log does not have message {block.base} of {self.folder}"
            )
        return record

    def check_blocks(self, complain: Callable[[OrtooError], None]) -> int:
        """Reads them all, whatever is damaged among them; returns how many messages they have."""
        count = 0
        for at in range(len(self.blocks)):
            try:
                count += self.logged(self.blocks[at]).count
            except OrtooError as error:
                complain(error)
        return count

    # -- making room

    def discard(self, offsets: OffsetSet) -> None:
        self.discarded |= offsets.within(self.start, self.end)

    # -- flushing

    def encode(self, records: Iterable[LoggedPublish], ring: KeyRing | None) -> Iterator[NewFrame]:
        """As they come to lie in segments."""
        return new_frames(records, ring, self.disk.salt.within(self.folder).value)

    def flush(self, frames: Iterable[NewFrame], synced: bool = False) -> list[Segment]:
        """Writes these to segments, and syncs them, unless that is done for all. Runs beside the event loop; the segments it
        touched are `finish`ed there."""
        active = self.segments[-1] if self.segments and not self.segments[-1].is_sealed else None
        before = None if active is None else active.mark()
        touched: list[Segment] = []
        self.disk.make_dir(self.folder, durably=not synced)
        try:
            with ExitStack() as opened:  # from the first byte until it is synced
                self._write(frames, active, touched, opened)
                for segment in touched if not synced else ():
                    segment.sync()
            if not synced:
                self.disk.sync_dir(self.folder)
        except BaseException:
            self.take_back(touched, before)
            raise
        return touched

    def take_back(self, touched: list[Segment], before: Mark | None) -> None:
        """As it was, so that the next flush may write it all again."""
        for segment in touched:
            segment.back_to(before if segment in self.segments else None)

    def mark(self) -> Mark | None:
        """Of the segment that is written to."""
        return self.segments[-1].mark() if self.segments and not self.segments[-1].is_sealed else None

    def _write(
        self, frames: Iterable[NewFrame], active: Segment | None, touched: list[Segment], opened: ExitStack
    ) -> None:
        for frame in frames:
            if active is None or _is_complete(active, frame.time, self._shared.segment_bytes or SEGMENT_BYTES):
                active = Segment(self.disk, self.folder, frame.base, False, self.files)
            if active not in touched:
                touched.append(active)
                file = opened.enter_context(active.opened())
                if file.size() > active.size:  # what a flush left that failed, or that no checkpoint followed
                    file.truncate(active.size)
            active.add(*frame)

    def finish_flush(self, touched: list[Segment], upto: int) -> None:
        """What commits up to that number had is in segments now."""
        for segment in touched:
            if segment not in self.segments:
                self.segments.append(segment)
        self.blocks.drop(bisect_right(self.blocks.numbers, upto))

    # -- checkpoints

    def entry(self, start: int, number: int) -> LogEntry:
        """As of a cut after that commit, at which the log began at `start`; it may have been trimmed further since."""
        segments = [segment for segment in self.segments if segment.end > start]
        blocks = self.blocks.part(start, number) if len(self.blocks) and self._end_at(number) > start else b""
        return LogEntry(
            self.topic,
            self.partition,
            start,
            max(start, self._end_at(number) if blocks else segments[-1].end if segments else start),
            [SegmentEntry(segment.base, segment.size, segment.end) for segment in segments],
            blocks,
        )

    def _end_at(self, number: int) -> int:
        """Of the last block of commits up to that number."""
        after = bisect_right(self.blocks.numbers, number)
        return self._end if after == len(self.blocks) else self.blocks.bases[after]

    def first_logged(self, start: int) -> int | None:
        """The first commit that has something of it from the offset `start` on; None when none has."""
        return self.blocks.numbers[max(0, self.blocks.find(start))] if self._end > start else None

    def trim(self, start: int) -> None:
        """Forgets what lies before; `drop_before` gives the files up, once a checkpoint no longer names them."""
        self.discarded.remove_span(0, start)
        self.start = max(self.start, start)  # what is replayed may be older than the checkpoint's files
        while self.recent and self.recent[0].end <= start:
            del self.recent[0]

    def drop_before(self, start: int) -> list[str]:
        """The files that a checkpoint cut at `start` does not name any more."""
        gone = [segment for segment in self.segments if segment.end <= start]
        if gone:
            self.segments = [segment for segment in self.segments if segment.end > start]
        count = len(self.blocks) if self._end <= start else max(0, self.blocks.find(start))
        if count:
            self.blocks.drop(count)
            self.is_stuck = False  # what is damaged may have been among these; the next flush finds out
        for segment in gone:
            segment.close()
        return [segment.path for segment in gone]

    def to_seal(self) -> list[Segment]:
        """Files that will not be appended to any more, and are still as they were written."""
        return [segment for segment in self.segments[:-1] if segment.can_be_sealed]

    def replace(self, old: Segment, new: Segment) -> None:
        self.segments = [new if segment is old else segment for segment in self.segments]
        self._shared.frames.drop(self)

    def merged(self, old: Sequence[Segment], new: Segment) -> None:
        """It has what is left of those, which follow each other."""
        self.replace(old[0], new)
        self.segments = [segment for segment in self.segments if segment not in old]

    def close(self) -> None:
        self._shared.frames.drop(self)
        for segment in self.segments:
            segment.close()

    # -- recovery

    def load(self, entry: LogEntry, ring: KeyRing, dedup_since: int) -> IndexBuilder:
        """Opens the files the checkpoint names, and removes others. Returns what they tell of the log; what its blocks tell is
        to be added."""
        self.start = entry.start
        present = set(list_files(self.disk, self.folder, SEGMENT_FILES, drafts=True))
        wanted: set[str] = set()
        proved: set[str] = set()  # keys that have decrypted something
        index = IndexBuilder(self.topic, self.partition, dedup_since)
        covered = 0
        ends = {known.end for known in entry.segments}
        for known in entry.segments:
            if known.end <= covered:  # merged with the one before it, since the checkpoint
                continue
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
            covered = segment.end
            if segment.end != known.end and not (sealed and segment.end > known.end and segment.end in ends):
                raise CorruptionError(
                    f"{segment.path} is damaged at byte {segment.size}: it ends before message {segment.end}, "
                    f"the checkpoint knows of messages up to {known.end}"
                )
        for stranger in present - wanted:
            self.disk.remove(f"{self.folder}/{stranger}")
        self.blocks, self._end = Blocks(entry.blocks), entry.end
        return index


def _is_complete(segment: Segment, now: int, enough: int) -> bool:
    """Large enough, old enough, or of an older format: the next message begins another file, and this one is sealed."""
    is_old = segment.since is not None and now - segment.since >= SEGMENT_AGE_MS
    return segment.size >= enough or is_old or segment.is_of_older_format


def _pick(frame: Columns, offsets: Sequence[int]) -> Columns:
    """The columns of those ascending offsets, which the frame has."""
    if len(offsets) == len(frame.offsets):
        return frame
    base = frame.offsets[0]
    first, last = offsets[0] - base, offsets[-1] - base
    is_run = last - first + 1 == len(offsets)
    return frame.pick(slice(first, last + 1) if is_run else [offset - base for offset in offsets])
