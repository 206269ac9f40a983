"""A data directory seen from outside, while its owner may be at work: what the last checkpoint vouches for, and no more.

Nothing is changed and no lock is taken. Files may be sealed or trimmed at any moment, so whatever vanishes under the reader's
hands is looked for again, in a newer checkpoint if there is one. What that one does not name any more is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ortoo.model.errors import CorruptionError, NotFoundError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import Columns

from .blocks import Blocks
from .checkpoint import FOLDER as CHECKPOINT_FOLDER
from .checkpoint import Checkpoint, read_checkpoint
from .codec import to_columns
from .contents import CHECKPOINT_FILES, list_files
from .crypto import KeyRing, open_ring
from .format import NAME, refuse_strangers
from .history import DiskHistory, HistoryEntry
from .keys import bind_keys
from .log import DiskLog, LogEntry, Shared
from .logged import CommitReader, LoggedPublish, LoggedRecord, PublishPlace
from .open_files import FilePool
from .segment import Segment, SegmentEntry
from .view import ViewDisk
from .wal import Wal, list_wal

_TRIES = 5
_SCAN = 10_000


class _Commits(CommitReader):
    """What is not where it was may have been flushed meanwhile; then there is a newer checkpoint."""

    def __init__(self, wal: Wal, files: FilePool, ring: KeyRing, is_outdated: Callable[[], bool]) -> None:
        super().__init__(wal, ring)
        self._files = files
        self._is_outdated = is_outdated

    def read(self, number: int, position: int, topic: TopicId) -> list[LoggedRecord]:
        with self._looking():
            return super().read(number, position, topic)

    def publish(self, number: int, position: int, place: PublishPlace) -> LoggedPublish | None:
        with self._looking():
            return super().publish(number, position, place)

    @contextmanager
    def _looking(self) -> Iterator[None]:
        try:
            yield
        except CorruptionError:
            if self._is_outdated():
                raise FileNotFoundError from None
            raise
        finally:
            self._files.close_under("")  # nobody tells when the last one has been read


class Outside:
    def __init__(self, path: Path, keys: str | dict[str, bytes] | None = None) -> None:
        self.disk = ViewDisk(path)
        if not (path / NAME).is_file():
            raise NotFoundError(f"{path} is not a data directory of Ortoo")
        refuse_strangers(self.disk)
        self.ring = open_ring(keys)
        bind_keys(self.disk, self.ring)
        files = FilePool(self.disk)
        self._wal = Wal(self.disk, pool=files)
        self._shared = Shared(self.disk, commits=_Commits(self._wal, files, self.ring, self._is_outdated))
        self.checkpoint: Checkpoint | None = None
        self._logs: dict[tuple[int, int], LogEntry] = {}
        self._histories: dict[tuple[int, int], HistoryEntry] = {}
        self._opened: dict[tuple[int, int], DiskHistory] = {}
        self.refresh()

    def _is_outdated(self) -> bool:
        """A checkpoint may have taken another's place under its name, where nothing was committed in between."""
        known, found = self.checkpoint, self._read_checkpoint()
        return known is None or found is None or found.manifest != known.manifest

    def refresh(self, anew: bool = False) -> None:
        """Looks for a newer checkpoint; `anew`: also one of the same commits."""
        newest = max(list_files(self.disk, CHECKPOINT_FOLDER, CHECKPOINT_FILES), default="")
        if self.checkpoint is not None and newest == f"{self.checkpoint.number:020d}.ckpt" and not anew:
            return
        self.checkpoint = self._read_checkpoint()
        self._wal.files = list_wal(self.disk)
        manifest = None if self.checkpoint is None else self.checkpoint.manifest
        self._logs = {(entry.topic, entry.partition): entry for entry in manifest.logs} if manifest else {}
        self._histories = {(entry.topic, entry.partition): entry for entry in manifest.histories} if manifest else {}
        self._opened = {}

    def _read_checkpoint(self) -> Checkpoint | None:
        """The owner may replace it between the moment its name was read and the moment it is opened."""
        for _ in range(_TRIES):
            try:
                return read_checkpoint(self.disk)
            except FileNotFoundError:
                continue
        return read_checkpoint(self.disk)

    # -- messages

    def bounds(self, topic: TopicId, partition: int) -> tuple[int, int]:
        """The first message in the files, and the one after the last."""
        entry = self._logs.get((topic, partition))
        return (0, 0) if entry is None else (entry.start, entry.end)

    def scan(self, topic: TopicId, partition: int, start: int, end: int) -> Iterator[Columns]:
        """The messages of that range that are still there, frame by frame."""
        at, tries = start, 0
        while at < end:
            segment = self._segment_from(topic, partition, at)
            if segment is None:
                try:
                    found = self._logged_from(topic, partition, at, end)
                except FileNotFoundError:  # flushed since: a newer checkpoint names the segment
                    tries += 1
                    if tries == _TRIES:
                        raise
                    self.refresh(anew=True)
                    continue
                if found is None:
                    return
                yield found
                at = found.offsets[-1] + 1
                continue
            try:
                at = max(at, self.bounds(topic, partition)[0], segment.base)
                for which in range(max(0, segment.frame_of(at)), len(segment.bases)):
                    if segment.bases[which] >= end:
                        return
                    yield _between(to_columns(*segment.read(which, topic, partition, self.ring)), at, end)
                at = segment.end
            finally:
                segment.close()

    def _logged_from(self, topic: TopicId, partition: int, at: int, end: int) -> Columns | None:
        """The next ones that lie in the write-ahead log."""
        first, after = self.bounds(topic, partition)
        log = self._log(topic, partition)
        if log is None:
            return None
        at = max(at, first, log.blocks.bases[0])
        return _between(log.read_blocks(at), at, end) if at < min(end, after) else None

    def _log(self, topic: TopicId, partition: int) -> DiskLog | None:
        """With its blocks alone; None when there are none."""
        entry = self._logs.get((topic, partition))
        if entry is None or not entry.blocks:
            return None
        log = DiskLog(self.disk, topic, partition, self._shared)
        log.blocks = Blocks(entry.blocks)
        return log

    def _segment_from(self, topic: TopicId, partition: int, at: int) -> Segment | None:
        """The first that holds something from there on."""
        for _ in range(_TRIES):
            entry = self._logs.get((topic, partition))
            known = next((one for one in entry.segments if one.end > at), None) if entry is not None else None
            if known is None:
                return None
            segment = self._open(topic, partition, known)
            if segment is not None:
                return segment
            self.refresh(anew=True)
        raise CorruptionError(f"a segment of topic {topic}, partition {partition} is missing, from message {at} on")

    def _open(self, topic: TopicId, partition: int, known: SegmentEntry) -> Segment | None:
        """None when it is gone. Its compressed twin is there before the original goes, and may have grown before that. One that
        was merged with those before it is found in the first of them."""
        entry = self._logs.get((topic, partition))
        before = [one for one in entry.segments if one.base < known.base] if entry is not None else []
        for one in (known, *reversed(before)):
            segment = self._open_one(topic, partition, one)
            if segment is not None:
                if segment.end >= known.end:
                    return segment
                segment.close()
                return None
        return None

    def _open_one(self, topic: TopicId, partition: int, known: SegmentEntry) -> Segment | None:
        for is_sealed in (True, False, True):
            segment = Segment(self.disk, f"logs/{topic}/{partition}", known.base, is_sealed)
            try:
                segment.load(known.size)  # and no further: the owner may be writing there
            except FileNotFoundError:
                continue
            except BaseException:
                segment.close()
                raise
            if segment.end < known.end:
                segment.close()
                raise CorruptionError(f"{segment.path} ends before message {segment.end}, not {known.end}")
            return segment
        return None

    def first_at(self, topic: TopicId, partition: int, time_ms: int) -> int:
        """The first message at or after that time; the end when there is none."""
        for _ in range(_TRIES):
            try:
                return self._first_at(topic, partition, time_ms)
            except FileNotFoundError:  # flushed since: a newer checkpoint names the segment
                self.refresh(anew=True)
        return self._first_at(topic, partition, time_ms)

    def _first_at(self, topic: TopicId, partition: int, time_ms: int) -> int:
        entry = self._logs.get((topic, partition))
        if entry is None:
            return 0
        which = bisect_left(entry.segments, time_ms, key=lambda known: self._last_time(topic, partition, known))
        if which == len(entry.segments):
            return self._first_logged_at(entry, time_ms)
        segment = self._open(topic, partition, entry.segments[which])
        if segment is None:
            return entry.segments[which].end
        try:
            return max(entry.start, _first_in(segment, time_ms))
        finally:
            segment.close()

    def _first_logged_at(self, entry: LogEntry, time_ms: int) -> int:
        log = self._log(entry.topic, entry.partition)
        if log is None:
            return entry.end
        which = bisect_left(range(len(log.blocks)), time_ms, key=lambda at: log.logged(log.blocks[at]).at)
        return max(entry.start, log.blocks.bases[which]) if which < len(log.blocks) else entry.end

    def _last_time(self, topic: TopicId, partition: int, known: SegmentEntry) -> int:
        segment = self._open(topic, partition, known)
        if segment is None:
            return 0  # trimmed: before all that is there
        try:
            return segment.head(len(segment.bases) - 1)[1].timestamps()[-1]
        finally:
            segment.close()

    # -- history

    def history_bounds(self, topic: TopicId, partition: int) -> tuple[int, int]:
        history = self._history(topic, partition)
        return (0, 0) if history is None else (history.first, history.end)

    def _history(self, topic: TopicId, partition: int) -> DiskHistory | None:
        for _ in range(_TRIES):
            entry = self._histories.get((topic, partition))
            if entry is None:
                return None
            history = self._opened.get((topic, partition))
            if history is not None:
                return history
            history = DiskHistory(self.disk, topic, partition, self._shared.commits)
            try:
                history.load(entry)
            except FileNotFoundError:  # dropped between listing and opening it
                self.refresh(anew=True)
                continue
            self._opened[topic, partition] = history
        raise CorruptionError(f"the history of topic {topic}, partition {partition} is not to be had")

    def read_history(
        self, topic: TopicId, partition: int, start: int, end: int, report: Callable[[str], None]
    ) -> Iterator[tuple[int, list[HistoryRecord]]]:
        """What happened, from one number to before another: the first number, and what follows it."""
        at, tries = start, 0
        while at < end:
            history = self._history(topic, partition)
            if history is None:
                return
            try:
                upto = min(end, history.end)
                found = history.read_history(at, max(0, min(_SCAN, upto - at)), upto, self.ring, report)
            except FileNotFoundError:
                tries += 1
                if tries == _TRIES:
                    raise
                self._opened.pop((topic, partition), None)
                self.refresh(anew=True)
                continue
            if not found.records:
                return
            yield found.start, found.records
            at = found.start + len(found.records)


def _first_in(segment: Segment, time_ms: int) -> int:
    """The first message at or after that time in a segment that has one."""
    which = bisect_left(range(len(segment.bases)), time_ms, key=lambda at: segment.head(at)[1].timestamps()[-1])
    base, head = segment.head(which)
    return base + bisect_left(head.timestamps(), time_ms)


def _between(columns: Columns, start: int, end: int) -> Columns:
    """The rows of a frame's columns from one offset to before another."""
    first = columns.offsets[0]
    if start <= first and columns.offsets[-1] < end:
        return columns
    return columns.pick(slice(max(0, start - first), max(0, end - first)))
