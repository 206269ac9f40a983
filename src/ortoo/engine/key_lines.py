"""Messages of a key that are set aside: they wait in line for those before them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator


class Waiting:
    """Offsets set aside, ascending; a list that is cheap to pop at the front."""

    __slots__ = ("items", "start")

    def __init__(self) -> None:
        self.items: array[int] = array("Q")
        self.start = 0

    def __len__(self) -> int:
        return len(self.items) - self.start

    def __getitem__(self, index: int) -> int:
        return self.items[self.start + index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.items[self.start :])

    def push(self, offset: int) -> None:
        if self.start == len(self.items) or offset > self.items[-1]:
            self.items.append(offset)
        else:
            insort(self.items, offset, lo=self.start)

    def pop(self) -> int:
        offset = self.items[self.start]
        self.start += 1
        if self.start > 32 and self.start * 2 > len(self.items):
            del self.items[: self.start]
            self.start = 0
        return offset

    def push_all(self, offsets: array[int]) -> None:
        """Ascending ones."""
        if self.start == len(self.items) or offsets[0] > self.items[-1]:
            self.items.extend(offsets)
        else:
            for offset in offsets:
                self.push(offset)

    def next(self, skipped: int, count: int, before: int) -> array[int]:
        """So many behind the first few, up to an offset."""
        start = self.start + skipped
        end = min(start + count, len(self.items))
        return self.items[start : bisect_left(self.items, before, start, end)]

    def discard_firsts(self, offsets: array[int]) -> bool:
        """Whether these are the first ones."""
        end = self.start + len(offsets)
        if self.items[self.start : end] != offsets:
            return False
        self.start = end - 1
        self.pop()
        return True

    def discard_first(self, offset: int) -> bool:
        if self.start == len(self.items) or self.items[self.start] != offset:
            return False
        self.pop()
        return True

    def discard(self, offset: int) -> bool:
        index = bisect_left(self.items, offset, lo=self.start)
        if index == len(self.items) or self.items[index] != offset:
            return False
        del self.items[index]
        return True
