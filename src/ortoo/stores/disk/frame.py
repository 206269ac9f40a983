"""Frames: how every file of the store wraps what it holds. Pure bytes; docs/format.md is normative.

     0  4  magic     "OrtF"
     4  1  version   1
     5  1  kind      1 commit · 2 messages · 3 history · 4 checkpoint · 5 keys
     6  2  flags     1 zstd
     8  8  number    a commit's number, or the first offset the frame speaks of
    16  4  length of the head
    20  4  length of the body
    24  4  CRC-32 of bytes 0 to 24 and the head
    28  4  CRC-32 of the body
    32     head, then body

The head can be read, and trusted, without the body: recovery reads heads only, and a frame whose body is damaged still
tells what it spoke of.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

MAGIC = b"OrtF"
VERSION = 1
FIXED = struct.Struct("<4sBBHQIIII")
SIZE = FIXED.size
HEAD_BYTES_MAX = 1 << 30
BODY_BYTES_MAX = 1 << 31

COMMIT, MESSAGES, HISTORY, CHECKPOINT, KEYS = 1, 2, 3, 4, 5
ZSTD = 1

Span = tuple[int, int]  # bytes of a file: the first, and the one after the last


class FrameHead(NamedTuple):
    kind: int
    flags: int
    number: int
    head_size: int
    body_size: int
    head_crc: int
    body_crc: int

    @property
    def size(self) -> int:
        return SIZE + self.head_size + self.body_size


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


def encode_frame(kind: int, number: int, head: bytes, body: bytes, flags: int = 0) -> bytes:
    fixed = struct.pack("<4sBBHQII", MAGIC, VERSION, kind, flags, number, len(head), len(body))
    crcs = struct.pack("<II", crc32(head, crc32(fixed)), crc32(body))
    return b"".join((fixed, crcs, head, body))


def parse_fixed(data: bytes, at: int = 0) -> FrameHead:
    """The first 32 bytes of a frame; only its shape is checked here."""
    if len(data) - at < SIZE:
        raise BadFrameError("the file ends within a frame's first bytes")
    magic, version, kind, flags, number, head_size, body_size, head_crc, body_crc = FIXED.unpack_from(data, at)
    if magic != MAGIC:
        raise BadFrameError("no frame begins here")
    if version != VERSION:
        raise BadFrameError(f"the frame has format version {version}, this program reads version {VERSION}")
    if head_size > HEAD_BYTES_MAX or body_size > BODY_BYTES_MAX:
        raise BadFrameError("the frame claims an impossible size")
    return FrameHead(kind, flags, number, head_size, body_size, head_crc, body_crc)


def check_head(fixed: FrameHead, first: bytes, head: bytes) -> None:
    """`first` are the frame's first 24 bytes."""
    if len(head) != fixed.head_size:
        raise BadFrameError("the file ends within a frame's head")
    if crc32(head, crc32(first)) != fixed.head_crc:
        raise BadFrameError("the checksum of the frame's head does not match")


def check_body(fixed: FrameHead, body: bytes) -> None:
    if len(body) != fixed.body_size:
        raise BadFrameError("the file ends within a frame's body")
    if crc32(body) != fixed.body_crc:
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


class Damage(NamedTuple):
    """Bytes in which no frame could be read, up to the next good one or the end."""

    position: int
    end: int
    reason: str
    is_unreadable: bool = False  # the disk could not read all of them


def scan_frames(data: bytes, holes: Sequence[Span] = ()) -> list[Frame | Damage]:
    """Everything in a file, good or bad. Bytes that cannot be read are searched for the next good head.

    The body of a good head is never searched, not even when the file ends within it: a message may hold bytes that look like
    a frame. `holes` are places that the disk cannot read; there are zeros in the data for them.
    """
    found: list[Frame | Damage] = []
    at = 0
    while at < len(data):
        try:
            fixed, head = _head_at(data, at)
        except BadFrameError as error:
            after = _next_good(data, at + 1)
            is_hole = _meet(holes, at, after)
            found.append(Damage(at, after, UnreadableError().reason if is_hole else error.reason, is_hole))
            at = after
            continue
        body: bytes | None = data[at + SIZE + fixed.head_size : at + fixed.size]
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


def _head_at(data: bytes, at: int) -> tuple[FrameHead, bytes]:
    fixed = parse_fixed(data, at)
    head = data[at + SIZE : at + SIZE + fixed.head_size]
    check_head(fixed, data[at : at + 24], head)
    return fixed, head


def _next_good(data: bytes, at: int) -> int:
    while (at := data.find(MAGIC, at)) >= 0:
        try:
            _head_at(data, at)
        except BadFrameError:
            at += 1
        else:
            return at
    return len(data)
