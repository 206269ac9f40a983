"""A data directory in the making, which no queue has open: files first, then the checkpoint that makes them count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ortoo.model.names import TopicId
from ortoo.model.records import (
    HISTORY_RECORDS,
    HistoryRecord,
    LogIndex,
    Published,
    Record,
    TopicDeleted,
    TopicPurged,
)

from .catalog import Catalog, Place
from .checkpoint import write_checkpoint
from .commit import encode_commit
from .crypto import KeyRing
from .cut import take_cut
from .files import Disk
from .format import check_format
from .log import DiskLog
from .logged import LoggedPublish, as_logged
from .segment import Segment
from .wal import FOLDER as WAL_FOLDER
from .wal import Wal

FLUSH_BYTES = 8 << 20  # of messages that are in memory


class Draft:
    def __init__(self, disk: Disk, ring: KeyRing) -> None:
        check_format(disk)
        self.disk = disk
        self.catalog = Catalog(disk)
        self._ring = ring
        self._pending = 0
        self._messages: dict[Place, list[LoggedPublish]] = defaultdict(list)  # not written yet
        self._happened: dict[Place, list[tuple[int, HistoryRecord]]] = defaultdict(list)  # with their numbers
        self._copied: tuple[str, Segment] | None = None  # where from and where to, and not synced yet

    def take(self, record: Record, number: int = 0) -> None:
        """`number`: of a record of history. It is given the next one if that is higher."""
        if isinstance(record, Published):
            log = self.catalog.log(record.topic, record.partition)
            self._messages[log.topic, log.partition].append(as_logged(record))
            self._pending += record.size
            if self._pending > FLUSH_BYTES:
                self.flush()
        elif isinstance(record, HISTORY_RECORDS):
            history = self.catalog.history(record.topic, record.partition)
            number = max(number, history.end)
            history.end = number + 1
            self._happened[record.topic, record.partition].append((number, record))
        else:
            if isinstance(record, TopicPurged | TopicDeleted):
                for log in self.catalog.logs_of(record.topic):
                    self._flush_log(log)
            self.catalog.absorb(record, 0)

    def reach(self, topic: TopicId, partition: int, end: int) -> None:
        """Numbers of history before that one are not given again."""
        history = self.catalog.histories.get((topic, partition))
        if history is not None:
            history.end = max(history.end, end)

    def copy(self, path: str, frame: bytes, first: Published, end: int) -> None:
        """A frame of messages as it is, out of that file of another directory. Those of one file stay together."""
        log = self.catalog.log(first.topic, first.partition)
        self._flush_log(log)
        if self._copied is None or self._copied[0] != path or self._copied[1] is not log.segments[-1]:
            self._sync_copied()
            self.disk.make_dir(log.folder)
            segment = Segment(self.disk, log.folder, first.base, path.endswith(".seg"), log.files)
            log.segments.append(segment)
            self._copied = (path, segment)
        self._copied[1].add(frame, first.base, end - first.base, first.at)

    def _sync_copied(self) -> None:
        """Before another file is written to, while it is certainly still open: else a failure might not be told."""
        if self._copied is not None:
            self._copied[1].sync()
            self.disk.sync_dir(self._copied[1].folder)
            self._copied = None

    def _flush_log(self, log: DiskLog) -> None:
        records = [record for record in self._messages.pop((log.topic, log.partition), ()) if record.end > log.start]
        if records:
            self._sync_copied()
            frames = log.encode(records, self.catalog.ring_of(log.topic, self._ring))
            log.finish_flush(log.flush(frames), 0)

    def reload(self, topic: TopicId, partition: int, start: int, dedup_since: int) -> LogIndex:
        """What the log of a partition, which begins at `start`, tells of itself."""
        log = self.catalog.log(topic, partition)
        self._flush_log(log)
        self._sync_copied()
        entry = log.entry(start, 0)
        log.segments = []
        return log.load(entry, self._ring, dedup_since).build()

    def flush(self) -> None:
        self._sync_copied()
        for log in list(self.catalog.logs.values()):
            self._flush_log(log)
        for place, history in self.catalog.histories.items():
            ring, numbered = self.catalog.ring_of(history.topic, self._ring), self._happened.get(place)
            history.finish_flush(history.flush(numbered, ring) if numbered else [], 0)
        self._happened.clear()
        self._pending = 0

    def finish(
        self,
        number: int,
        snapshot: bytes,
        at: int,
        secrets: Mapping[TopicId, bytes],
        commits: Iterable[Sequence[Record]],
    ) -> None:
        """`number`: of the last commit in it; `commits` come after that."""
        self.flush()
        self._write_wal(number + 1, commits)
        self.catalog.transactions.clear()  # they are in the commits
        cut = take_cut(self.catalog, self._ring, number, 0, snapshot, at, secrets, [])
        logs = [log.entry(start, number) for log, start, _ in cut.logs]
        histories = [history.entry(start, number) for history, start, _ in cut.histories]
        write_checkpoint(self.disk, cut.checkpoint(logs, histories, []))
        for log, start, _ in cut.logs:
            for path in log.drop_before(start):
                self.disk.remove(path)
        for folder in cut.doomed:
            self.disk.remove_dir(folder.rstrip("/"))
        self.catalog.close_files()

    def _write_wal(self, number: int, commits: Iterable[Sequence[Record]]) -> None:
        self.disk.make_dir(WAL_FOLDER)
        wal = Wal(self.disk)
        wal.next_number = number
        wal.rotate()
        for records in filter(None, commits):
            if wal.bytes_since_rotation > FLUSH_BYTES:  # a file is read as a whole when the directory is opened
                wal.rotate()
            wal.append(*encode_commit(wal.next_number, records, self.catalog.secret_topic, self._ring))
        wal.sync()
        wal.close()
