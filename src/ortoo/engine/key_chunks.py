"""A part of a partition's key hashes of which few are left: those of messages that are still there, and no others."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class SparseChunk:
    """Rows ascend; a row that is not among them has no key."""

    __slots__ = ("_hashes", "_rows")

    def __init__(self, rows: array[int], hashes: array[int]) -> None:
        self._rows = rows
        self._hashes = hashes

    def __len__(self) -> int:
        """How many are left."""
        return len(self._rows)

    def __getitem__(self, row: int) -> int:
        at = bisect_left(self._rows, row)
        return self._hashes[at] if at < len(self._rows) and self._rows[at] == row else 0

    def part(self, start: int, end: int) -> array[int]:
        """Of the rows [start, end), zeros where nothing is left."""
        found = array("Q", bytes(8 * (end - start)))
        for at in range(bisect_left(self._rows, start), bisect_left(self._rows, end)):
            found[self._rows[at] - start] = self._hashes[at]
        return found
