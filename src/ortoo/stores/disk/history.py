"""What happened to a partition's messages, in files of its own: frames that know which offsets they speak of; and behind them
blocks, which lie in the write-ahead log until they are flushed.

frames (in files, listed in the checkpoint) | blocks (where each commit's records lie in the write-ahead log)

The records of a partition are numbered from 0, in this order, for ever: a frame's head tells the number of its first one, so
that what is damaged or gone leaves the others their numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import HISTORY_RECORDS, HistoryRecord, Retried, decode_history, encode_records
from ortoo.ports import StoredHistory

from .blocks import HistoryBlocks
from .contents import HISTORY_FILES, list_files
from .crypto import KeyRing, Sealed
from .files import Disk, File, read_around, read_file, read_heads
from .frame import HISTORY, BadFrameError, Frame, FrameHead, UnreadableError, encode_frame, scan_frames
from .logged import CommitReader

FRAME_RECORDS = 512
FILE_BYTES = 16 << 20
_RECORD_BYTES = 500  # so many are read in the time that it takes to decode a record


class HistoryHead(msgspec.Struct, array_like=True, frozen=True):
    first: int
    last: int
    count: int
    sealed: Sealed | None
    start: int | None = None  # number of the first record; before numbers were kept, None


class HistoryEntry(NamedTuple):
    """A history as a checkpoint knows it: its files by number, and how much of each counts."""

    topic: TopicId
    partition: int
    files: list[tuple[int, int]]
    dropped: int = 0  # records that went with files of old
    end: int = 0  # number after that of the last record in the files
    blocks: bytes = b""  # as HistoryBlocks.part gives them
    logged: int = 0  # how many records the blocks have


class Place(NamedTuple):
    first: int
    last: int
    file: int
    position: int
    size: int
    head: HistoryHead
    start: int

    @property
    def end(self) -> int:
        return self.start + self.head.count


_LOOKED_BYTES = 100  # to look whether a record is one of a partition's takes as long as to read so many

Report = Callable[[str], None]  # is told of damage

_encode = msgspec.msgpack.Encoder().encode
_head_decoder = msgspec.msgpack.Decoder(HistoryHead)


def decode_head(data: bytes) -> HistoryHead:
    return decode_stored(_head_decoder, data, "the head of a frame of history")


def bounds(record: HistoryRecord) -> tuple[int, int]:
    if isinstance(record, Retried):
        return min(record.offsets), max(record.offsets)
    return record.offsets.first(), record.offsets.last()


class DiskHistory:
    def __init__(self, disk: Disk, topic: TopicId, partition: int, commits: CommitReader | None = None) -> None:
        self.disk = disk
        self._commits = commits
        self.topic = topic
        self.partition = partition
        self.folder = f"history/{topic}/{partition}"
        self.places: list[Place] = []
        self.sizes: dict[int, int] = {}  # by file number
        self.blocks = HistoryBlocks()
        self.end = 0  # number after that of the last record
        self.is_stuck = False  # some of it cannot be flushed, for it cannot be decrypted
        self.dropped = 0
        self.written_end = 0  # number after that of the last record in the files
        self.replaced: list[str] = []  # files that the next checkpoint does not name: others have what they had
        self._cached: tuple[Place, list[HistoryRecord]] | None = None
        self._finished: set[int] = (
            set()
        )  # files that are not written to: of an older format, or the disk cannot open them

    @property
    def first(self) -> int:
        """Number of the oldest record that is still known."""
        return self.places[0].start if self.places else self.written_end

    def note(self, record: HistoryRecord, number: int, position: int) -> None:
        """It lies in that commit, which begins at that place of its file."""
        if self.blocks.numbers and self.blocks.numbers[-1] == number:
            self.blocks.widen(*bounds(record))
        else:
            self.blocks.append(number, position, self.end, *bounds(record))
        self.end += 1

    def about(self, offset: int, at: int, ring: KeyRing) -> Iterator[tuple[int, list[HistoryRecord]]]:
        """What happened to one message, from that number on: piece by piece, each with the number that comes after it."""
        for place in self.places:
            if place.end > at and place.first <= offset <= place.last:
                records = self.read(place, ring)[max(0, at - place.start) :]
                yield place.end, [record for record in records if offset in record.offsets]
        blocks = self.blocks
        for index in range(bisect_left(blocks.starts, at), len(blocks)):
            if blocks.firsts[index] <= offset <= blocks.lasts[index]:
                records = self._logged(index)
                yield blocks.starts[index] + len(records), [one for one in records if offset in one.offsets]

    def _logged(self, index: int) -> list[HistoryRecord]:
        assert self._commits is not None  # there are no blocks without a write-ahead log
        number, position = self.blocks.numbers[index], self.blocks.positions[index]
        records = self._commits.read(number, position, self.topic)
        self._commits.spent += _LOOKED_BYTES * len(records)  # also where the commit was read before
        return self.mine(records)

    def mine(self, records: Iterable[object]) -> list[HistoryRecord]:
        """Of a commit's records."""
        return [
            record
            for record in records
            if isinstance(record, HISTORY_RECORDS) and record.partition == self.partition and record.topic == self.topic
        ]

    def check_blocks(self, complain: Callable[[OrtooError], None]) -> None:
        """Reads them all, whatever is damaged among them."""
        for index in range(len(self.blocks)):
            try:
                self._logged(index)
            except OrtooError as error:
                complain(error)

    def read_history(self, start: int, count: int, end: int, ring: KeyRing, report: Report) -> StoredHistory:
        """Records from `start` to before `end`, until some are missing. Where the first ones are, it starts behind them."""
        start = max(start, self.first)
        found: list[HistoryRecord] = []
        for number, records in self._stretches(start, ring, report):
            if not found:
                start = max(start, number)
            at = start + len(found)
            if at >= min(start + count, end) or number > at:
                break
            found.extend(records[at - number :])
        return StoredHistory(found[: max(0, min(count, end - start))], start, self.first, end)

    def _stretches(self, start: int, ring: KeyRing, report: Report) -> Iterator[tuple[int, list[HistoryRecord]]]:
        """What can be read from there on: the number of the first record, and the records."""
        which = bisect_right(self.places, start, key=lambda place: place.start) - 1
        for place in islice(self.places, max(which, 0), None):
            if self._cached is None or self._cached[0] is not place:
                try:
                    self._cached = (place, self.read(place, ring))
                except CorruptionError as error:
                    report(str(error))
                    continue
            yield self._cached[0].start, self._cached[1]
        for index in range(max(bisect_right(self.blocks.starts, start) - 1, 0), len(self.blocks)):
            try:
                records = self._logged(index)
            except CorruptionError as error:
                report(str(error))
                continue
            yield self.blocks.starts[index], records

    def read(self, place: Place, ring: KeyRing) -> list[HistoryRecord]:
        if self._commits is not None:
            self._commits.spent += place.size + _RECORD_BYTES * place.head.count
        content = read_file(self.disk, self.path(place.file), place.position, place.size)
        frame = next(iter(scan_frames(*content)), None)
        where = f"{self.path(place.file)} is damaged at byte {place.position}"
        if not isinstance(frame, Frame) or frame.body is None:
            why = f" ({frame.reason})" if frame is not None else ""
            raise CorruptionError(f"{where}: some history cannot be read{why}")
        body = frame.body
        try:
            if place.head.sealed is not None:
                body = ring.open(place.head.sealed, body, self.context(place.first))
            return decode_history(body)
        except CorruptionError as error:
            raise CorruptionError(f"{where}: {error}") from None

    def prove_keys(self, ring: KeyRing) -> None:
        """Tries each key that the ring can only guess is the right one on a frame that was encrypted with it."""
        for place in self.places:
            sealed = place.head.sealed
            if sealed is not None and ring.is_untried(sealed.key):
                with suppress(OrtooError):  # whoever reads it is told
                    self.read(place, ring)

    def path(self, number: int) -> str:
        return f"{self.folder}/{number:010d}.hist"

    def context(self, first: int) -> bytes:
        return f"history {self.topic}.{self.partition}.{first}".encode()

    # -- flushing

    def flush(
        self, records: Sequence[tuple[int, HistoryRecord]], ring: KeyRing | None, synced: bool = False
    ) -> list[Place]:
        """Writes these, each with its number, and syncs them, unless that is done for all. Runs beside the event loop."""
        number = max(self.sizes, default=0)
        if number == 0 or self.sizes[number] >= FILE_BYTES or number in self._finished:
            number += 1
            self.disk.make_dir(self.folder, durably=not synced)
        file = self.disk.open(self.path(number))
        try:
            file.truncate(self.sizes.get(number, 0))  # what a failed flush left behind
            places = self._write(file, number, records, ring)
            if not synced:
                file.sync()
        except (OSError, OrtooError):
            with suppress(OSError):
                file.truncate(self.sizes.get(number, 0))  # room may be short, and that may be why
            raise
        finally:
            file.close()
        if not synced:
            self.disk.sync_dir(self.folder)
        return places

    def take_back(self, places: list[Place]) -> None:
        """What a flush wrote counts for nothing. What cannot be cut off now is cut off by the next one."""
        for number in {place.file for place in places}:
            with suppress(OSError):
                file = self.disk.open(self.path(number))
                file.truncate(self.sizes.get(number, 0))
                file.close()

    def _write(
        self, file: File, number: int, numbered: Sequence[tuple[int, HistoryRecord]], ring: KeyRing | None
    ) -> list[Place]:
        places = []
        for start, records in _in_frames(numbered):
            edges = [bounds(record) for record in records]
            first, last = min(low for low, _ in edges), max(high for _, high in edges)
            body, sealed = encode_records(list(records)), None
            if ring is not None:
                sealed, body = ring.seal(body, self.context(first))
            head = HistoryHead(first, last, len(records), sealed, start)
            frame = encode_frame(HISTORY, first, _encode(head), body, salt=self.disk.salt.within(self.folder).value)
            places.append(Place(first, last, number, file.size(), len(frame), head, start))
            file.append(frame)
        return places

    def finish_flush(self, places: list[Place], upto: int) -> None:
        """What commits up to that number had is in files now."""
        self.places.extend(places)
        for place in places:
            self.sizes[place.file] = place.position + place.size
        self.blocks.drop(upto)
        self.written_end = self.blocks.starts[0] if len(self.blocks) else self.end

    def finish_rewriting(self, places: list[Place]) -> None:
        """The same frames lie in these files now, in the same order."""
        self.replaced += [self.path(number) for number in self.sizes]
        self.places, self._cached = places, None
        self.sizes = {place.file: place.position + place.size for place in places}

    def entry(self, start: int, commit: int) -> HistoryEntry:
        """As of a cut after that commit, at which the log began at `start`."""
        oldest = self._oldest(start)
        files = sorted((number, size) for number, size in self.sizes.items() if number >= oldest)
        first = next((place.start for place in self.places if place.file >= oldest), self.written_end)
        dropped = self.dropped if len(files) == len(self.sizes) else first
        after = bisect_right(self.blocks.numbers, commit)
        end = self.blocks.starts[after] if after < len(self.blocks) else self.end
        blocks, logged = self.blocks.part(commit), end - self.written_end
        return HistoryEntry(self.topic, self.partition, files, dropped, self.written_end, blocks, logged)

    def _oldest(self, start: int) -> int:
        """Files before that one speak only of messages long gone; the newest stays, for what was skipped is told there."""
        newest = max(self.sizes, default=0)
        return min([place.file for place in self.places if place.last >= start] + [newest])

    def drop_before(self, start: int) -> list[str]:
        """The files that a checkpoint cut at `start` does not name any more."""
        oldest = self._oldest(start)
        gone = [number for number in self.sizes if number < oldest]
        replaced, self.replaced = self.replaced, []
        if not gone:
            return replaced
        self.places = [place for place in self.places if place.file >= oldest]
        self.dropped = self.first
        for number in gone:
            del self.sizes[number]
        return [*replaced, *(self.path(number) for number in gone)]

    # -- recovery

    def load(self, entry: HistoryEntry) -> list[str]:
        """Opens what the checkpoint names, cuts and removes the rest. Returns what is damaged: history is worth a report,
        not a refusal."""
        problems = []
        self.dropped = self.written_end = entry.dropped
        try:
            present = {int(name.removesuffix(".hist")) for name in list_files(self.disk, self.folder, HISTORY_FILES)}
        except CorruptionError as error:
            problems.append(str(error))
            present = {number for number, _ in entry.files}
        for number, size in entry.files:
            if number not in present:
                problems.append(f"{self.path(number)} is missing")
                continue
            problems.extend(self._load_file(number, size))
        for stranger in present - {number for number, _ in entry.files}:
            self.disk.remove(self.path(stranger))
        self.written_end = max(self.written_end, entry.end)
        self.blocks, self.end = HistoryBlocks(entry.blocks), self.written_end + entry.logged
        return problems

    def _load_file(self, number: int, size: int) -> list[str]:
        try:
            file = self.disk.open(self.path(number))
        except UnreadableError as error:
            self.sizes[number] = size  # it stays what it is to the checkpoint
            self._finished.add(number)
            return [f"{self.path(number)} is damaged at byte 0: {error.reason}"]
        try:
            if file.size() > size:
                file.truncate(size)
            self.sizes[number] = file.size()
            self.places.extend(self._place(number, *found) for found in list(read_heads(file)))
            problem = f"at byte {file.size()}: the checkpoint knows of {size} bytes" if file.size() < size else None
        except BadFrameError as error:
            frames = scan_frames(
                *read_around(file)._replace(salt=self.disk.salt.within(self.folder))
            )  # what lies beyond the damage is worth having
            found = [frame for frame in frames if isinstance(frame, Frame)]
            self.places.extend(self._place(number, frame.position, frame.fixed, frame.head) for frame in found)
            problem = f"at byte {error.position}: {error.reason}"
        finally:
            file.close()
        return [f"{self.path(number)} is damaged {problem}"] if problem else []

    def _place(self, number: int, position: int, fixed: FrameHead, data: bytes) -> Place:
        if fixed.salt is None:
            self._finished.add(number)
        head = decode_head(data)
        start = max(self.written_end, head.start or 0)
        self.written_end = start + head.count
        return Place(head.first, head.last, number, position, fixed.size, head, start)


def _in_frames(numbered: Sequence[tuple[int, HistoryRecord]]) -> Iterator[tuple[int, list[HistoryRecord]]]:
    """The number of the first, and records that follow each other: what becomes one frame each."""
    start = 0
    records: list[HistoryRecord] = []
    for number, record in numbered:
        if records and (len(records) == FRAME_RECORDS or number != start + len(records)):
            yield start, records
            records = []
        if not records:
            start = number
        records.append(record)
    if records:
        yield start, records
