"""Frames: how every file of the store wraps what it holds. Pure bytes; docs/format.md is normative.

     0  4  magic     "OrtF"
     4  1  version   2
     5  1  kind      1 commit · 2 messages · 3 history · 4 checkpoint · 5 keys
     6  2  flags     1 zstd · 2 a commit in one plain section
     8  8  number    a commit's number, or the first offset the frame speaks of
    16  4  length of the head
    20  4  length of the body
    24  8  salt      the same in all frames of a directory
    32  8  XXH3-64 of bytes 0 to 31 and the head
    40  8  XXH3-64 of the body
    48     head, then body

Version 1 has no salt, and CRC-32 in the place of XXH3: bytes 24 to 27 of bytes 0 to 23 and the head, 28 to 31 of the body, and
the head begins at byte 32. It is only read.

The head can be read, and trusted, without the body: recovery reads heads only, and a frame whose body is damaged still
tells what it spoke of. The salt is what no message can know: bytes of a user that look like a frame are not taken for one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from xxhash import xxh3_64_intdigest

MAGIC = b"OrtF"
VERSION, OLD_VERSION = 2, 1
_SHAPE = struct.Struct("<4sBBHQII")  # what all versions begin with
_SALTED = struct.Struct("<4sBBHQIIQ")
_REST, _SUMS, _OLD_SUMS = struct.Struct("<QQQ"), struct.Struct("<QQ"), struct.Struct("<II")
SIZE, OLD_SIZE = _SALTED.size + _SUMS.size, _SHAPE.size + _OLD_SUMS.size
HEAD_BYTES_MAX = 1 << 30
BODY_BYTES_MAX = 1 << 31

COMMIT, MESSAGES, HISTORY, CHECKPOINT, KEYS = 1, 2, 3, 4, 5
ZSTD, PLAIN = 1, 2

_PARTITION_DEPTH = 2  # logs/TOPIC/PARTITION

Span = tuple[int, int]  # bytes of a file: the first, and the one after the last
Buffer = bytes | bytearray | memoryview


class Salt(NamedTuple):
    """Of a directory. 0: not known."""

    value: int = 0
    has_older: bool = True  # files of a format that had none may be there

    def within(self, folder: str) -> Salt:
        """Of the files in that folder: a partition's messages, or its history, have one of their own, so that bytes of another
        partition's files, which a message may hold, are not taken for theirs."""
        if not self.value or folder.count("/") != _PARTITION_DEPTH:
            return self
        return Salt(xxh3_64_intdigest(folder.encode(), seed=self.value), self.has_older)


UNKNOWN = Salt()


class FrameHead(NamedTuple):
    kind: int
    flags: int
    number: int
    head_size: int
    body_size: int
    head_sum: int
    body_sum: int
    salt: int | None  # None: of a version that had none

    @property
    def fixed_size(self) -> int:
        return OLD_SIZE if self.salt is None else SIZE

    @property
    def body_at(self) -> int:
        """Where the body begins, counted from the frame's first byte."""
        return self.fixed_size + self.head_size

    @property
    def size(self) -> int:
        return self.body_at + self.body_size


class BadFrameError(Exception):
    """The bytes are not a whole, undamaged frame. `reason` says what is wrong with them, `position` where they begin."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


class UnreadableError(BadFrameError, OSError):
    """The disk cannot read this place, or this file at all: a bad sector, say. To readers that is damage like any other; to
    those who write, or look for no frame, the OSError it has always been."""

    def __init__(self, cause: OSError | None = None, position: int = 0) -> None:
        told = "" if cause is None or cause.strerror is None else f" ({cause.strerror})"
        super().__init__(f"the disk cannot read this place{told}", position)
        self.errno = None if cause is None else cause.errno


def encode_frame(kind: int, number: int, head: bytes, body: Buffer, flags: int = 0, *, salt: int = 0) -> bytes:
    return b"".join((frame_start(kind, number, head, body, flags, salt=salt), head, body))


def frame_start(kind: int, number: int, head: bytes, body: Buffer, flags: int = 0, *, salt: int = 0) -> bytes:
    """What comes before the head: a large body is not worth a copy."""
    fixed = _SALTED.pack(MAGIC, VERSION, kind, flags, number, len(head), len(body), salt)
    return fixed + _SUMS.pack(xxh3_64_intdigest(fixed + head), xxh3_64_intdigest(body))


def parse_fixed(data: bytes, at: int = 0) -> FrameHead:
    """The first bytes of a frame; only its shape is checked here."""
    if len(data) - at < OLD_SIZE:
        raise BadFrameError("the file ends within a frame's first bytes")
    magic, version, kind, flags, number, head_size, body_size = _SHAPE.unpack_from(data, at)
    if magic != MAGIC:
        raise BadFrameError("no frame begins here")
    if version not in (VERSION, OLD_VERSION):
        raise BadFrameError(f"the frame has format version {version}, this program reads versions 1 and {VERSION}")
    if head_size > HEAD_BYTES_MAX or body_size > BODY_BYTES_MAX:
        raise BadFrameError("the frame claims an impossible size")
    if version == OLD_VERSION:
        head_sum, body_sum = _OLD_SUMS.unpack_from(data, at + _SHAPE.size)
        return FrameHead(kind, flags, number, head_size, body_size, head_sum, body_sum, None)
    if len(data) - at < SIZE:
        raise BadFrameError("the file ends within a frame's first bytes")
    salt, head_sum, body_sum = _REST.unpack_from(data, at + _SHAPE.size)
    return FrameHead(kind, flags, number, head_size, body_size, head_sum, body_sum, salt)


def check_head(fixed: FrameHead, first: bytes, head: bytes) -> None:
    """`first` are the frame's first bytes, SIZE of them where there are so many."""
    if len(head) != fixed.head_size:
        raise BadFrameError("the file ends within a frame's head")
    found = crc32(head, crc32(first[:24])) if fixed.salt is None else xxh3_64_intdigest(first[:32] + head)
    if found != fixed.head_sum:
        raise BadFrameError("the checksum of the frame's head does not match")


def check_body(fixed: FrameHead, body: bytes) -> None:
    if len(body) != fixed.body_size:
        raise BadFrameError("the file ends within a frame's body")
    if (crc32(body) if fixed.salt is None else xxh3_64_intdigest(body)) != fixed.body_sum:
        raise BadFrameError("the checksum of the frame's body does not match")


class Frame(NamedTuple):
    position: int
    fixed: FrameHead
    head: bytes
    body: bytes | None  # None: damaged, though the head is whole
    is_unreadable: bool = False  # the disk could not read all of the body

    @property
    def reason(self) -> str:
        """Why there is no body."""
        return UnreadableError().reason if self.is_unreadable else "the checksum of the frame's body does not match"


def framed_anew(frame: Frame, salt: Salt) -> bytes:
    """The same, for a directory with that salt."""
    fixed = frame.fixed
    return encode_frame(fixed.kind, fixed.number, frame.head, frame.body or b"", fixed.flags, salt=salt.value)


class Damage(NamedTuple):
    """Bytes in which no frame could be read, up to the next good one or the end."""

    position: int
    end: int
    reason: str
    is_unreadable: bool = False  # the disk could not read all of them


def scan_frames(data: bytes, holes: Sequence[Span] = (), salt: Salt = UNKNOWN) -> list[Frame | Damage]:
    """Everything in a file, good or bad. Bytes that cannot be read are searched for the next good head, with that salt: the
    directory's, and where that is not known, the one of the first frame.

    The body of a good head is never searched, not even when the file ends within it: a message may hold bytes that look like
    a frame. `holes` are places that the disk cannot read; there are zeros in the data for them.
    """
    found: list[Frame | Damage] = []
    scanner = _Scanner(data, salt)
    at = 0
    while at < len(data):
        try:
            fixed, head = scanner.head_at(at)
        except BadFrameError as error:
            after = scanner.next_good(at + 1)
            is_hole = _meet(holes, at, after)
            found.append(Damage(at, after, UnreadableError().reason if is_hole else error.reason, is_hole))
            at = after
            continue
        body: bytes | None = data[at + fixed.body_at : at + fixed.size]
        try:
            check_body(fixed, body or b"")
        except BadFrameError as error:
            if at + fixed.size > len(data):
                found.append(Damage(at, len(data), error.reason))
                break
            body = None
        found.append(Frame(at, fixed, head, body, body is None and _meet(holes, at, at + fixed.size)))
        at += fixed.size
    return found


def _meet(holes: Sequence[Span], start: int, end: int) -> bool:
    return any(first < end and start < last for first, last in holes)


class _Scanner:
    """Finds the heads in a file. All its frames are of one version, and have one salt."""

    def __init__(self, data: bytes, salt: Salt) -> None:
        self._data = data
        self._salt = salt
        self._is_known = False
        self._wanted: int | None = None

    def head_at(self, at: int) -> tuple[FrameHead, bytes]:
        fixed = parse_fixed(self._data, at)
        head = self._data[at + fixed.fixed_size : at + fixed.body_at]
        check_head(fixed, self._data[at : at + SIZE], head)
        if not self._is_known:
            self._learn(fixed, at)
        if fixed.salt != self._wanted:
            raise BadFrameError("this frame is not of this directory")
        return fixed, head

    def _learn(self, fixed: FrameHead, at: int) -> None:
        """From the first good frame. What has no salt is trusted only where a file begins, or where such files may be there and
        this one has nothing with the directory's salt."""
        if fixed.salt is None:
            is_own = at == 0 or (self._salt.has_older and not self._has_own_behind(at))
        else:
            is_own = self._salt.value in (0, fixed.salt)
        if not is_own:
            raise BadFrameError("this frame is not of this directory")
        self._is_known, self._wanted = True, fixed.salt

    def _has_own_behind(self, at: int) -> bool:
        if not self._salt.value:
            return False
        self._is_known, self._wanted = True, self._salt.value
        try:
            return self.next_good(at + 1) < len(self._data)
        finally:
            self._is_known, self._wanted = False, None

    def next_good(self, at: int) -> int:
        while (at := self._data.find(MAGIC, at)) >= 0:
            try:
                self.head_at(at)
            except BadFrameError:
                at += 1
            else:
                return at
        return len(self._data)
