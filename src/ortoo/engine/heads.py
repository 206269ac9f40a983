"""Which feeds of a group have the next messages, without looking at all of them: a lease would else take longer the more
partitions there are.

Of each feed that has something there is a bound: where its next message lies in the order of delivery, or before that. What
is taken or removed only moves the next message on, so bounds stay true, and the exact place is looked up when a feed's
turn comes. Only what becomes ready, or visible, can come before a bound: such feeds are `touched`, and looked at anew. A
partition does not know its groups, of which there may be many, so it tells the `News` of its topic.

All of this is soft, and nobody can see it: with and without it a lease takes the same.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

Bound = tuple[int, int, int]  # lane, instant, partition

_FEW = 64  # entries that are not worth building anew


class News:
    """In which partitions of a topic more became visible, and in which order that last happened."""

    __slots__ = ("_latest", "number")

    def __init__(self) -> None:
        self.number = 0
        self._latest: dict[int, int] = {}

    def tell(self, partition: int) -> None:
        self.number += 1
        self._latest.pop(partition, None)
        self._latest[partition] = self.number

    def since(self, number: int) -> list[int]:
        """In which it has happened after that."""
        found: list[int] = []
        for partition, when in reversed(self._latest.items()):
            if when <= number:
                break
            found.append(partition)
        return found


class Heads:
    __slots__ = ("_bounds", "_heap", "_seen", "_touched")

    def __init__(self, touched: set[int], news: News) -> None:
        """`touched` is what feeds add themselves to. The caller adds all there are at the beginning."""
        self._touched = touched
        self._seen = news.number
        self._bounds: dict[int, Bound] = {}
        self._heap: list[Bound] = []  # what is also in `_bounds`, and what is outdated

    def touched(self, news: News, comes_last: Callable[[int], bool]) -> list[int]:
        """The feeds to look at anew. They stay so until each of them is untouched. Where what became visible is certain to come
        after all that was there, a bound stays true."""
        for partition in news.since(self._seen):
            if partition not in self._bounds or not comes_last(partition):
                self._touched.add(partition)
        self._seen = news.number
        found = sorted(self._touched)
        for partition in found:
            self._bounds.pop(partition, None)
        return found

    def touch(self, partition: int) -> None:
        self._touched.add(partition)

    def untouch(self, partition: int) -> None:
        """It was looked at just now."""
        self._touched.discard(partition)

    def put(self, bound: Bound) -> None:
        self._bounds[bound[2]] = bound
        heappush(self._heap, bound)
        if len(self._heap) > 2 * len(self._bounds) + _FEW:
            self._heap = list(self._bounds.values())
            heapify(self._heap)

    def first(self) -> Bound | None:
        heap, bounds = self._heap, self._bounds
        while heap and bounds.get(heap[0][2]) != heap[0]:
            heappop(heap)
        return heap[0] if heap else None

    def pop(self) -> Bound:
        """Takes out the first. It must be put again, as long as the feed may have something."""
        bound = heappop(self._heap)
        del self._bounds[bound[2]]
        return bound
