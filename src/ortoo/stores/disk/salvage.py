"""Copying what can be read out of a damaged directory into a new one, file by file, and telling what cannot be read.

Frames are copied as they are, so nothing is decoded that need not be, and what was encrypted stays so. A file at a time is in
memory, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord, Record, decode_history

from .checkpoint import FOLDER as CHECKPOINT_FOLDER
from .checkpoint import Manifest, decode_manifest
from .commit import decode_commit, decode_touched
from .contents import CHECKPOINT_FILES, HISTORY_FILES, Kind, list_files, list_folders
from .crypto import KeyRing, Secret
from .files import Disk, read_file
from .frame import CHECKPOINT, HISTORY, Damage, Frame, framed_anew, scan_frames
from .history import HistoryEntry
from .history import decode_head as decode_history_head
from .wal import SYNCED_BYTES, Run, file_name, is_needless, list_wal, scan_commits, without_torn_end


class SavedCheckpoint(NamedTuple):
    number: int
    manifest: Manifest
    snapshot: bytes | None  # None: only the state is damaged


class SavedCommit(NamedTuple):
    number: int
    records: list[Record]
    secret: set[int]  # topics whose records were encrypted


class LostCommits(NamedTuple):
    """Commits that cannot be read, from the first to the last. `touched`: what they spoke of, where that can be told."""

    first: int
    last: int
    touched: list[tuple[int, int]] | None


class Salvage:
    """Collects complaints along the way. UnavailableError when a key is missing: what needs it is not damaged."""

    def __init__(self, disk: Disk, draft: Disk, ring: KeyRing) -> None:
        self.disk = disk
        self.draft = draft
        self.ring = ring
        self.complaints: list[str] = []

    def complain(self, what: str) -> None:
        self.complaints.append(what)

    def _tell(self, path: str, item: Frame | Damage, what: str | None = None) -> None:
        is_other = what is not None and isinstance(item, Frame) and not item.is_unreadable
        self.complain(f"{path} at byte {item.position}: {what if is_other else item.reason}")

    def list_files(self, folder: str, kind: Kind) -> list[str]:
        """None where the folder cannot be read."""
        return self._listed(partial(list_files, self.disk, folder, kind))

    def _listed(self, names: Callable[[], list[str]]) -> list[str]:
        try:
            return names()
        except CorruptionError as error:
            self.complain(str(error))
            return []

    # -- the checkpoint

    def checkpoint(self) -> SavedCheckpoint | None:
        for name in reversed(self.list_files(CHECKPOINT_FOLDER, CHECKPOINT_FILES)):
            path = f"{CHECKPOINT_FOLDER}/{name}"
            found = scan_frames(*read_file(self.disk, path))
            frame = found[0] if found else None
            which = ", which the disk cannot read," if frame is not None and frame.is_unreadable else ""
            if not isinstance(frame, Frame) or frame.fixed.kind != CHECKPOINT:
                self.complain(
                    f"{path}{which} is damaged: names and settings of topics, and what groups had done, are not known"
                )
                continue
            try:
                manifest = decode_manifest(frame.head, f"the head of {path}")
            except CorruptionError as error:
                self.complain(str(error))
                continue
            if frame.body is None:
                self.complain(f"the state in {path}{which} is damaged: what groups had done is not known any more")
            return SavedCheckpoint(frame.fixed.number, manifest, frame.body)
        return None

    def secrets(self, manifest: Manifest) -> list[tuple[int, bytes]]:
        found = []
        for topic, sealed, data in manifest.secrets:
            try:
                found.append((topic, self.ring.open(sealed, data, Secret.context(topic))))
            except CorruptionError as error:
                self.complain(f"dedup ids of topic number {topic} cannot be read: {error}")
        return found

    # -- messages

    def partitions(self) -> list[tuple[TopicId, int]]:
        """Every partition that has a folder, for its messages or for its history."""
        found = [
            (TopicId(int(topic)), int(partition))
            for folder in ("logs", "history")
            for topic in self._listed(partial(list_folders, self.disk, folder))
            for partition in self._listed(partial(list_folders, self.disk, f"{folder}/{topic}"))
        ]
        return list(dict.fromkeys(found))

    # -- history

    def history(
        self, topic: TopicId, partition: int, entry: HistoryEntry | None, tell: Callable[[list[HistoryRecord]], None]
    ) -> HistoryEntry:
        """Copies what can be read, and tells it. Returns what was copied, as a checkpoint knows it."""
        folder = f"history/{topic}/{partition}"
        files, end = [], 0
        for path, size in self._history_files(folder, entry):
            content = read_file(self.disk, path, 0, size)
            if size is not None and len(content.data) < size:
                self.complain(f"{path} at byte {len(content.data)}: the checkpoint knows of {size} bytes")
            kept = bytearray()
            for item in scan_frames(*content):
                found = self._history_records(path, item, topic, partition)
                if found is not None:
                    end = max(end, found[0])
                    kept += framed_anew(item, self.draft.salt.within(folder))  # type: ignore[arg-type]
                    tell(found[1])
            if kept:
                self._write(folder, path, bytes(kept))
                files.append((int(path[-15:-5]), len(kept)))
        return HistoryEntry(topic, partition, files, *((0, end) if entry is None else (entry.dropped, entry.end)))

    def _history_files(self, folder: str, entry: HistoryEntry | None) -> Iterator[tuple[str, int | None]]:
        names = self.list_files(folder, HISTORY_FILES)
        if entry is None:
            yield from ((f"{folder}/{name}", None) for name in names)
            return
        for number, size in sorted(entry.files):
            path = f"{folder}/{number:010d}.hist"
            if f"{number:010d}.hist" in names:
                yield path, size
            else:
                self.complain(f"{path} is missing")

    def _history_records(
        self, path: str, item: Frame | Damage, topic: TopicId, partition: int
    ) -> tuple[int, list[HistoryRecord]] | None:
        """The records of a frame, after the number that follows the last of them."""
        if isinstance(item, Damage) or item.body is None or item.fixed.kind != HISTORY:
            self._tell(path, item, "some history cannot be read")
            return None
        try:
            head, body = decode_history_head(item.head), item.body
            if head.sealed is not None:
                body = self.ring.open(head.sealed, body, f"history {topic}.{partition}.{head.first}".encode())
            return (head.start or 0) + head.count, decode_history(body)
        except CorruptionError as error:
            self._tell(path, item, str(error))
            return None

    def _write(self, folder: str, path: str, data: bytes) -> None:
        self.draft.make_dir(folder)
        file = self.draft.open(path)
        file.append(data)
        file.sync()
        file.close()
        self.draft.sync_dir(folder)

    # -- the write-ahead log

    def commits(self, after: int, kept: Sequence[Run]) -> Iterator[SavedCommit | LostCommits]:
        """What it still tells, in order. Needed are the commits after that number, and those `kept`."""
        expected = min([after + 1, *(first for first, _ in kept)])
        files = list_wal(self.disk)
        for begin in files:
            path = file_name(begin)
            if begin > expected and not is_needless(expected, begin - 1, after, kept):
                self.complain(f"{path}: commits {expected} to {begin - 1} should come before it, and are missing")
                yield LostCommits(expected, begin - 1, None)
            expected = max(begin, expected)
            content = read_file(self.disk, path)
            found = scan_commits(*content)
            if begin == files[-1] > after:
                found = self._without_torn_end(path, found, begin, len(content.data))
            for item in found:
                for told in self._commit(path, item, expected):
                    expected = max(expected, (told.last if isinstance(told, LostCommits) else told.number) + 1)
                    yield told
            if begin == files[-1] > after and found and isinstance(found[-1], Damage):
                yield LostCommits(expected, expected, None)  # one at least, and none that follows tells how many
        if not is_needless(expected, after, after, kept):
            self.complain(f"commits {expected} to {after} should come last in the write-ahead log, and are missing")
            yield LostCommits(expected, after, None)

    def _without_torn_end(self, path: str, found: list[Frame | Damage], first: int, size: int) -> list[Frame | Damage]:
        whole = without_torn_end(found, first)
        if len(whole) < len(found):
            at = found[len(whole)].position
            self.complain(
                f"{path} at byte {at}: the last {size - at} bytes are half a commit, which was never confirmed"
            )
        return whole

    def _commit(self, path: str, item: Frame | Damage, expected: int) -> Iterator[SavedCommit | LostCommits]:
        if isinstance(item, Damage):
            self._tell(path, item)
            return  # the number of the next one tells what is missing
        number = item.fixed.number
        if number < expected:
            return  # is known already, or needed no more
        if number > expected:
            self.complain(f"{path} at byte {item.position}: commits {expected} to {number - 1} are missing before it")
            yield LostCommits(expected, number - 1, None)
        if item.body is None:
            self._tell(path, item, f"the checksum of commit {number} does not match")
            yield LostCommits(number, number, decode_touched(item.head[SYNCED_BYTES:]))
            return
        try:
            yield self._records(number, item.body, item.fixed.flags)
        except CorruptionError as error:
            self._tell(path, item, str(error))
            yield LostCommits(number, number, decode_touched(item.head[SYNCED_BYTES:]))

    def _records(self, number: int, body: bytes, flags: int) -> SavedCommit:
        records: list[Record] = []
        secret: set[int] = set()
        for topic, section in decode_commit(number, body, flags, self.ring):
            if isinstance(section, OrtooError):
                raise section
            records.extend(section)
            secret.add(topic)
        return SavedCommit(number, records, secret - {0})
