"""A timing wheel: (when, item) pairs of integers, without an object per pair.

Pairs that lie within 64 ms of the present sit in slots one millisecond wide, those within 4 s in slots of 64 ms, and so on,
each level 64 times wider than the one below. When a wide slot begins, its pairs move down; a pair moves at most once per
level, so a delay of months costs O(1). Only slots in use exist, in a dict, and a small heap knows which begins first.

Whatever goes wrong while pairs are moved, none is lost: a pair is where it goes before it leaves where it was.

However many pairs are due at one instant, they can be looked at and taken out a few at a time, in the order of instant and
item: a slot one millisecond wide is put in order once, and then shrinks from its end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Final

BITS = 6
LEVELS = 7
_SWEPT = 16  # slots at a time

Pair = tuple[int, int]  # when, item
Place = tuple[int, int]  # begin, minus the level: of two slots that begin together the wider one comes first


class Wheel:
    __slots__ = ("count", "heap", "now", "ordered", "slots")

    def __init__(self) -> None:
        self.slots: dict[Place, array[int]] = {}  # when, item, when, item, ...
        self.heap: list[Place] = []
        self.ordered: set[Place] = set()  # slots one millisecond wide whose items descend
        self.now = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, when: int, item: int) -> None:
        slot = self._slot(when)
        slot.append(when)
        slot.append(item)
        self.count += 1

    def add_all(self, when: int, items: Iterable[int]) -> None:
        """Many items with one instant: they go into one slot, at once."""
        added = array("q", items)
        count = len(added)
        flat = array("q", (when,)) * (2 * count)
        flat[1::2] = added
        self._slot(when).extend(flat)
        self.count += count

    def add_pairs(self, pairs: Iterable[Pair]) -> None:
        """Many pairs: those that share a slot go there together, and the slots in use are few."""
        ordered = sorted(pairs)
        flat = array("q", chain.from_iterable(ordered))
        at = 0
        while at < len(ordered):
            when = ordered[at][0]
            end = bisect_left(ordered, (self._reach(when),), at + 1)
            self._slot(when).extend(flat[2 * at : 2 * end])
            self.count += end - at
            at = end

    def _level(self, when: int) -> int:
        distance = (when - self.now) >> BITS
        level = 0
        while distance > 0 and level < LEVELS - 1:
            distance >>= BITS
            level += 1
        return level

    def _reach(self, when: int) -> int:
        """The first later instant whose pairs go to another slot."""
        level = self._level(when)
        shift = level * BITS
        end = ((when >> shift) + 1) << shift
        return end if level == LEVELS - 1 else min(end, max(self.now + (1 << (shift + BITS)), when + 1))

    def _slot(self, when: int) -> array[int]:
        level = self._level(when)
        shift = level * BITS
        place = (when >> shift << shift, -level)
        slot = self.slots.get(place)
        if slot is None:
            slot = self.slots[place] = array("q")
            heappush(self.heap, place)
        elif self.ordered:
            self.ordered.discard(place)
        return slot

    def next(self) -> int | None:
        """When to look again: nothing is due before."""
        return self.heap[0][0] if self.heap else None

    def due(self, now: int, limit: int) -> tuple[list[Pair], bool]:
        """The first pairs due by `now`, which stay in; and whether these are all. Looks at no more than `limit` pairs.

        Moves pairs down on the way, which nobody can see; so there may be none yet, and still more to look at.
        """
        found: list[Pair] = []
        seen: list[Place] = []
        try:
            while self.heap and self.heap[0][0] <= now and limit > 0:
                if self.heap[0][1] < 0:
                    limit -= self._descend(now, limit)
                    continue
                slot = self._in_order(self.heap[0])
                count = min(limit, len(slot) // 2)
                found += _last(slot, count)
                limit -= count
                if 2 * count < len(slot):
                    break
                seen.append(self.heap[0])
                heappop(self.heap)
            return found, not self.heap or self.heap[0][0] > now
        finally:
            for place in seen:
                heappush(self.heap, place)

    def pop(self, now: int, upto: Pair | None = None) -> list[Pair]:
        """Takes out every pair due by `now`, or those of them up to this one, in order."""
        due: list[Pair] = []
        while self.heap and self.heap[0][0] <= now and (upto is None or self.heap[0][0] <= upto[0]):
            place = self.heap[0]
            if place[1] < 0:
                self._descend(now, len(self.slots[place]))
                continue
            slot = self._in_order(place)
            count = len(slot) // 2
            if upto is not None and place[0] == upto[0]:
                count = _count_upto(slot, upto[1])
            due += _last(slot, count)
            del slot[len(slot) - 2 * count :]
            if slot:
                break
            self._remove_first()
        self.now = max(self.now, now)
        self.count -= len(due)
        return due

    def _in_order(self, place: Place) -> array[int]:
        slot = self.slots[place]
        if len(slot) > 2 and place not in self.ordered:
            slot[1::2] = array("q", sorted(slot[1::2], reverse=True))
            self.ordered.add(place)
        return slot

    def _remove_first(self) -> None:
        place = heappop(self.heap)
        del self.slots[place]
        self.ordered.discard(place)

    def _descend(self, now: int, limit: int) -> int:
        """Moves pairs of the first slot down, so many at most; returns how many."""
        slot = self.slots[self.heap[0]]
        self.now = max(self.now, now)
        moving = slot[-2 * limit :]
        for at in range(0, len(moving), 2):  # into narrower slots, which begin at the same time or later
            self.add(moving[at], moving[at + 1])
        del slot[-2 * limit :]
        self.count -= len(moving) // 2
        if not slot:
            self._remove_first()
        return len(moving) // 2

    def sweep(self, limit: int, is_live: Callable[[int, int], bool]) -> None:
        """Looks at so many pairs, at others each time, and throws out those that nobody asks for any more."""
        for place in list(islice(self.slots, _SWEPT)):
            slot = self.slots[place]
            some, kept = slot[: 2 * limit], slot[2 * limit :]
            live = [pair for pair in zip(some[0::2], some[1::2], strict=True) if is_live(*pair)]
            kept.extend(number for pair in live for number in pair)
            self.ordered.discard(place)
            del self.slots[place]
            self.slots[place] = kept  # at the end: the others have their turn before it comes again
            self.count -= len(some) // 2 - len(live)
            limit -= len(some) // 2
            if limit <= 0:
                return

    def find(self, item: int) -> int | None:
        """When it is due. Goes through all pairs, but not one by one."""
        for slot in self.slots.values():
            at = -1
            while (at := _index(slot, item, at + 1)) >= 0:
                if at % 2:
                    return slot[at - 1]
        return None

    def entries(self) -> list[Pair]:
        return sorted((slot[at], slot[at + 1]) for slot in self.slots.values() for at in range(0, len(slot), 2))


class _NoWheel(Wheel):
    """Has nothing, for ever."""

    __slots__ = ()

    def _slot(self, when: int) -> array[int]:
        raise TypeError("the wheel that all share stays empty")

    def pop(self, now: int, upto: Pair | None = None) -> list[Pair]:
        return []


NO_WHEEL: Final = _NoWheel()  # for whoever mostly has nothing that becomes due: one of its own costs 370 bytes


def _index(slot: array[int], number: int, start: int) -> int:
    try:
        return slot.index(number, start)
    except ValueError:
        return -1


def _last(slot: array[int], count: int) -> list[Pair]:
    """The last pairs, from the end."""
    tail = slot[len(slot) - 2 * count :]
    return list(zip(tail[-2::-2], tail[::-2], strict=True))


def _count_upto(slot: array[int], item: int) -> int:
    """How many of the items, which descend, are at most that."""
    low, high = 0, len(slot) // 2
    while low < high:
        middle = (low + high) // 2
        if slot[2 * middle + 1] <= item:
            high = middle
        else:
            low = middle + 1
    return len(slot) // 2 - low
