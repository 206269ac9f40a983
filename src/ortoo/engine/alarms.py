"""Which part of the state has something due, and when. An alarm is a name; setting it earlier wins.

What was set and is overtaken stays in the heap as a stale entry, and is skipped. An alarm may be overtaken again and again
long before its old time comes, so the heap is built anew when most of it is stale.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

Alarm = tuple[str | int, ...]  # ("delays", topic, partition) and the like; see due.py

_FEW = 64  # entries that are not worth building anew


class Alarms:
    __slots__ = ("_count", "_when", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, Alarm]] = []
        self._when: dict[str | int, dict[Alarm, int]] = {}  # by topic; those of no topic by their name
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, alarm: Alarm, when: int | None) -> None:
        if when is None:
            return
        of_topic = self._when.setdefault(_owner(alarm), {})
        before = of_topic.get(alarm)
        if before is None or when < before:
            self._count += before is None
            of_topic[alarm] = when
            heappush(self.heap, (when, alarm))
            if len(self.heap) > 2 * self._count + _FEW:
                self.heap = [(when, alarm) for alarms in self._when.values() for alarm, when in alarms.items()]
                heapify(self.heap)

    def forget(self, alarm: Alarm) -> None:
        of_topic = self._when.get(_owner(alarm), {})
        if of_topic.pop(alarm, None) is not None:
            self._count -= 1
            if not of_topic:
                del self._when[_owner(alarm)]

    def forget_topic(self, topic: int) -> None:
        self._count -= len(self._when.pop(topic, ()))

    def next(self) -> int | None:
        self._skip_stale()
        return self.heap[0][0] if self.heap else None

    def pop(self, now: int) -> Alarm | None:
        self._skip_stale()
        if not self.heap or self.heap[0][0] > now:
            return None
        alarm = heappop(self.heap)[1]
        self.forget(alarm)
        return alarm

    def _skip_stale(self) -> None:
        heap = self.heap
        while heap and self._when.get(_owner(heap[0][1]), {}).get(heap[0][1]) != heap[0][0]:
            heappop(heap)


def _owner(alarm: Alarm) -> str | int:
    return alarm[1] if len(alarm) > 1 else alarm[0]
