"""Whether a timeline, most of which is packed, tells the same as a list of all that was published."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

import pytest

from ortoo.engine.timeline import Timeline

_COUNT = 20_000


class _Published:
    """(offset, instant, bytes before) of each instant."""

    def __init__(self, random: Random, most: int, step: int, size: int) -> None:
        self.timeline = Timeline()
        self.entries: list[tuple[int, int, int]] = []
        self.end = self.byte = 0
        time = random.randrange(1 << 40)
        for _ in range(_COUNT):
            time += random.randrange(1, step + 1)
            self.timeline.append(self.end, time, self.byte)
            self.entries.append((self.end, time, self.byte))
            self.end += random.randrange(1, most + 1)
            self.byte += random.randrange(1, size + 1)

    def check(self, random: Random) -> None:
        timeline, entries = self.timeline, self.entries
        offsets, times, sizes = ([entry[column] for entry in entries] for column in range(3))
        assert timeline.entries() == [(offset, time) for offset, time, _ in entries]
        for _ in range(500):
            offset = random.randrange(self.end)
            at = bisect_right(offsets, offset) - 1
            end, byte = (offsets[at + 1], sizes[at + 1]) if at + 1 < len(entries) else (self.end, self.byte)
            assert timeline.time_of(offset) == times[at]
            assert timeline.bytes_at(offset) == sizes[at]
            assert timeline.instant_of(offset, self.end, self.byte) == (offsets[at], end, byte - sizes[at])
            time = random.randrange(times[0] - 5, times[-1] + 5)
            assert timeline.first_at(time) == next((entry[0] for entry in entries if entry[1] >= time), None)
            byte = random.randrange(self.byte + 2)
            found = timeline.first_beyond(byte)
            assert found == next((entry[0] for entry in entries if entry[2] >= byte), None)


@pytest.mark.parametrize(("most", "step", "size"), [(1, 1, 1), (1, 1, 100), (100, 50, 1_000), (9_000, 9_000, 1 << 31)])
def test_it_tells_when_each_message_was_published(most: int, step: int, size: int) -> None:
    random = Random(most)
    _Published(random, most, step, size).check(random)


def test_sizes_that_are_known_late_count_from_there_on() -> None:
    random = Random(7)
    published = _Published(random, 3, 3, 100)
    for _ in range(200):
        at, size = random.randrange(_COUNT), random.randrange(1 << 33)
        published.timeline.add_bytes(published.entries[at][0], size)
        later = [(offset, time, byte + size) for offset, time, byte in published.entries[at + 1 :]]
        published.entries[at + 1 :] = later
        published.byte += size
    published.check(random)


def test_what_comes_evenly_takes_next_to_nothing() -> None:
    timeline = Timeline()
    for number in range(_COUNT):
        timeline.append(number, number, 100 * number)
    assert sum(len(chunk.packed or b"") for chunk in timeline.chunks) < _COUNT / 10
    assert sum(chunk.packed is None for chunk in timeline.chunks) == 1
