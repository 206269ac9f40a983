"""The messages of one partition that lie whole in the files of a damaged directory, whichever files those are.

Every file in the partition's folder is looked at, also what a checkpoint does not count: what one wrote that was never finished
is as good as the write-ahead log that it came from. Only where each frame lies is held in memory.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ortoo.model.batch import Batch, content_bytes
from ortoo.model.errors import CorruptionError
from ortoo.model.names import TopicId
from ortoo.model.publishers import from_runs, pick_publishers
from ortoo.model.records import Published

from .codec import MessageBody, MessageHead, context, decode_body, decode_head, decompress
from .contents import SEGMENT_FILES
from .files import read_file
from .frame import MESSAGES, ZSTD, Damage, Frame, framed_anew, scan_frames
from .log import LogEntry
from .salvage import Salvage
from .saved_publish import SavedPublish

Span = tuple[int, int]


class Piece(NamedTuple):
    """Messages that lie whole in one place: in a frame of a file, or in a publish in the write-ahead log."""

    base: int
    end: int
    path: str
    position: int
    size: int
    publish: SavedPublish | None = None


class SavedFrame(NamedTuple):
    """A frame for the new directory, unless it was a record, and the records that it was made of."""

    raw: bytes | None
    records: list[Published]
    is_secret: bool


class SavedLog:
    """`pieces` ascend, and no message is in two of them."""

    def __init__(self, salvage: Salvage, topic: TopicId, partition: int, entry: LogEntry | None) -> None:
        """`entry`: what a checkpoint knows of it. Only damage to that is told; without one, to all that is there."""
        self._salvage = salvage
        self.topic = topic
        self._partition = partition
        self._folder = f"logs/{topic}/{partition}"
        self.told_end = 0  # as good heads tell it, also where the body is damaged
        self.is_torn = False  # how much more there was is not known
        found = [piece for path, size in self._files(entry) for piece in self._scan(path, size)]
        self.pieces: deque[Piece] = deque()
        for piece in sorted(
            found, key=lambda piece: piece.base
        ):  # of two of the same messages, the sealed one comes first
            if not self.pieces or piece.base >= self.pieces[-1].end:
                self.pieces.append(piece)

    def _files(self, entry: LogEntry | None) -> Iterator[tuple[str, int]]:
        """(path, how many of its bytes have to be whole)."""
        names = self._salvage.list_files(self._folder, SEGMENT_FILES)
        sizes = {f"{known.base:020d}": known.size for known in entry.segments} if entry is not None else {}
        for stem in sorted({name[:-4] for name in names} | sizes.keys()):
            counted = sizes.get(stem, 1 << 62 if entry is None else 0)
            if f"{stem}.seg" in names:
                yield f"{self._folder}/{stem}.seg", 1 << 62 if counted else 0
                counted = 0
            if f"{stem}.log" in names:
                yield f"{self._folder}/{stem}.log", counted
            elif counted:
                self._salvage.complain(f"{self._folder}/{stem}.log is missing")

    def _scan(self, path: str, counted: int) -> Iterator[Piece]:
        self.is_torn, end = False, int(path[-24:-4])
        for item in scan_frames(*read_file(self._salvage.disk, path)):
            try:
                head, _ = self._decode(item)
            except CorruptionError as error:
                self.is_torn = True
                if item.position < counted:
                    self._salvage.complain(f"{path} at byte {item.position}: {error}")
                continue
            assert isinstance(item, Frame)
            if item.fixed.number < end:  # bytes of an earlier file, which a message may hold
                continue
            self.is_torn, end = False, item.fixed.number + head.count
            yield Piece(item.fixed.number, item.fixed.number + head.count, path, item.position, item.fixed.size)

    def _decode(self, item: Frame | Damage) -> tuple[MessageHead, MessageBody]:
        """CorruptionError when it is not a whole frame of messages."""
        if isinstance(item, Damage):
            raise CorruptionError(item.reason)
        if item.fixed.kind != MESSAGES:
            raise CorruptionError("this frame holds no messages")
        head, body = decode_head(item.head), item.body
        self.told_end = max(self.told_end, item.fixed.number + head.count)
        if body is None:
            raise CorruptionError(item.reason)
        if item.fixed.flags & ZSTD:
            body = decompress(body)
        if head.sealed is not None:
            body = self._salvage.ring.open(head.sealed, body, context(self.topic, self._partition, item.fixed.number))
        return head, decode_body(body, head.count)

    def patch(self, found: Iterable[Piece]) -> None:
        """With what lies in the write-ahead log, too."""
        self._sort([*self.pieces, *found])

    def _sort(self, found: list[Piece]) -> None:
        """Of two with the same messages the first is taken."""
        self.pieces = deque()
        for piece in sorted(found, key=lambda piece: piece.base):
            if not self.pieces or piece.base >= self.pieces[-1].end:
                self.pieces.append(piece)

    def gaps(self, start: int, end: int) -> Iterator[Span]:
        """What is missing between these."""
        for piece in self.pieces:
            if piece.end <= start:
                continue
            if piece.base >= end:
                break
            if piece.base > start:
                yield start, piece.base
            start = piece.end
        if start < end:
            yield start, end

    def read(self, piece: Piece) -> SavedFrame:
        if piece.publish is not None:
            record = piece.publish.read(self._salvage.disk, self._salvage.ring)
            return SavedFrame(None, [part_of(record, piece.base, piece.end)], False)
        [item] = scan_frames(*read_file(self._salvage.disk, piece.path, piece.position, piece.size))
        head, body = self._decode(item)
        assert isinstance(item, Frame)
        raw = framed_anew(item, self._salvage.draft.salt.within(self._folder))
        return SavedFrame(raw, list(self._records(piece.base, head, body)), head.sealed is not None)

    def _records(self, base: int, head: MessageHead, body: MessageBody) -> Iterator[Published]:
        """One for each instant. When messages were due, and when they expire, frames do not tell."""
        times = array("Q", head.timestamps())
        batch = Batch(body.values, body.keys, body.headers, head.priorities, head.json, dedup_ids=body.dedup_ids)
        place = (self.topic, self._partition, base, head.count)
        publishers = from_runs(body.publishers)
        whole = Published(0, *place, 0, batch, head.hashes or body.hashes, publishers=publishers)
        start = 0
        while start < len(times):
            after = start + 1
            while after < len(times) and times[after] == times[start]:
                after += 1
            yield msgspec.structs.replace(part_of(whole, base + start, base + after), at=times[start])
            start = after


def part_of(record: Published, start: int, end: int) -> Published:
    """Its messages from one offset to before another."""
    rows = slice(start - record.base, end - record.base)
    columns = {name: getattr(record.batch, name) for name in record.batch.__struct_fields__}
    batch = Batch(**{name: column[rows] for name, column in columns.items() if column is not None})
    return msgspec.structs.replace(
        record,
        base=start,
        count=end - start,
        size=content_bytes(batch.values, batch.keys, batch.headers),
        batch=batch,
        key_hashes=record.key_hashes[8 * rows.start : 8 * rows.stop] if record.key_hashes else None,
        origins=record.origins[rows] if record.origins else None,
        publishers=pick_publishers(record.publishers, rows),
    )
