"""Where a partition's messages, and what happened to them, lie in the write-ahead log, until they are flushed."""

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

    def drop(self, count: int) -> None:
        """The first ones."""
        del self.bases[:count], self.numbers[:count], self.positions[:count]

    def part(self, start: int, number: int) -> bytes:
        """Those of commits up to that number which have something from the offset `start` on, as bytes."""
        first, after = max(0, self.find(start)), bisect_right(self.numbers, number)
        return b"".join([one[first:after].tobytes() for one in (self.bases, self.numbers, self.positions)])


class HistoryBlocks:
    """The commits in the write-ahead log that have records of a partition: their numbers, where each begins, the number of its
    first record, and the bounds of the offsets that it speaks of."""

    __slots__ = ("firsts", "lasts", "numbers", "positions", "starts")

    def __init__(self, data: bytes = b"") -> None:
        flat = array("Q", data)
        if len(flat) % 5:
            raise CorruptionError("a checkpoint tells of half a block of history")
        columns = [flat[len(flat) * at // 5 : len(flat) * (at + 1) // 5] for at in range(5)]
        self.numbers, self.positions, self.starts, self.firsts, self.lasts = columns

    def __len__(self) -> int:
        return len(self.numbers)

    def append(self, number: int, position: int, start: int, first: int, last: int) -> None:
        self.numbers.append(number)
        self.positions.append(position)
        self.starts.append(start)
        self.firsts.append(first)
        self.lasts.append(last)

    def widen(self, first: int, last: int) -> None:
        """The last commit speaks of these, too."""
        self.firsts[-1], self.lasts[-1] = min(first, self.firsts[-1]), max(last, self.lasts[-1])

    def drop(self, upto: int) -> None:
        """Those of commits up to that number."""
        count = bisect_right(self.numbers, upto)
        del self.numbers[:count], self.positions[:count], self.starts[:count], self.firsts[:count], self.lasts[:count]

    def part(self, number: int) -> bytes:
        """Those of commits up to that number, as bytes."""
        after = bisect_right(self.numbers, number)
        columns = (self.numbers, self.positions, self.starts, self.firsts, self.lasts)
        return b"".join([column[:after].tobytes() for column in columns])
