"""A timing wheel: (when, item) pairs of integers, without an object per pair.

Pairs that lie within 64 ms of the present sit in slots one millisecond wide, those within 4 s in slots of 64 ms, and so on,
each level 64 times wider than the one below. When a wide slot begins, its pairs move down; a pair moves at most once per
level, so a delay of months costs O(1). Only slots in use exist, in a dict, and a small heap knows which begins first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush

BITS = 6
LEVELS = 7


class Wheel:
    __slots__ = ("heap", "now", "slots")

    def __init__(self) -> None:
        self.slots: dict[tuple[int, int], array[int]] = {}  # (begin, level) -> when, item, when, item, ...
        self.heap: list[tuple[int, int]] = []
        self.now = 0

    def add(self, when: int, item: int) -> None:
        slot = self._slot(when)
        slot.append(when)
        slot.append(item)

    def add_all(self, when: int, items: Iterable[int]) -> None:
        """Many items with one instant: the slot is looked up once."""
        slot = self._slot(when)
        for item in items:
            slot.append(when)
            slot.append(item)

    def _slot(self, when: int) -> array[int]:
        distance = (when - self.now) >> BITS
        level = 0
        while distance > 0 and level < LEVELS - 1:
            distance >>= BITS
            level += 1
        shift = level * BITS
        place = (when >> shift << shift, level)
        slot = self.slots.get(place)
        if slot is None:
            slot = self.slots[place] = array("q")
            heappush(self.heap, place)
        return slot

    def next(self) -> int | None:
        """When to look again: nothing is due before."""
        return self.heap[0][0] if self.heap else None

    def is_due(self, now: int) -> bool:
        """Whether pop(now) would give anything. Moves pairs down on the way, which nobody can see."""
        while self.heap and self.heap[0][0] <= now:
            if self.heap[0][1] == 0:
                return True
            self._descend(now)
        return False

    def pop(self, now: int) -> list[tuple[int, int]]:
        """Takes out every pair due by `now`, in order."""
        due: list[tuple[int, int]] = []
        while self.heap and self.heap[0][0] <= now:
            if self.heap[0][1] > 0:
                self._descend(now)
                continue
            slot = self.slots.pop(heappop(self.heap))
            due.extend((slot[at], slot[at + 1]) for at in range(0, len(slot), 2))
        self.now = max(self.now, now)
        due.sort()
        return due

    def peek(self, now: int) -> list[tuple[int, int]]:
        due = self.pop(now)
        for when, item in due:
            self.add(when, item)
        return due

    def _descend(self, now: int) -> None:
        slot = self.slots.pop(heappop(self.heap))
        self.now = max(self.now, now)
        for at in range(0, len(slot), 2):
            self.add(slot[at], slot[at + 1])

    def entries(self) -> list[tuple[int, int]]:
        return sorted((slot[at], slot[at + 1]) for slot in self.slots.values() for at in range(0, len(slot), 2))
