"""When each message of a partition was published: one entry per instant, not per message.

Entries lie in chunks, which know their first offset, instant and byte in full; inside, entries are differences to those. A full
chunk is packed: an entry then takes a byte or two, and nothing where messages come evenly. The few that were looked at last
stay unpacked.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, islice
from operator import sub
from typing import Final, Literal, NoReturn

_CHUNK = 1_024
_SHORT, _LONG = 1 << 16, 1 << 32
_SMALL = 64  # entries that are unpacked in no time
_UNPACKED = 2  # chunks that stay so
_NONE: array[int] = array("H")


class _Chunk:
    __slots__ = ("byte", "bytes", "offset", "offsets", "packed", "time", "times")

    def __init__(self, offset: int, time: int, byte: int) -> None:
        self.offset = offset
        self.time = time
        self.byte = byte  # how many were published before
        self.packed: bytes | None = None
        self.offsets: array[int] = array("H", [0])
        self.times: array[int] = array("H", [0])
        self.bytes: array[int] = array(
            "Q", [0]
        )  # of copies the size is known late, so it may come to more than 32 bits

    def has_room(self, offset: int, time: int, byte: int) -> bool:
        fits = offset - self.offset < _SHORT and time - self.time < _SHORT and byte - self.byte < _LONG
        return fits and len(self.times) < _CHUNK

    def pack(self) -> None:
        """Of each column the steps from entry to entry, which are small, and often all the same."""
        if self.bytes[-1] >= _LONG:
            return
        columns = (_steps(self.offsets, "H"), _steps(self.times, "H"), _steps(self.bytes, "I"))
        self.packed = zlib.compress(b"".join(columns), 1)
        self.forget()

    def forget(self) -> None:
        """What is packed need not be here, too."""
        if self.packed is not None:
            self.offsets = self.times = self.bytes = _NONE

    def unpack(self) -> None:
        if self.packed is None:
            return
        data = zlib.decompress(self.packed)
        count = len(data) // 8
        self.offsets = array("H", accumulate(array("H", data[: 2 * count])))
        self.times = array("H", accumulate(array("H", data[2 * count : 4 * count])))
        self.bytes = array("Q", accumulate(array("I", data[4 * count :])))


def _steps(column: array[int], kind: Literal["H", "I"]) -> bytes:
    return array(kind, [0, *map(sub, islice(column, 1, None), column)]).tobytes()


class Timeline:
    """Offsets and instants ascend together: the broker's clock never runs backwards."""

    __slots__ = ("_last", "_unpacked", "chunks")

    def __init__(self) -> None:
        self.chunks: list[_Chunk] = []
        self._unpacked: tuple[_Chunk, ...] = ()
        self._last = -1  # the newest instant

    def append(self, offset: int, at: int, bytes_before: int) -> None:
        """The first message published at an instant; further ones at the same instant change nothing."""
        if at == self._last:
            return
        self._last = at
        if not self.chunks or not self.chunks[-1].has_room(offset, at, bytes_before):
            if self.chunks:
                self.chunks[-1].pack()
            self.chunks.append(_Chunk(offset, at, bytes_before))
            return
        chunk = self.chunks[-1]
        chunk.offsets.append(offset - chunk.offset)
        chunk.times.append(at - chunk.time)
        chunk.bytes.append(bytes_before - chunk.byte)

    def _look_into(self, chunk: _Chunk) -> _Chunk:
        if chunk.packed is not None and chunk not in self._unpacked:
            for other in self._unpacked[:-1] if len(self._unpacked) >= _UNPACKED else ():
                other.forget()
            chunk.unpack()
            self._unpacked = (*self._unpacked[-1:], chunk)
        return chunk

    def add_bytes(self, offset: int, size: int) -> None:
        """The messages at `offset` turn out to have that many more bytes: all later instants have more before them."""
        for chunk in reversed(self.chunks):
            if chunk.offset > offset:
                chunk.byte += size
                continue
            self._look_into(chunk)
            chunk.packed = None  # it stays as it is now: copies are few
            for at in range(bisect_right(chunk.offsets, offset - chunk.offset), len(chunk.bytes)):
                chunk.bytes[at] += size
            return

    def time_of(self, offset: int) -> int:
        which = bisect_right(self.chunks, offset, key=lambda chunk: chunk.offset) - 1
        if which < 0:
            return self.chunks[0].time if self.chunks else 0
        chunk = self._look_into(self.chunks[which])
        return chunk.time + chunk.times[bisect_right(chunk.offsets, offset - chunk.offset) - 1]

    def about(self, offset: int) -> int:
        """The same without unpacking much: where that would be needed, an estimate that is off by a minute at the most."""
        if len(self.chunks) == 1:  # as mostly
            [chunk] = self.chunks
            return chunk.time + chunk.times[max(0, bisect_right(chunk.offsets, offset - chunk.offset) - 1)]
        which = bisect_right(self.chunks, offset, key=lambda chunk: chunk.offset) - 1
        if not 0 <= which < len(self.chunks) - 1 or self.chunks[which].packed is None:
            return self.time_of(offset)
        chunk, after = self.chunks[which], self.chunks[which + 1]
        if after.offset - chunk.offset <= _SMALL:
            return self.time_of(offset)
        passed = min(after.time - chunk.time, _SHORT)
        return chunk.time + passed * (offset - chunk.offset) // (after.offset - chunk.offset)

    def first_at(self, time: int) -> int | None:
        """The first offset published at `time` or later; None when there is none."""
        which = max(bisect_right(self.chunks, time, key=lambda chunk: chunk.time) - 1, 0)
        for chunk in map(self._look_into, self.chunks[which : which + 2]):
            index = bisect_left(chunk.times, max(time - chunk.time, 0))
            if index < len(chunk.times):
                return chunk.offset + chunk.offsets[index]
        return None

    def first_after(self, time: int) -> int | None:
        return self.first_at(time + 1)

    def first_beyond(self, byte: int) -> int | None:
        """The first offset of an instant with at least that many bytes before it."""
        which = max(bisect_right(self.chunks, byte, key=lambda chunk: chunk.byte) - 1, 0)
        for chunk in map(self._look_into, self.chunks[which : which + 2]):
            index = bisect_left(chunk.bytes, max(byte - chunk.byte, 0))
            if index < len(chunk.bytes):
                return chunk.offset + chunk.offsets[index]
        return None

    def bytes_at(self, offset: int) -> int:
        """Bytes published before the instant of `offset`."""
        which = bisect_right(self.chunks, offset, key=lambda chunk: chunk.offset) - 1
        if which < 0:
            return self.chunks[0].byte if self.chunks else 0
        chunk = self._look_into(self.chunks[which])
        return chunk.byte + chunk.bytes[bisect_right(chunk.offsets, offset - chunk.offset) - 1]

    def instant_of(self, offset: int, end: int, byte: int) -> tuple[int, int, int]:
        """(first offset, offset behind the last, bytes) of what was published at the instant of `offset`. The newest one
        ends where the log does: at the offset `end`, with `byte` bytes before it."""
        which = bisect_right(self.chunks, offset, key=lambda chunk: chunk.offset) - 1
        if which < 0:
            return offset, end, byte
        chunk = self._look_into(self.chunks[which])
        index = bisect_right(chunk.offsets, offset - chunk.offset)
        if index < len(chunk.offsets):
            end, byte = chunk.offset + chunk.offsets[index], chunk.byte + chunk.bytes[index]
        elif which + 1 < len(self.chunks):
            end, byte = self.chunks[which + 1].offset, self.chunks[which + 1].byte
        return chunk.offset + chunk.offsets[index - 1], end, byte - chunk.byte - chunk.bytes[index - 1]

    def trim(self, start: int) -> None:
        """Forgets what lies wholly before `start`."""
        gone = bisect_right(self.chunks, start, key=lambda chunk: chunk.offset) - 1
        if gone > 0:
            del self.chunks[:gone]

    def entries(self) -> list[tuple[int, int]]:
        """(offset, instant) pairs."""
        return [
            (chunk.offset + offset, chunk.time + time)
            for chunk in map(self._look_into, self.chunks)
            for offset, time in zip(chunk.offsets, chunk.times, strict=True)
        ]


class _NoTimeline(Timeline):
    """Of a log that never had a message."""

    __slots__ = ()

    def append(self, offset: int, at: int, bytes_before: int) -> NoReturn:
        raise TypeError("the timeline that all share stays empty")


NO_TIMELINE: Final = _NoTimeline()
