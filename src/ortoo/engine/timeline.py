"""When each message of a partition was published, and how many bytes lie before it: one entry per instant, not per message."""

from array import array
from bisect import bisect_left, bisect_right


class Timeline:
    __slots__ = ("bytes_before", "offsets", "times")

    def __init__(self) -> None:
        self.offsets: array[int] = array("Q")  # the first offset published at each instant, ascending
        self.times: array[int] = array("Q")  # ascending too: the broker's clock never runs backwards
        self.bytes_before: array[int] = array("Q")

    def append(self, offset: int, at: int, bytes_before: int) -> None:
        if not self.times or self.times[-1] != at:
            self.offsets.append(offset)
            self.times.append(at)
            self.bytes_before.append(bytes_before)

    def time_of(self, offset: int) -> int:
        index = bisect_right(self.offsets, offset) - 1
        return self.times[index] if index >= 0 else 0

    def first_at(self, time: int) -> int | None:
        """The first offset published at `time` or later; None when there is none."""
        index = bisect_left(self.times, max(time, 0))
        return self.offsets[index] if index < len(self.offsets) else None

    def first_after(self, time: int) -> int | None:
        return self.first_at(time + 1)

    def first_beyond(self, byte: int) -> int | None:
        """The first offset with at least that many bytes before it."""
        index = bisect_left(self.bytes_before, byte)
        return self.offsets[index] if index < len(self.offsets) else None

    def bytes_at(self, offset: int) -> int:
        """Bytes before the instant in which `offset` was published."""
        index = bisect_right(self.offsets, offset) - 1
        return self.bytes_before[index] if index >= 0 else 0

    def trim(self, start: int) -> None:
        """Forgets instants wholly before `start`."""
        gone = bisect_right(self.offsets, start) - 1
        if gone > 0:
            del self.offsets[:gone], self.times[:gone], self.bytes_before[:gone]
