"""Where a partition's messages lie in the write-ahead log, until they are flushed."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

from ortoo.model.errors import CorruptionError


class Block(NamedTuple):
    base: int
    number: int
    position: int


class Blocks:
    """Where each publish of a partition lies in the write-ahead log: its first offset, its commit, where that begins."""

    __slots__ = ("bases", "numbers", "positions")

    def __init__(self, data: bytes = b"") -> None:
        flat = array("Q", data)
        if len(flat) % 3:
            raise CorruptionError("a checkpoint tells of half a block")
        self.bases, self.numbers, self.positions = (
            flat[len(flat) * at // 3 : len(flat) * (at + 1) // 3] for at in range(3)
        )

    def __len__(self) -> int:
        return len(self.bases)

    def __getitem__(self, index: int) -> Block:
        return Block(self.bases[index], self.numbers[index], self.positions[index])

    def append(self, base: int, number: int, position: int) -> None:
        self.bases.append(base)
        self.numbers.append(number)
        self.positions.append(position)

    def find(self, offset: int) -> int:
        """The block that has the offset, if any does; below 0 when it comes before all of them."""
        return bisect_right(self.bases, offset) - 1

    def has(self, base: int, number: int) -> bool:
        index = self.find(base)
        return index >= 0 and self.bases[index] == base and self.numbers[index] == number

    def drop(self, count: int) -> None:
        """The first ones."""
        del self.bases[:count], self.numbers[:count], self.positions[:count]

    def part(self, start: int, number: int) -> bytes:
        """Those of commits up to that number which have something from the offset `start` on, as bytes."""
        first, after = max(0, self.find(start)), bisect_right(self.numbers, number)
        return b"".join([one[first:after].tobytes() for one in (self.bases, self.numbers, self.positions)])
