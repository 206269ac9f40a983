"""Flushing: what lies in the oldest files of the write-ahead log is written to segments and history files, partition by
partition, so that those files can go.

Runs in a thread, beside the commits. What it wrote counts once a checkpoint names it; until then everything is still in the
write-ahead log. A log of which something cannot be read there, or cannot be encrypted for its files, stays there, and holds
those files back. It is no concern of the others: whatever hinders one of them must not end the flush.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import HISTORY_RECORDS, HistoryRecord

from .crypto import KeyRing
from .files import Disk
from .history import DiskHistory
from .history import Place as HistoryPlace
from .log import DiskLog
from .logged import LoggedPublish, LoggedRecord, Sections, decode_logged
from .new_frames import FRAME_BYTES, FRAME_MESSAGES, NewFrame
from .segment import Mark, Segment
from .wal import Body, Wal, read_commits

FLUSH_BYTES = 256 << 20  # of write-ahead log that logs and histories lie in
FLUSH_FILES = 64  # of it: short ones, for each opening begins one
FLUSH_BLOCKS = 100_000  # places in it: each is in memory, and in every checkpoint
PASS_BYTES = 64 << 20  # of it that are in memory at a time
FEW_FILES = 32  # more are synced all at once, with whatever else is on that file system

Place = tuple[TopicId, int]
OfLogs = Sequence[tuple[DiskLog, int, KeyRing | None]]  # with where each begins, and the keys of an encrypted topic
OfHistories = Sequence[tuple[DiskHistory, int, KeyRing | None]]


class Messages:
    """Of one log. What fills a frame is encoded at once, for it takes less memory then."""

    def __init__(self, log: DiskLog, start: int, ring: KeyRing | None) -> None:
        self.log = log
        self.count = 0  # of publishes
        self._start = start
        self._first = max(0, log.blocks.find(start))  # the block that comes first
        self._ring = ring
        self._records: list[LoggedPublish] = []
        self._size = 0
        self._frames: list[NewFrame] = []
        self.error: OrtooError | None = None  # why it cannot be written: there is no key for it, say

    def is_next(self, record: LoggedPublish, number: int) -> bool:
        """Behind one that is missing, the others are of no use. And none may be taken twice for the one that is."""
        at = self._first + self.count
        is_it = at < len(self.log.blocks) and self.log.blocks[at][:2] == (record.base, number)
        return is_it and record.end > self._start

    def add(self, record: LoggedPublish) -> None:
        self.count += 1
        self._records.append(record)
        self._size += record.size + record.count * (FRAME_BYTES // FRAME_MESSAGES)
        if self._size >= FRAME_BYTES:
            self._encode()

    def _encode(self) -> None:
        try:
            self._frames += self.log.encode(self._records, self._ring) if self.error is None else ()
        except OrtooError as error:
            self.error, self._frames = error, []
        self._records, self._size = [], 0

    def frames(self) -> list[NewFrame]:
        """All of it; none where there is an error."""
        self._encode()
        return self._frames


class FlushPlan(NamedTuple):
    """When to flush what."""

    flush_bytes: int
    everything: bool  # there are too many blocks, or too little room on the disk

    def passes(self, wal: Wal, lowest: int | None, upto: int) -> list[list[int]]:
        """The files to flush, the oldest first, so many at a time as may be in memory. `lowest`: the first commit with something
        to flush; `upto`: the last one that may be."""
        files = [first for first in wal.files if lowest is not None and lowest <= wal.last_of(first) <= upto]
        passes: list[list[int]] = []
        size = 0
        for first in files[: self._count([wal.sizes.get(first, 0) for first in files])]:
            size += wal.sizes.get(first, 0)
            if not passes or size > PASS_BYTES:
                passes.append([])
                size = wal.sizes.get(first, 0)
            passes[-1].append(first)
        return passes

    def _count(self, sizes: list[int]) -> int:
        """The older half, so that less is written that would be gone soon."""
        if self.everything or not sizes:
            return len(sizes)
        left = sum(sizes)
        if left < self.flush_bytes:
            return len(sizes) // 2 if len(sizes) >= FLUSH_FILES else 0
        for count, size in enumerate(sizes, start=1):
            left -= size
            if left <= self.flush_bytes // 2:
                return count
        return len(sizes)


class Flush:
    def __init__(self, disk: Disk, ring: KeyRing, logs: OfLogs, histories: OfHistories, upto: int) -> None:
        """`upto`: the last commit of the last file that is flushed."""
        self._disk = disk
        self._ring = ring
        self.upto = upto
        self._logs = {(log.topic, log.partition): (log, start, ring) for log, start, ring in logs if not log.is_stuck}
        self._histories = {(one.topic, one.partition): (one, ring) for one, _, ring in histories if not one.is_stuck}
        self._messages: dict[Place, Messages] = {}
        self._happened: dict[Place, list[tuple[int, HistoryRecord]]] = defaultdict(list)
        self._written: list[tuple[DiskLog, list[Segment], Mark | None]] = []
        self._told: list[tuple[DiskHistory, list[HistoryPlace]]] = []
        self._locked: set[int] = set()  # topics of which something cannot be decrypted
        self._read_of: dict[Place, int] = {}  # how many commits with history of it were read
        self._last_of: dict[Place, int] = {}  # the last of them
        self.stuck: dict[DiskLog, str] = {}  # and why
        self.lost: list[DiskHistory] = []  # of which some was damaged

    def run(self, files: Sequence[int]) -> None:
        """Durable when it returns."""
        for first in files:
            self._read(first)
        self._leave_stuck()
        try:
            self._write()
        except BaseException:
            for log, touched, before in self._written:
                log.take_back(touched, before)
            for history, places in self._told:
                history.take_back(places)
            raise

    # -- reading

    def _read(self, first: int) -> None:
        for commit in read_commits(self._disk, first):
            for topic, records in self._decoded(commit) if commit.number <= self.upto else ():
                if isinstance(records, OrtooError):
                    self._locked.add(topic)
                else:
                    self._take(records, commit.number)

    def _decoded(self, commit: Body) -> Sections:
        try:
            return list(decode_logged(*commit, self._ring))
        except CorruptionError:  # as if it were damaged: what lies there is missed by its log
            return []

    def _take(self, records: list[LoggedRecord], number: int) -> None:
        of_history: dict[Place, list[HistoryRecord]] = defaultdict(list)
        for record in records:
            if isinstance(record, LoggedPublish):
                self._take_publish((record.topic, record.partition), record, number)
            elif isinstance(record, HISTORY_RECORDS):
                of_history[record.topic, record.partition].append(record)
        for place, found in of_history.items():
            if place in self._histories:
                self._number(place, number, found)

    def _take_publish(self, place: Place, record: LoggedPublish, number: int) -> None:
        if place in self._logs:
            messages = self._messages.get(place) or Messages(*self._logs[place])
            if messages.is_next(record, number):
                messages.add(record)
                self._messages[place] = messages

    def _number(self, place: Place, number: int, records: list[HistoryRecord]) -> None:
        """A commit may have records of a partition in two sections, if its topic was not encrypted at first."""
        history, _ = self._histories[place]
        index = bisect_right(history.blocks.numbers, number) - 1
        if index < 0 or history.blocks.numbers[index] != number:
            return
        self._read_of[place] = self._read_of.get(place, 0) + (number != self._last_of.get(place))
        self._last_of[place] = number
        known = self._happened[place]
        start = history.blocks.starts[index]
        start = known[-1][0] + 1 if known and known[-1][0] >= start else start
        known.extend(enumerate(records, start))

    def _leave_stuck(self) -> None:
        """Without the key, history stays where it is, too. What is damaged of it is lost, and costs nothing else."""
        for place in [place for place in self._histories if self._is_locked(place)]:
            self._leave_history(place)
        for place, (history, _) in self._histories.items():
            if self._read_of.get(place, 0) < bisect_right(history.blocks.numbers, self.upto):
                self.lost.append(history)
        for place, (log, start, _) in self._logs.items():
            blocks = log.blocks
            wanted = bisect_right(blocks.numbers, self.upto) - max(0, blocks.find(start))
            found = self._messages[place].count if place in self._messages else 0
            if found < wanted and not self._is_gone(log, start):
                self._leave_log(
                    place, f"{log.folder} stays in the write-ahead log, for some of it cannot be read there; repair it"
                )
            elif found and not self._messages[place].frames():
                error = self._messages[place].error  # told once for all partitions
                self._leave_log(place, f"topic {log.topic} stays in the write-ahead log: {error}")

    def _is_locked(self, place: Place) -> bool:
        """Some of its history cannot be decrypted, or what there is cannot be encrypted."""
        _, ring = self._histories[place]
        return place[0] in self._locked or (place in self._happened and ring is not None and ring.current is None)

    def _leave_history(self, place: Place) -> None:
        self._histories.pop(place)[0].is_stuck = True
        self._happened.pop(place, None)

    def _leave_log(self, place: Place, reason: str) -> None:
        self.stuck[self._logs[place][0]] = reason
        self._messages.pop(place, None)

    def _is_gone(self, log: DiskLog, start: int) -> bool:
        """All that it has there lies before its start. The event loop may append meanwhile, so its end is looked at first."""
        end = log.end
        after = bisect_right(log.blocks.numbers, self.upto)
        return (log.blocks.bases[after] if after < len(log.blocks) else end) <= start

    # -- writing

    def _write(self) -> None:
        are_many = len(self._messages) + len(self._happened) > FEW_FILES
        with self._disk.syncing_all() if are_many else nullcontext() as sync:
            for messages in self._messages.values():
                log, before = messages.log, messages.log.mark()
                self._written.append((log, log.flush(messages.frames(), synced=sync is not None), before))
            for place, numbered in list(self._happened.items()):
                history, ring = self._histories[place]
                try:
                    self._told.append((history, history.flush(numbered, ring, synced=sync is not None)))
                except OrtooError:  # the key has gone since
                    self._leave_history(place)
            if sync is not None:
                sync()

    # -- the end, in the event loop again

    def steps(self) -> list[Callable[[], None]]:
        """What makes it count, log by log."""
        written = {id(log): touched for log, touched, _ in self._written}
        told = {id(history): places for history, places in self._told}
        steps: list[Callable[[], None]] = []
        for log, _, _ in self._logs.values():
            if log in self.stuck:
                log.is_stuck = True
            elif len(log.blocks):
                steps.append(_finish_log(log, written.get(id(log), []), self.upto))
        for history, _ in self._histories.values():
            if len(history.blocks):
                steps.append(_finish_history(history, told.get(id(history), []), self.upto))
        return steps


def _finish_log(log: DiskLog, touched: list[Segment], upto: int) -> Callable[[], None]:
    return lambda: log.finish_flush(touched, upto)


def _finish_history(history: DiskHistory, places: list[HistoryPlace], upto: int) -> Callable[[], None]:
    return lambda: history.finish_flush(places, upto)
