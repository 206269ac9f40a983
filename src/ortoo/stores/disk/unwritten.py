"""How far the write-ahead log is ahead of the files, for one who looks at a data directory from outside."""

from __future__ import annotations

from collections import Counter, defaultdict

from ortoo.model.records import HistoryRecord, Published, Record

from .commit import decode_commit
from .contents import WAL_FILES, list_files
from .crypto import KeyRing
from .files import Disk, read_file
from .frame import Damage, Frame
from .wal import FOLDER, scan_commits

Place = tuple[int, int]  # topic, partition


class Unwritten:
    """Reads what is new each time it is asked. A file is either whole in a checkpoint or wholly newer."""

    def __init__(self, disk: Disk, ring: KeyRing) -> None:
        self._disk = disk
        self._ring = ring
        self._positions: Counter[str] = Counter()  # by file: how much of it was read
        self._ends: dict[Place, int] = {}
        self._history_records: dict[str, Counter[Place]] = defaultdict(Counter)

    def refresh(self) -> None:
        for name in list_files(self._disk, FOLDER, WAL_FILES):
            try:
                content = read_file(self._disk, f"{FOLDER}/{name}", self._positions[name])
            except FileNotFoundError:  # the checkpoint that made it needless is there already
                continue
            for item in scan_commits(*content):
                if isinstance(item, Damage) or item.body is None:
                    break  # half written, most likely
                self._positions[name] += item.fixed.size
                self._note(name, item)

    def _note(self, name: str, commit: Frame) -> None:
        for _, records in decode_commit(commit.fixed.number, commit.body or b"", commit.fixed.flags, self._ring):
            for record in records if isinstance(records, list) else ():
                self._count(name, record)

    def _count(self, name: str, record: Record) -> None:
        if isinstance(record, Published):
            self._ends[record.topic, record.partition] = record.base + record.count
        elif isinstance(record, HistoryRecord):
            self._history_records[name][record.topic, record.partition] += 1

    def end(self, place: Place) -> int:
        """The number after the last message that was written to the log; 0 when none is known."""
        return self._ends.get(place, 0)

    def read_history(self, place: Place, after: int) -> int:
        """How many records of history came after that commit."""
        return sum(
            counts[place] for name, counts in self._history_records.items() if int(name.removesuffix(".wal")) > after
        )
