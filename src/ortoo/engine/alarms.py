"""Which part of the state has something due, and when. An alarm is a name; setting it earlier wins, stale entries are skipped."""

from __future__ import annotations

from heapq import heappop, heappush

Alarm = tuple[str | int, ...]  # ("delays", topic, partition) and the like; see due.py


class Alarms:
    __slots__ = ("heap", "when")

    def __init__(self) -> None:
        self.heap: list[tuple[int, Alarm]] = []
        self.when: dict[Alarm, int] = {}

    def set(self, alarm: Alarm, when: int | None) -> None:
        if when is not None and when < self.when.get(alarm, when + 1):
            self.when[alarm] = when
            heappush(self.heap, (when, alarm))

    def next(self) -> int | None:
        self._skip_stale()
        return self.heap[0][0] if self.heap else None

    def pop(self, now: int) -> Alarm | None:
        self._skip_stale()
        if not self.heap or self.heap[0][0] > now:
            return None
        alarm = heappop(self.heap)[1]
        del self.when[alarm]
        return alarm

    def _skip_stale(self) -> None:
        while self.heap and self.when.get(self.heap[0][1]) != self.heap[0][0]:
            heappop(self.heap)
