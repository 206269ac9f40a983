"""Verifies a data directory without changing it: every byte of every file, and that nothing is missing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ortoo.model.errors import OrtooError

from .checkpoint import Checkpoint, read_checkpoint
from .commit import decode_commit
from .crypto import KeyRing
from .files import Disk
from .format import FORMAT, NAME
from .frame import Damage, Frame, scan_frames
from .log import LogEntry
from .segment import Segment
from .wal import FOLDER as WAL_FOLDER
from .wal import scan_commits, without_torn_end

Progress = Callable[[str], None]


class Problem(msgspec.Struct, frozen=True):
    path: str
    position: int | None
    what: str

    def __str__(self) -> str:
        where = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{where}: {self.what}"


class Report(msgspec.Struct):
    files: int = 0
    bytes: int = 0
    messages: int = 0
    commits: int = 0
    problems: list[Problem] = []

    def complain(self, path: str, what: str, position: int | None = None) -> None:
        self.problems.append(Problem(path, position, what))


def check_directory(disk: Disk, ring: KeyRing, progress: Progress = lambda _: None) -> Report:
    """A running queue may be checked, too: what it writes meanwhile is not looked at."""
    report = Report(problems=[])
    if NAME not in disk.list(""):
        report.complain(NAME, "this is not a data directory of Ortoo")
        return report
    if disk.read(NAME) != FORMAT:
        report.complain(NAME, "the format is damaged, or of another version")
        return report
    try:
        checkpoint = read_checkpoint(disk)
    except OrtooError as error:
        report.complain("checkpoint", str(error))
        return report
    if checkpoint is not None:
        _check_logs(report, disk, checkpoint, ring, progress)
        _check_histories(report, disk, checkpoint, progress)
    _check_wal(report, disk, 0 if checkpoint is None else checkpoint.number, ring, progress)
    return report


def _check_logs(report: Report, disk: Disk, checkpoint: Checkpoint, ring: KeyRing, progress: Progress) -> None:
    encrypted = {topic.id for topic in checkpoint.manifest.topics if topic.config.encrypted}
    for entry in checkpoint.manifest.logs:
        for known in entry.segments:
            _check_segment(report, disk, LogEntry(*entry), known.base, known.size, ring, progress)
    missing = encrypted and ring.current is None
    if missing:
        report.complain(
            "keys", f"topics {sorted(encrypted)} are encrypted and no key was given: their contents were not read"
        )


def _check_segment(
    report: Report, disk: Disk, entry: LogEntry, base: int, size: int, ring: KeyRing, progress: Progress
) -> None:
    folder = f"logs/{entry.topic}/{entry.partition}"
    is_sealed = f"{base:020d}.seg" in disk.list(folder)
    segment = Segment(disk, folder, base, is_sealed)
    progress(segment.path)
    if segment.path.rpartition("/")[2] not in disk.list(folder):
        report.complain(segment.path, "the file is missing")
        return
    report.files += 1
    try:
        heads = segment.load(None if is_sealed else size, cut=False)
        report.bytes += segment.size
        for which, (_, head) in enumerate(heads):
            report.messages += head.count
            if head.sealed is None or head.sealed.key in ring.names:
                segment.read(which, entry.topic, entry.partition, ring)
    except OrtooError as error:
        report.complain(segment.path, str(error))
    finally:
        segment.close()


def _check_histories(report: Report, disk: Disk, checkpoint: Checkpoint, progress: Progress) -> None:
    for entry in checkpoint.manifest.histories:
        for number, size in entry.files:
            path = f"history/{entry.topic}/{entry.partition}/{number:010d}.hist"
            progress(path)
            try:
                data = disk.read(path)[:size]
            except FileNotFoundError:
                report.complain(path, "the file is missing")
                continue
            if len(data) < size:
                report.complain(path, f"the file has {len(data)} bytes, the checkpoint knows of {size}")
            _count(report, path, data)


def _check_wal(report: Report, disk: Disk, after: int, ring: KeyRing, progress: Progress) -> None:
    names = disk.list(WAL_FOLDER)
    expected = after + 1
    for index, name in enumerate(names):
        path = f"{WAL_FOLDER}/{name}"
        progress(path)
        found = scan_commits(disk.read(path))
        if index == len(names) - 1:  # a torn end is how a crash looks; opening the queue cuts it
            found = without_torn_end(found, int(name.partition(".")[0]))
        report.files += 1
        for item in found:
            if isinstance(item, Damage) or item.body is None:
                reason = item.reason if isinstance(item, Damage) else "the checksum of the commit does not match"
                report.complain(path, reason, item.position)
                continue
            report.commits += 1
            report.bytes += item.fixed.size
            if item.fixed.number > expected:
                report.complain(path, f"commits {expected} to {item.fixed.number - 1} are missing", item.position)
            expected = max(expected, item.fixed.number + 1)
            _check_commit(report, path, item, ring)


def _check_commit(report: Report, path: str, frame: Frame, ring: KeyRing) -> None:
    try:
        for _ in decode_commit(frame.body or b"", ring):
            pass
    except OrtooError as error:
        report.complain(path, str(error), frame.position)


def _count(report: Report, path: str, data: bytes) -> None:
    report.files += 1
    report.bytes += len(data)
    for item in scan_frames(data):
        if isinstance(item, Damage):
            report.complain(path, item.reason, item.position)
        elif item.body is None:
            report.complain(path, "the checksum of the frame's body does not match", item.position)
