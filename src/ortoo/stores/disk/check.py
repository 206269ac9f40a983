"""Verifies a data directory without changing it: what opening it would find, and then every byte that opening does not read.

The code that opens a directory does the first part, on a view that lets it change nothing. A queue may be running meanwhile:
what vanishes is looked for again, as the newest checkpoint tells it, and what comes is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from ortoo.model.errors import CorruptionError, NotFoundError, OrtooError
from ortoo.model.records import Record

from .catalog import Catalog
from .checkpoint import FOLDER as CHECKPOINT_FOLDER
from .checkpoint import read_checkpoint
from .contents import CHECKPOINT_FILES, IGNORED, list_files
from .crypto import KeyRing, tells_of_keys
from .files import Disk
from .format import NAME, refuse_strangers, refuse_unknown
from .frame import UnreadableError
from .history import DiskHistory
from .keys import bind_keys
from .log import DiskLog
from .logged import CommitReader
from .recovery import Recovery
from .segment import Segment
from .view import ViewDisk
from .wal import Wal, file_name

TRIES = 20
Progress = Callable[[str], None]


class Report(msgspec.Struct):
    files: int = 0
    bytes: int = 0
    messages: int = 0
    commits: int = 0
    problems: list[str] = []
    damaged: bool = False  # by something that `repair` makes the best of; other problems say what to do

    def complain(self, problem: str | OrtooError, damaged: bool = True) -> None:
        if str(problem) not in self.problems:
            self.problems.append(str(problem))
        self.damaged = self.damaged or (damaged and isinstance(problem, str | CorruptionError))


class Directory:
    """A directory as opening it would find it."""

    def __init__(self, disk: Disk, ring: KeyRing) -> None:
        self.wal = Wal(disk)
        self.catalog = Catalog(disk, commits=CommitReader(self.wal, ring), recent_bytes=0)
        self.problems: list[str] = []
        self.refusal: OrtooError | None = None  # why it cannot be opened
        self._disk = disk
        self._ring = ring

    def records(self) -> Iterator[list[Record]]:
        """What a store tells the engine. Raises what opening would."""
        self.problems += bind_keys(self._disk, self._ring)
        checkpoint = read_checkpoint(self._disk)
        recovery = Recovery(self._disk, self.wal, self.catalog, self._ring, self.problems, checkpoint)
        recovery.prepare()
        if checkpoint is not None:
            yield [recovery.load(checkpoint)]
        yield from recovery.replay()
        recovery.lock_up_without_key()


def check_directory(disk: ViewDisk, ring: KeyRing, progress: Progress = lambda _: None) -> Report:
    report = Report(problems=[])
    try:
        refuse_unknown(disk)
        if NAME not in disk.list(""):
            kind = CorruptionError if "wal" in disk.list("") else NotFoundError  # a repair would write it again
            raise kind(f"{disk} is not a data directory of Ortoo: the file {NAME} is missing")
        refuse_strangers(disk)
    except OrtooError as error:
        report.complain(error)
        return report
    directory = _open(disk, ring)
    for problem in directory.problems:
        report.complain(problem, damaged=not (tells_of_keys(problem) or problem.startswith(IGNORED)))
    if directory.refusal is not None:
        report.complain(directory.refusal)
    _count_wal(report, disk, directory.wal)
    for log in directory.catalog.logs.values():
        for segment in log.segments:
            progress(segment.path)
            _check_segment(report, disk, log, segment, ring)
        _check_blocks(report, log)
    for history in directory.catalog.histories.values():
        _check_history(report, history, ring, progress)
    directory.catalog.close_files()
    return report


def _open(disk: ViewDisk, ring: KeyRing) -> Directory:
    """Again when a checkpoint came in between, for it may have taken away what it replaced."""
    for _ in range(TRIES):
        before = _checkpoints(disk)
        directory = Directory(disk, ring)
        try:
            for _ in directory.records():
                pass
        except FileNotFoundError as error:  # sealed, perhaps, since the folder was listed
            directory.problems.append(f"{error.filename} is missing")
            before = []
        except OrtooError as error:
            directory.refusal = error
        else:
            if not directory.problems:
                break
        if _checkpoints(disk) == before:
            break
        directory.catalog.close_files()
    return directory


def _checkpoints(disk: ViewDisk) -> list[object]:
    """Which there are. One of the same commits takes another's name, so that names alone do not tell."""
    try:
        newest = read_checkpoint(disk)
        return [*list_files(disk, CHECKPOINT_FOLDER, CHECKPOINT_FILES), newest and newest.manifest]
    except (CorruptionError, FileNotFoundError):  # opening tells that
        return []


def _count_wal(report: Report, disk: ViewDisk, wal: Wal) -> None:
    for first in wal.files:
        report.files += 1
        report.bytes += _size(disk, file_name(first))
    report.commits = max(0, wal.next_number - wal.files[0]) if wal.files else 0


def _size(disk: ViewDisk, path: str) -> int:
    try:
        file = disk.open(path)
    except (FileNotFoundError, UnreadableError):  # a checkpoint made it needless; or it is told already
        return 0
    try:
        return file.size()
    finally:
        file.close()


def _check_segment(report: Report, disk: ViewDisk, log: DiskLog, segment: Segment, ring: KeyRing) -> None:
    report.files += 1
    report.bytes += segment.size
    for which in range(len(segment.bases)):
        try:
            report.messages += segment.read(which, log.topic, log.partition, ring)[1].count
        except FileNotFoundError:  # trimmed; or sealed, and then its frames were read to make the other
            if _is_needed(disk, log, segment):
                report.complain(f"{segment.path} is missing")
            return
        except OrtooError as error:
            report.complain(error)


def _check_blocks(report: Report, log: DiskLog) -> None:
    """What lies in the write-ahead log."""
    with suppress(FileNotFoundError):  # flushed meanwhile, and what was flushed was read
        report.messages += log.check_blocks(report.complain)


def _is_needed(disk: ViewDisk, log: DiskLog, segment: Segment) -> bool:
    if f"{segment.base:020d}.seg" in disk.list(log.folder):
        return False
    checkpoint = read_checkpoint(disk)
    return checkpoint is not None and any(
        known.base == segment.base
        for entry in checkpoint.manifest.logs
        if (entry.topic, entry.partition) == (log.topic, log.partition)
        for known in entry.segments
    )


def _check_history(report: Report, history: DiskHistory, ring: KeyRing, progress: Progress) -> None:
    report.files += len(history.sizes)
    report.bytes += sum(history.sizes.values())
    for number in history.sizes:
        progress(history.path(number))
    for place in history.places:
        try:
            history.read(place, ring)
        except FileNotFoundError:  # it spoke of messages long gone, and went with them
            continue
        except OrtooError as error:
            report.complain(error)
    with suppress(FileNotFoundError):  # flushed meanwhile
        history.check_blocks(report.complain)
