"""Numbers that need not survive and are rarely read, in a file without a name in place of memory.

The file is mapped, so that what lies in it is read as if it were in memory, while the system may use its pages for others. It is
written with ordinary writes: where the disk is full that is an error, while a write to a mapping would end the process. Whatever
is kept here can be derived anew, so nothing is synced, and a crash leaves no file behind.
"""

from __future__ import annotations

import os
from array import array
from mmap import ACCESS_READ, MADV_DONTNEED, mmap
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from weakref import finalize

REGION_BYTES = 256 << 20  # mapped at a time; each mapping takes a descriptor
REGIONS_MAX = 32


class MappedScratch:
    """Room for pieces of one size, which is freed when nobody has the piece any more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._piece_bytes = 0  # of the first one
        self._regions: list[mmap] = []
        self._free: list[tuple[int, int]] = []  # region and position
        self._file: IO[bytes] | None = None

    def keep(self, piece: array[int]) -> memoryview | None:
        """The same, to be read; None where there is no room for it. Its place is free once that view is gone, so whoever has it
        keeps no views of parts of it."""
        size = len(piece) * piece.itemsize
        self._piece_bytes = self._piece_bytes or size
        if size != self._piece_bytes:
            raise AssertionError(f"a piece has {self._piece_bytes} bytes, not {size}")
        self._unload()
        try:
            region, position = self._place()
            view = memoryview(self._regions[region])[position : position + size].cast("Q")
            self._write(region * REGION_BYTES + position, memoryview(piece).cast("B"))
        except (OSError, ValueError):  # the disk is full, or too much is mapped or open already
            return None
        finalize(view, self._free.append, self._free.pop())
        return view

    def _place(self) -> tuple[int, int]:
        """Where to write; it is taken off the list only once that has succeeded."""
        if not self._free:
            self._add_region()
        return self._free[-1]

    def _add_region(self) -> None:
        number = len(self._regions)
        if number >= REGIONS_MAX:
            raise OSError("the scratch file has reached its size")
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            finalize(self, self._file.close)
        os.ftruncate(self._file.fileno(), (number + 1) * REGION_BYTES)
        offset = number * REGION_BYTES
        self._regions.append(mmap(self._file.fileno(), REGION_BYTES, access=ACCESS_READ, offset=offset))
        places = range(0, REGION_BYTES - self._piece_bytes + 1, self._piece_bytes)
        self._free.extend((number, position) for position in reversed(places))

    def _write(self, at: int, data: memoryview) -> None:
        assert self._file is not None
        while data:
            written = os.pwrite(self._file.fileno(), data, at)
            at, data = at + written, data[written:]

    def _unload(self) -> None:
        """What was read stays in the system's cache, and no longer counts as memory of this process."""
        for region in self._regions:
            region.madvise(MADV_DONTNEED)
