"""One file of a partition's log: message frames, one after the other, and where each begins.

An active file ends in .log and is appended to at each checkpoint. When it is large or old enough it is sealed: written
once more with compressed bodies, as .seg, and never touched again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from ortoo.model.errors import CorruptionError

from .codec import MessageBody, MessageHead, compressed, context, decode_body, decode_head, decompress
from .crypto import KeyRing, Sealed
from .files import Disk, File, read_head, read_heads
from .frame import ZSTD, BadFrameError, FrameHead, UnreadableError, check_body, encode_frame
from .open_files import FilePool


class SegmentEntry(NamedTuple):
    """A segment as a checkpoint knows it: what lies beyond `size` does not count; its messages end before `end`.

    A segment sealed since has another size, but the same end.
    """

    base: int
    size: int
    end: int


class Mark(NamedTuple):
    """How far a segment had come."""

    size: int
    end: int
    frames: int
    keys: Mapping[str, int]
    messages: int


Change = Callable[[FrameHead, bytes, bytes], tuple[bytes, bytes, int]]  # of a frame: its head, its body and its flags
_NO_KEYS: Mapping[str, int] = {}


def _compress(fixed: FrameHead, head: bytes, body: bytes) -> tuple[bytes, bytes, int]:
    return head, *((body, fixed.flags) if fixed.flags & ZSTD else compressed(body))


class Segment:
    __slots__ = (
        "base",
        "bases",
        "count",
        "disk",
        "end",
        "files",
        "folder",
        "is_damaged",
        "is_of_older_format",
        "is_sealed",
        "kept",
        "keys",
        "positions",
        "since",
        "size",
    )

    def __init__(self, disk: Disk, folder: str, base: int, is_sealed: bool, files: FilePool | None = None) -> None:
        self.disk = disk
        self.files = files or FilePool(disk)
        self.folder = folder
        self.base = base
        self.end = base
        self.is_sealed = is_sealed
        self.is_damaged = False  # it could not be sealed
        self.is_of_older_format = False  # its frames have no salt
        self.since: int | None = None  # when its first message was published
        self.size = 0
        self.count = 0  # of messages in it
        self.kept = 0  # of them that are discarded, and could not go when it was written
        self.bases: array[int] = array("Q")  # the sparse index: first offset and place of each frame
        self.positions: array[int] = array("Q")
        self.keys: Mapping[str, int] = _NO_KEYS  # bytes of frames by the key that they need

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.base:020d}.{'seg' if self.is_sealed else 'log'}"

    @property
    def can_be_sealed(self) -> bool:
        return not self.is_sealed and not self.is_damaged

    def opened(self) -> AbstractContextManager[File]:
        return self.files.use(self.path)

    @contextmanager
    def _reading(self) -> Iterator[File]:
        """A file that the disk cannot even open is damaged at its first byte."""
        try:
            with self.opened() as file:
                yield file
        except UnreadableError as error:
            raise self._corrupt(error.position, error.reason) from None

    def add(self, frame: bytes, base: int, count: int, time: int, sealed: Sealed | None = None) -> None:
        """Appends a frame; durable after `sync`."""
        with self.opened() as file:
            file.append(frame)
        self.note(base, count, len(frame), sealed)
        self.since = time if self.since is None else self.since

    def note(self, base: int, count: int, size: int, sealed: Sealed | None = None) -> None:
        if sealed is not None:
            self.keys = {**self.keys, sealed.key: self.keys.get(sealed.key, 0) + size}
        self.bases.append(base)
        self.positions.append(self.size)
        self.size += size
        self.count += count
        self.end = base + count

    def mark(self) -> Mark:
        return Mark(self.size, self.end, len(self.bases), self.keys, self.count)

    def back_to(self, mark: Mark | None) -> None:
        """Undoes what was added since the mark; with None, the whole file. What cannot be cut off now is cut off when the file is
        written again."""
        self.size, self.end, frames, self.keys, self.count = mark or Mark(0, self.base, 0, _NO_KEYS, 0)
        del self.bases[frames:], self.positions[frames:]
        with suppress(OSError):
            with self.opened() as file:
                file.truncate(self.size)
            if mark is None:
                self.close()
                self.disk.remove(self.path)

    def sync(self) -> None:
        """Who has appended must have kept the file open since, or might not learn of a failure."""
        with self.opened() as file:
            file.sync()

    def close(self) -> None:
        self.files.close(self.path)

    def load(self, size: int | None, cut: bool = True) -> list[tuple[int, MessageHead]]:
        """Reads the heads, fills the index; returns (base, head) of each frame.

        `size`: what is to be there, all if None. What lies beyond is cut off, or only left unread.
        """
        with self._reading() as file:
            return self._load(file, size, cut)

    def _load(self, file: File, size: int | None, cut: bool) -> list[tuple[int, MessageHead]]:
        if size is not None and not self.is_sealed:
            if file.size() < size:
                raise self._corrupt(file.size(), f"the file has {file.size()} bytes, the checkpoint knows of {size}")
            if file.size() > size and cut:
                file.truncate(size)  # written after the checkpoint: the write-ahead log has it, too
        heads = []
        for position, fixed, head in self._heads(file):
            if size is not None and not self.is_sealed and position >= size:
                break
            try:
                decoded = decode_head(head)
            except CorruptionError as error:
                raise self._corrupt(position, str(error)) from None
            self.note(fixed.number, decoded.count, fixed.size, decoded.sealed)
            self.is_of_older_format = fixed.salt is None
            if self.since is None:
                self.since = decoded.timestamps()[0]
            heads.append((fixed.number, decoded))
        return heads

    def _heads(self, file: File) -> Iterator[tuple[int, FrameHead, bytes]]:
        try:
            yield from read_heads(file)
        except BadFrameError as error:
            raise self._corrupt(error.position, error.reason) from None

    def _frame_at(self, file: File, position: int) -> tuple[FrameHead, bytes, bytes]:
        """With its head and its body, both checked."""
        try:
            fixed, head = read_head(file, position)
            body = file.read(position + fixed.body_at, fixed.body_size)
            check_body(fixed, body)
        except BadFrameError as error:
            raise self._corrupt(position, error.reason) from None
        return fixed, head, body

    def head(self, which: int) -> tuple[int, MessageHead]:
        """Of one frame: its first offset, and what it tells without its body."""
        position = self.positions[which]
        with self._reading() as file:
            try:
                fixed, head = read_head(file, position)
            except BadFrameError as error:
                raise self._corrupt(position, error.reason) from None
        return fixed.number, decode_head(head)

    def frame_of(self, offset: int) -> int:
        return bisect_right(self.bases, offset) - 1

    def read(self, which: int, topic: int, partition: int, ring: KeyRing) -> tuple[int, MessageHead, MessageBody]:
        position = self.positions[which]
        with self._reading() as file:
            fixed, head, body = self._frame_at(file, position)
        try:
            decoded = decode_head(head)
            if fixed.flags & ZSTD:
                body = decompress(body)
            if decoded.sealed is not None:
                body = ring.open(decoded.sealed, body, context(topic, partition, fixed.number))
            return fixed.number, decoded, decode_body(body, decoded.count)
        except CorruptionError as error:
            raise self._corrupt(position, str(error)) from None

    def seal(self) -> Segment:
        """Writes the compressed twin; durable, under its own name, when this returns. The old file is still there."""
        sealed = self.write_twin(_compress)
        sealed.take_name()
        self.disk.sync_dir(self.folder)
        return sealed

    def write_twin(self, change: Change) -> Segment:
        """A sealed one with the same messages, whose frames are `change`d. It is whole and synced, but has no name yet."""
        twin = Segment(self.disk, self.folder, self.base, True, self.files)
        self.disk.remove(twin.draft)
        target = self.disk.open(twin.draft)
        try:
            with self._reading() as file:
                self._write_twin(twin, file, target, change)
            target.sync()
        except BaseException:
            target.close()
            self.disk.remove(twin.draft)
            raise
        target.close()
        return twin

    def _write_twin(self, twin: Segment, file: File, target: File, change: Change) -> None:
        salt = self.disk.salt.within(self.folder).value
        for which, position in enumerate(self.positions):
            fixed, *parts = self._frame_at(file, position)
            try:
                head, body, flags = change(fixed, *parts)
                sealed = decode_head(head).sealed
            except CorruptionError as error:
                raise self._corrupt(position, str(error)) from None
            frame = encode_frame(fixed.kind, fixed.number, head, body, flags, salt=salt)
            target.append(frame)
            twin.note(self.bases[which], 0, len(frame), sealed)
        twin.end, twin.count, twin.kept = self.end, self.count, self.kept

    @property
    def draft(self) -> str:
        return f"{self.path}.tmp"

    def take_name(self) -> None:
        """In one step, also from a file that had it. Durable once the folder is synced; until then either may be there."""
        self.disk.rename(self.draft, self.path)

    def _corrupt(self, position: int, reason: str) -> CorruptionError:
        return CorruptionError(f"{self.path} is damaged at byte {position}: {reason}")
