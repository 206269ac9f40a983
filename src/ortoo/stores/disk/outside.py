"""A data directory seen from outside, while its owner may be at work: what the last checkpoint vouches for, and no more.

Nothing is changed and no lock is taken. Files may be sealed or trimmed at any moment, so whatever vanishes under the reader's
hands is looked for again in a newer checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from ortoo.model.errors import CorruptionError, NotFoundError
from ortoo.model.names import TopicId
from ortoo.model.records import Happening, Published
from ortoo.model.replies import Columns

from .checkpoint import Checkpoint, read_checkpoint
from .commit import decode_commit
from .crypto import KeyRing, load_keys
from .files import File, RealDisk
from .format import NAME, refuse_strangers
from .frame import Frame
from .happenings import DiskHistory, HistoryEntry
from .log import DiskLog, LogEntry
from .wal import FOLDER as WAL_FOLDER
from .wal import scan_commits

_TRIES = 5
_SCAN = 10_000
_FAR = 1 << 62

T = TypeVar("T")


class ViewFile:
    """A file that is only looked at. To cut it is to look at less of it."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._fd).st_size

    def append(self, data: bytes) -> None:
        raise NotImplementedError("a data directory is not written from outside")

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        self._size = size

    def sync(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._fd)


class ViewDisk(RealDisk):
    def open(self, path: str) -> File:
        return ViewFile(self.root / path)

    def make_dir(self, folder: str) -> None:
        pass

    def remove(self, path: str) -> None:
        pass

    def remove_dir(self, folder: str) -> None:
        pass


class Outside:
    def __init__(self, path: Path, keys: str | dict[str, bytes] | None = None) -> None:
        self._disk = ViewDisk(path)
        if not (path / NAME).is_file():
            raise NotFoundError(f"{path} is not a data directory of Ortoo")
        refuse_strangers(self._disk)
        self._ring = KeyRing(load_keys(keys))
        self.checkpoint: Checkpoint | None = None
        self.refresh()

    def refresh(self) -> None:
        """Looks for a newer checkpoint."""
        names = self._disk.list("checkpoint")
        newest = max((name for name in names if name.endswith(".ckpt")), default="")
        if self.checkpoint is None or newest != f"{self.checkpoint.number:020d}.ckpt":
            self.checkpoint = self._patiently(lambda: read_checkpoint(self._disk))

    def _patiently(self, look: Callable[[], T]) -> T:
        """The owner may remove a file between the moment its name was read and the moment it is opened."""
        for _ in range(_TRIES):
            try:
                return look()
            except FileNotFoundError:
                continue
        return look()

    def _entry(self, topic: TopicId, partition: int) -> LogEntry | None:
        logs = self.checkpoint.manifest.logs if self.checkpoint is not None else []
        return next((entry for entry in logs if (entry.topic, entry.partition) == (topic, partition)), None)

    def bounds(self, topic: TopicId, partition: int) -> tuple[int, int]:
        """The first message in the files, and the one after the last."""
        entry = self._entry(topic, partition)
        return (0, 0) if entry is None else (entry.start, entry.end)

    def scan(self, topic: TopicId, partition: int, start: int, end: int) -> Iterator[Columns]:
        """The messages of that range that are still there."""
        log = self._log(topic, partition, start, end)
        if log is None:
            return
        try:
            at = max(start, log.start)
            while at < min(end, log.end):
                columns = log.scan(at, min(_SCAN, end - at), self._ring)
                if not len(columns):
                    return
                yield columns
                at = columns.offsets[-1] + 1
        finally:
            log.close()

    def _log(self, topic: TopicId, partition: int, start: int, end: int) -> DiskLog | None:
        """Opened; only the files that hold some of that range."""
        for attempt in range(_TRIES):
            entry = self._entry(topic, partition)
            if entry is None:
                return None
            segments = [known for known in entry.segments if known.base < end and known.end > start]
            log = DiskLog(self._disk, topic, partition)
            try:
                log.load(entry._replace(segments=segments), self._ring, _FAR)
            except (FileNotFoundError, CorruptionError):
                log.close()
                if attempt == _TRIES - 1:
                    raise
                self.refresh()
                continue
            return log
        return None

    def first_at(self, topic: TopicId, partition: int, time_ms: int) -> int:
        """The first message at or after that time; the end when there is none."""
        start, end = self.bounds(topic, partition)
        entry = self._entry(topic, partition)
        for known in entry.segments if entry is not None else []:
            log = self._log(topic, partition, known.base, known.end)
            if log is None or not log.segments:
                continue
            try:
                found = _first_in(log, time_ms)
            finally:
                log.close()
            if found is not None:
                return max(start, found)
        return end

    def _history_entry(self, topic: TopicId, partition: int) -> HistoryEntry | None:
        histories = self.checkpoint.manifest.histories if self.checkpoint is not None else []
        return next((entry for entry in histories if (entry.topic, entry.partition) == (topic, partition)), None)

    def history_bounds(self, topic: TopicId, partition: int) -> tuple[int, int]:
        history = self._history(topic, partition)
        return (0, 0) if history is None else (history.first, history.end)

    def _history(self, topic: TopicId, partition: int) -> DiskHistory | None:
        entry = self._history_entry(topic, partition)
        if entry is None:
            return None
        history = DiskHistory(self._disk, topic, partition)
        history.load(entry)
        return history

    def happenings(self, topic: TopicId, partition: int, start: int, end: int) -> Iterator[tuple[int, list[Happening]]]:
        """What happened, from one number to before another: the first number, and what follows it."""
        history = self._history(topic, partition)
        if history is None:
            return
        at = start
        while at < min(end, history.end):
            found = history.happenings(at, min(_SCAN, end - at), min(end, history.end), self._ring, lambda _: None)
            if not found.records:
                return
            yield found.start, found.records
            at = found.start + len(found.records)

    def ends_with_wal(self) -> dict[tuple[int, int], int]:
        """Where logs end that have messages which no checkpoint has written to segments yet."""
        ends: dict[tuple[int, int], int] = {}
        after = 0 if self.checkpoint is None else self.checkpoint.number
        for name in self._disk.list(WAL_FOLDER):
            try:
                found = scan_commits(self._disk.read(f"{WAL_FOLDER}/{name}"))
            except FileNotFoundError:
                continue
            for item in found:
                if not isinstance(item, Frame) or item.body is None or item.fixed.number <= after:
                    continue
                for _, records in decode_commit(item.body, self._ring):
                    for record in records if isinstance(records, list) else ():
                        if isinstance(record, Published):
                            ends[record.topic, record.partition] = record.base + record.count
        return ends


def _first_in(log: DiskLog, time_ms: int) -> int | None:
    for segment in log.segments:
        for which in range(len(segment.bases)):
            base, head = segment.head(which)
            times = head.timestamps()
            if times[-1] >= time_ms:
                return base + next(row for row, time in enumerate(times) if time >= time_ms)
    return None
